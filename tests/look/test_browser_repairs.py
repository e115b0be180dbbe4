"""The page in a browser: pairs, causal maps, colours and names say what they show."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import made_records
import numpy as np
import pytest
import torch
from browsing import Open, number, playwright, point, pressed

from regard.look import page as look_page
from regard.look.show import scale_end

LEGEND = ".legend span:last-child"


def blocks(border: int, size: int) -> dict[str, tuple[slice, slice]]:
    where = {"A": slice(0, border), "B": slice(border, size)}
    return {f"{one} → {other}": (where[one], where[other]) for one in where for other in where}


def test_a_pair_offers_all_and_what_looks_from_each_text_at_each(show: Open):
    made = made_records.pair()
    page = show(made, at="head=1")
    offered = page.get_by_label("map", exact=True).locator("option").all_inner_texts()
    assert offered == ["self: all", "self: A → A", "self: A → B", "self: B → A", "self: B → B"]
    weights = made_records.decode(made["maps"][2])[1]
    for name, (rows, columns) in blocks(made_records.BORDER, len(made_records.PAIR)).items():
        page.get_by_label("map", exact=True).select_option(label=f"self: {name}")
        block = weights[rows, columns]
        playwright.expect(page.locator(".heat-map")).to_have_attribute("data-rows", str(block.shape[0]))
        playwright.expect(page.locator(".heat-map")).to_have_attribute("data-columns", str(block.shape[1]))
        point(page, 1, 2)
        assert number(page) == pytest.approx(float(block[1, 2]), abs=1e-7)
        total = f"This part of the row sums to {block[1].sum():.4f}."
        playwright.expect(page.locator(".total")).to_have_text(total)
        page.mouse.move(0, 0)
    page.locator("[data-view=heads]").click()
    playwright.expect(page.locator(".stage")).to_have_attribute("data-lines", "0")
    page.locator(".lines").focus()
    page.keyboard.press("ArrowDown")
    playwright.expect(page.locator(".ranking h3")).to_contain_text("a looks at")  # the first token of B


def test_the_rollout_of_a_part_of_a_pair_is_a_part_of_the_whole_rollout(show: Open):
    made = made_records.pair()
    expected = np.eye(len(made_records.PAIR))
    for each in made["maps"]:
        mixed = (made_records.decode(each).mean(0) + np.eye(len(expected))) / 2
        expected = mixed / mixed.sum(-1, keepdims=True) @ expected
    for name, (rows, columns) in blocks(made_records.BORDER, len(expected)).items():
        page = show(made, at=f"view=rollout&map=self:source:source:{name}")
        block = expected[rows, columns]
        point(page, 2, 1)
        assert number(page) == pytest.approx(block[2, 1], abs=1e-6)
        total = f"This part of the row sums to {block[2].sum():.4f}."
        playwright.expect(page.locator(".total")).to_have_text(total)


def test_a_token_of_the_answer_finds_its_row_in_a_part_or_leaves_it(show: Open):
    page = show(made_records.classifier(), at="map=self:source:source:A → B")
    page.locator("button.token").click()  # asked of [CLS], which is in A
    playwright.expect(page.locator(".ranking h3")).to_have_text("[CLS] looks at")
    playwright.expect(page.locator(".heat-map")).to_have_attribute("data-rows", str(made_records.BORDER))
    page = show(made_records.classifier(), at="map=self:source:source:B → B")
    page.locator("button.token").click()
    playwright.expect(page.locator(".heat-map")).to_have_attribute("data-rows", str(len(made_records.PAIR)))


@pytest.mark.parametrize("encoding", ["f32", "u8"])
def test_keys_that_a_query_could_not_see_have_no_products_and_no_scores(show: Open, encoding: str):
    made = made_records.writer(encoding=encoding)
    page = show(made, at="view=query&head=1&query=2")
    playwright.expect(page.locator("tr.unseen")).to_have_count(2)
    assert [each.split()[-2:] for each in page.locator("tr.unseen").all_inner_texts()] == [["not", "visible"]] * 2
    queries, keys = made_records.decode_vectors(made["maps"][1])
    products = queries[1, 2] * keys[1, :3]
    shown = page.locator("tr[data-score]").evaluate_all("all => all.map(row => Number(row.dataset.score))")
    np.testing.assert_allclose(shown, products.sum(-1), rtol=1e-5, atol=1e-6)
    playwright.expect(page.locator(LEGEND)).to_have_text(f"{np.abs(products).max():.4f}")
    point(page, 3, 0)
    playwright.expect(page.locator(".reading strong")).to_have_text("not visible")


def test_one_query_opens_on_a_layer_that_has_its_queries_and_keys(show: Open):
    page = show(made_records.writer(layers=3, kept=0), at="view=query")
    playwright.expect(page.locator(".heat-map")).to_be_visible()
    assert pressed(page, "layer") == ["0"]
    page.locator("[data-kind=layer][data-value='2']").click()
    playwright.expect(page.get_by_text("were not kept")).to_contain_text("those of layer 0 were kept.")


def test_a_row_of_what_is_written_names_the_token_read_and_the_token_said(show: Open):
    page = show(made_records.writer(), at="view=query&query=1")
    options = page.get_by_label("query", exact=True).locator("option").all_inner_texts()
    assert options[:2] == ["0  RO (about to say O)", "1  O (about to say Romeo)"]
    page.locator("[data-view=alignment]").click()
    playwright.expect(page.locator(".ranking h3")).to_have_text("O (about to say Romeo) looks at")
    point(page, 1, 0)
    assert page.locator(".reading p").inner_text() == "O ▸ Romeo → RO"
    playwright.expect(page.locator("[data-note=map]")).to_contain_text("from x, the last token read, when y was")


def test_two_models_share_one_scale_of_colours(show: Open):
    strong, weak = made_records.two_heads(), made_records.two_heads()
    faint = np.full((2, 2, 3), 0.25, dtype=np.float32)
    weak["maps"] = [made_records.attention_map("cross", faint, sums="any")]
    page = show(strong, weak, at="head=1")
    playwright.expect(page.locator(LEGEND)).to_have_text(["1.0000", "1.0000"])
    playwright.expect(page.locator("[data-note=scale]").last).to_have_text("One scale for all pictures.")
    drawn = "[...document.querySelectorAll('.heat-map .base')].every(each => each.parentElement.dataset.geometry)"
    page.wait_for_function(drawn)  # maps are drawn when they come into view
    colours = page.locator(".heat-map .base").evaluate_all(
        """all => all.map(canvas => {
            const [left, top, width, height] = canvas.parentElement.dataset.geometry.split(" ").map(Number);
            const at = [left + width * 0.25, top + height * 1.25].map(each => Math.round(each * devicePixelRatio));
            return [...canvas.getContext("2d").getImageData(...at, 1, 1).data];
        })"""
    )
    alone = show(weak, at="head=1")
    playwright.expect(alone.locator(LEGEND)).to_have_text("0.2500")
    assert sum(colours[1]) > sum(colours[0])  # 0.25 is paler than 0.3125 of the other model, not its strongest colour
    page.locator("[data-view=all]").click()


def swallowed() -> made_records.Record:
    """Self-attention of which the first column has most."""
    weights = made_records.looking(np.random.default_rng(23), 1, 12, 12)
    weights = weights * 0.3
    weights[..., 0] += 0.7
    items = ["[CLS]", *"abcdefghijk"]
    fields = {"kind": "self", "query": "source", "key": "source", "layer": 0}
    return made_records.record(
        {"source": made_records.tokens(items)}, [made_records.attention_map("m", weights, **fields)]
    )


@pytest.mark.parametrize("made", [swallowed(), made_records.writer()], ids=["cls", "causal"])
def test_the_colours_end_where_the_pictures_do_and_the_page_says_so(show: Open, made: made_records.Record):
    weights = torch.from_numpy(made_records.decode(made["maps"][-1]).copy())
    end = scale_end(weights[0], "self")
    assert end < weights[0].max()
    page = show(made, at="head=0")
    playwright.expect(page.locator(LEGEND)).to_have_text(f"≥ {end:.4f}")
    said = page.locator("[data-note=scale]").inner_text()
    assert f"The colours end at {end:.4f}" in said
    assert ("[CLS] (0)" in said) == (made["title"] == "made for a test")
    page.get_by_role("button", name="each row on its own scale").click()
    playwright.expect(page.locator("[data-note=scale]")).to_be_empty()


def test_numbers_beside_heads_say_whose_they_are(show: Open):
    page = show(made_records.two_heads(), at="view=heads&query=1")
    playwright.expect(page.locator(".ranking h3")).to_have_text("zwei looks at (mean of 2 heads)")
    playwright.expect(page.locator(".panel .note")).to_contain_text("the largest weight of any head, and names it")
    page.evaluate("""() => {
        window.said = [];
        const fill = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...all) {
            said.push(text);
            return fill.call(this, text, ...all);
        };
    }""")
    page.locator(".lines").focus()
    page.keyboard.press("ArrowUp")
    playwright.expect(page.locator(".stage")).to_have_attribute("data-isolated", "query 0")
    said = page.evaluate("said")
    assert {"0.75 head 0", "0.25 head 0", "1.00 head 1"} <= set(said)
    assert {"0", "1"} <= set(said)  # on the lines themselves
    page.locator("[data-kind=head][data-value='1']").click()
    playwright.expect(page.locator(".ranking h3")).to_have_text("eins looks at (head 1)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_two_of_24_heads_have_the_same_lines(show: Open, scheme: str):
    weights = made_records.looking(np.random.default_rng(1), 24, 3, 3)
    sides = {"source": made_records.tokens(["a", "b", "c"]), "target": made_records.tokens(["d", "e", "f"])}
    made = made_records.record(sides, [made_records.attention_map("cross", weights)])
    page = show(made, at="view=heads", color_scheme=scheme)
    kinds = page.locator("[data-kind=head]:not([data-value=all])").evaluate_all(
        "all => all.map(each => [getComputedStyle(each).borderBottomColor, getComputedStyle(each).borderBottomStyle])"
    )
    assert len({tuple(kind) for kind in kinds}) == 24
    assert len({colour for colour, _ in kinds}) == 8  # any two of which are far apart for all eyes


def test_notes_stand_on_top(show: Open):
    note = "The text has 300 tokens; the model reads 256."
    page = show(made_records.two_heads() | {"notes": [note, made_records.HOSTILE[0]]})
    assert page.locator(".answer [role=note]").all_inner_texts() == [note, made_records.HOSTILE[0]]


def test_a_ranking_tells_words_apart_by_their_places(show: Open):
    page = show(made_records.pair(), at="query=2")
    entries = page.locator(".ranking li").evaluate_all(
        "all => all.map(each => [each.querySelector('.name').innerText.split(/\\s+/), each.dataset.index])"
    )
    assert [[made_records.PAIR[int(index)], index] for _, index in entries] == [name for name, _ in entries]
    page.get_by_label("map", exact=True).select_option(label="self: A → B")
    page.locator(".heat-map").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    places = page.locator(".ranking .place").all_inner_texts()
    assert places
    assert min(map(int, places)) >= made_records.BORDER  # counted in the whole text


def test_the_sign_of_a_words_beginning_is_itself(show: Open):
    page = show(made_records.transformer())
    assert page.locator("button.token").first.inner_text() == "▁ein"


def test_saliency_speaks_of_attention_only_where_there_is_some(show: Open):
    page = show(made_records.classifier(), at="view=saliency")
    playwright.expect(page.locator("[data-twin=saliency]")).to_be_visible()
    assert "attention" not in page.locator(".about").inner_text()
    page = show(made_records.transformer(), at="view=saliency")
    assert page.locator(".about").inner_text().endswith("At the left, on the same axes, attention.")


def test_those_who_hear_the_page_hear_which_layer_and_head_it_is(show: Open):
    page = show(made_records.transformer(), at="layer=1&query=2&key=3")
    frame = page.locator(".heat-map")
    playwright.expect(frame).to_have_attribute(
        "aria-label",
        "attention weights, cross: target → source, layer 1, mean of heads; arrow keys move from cell to cell",
    )
    page.keyboard.press("]")
    page.keyboard.press(".")
    playwright.expect(frame).to_have_attribute(
        "aria-label", "attention weights, cross: target → source, layer 2, head 0; arrow keys move from cell to cell"
    )
    playwright.expect(page.locator("[aria-live]")).to_contain_text("layer 2, head 0")
    for view, where in (("heads", ".lines"), ("query", ".heat-map"), ("saliency", "[data-twin=attention] .heat-map")):
        page.locator(f"[data-view={view}]").click()
        playwright.expect(page.locator(where)).to_have_attribute("aria-label", re.compile("layer 2, "))


def live(watched: Callable[..., Any], *, pairs: bool = False) -> tuple[Any, list[str]]:
    page = watched(allowed="http://regard.test/")
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(json.loads(route.request.post_data)["text"])
        route.fulfill(json=made_records.transformer() | {"title": asked[-1]})

    body = look_page.render([], live=True, pairs=pairs)
    page.route("http://regard.test/", lambda route: route.fulfill(body=body, content_type="text/html"))
    page.route("http://regard.test/look", answer)
    return page, asked


@pytest.mark.parametrize("pairs", [False, True])
def test_the_address_of_a_live_page_keeps_the_text(watched: Callable[..., Any], pairs: bool):
    page, asked = live(watched, pairs=pairs)
    page.goto("http://regard.test/")
    page.get_by_label("text", exact=True).fill("50 % of a & b # c")
    if pairs:
        page.get_by_label("second text, passage", exact=True).fill("d = e")
    page.keyboard.press("Enter")
    whole = "50 % of a & b # c" + "\td = e" * pairs
    playwright.expect(page.locator("button.token")).to_have_count(len(made_records.TARGET))
    page.locator("[data-view=heads]").click()
    page.reload()
    playwright.expect(page.locator("button.token")).to_have_count(len(made_records.TARGET))
    playwright.expect(page.locator("#view")).to_have_attribute("data-view", "heads")
    playwright.expect(page.get_by_label("text", exact=True)).to_have_value("50 % of a & b # c")
    if pairs:
        playwright.expect(page.get_by_label("second text, passage", exact=True)).to_have_value("d = e")
    assert asked == [whole, whole]
    page.evaluate("location.hash = '#text=another'")
    playwright.expect(page).to_have_title("another · regard")


def test_a_page_of_several_models_asks_the_chosen_one_with_a_text_or_a_picture(watched: Callable[..., Any]):
    page = watched(allowed="http://regard.test/")
    asked: list[Any] = []

    def answer(route: Any) -> None:
        asked.append(json.loads(route.request.post_data))
        route.fulfill(json=[made_records.transformer() | {"title": f"answer {len(asked)}"}])

    models = [
        {"name": "first", "example": '"a text"', "picture": False},
        {"name": 'the "<other>"', "example": "photo.jpg", "picture": True},
    ]
    body = look_page.render([], live=True, models=models)
    page.route("http://regard.test/", lambda route: route.fulfill(body=body, content_type="text/html"))
    page.route("http://regard.test/look", answer)
    page.goto("http://regard.test/")
    page.get_by_label("text", exact=True).fill("a man sleeps")
    page.keyboard.press("Enter")
    playwright.expect(page).to_have_title("answer 1 · regard")
    page.get_by_label("model", exact=True).select_option('the "<other>"')
    playwright.expect(page.get_by_label("text", exact=True)).to_be_hidden()
    page.get_by_label("picture", exact=True).set_input_files(
        {"name": "photo.png", "mimeType": "image/png", "buffer": b"pixels"}
    )
    page.get_by_role("button", name="Look").click()
    playwright.expect(page).to_have_title("answer 2 · regard")
    picture = "data:image/png;base64,cGl4ZWxz"
    assert asked == [
        {"text": "a man sleeps", "model": "first"},
        {"input": {"picture": picture}, "model": 'the "<other>"'},
    ]
