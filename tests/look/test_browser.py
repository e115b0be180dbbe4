"""The page in a real browser with the network cut: what is shown is what the record holds."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_media
import made_records
import numpy as np
import pytest
import torch
from browsing import BIG, VIEWS, Open, cell, inked, number, playwright, point, pressed, ranked

from regard.look import page as look_page
from regard.look.record import Map
from regard.look.record import Record as LookRecord
from regard.tasks.base import Side


@pytest.mark.parametrize("encoding", ["f32", "u8", "f32+deflate", "u8+deflate"])
def test_every_weight_shown_is_the_weight_recorded(show: Open, encoding: str):
    page = show(made_records.two_heads(encoding))
    tolerance = 1e-7 if encoding.startswith("f32") else 1 / 510
    cells = list(np.ndindex(2, 3)) if encoding == "f32" else [(0, 0), (1, 2)]
    for head, weights in (("0", made_records.TWO_HEADS[0]), ("1", made_records.TWO_HEADS[1])):
        page.locator(f"[data-kind=head][data-value='{head}']").click()
        for row, column in cells:
            point(page, row, column)
            assert number(page) == pytest.approx(float(weights[row, column]), abs=tolerance)
    page.locator("[data-kind=head][data-value=mean]").click()
    point(page, 1, 2)
    assert number(page) == pytest.approx(0.5, abs=tolerance)
    assert page.locator(".reading").inner_text().split() == ["zwei", "→", "three", f"{number(page):.4f}"]


def test_the_weights_of_a_saved_record_are_those_of_its_tensors(watched: Callable[..., Any], tmp_path: Path):
    weights = torch.rand(3, 5, 7, generator=torch.Generator().manual_seed(1)).softmax(-1)
    sides = {"target": Side(tuple("abcde")), "source": Side(tuple("fghijkl"))}
    maps = (Map("cross", "cross", "target", "source", weights, heads=(0, 1, 2)),)
    LookRecord("letters", sides, maps, saliency={"source": maps[0]}).save(tmp_path / "look.html")
    page = watched()
    page.goto(f"{(tmp_path / 'look.html').as_uri()}#head=2")
    point(page, 4, 6)
    assert number(page) == pytest.approx(float(weights[2, 4, 6]), abs=1e-7)
    page.locator("[data-view=saliency]").click()
    point(page, 4, 6, "[data-twin=saliency] .heat-map")
    assert number(page, "[data-twin=saliency]") == pytest.approx(float(weights[:, 4, 6].mean()), abs=1e-7)


def test_each_view_renders(show: Open):
    page = show(made_records.transformer())
    assert page.locator("[role=tab]").evaluate_all("all => all.map(tab => tab.dataset.view)") == VIEWS
    drawn = {"heads": ".stage[data-lines] .base", "all": "canvas[data-drawn]", "tendencies": ".dot", "beam": ".node"}
    for name in VIEWS:
        page.locator(f"[data-view={name}]").first.click()
        playwright.expect(page.locator("[role=tab][aria-selected=true]")).to_have_attribute("data-view", name)
        wanted = drawn.get(name, ".heat-map[data-geometry] .base")
        page.locator(wanted).first.wait_for()
        assert name in ("tendencies", "beam") or inked(page, wanted) > 8, name


def test_views_without_data_are_not_offered(show: Open):
    page = show(made_records.two_heads())
    assert page.locator("[role=tab]").evaluate_all("all => all.map(tab => tab.dataset.view)") == VIEWS[:3]


def test_layer_and_head_switch_by_button_and_key(show: Open):
    made = made_records.transformer()
    page = show(made, at="query=1&key=3")
    assert (pressed(page, "layer"), pressed(page, "head")) == (["3"], ["mean"])
    page.locator("[data-kind=layer][data-value='1']").click()
    page.locator("[data-kind=head][data-value='5']").click()
    weights = made_records.decode(made_records.find(made, "decoder.blocks.1.cross"))
    playwright.expect(page.locator(".reading")).to_have_attribute("data-value", str(float(weights[5, 1, 3])))
    page.keyboard.press("]")
    page.keyboard.press(".")
    weights = made_records.decode(made_records.find(made, "decoder.blocks.2.cross"))
    playwright.expect(page.locator(".reading")).to_have_attribute("data-value", str(float(weights[6, 1, 3])))
    for key in "[,,":
        page.keyboard.press(key)
    assert (pressed(page, "layer"), pressed(page, "head")) == (["1"], ["4"])
    page.locator("select").select_option(label="self: source → source")
    playwright.expect(page.locator(".heat-map")).to_have_attribute("data-rows", str(len(made_records.SOURCE)))


def test_arrow_keys_move_the_chosen_cell_and_say_it(show: Open):
    page = show(made_records.two_heads(), at="head=1")
    page.locator(".heat-map").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "End"):
        page.keyboard.press(key)
    playwright.expect(page.locator(".reading")).to_have_attribute("data-value", "0.625")
    assert "zwei looks at three: 0.6250" in page.locator("[aria-live]").inner_text()
    page.keyboard.press("Escape")
    playwright.expect(page.locator(".reading")).to_have_count(0)


def test_a_heat_map_zooms_and_pans(show: Open):
    side = made_records.tokens([f"word {place}" for place in range(41)])
    weights = np.eye(41)[None]
    page = show(made_records.record({"source": side, "target": side}, [made_records.attention_map("cross", weights)]))
    frame = page.locator(".heat-map")
    before = cell(page, 0, 0)
    width = cell(page, 0, 1)[0] - before[0]
    point(page, 20, 17)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_timeout(100)
    playwright.expect(frame).to_have_attribute("data-pointed", "20 17")  # what is under the pointer stays there
    x, y = cell(page, 20, 17)
    assert x - cell(page, 20, 16)[0] > 2 * width
    page.mouse.move(
        x, y
    )  # a wheel turns at whole pixels, so the middle of the cell is no longer quite under the pointer
    page.mouse.down()
    page.mouse.move(x - 30, y - 20, steps=4)
    page.mouse.up()
    page.wait_for_timeout(100)
    assert cell(page, 20, 17) == pytest.approx((x - 30, y - 20), abs=1.5)
    assert page.evaluate("location.hash") == ""  # dragging chose nothing
    frame.focus()
    page.keyboard.press("0")
    page.wait_for_timeout(100)
    assert cell(page, 0, 0) == pytest.approx(before)


def test_pointing_at_a_token_isolates_its_lines(show: Open):
    page = show(made_records.two_heads(), at="view=heads")
    stage = page.locator(".stage")
    playwright.expect(stage).to_have_attribute("data-lines", "0")
    box = stage.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.28 - 20, box["y"] + 12 + 36 * 1.5)
    playwright.expect(stage).to_have_attribute("data-isolated", "query 1")
    playwright.expect(stage).to_have_attribute("data-lines", str(np.count_nonzero(made_records.TWO_HEADS[:, 1])))
    assert ranked(page) == pytest.approx(dict(enumerate(made_records.TWO_HEADS[:, 1].mean(0).tolist())))
    page.mouse.move(box["x"] + box["width"] * 0.72 + 20, box["y"] + 12 + 36 * 0.5)
    playwright.expect(stage).to_have_attribute("data-isolated", "key 0")
    page.locator("[data-kind=head][data-value='1']").click()
    playwright.expect(stage).to_have_attribute("data-isolated", "")
    page.locator(".lines").focus()
    page.keyboard.press("ArrowDown")
    playwright.expect(stage).to_have_attribute("data-isolated", "query 0")
    playwright.expect(stage).to_have_attribute("data-lines", "1")  # head 1 alone: all of it on the last key
    assert ranked(page) == {2: 1.0}
    page.keyboard.press("ArrowRight")
    playwright.expect(stage).to_have_attribute("data-isolated", "key 0")
    assert pressed(page, "head") == ["1"]


def test_the_glance_shows_every_head_and_opens_one(show: Open):
    page = show(made_records.transformer(layers=3, heads=5), at="view=all")
    playwright.expect(page.locator(".glance button")).to_have_count(15)
    page.locator(".glance button >> nth=0").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    playwright.expect(page.locator("#view")).to_have_attribute("data-view", "alignment")
    assert (pressed(page, "layer"), pressed(page, "head")) == (["1"], ["2"])


@pytest.mark.parametrize("encoding", ["f32", "f16"])
def test_contributions_sum_to_the_scores_whose_softmax_are_the_weights(show: Open, encoding: str):
    made = made_records.transformer(vectors=encoding)
    page = show(made, at="view=query&layer=3&head=1&query=2")
    cross = made_records.find(made, "decoder.blocks.3.cross")
    playwright.expect(page.locator("tr[data-score]")).to_have_count(len(made_records.SOURCE))

    def shown() -> np.ndarray:
        rows = "all => all.map(row => [row.dataset.score, row.dataset.weight])"
        return np.array(page.locator("tr[data-weight]").evaluate_all(rows), dtype=float)

    def check(head: int, query: int, stored: made_records.Record) -> np.ndarray:
        queries, keys = made_records.decode_vectors(stored)
        products = queries[head, query] * keys[head]
        np.testing.assert_allclose(shown()[:, 0], products.sum(-1), rtol=1e-5, atol=1e-6)
        weights = np.exp(products.sum(-1)) / np.exp(products.sum(-1)).sum()
        np.testing.assert_allclose(shown()[:, 1], weights, atol=1e-6 if encoding == "f32" else 1e-2)
        return products

    check(1, 2, cross)
    page.get_by_label("query", exact=True).select_option("7")
    check(1, 7, cross)
    page.keyboard.press(".")
    playwright.expect(page.locator("[data-kind=head][aria-pressed=true]")).to_have_text("2")
    check(2, 7, cross)
    page.locator("button.token >> nth=4").click()
    check(2, 4, cross)
    page.locator("[data-kind=layer][data-value='1']").click()
    products = check(2, 4, made_records.find(made, "decoder.blocks.1.cross"))
    assert "view=query&layer=1&head=2&query=4" in page.url
    point(page, 4, 9)
    assert number(page) == pytest.approx(products[4, 9], rel=1e-6)
    page.get_by_role("button", name="largest features first").click()
    point(page, 4, 0)
    assert number(page) == pytest.approx(products[4, np.abs(products).sum(0).argmax()], rel=1e-6)
    page.locator("[data-kind=layer][data-value='0']").click()  # of which no queries and keys were kept
    playwright.expect(page.get_by_text("were not kept")).to_be_visible()
    playwright.expect(page.locator("#view .heat-map")).to_be_hidden()


def test_what_heads_do_sorts_and_maps_heads_that_are_alike(show: Open):
    made = made_records.transformer(layers=2, heads=3)
    heads = made["statistics"]["heads"]
    page = show(made, at="view=tendencies")
    for key, expected in (("descending", max), ("ascending", min)):
        page.get_by_role("button", name="entropy").click()
        playwright.expect(page.locator("[data-measure=entropy]")).to_have_attribute("aria-sort", key)
        first = float(page.locator("tbody td").first.get_attribute("data-value"))
        assert first == expected(head["entropy"] for head in heads)
    points = np.array(json.loads(page.locator(".alike").get_attribute("data-points")))
    own = [place for place, head in enumerate(heads) if head["map"].startswith("encoder")]
    known = np.array([[made["statistics"]["similarity"][one][other] for other in own] for one in own])
    np.testing.assert_allclose(np.linalg.norm(points[:, None] - points[None], axis=-1), known, atol=1e-3)
    page.locator("tbody button").last.click()
    playwright.expect(page.locator("#view")).to_have_attribute("data-view", "alignment")


def test_the_beam_is_a_tree_with_probabilities(show: Open):
    made = made_records.transformer()
    nodes = made["beam"]["nodes"]
    page = show(made, at="view=beam")
    playwright.expect(page.locator(".node.dropped")).to_have_count(0)
    page.get_by_role("button", name="show dropped tokens").click()
    playwright.expect(page.locator(".node")).to_have_count(len(nodes))
    playwright.expect(page.locator(".node.answer")).to_have_count(len(made_records.TARGET))
    playwright.expect(page.locator(".node.finished")).to_have_count(1)
    last = next(index for index, node in enumerate(nodes) if node["state"] == "answer")
    chosen = page.locator(f".node[data-index='{last}']")
    assert f"{100 * math.exp(nodes[last]['logprob']):.0f} %" in chosen.get_attribute("aria-label")
    chosen.focus()
    assert float(page.locator(".subject").get_attribute("data-sum")) == nodes[last]["sum"]
    page.keyboard.press("ArrowLeft")
    assert float(page.locator(".subject").get_attribute("data-sum")) == nodes[nodes[last]["parent"]]["sum"]
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.dataset.index") == str(last)
    page.locator("button.token >> nth=3").click()
    assert page.locator(".subject .token").all_inner_texts() == ["▁ein", "▁mann", "▁schläft", "▁auf"]


def places(page: Any) -> dict[int, tuple[float, float, float]]:
    """Left, top and width of every node of the tree, in the units of the drawing."""
    found = page.locator(".node").evaluate_all(
        """all => all.map(each => {
            const { e, f } = each.transform.baseVal[0].matrix;
            return [each.dataset.index, e, f, each.querySelector(".frame").width.baseVal.value];
        })"""
    )
    return {int(index): (x, y, width) for index, x, y, width in found}


def test_a_long_beam_goes_on_below_and_no_link_crosses_another(show: Open):
    """An answer of 26 tokens with a beam of 5: whole in sight, sideways nothing to scroll."""
    made = made_records.transformer() | {"beam": made_records.wide_beam(26, 5)}
    nodes = made["beam"]["nodes"]
    page = show(made, at="view=beam")
    page.get_by_role("button", name="show dropped tokens").click()
    playwright.expect(page.locator(".node")).to_have_count(len(nodes))
    assert page.locator(".beam").evaluate("each => each.scrollWidth <= each.clientWidth")
    bands = int(page.locator(".beam svg").get_attribute("data-bands"))
    assert 2 <= bands <= 5
    where = places(page)
    rows = {y for _, y, _ in where.values()}
    assert len(rows) <= bands * 10  # never more than a step has nodes
    for step in range(26):
        column = sorted((index for index in where if nodes[index]["step"] == step), key=lambda index: where[index][1])
        assert len({where[index][1] for index in column}) == len(column)
        parents = [where[nodes[index]["parent"]][1] for index in column if step > 0]
        assert parents == sorted(parents)
        answer = [index for index in column if nodes[index]["state"] == "answer"]
        assert column[:1] == answer
    for index, (x, y, width) in where.items():
        assert not any(x < left < x + width and y == top for other, (left, top, _) in where.items() if other != index)
    page.locator(".node >> nth=0").focus()
    for _ in range(2):
        page.keyboard.press("+")
    assert int(page.locator(".beam svg").get_attribute("data-bands")) > bands
    page.keyboard.press("0")
    assert places(page) == where


def test_rollout_is_the_product_of_the_layers(show: Open):
    made = made_records.transformer(layers=3)
    page = show(made, at="view=rollout")
    expected = np.eye(len(made_records.SOURCE))
    for layer in range(3):
        mean = made_records.decode(made_records.find(made, f"encoder.blocks.{layer}.attention")).mean(0)
        mixed = (mean + np.eye(len(mean))) / 2
        expected = mixed / mixed.sum(-1, keepdims=True) @ expected
        page.locator(f"[data-kind=layer][data-value='{layer}']").click()
        playwright.expect(page.locator(".hint[role=status]")).to_be_empty()  # it has been computed
        point(page, 4, 2)
        assert number(page) == pytest.approx(expected[4, 2], abs=1e-6)
        page.mouse.move(0, 0)


def test_saliency_stands_beside_attention_on_the_same_axes(show: Open):
    made = made_records.transformer()
    page = show(made, at="view=saliency&head=2&layer=0")
    attention = made_records.decode(made_records.find(made, "decoder.blocks.0.cross"))[2]
    gradients = made_records.decode(made["saliency"]["source"])[0]
    for row, column in ((0, 0), (5, 3)):
        point(page, row, column, "[data-twin=attention] .heat-map")
        assert number(page, "[data-twin=attention]") == pytest.approx(float(attention[row, column]))
        assert number(page, "[data-twin=saliency]") == pytest.approx(float(gradients[row, column]))


def test_the_answer_shows_probabilities_and_alternatives_in_every_view(show: Open):
    made = made_records.transformer()
    page = show(made)
    for view in ("heads", "beam", "alignment"):
        page.locator(f"[data-view={view}]").click()
        playwright.expect(page.locator("button.token")).to_have_count(len(made_records.TARGET))
    chances = page.locator("button.token").evaluate_all("all => all.map(token => Number(token.dataset.probability))")
    assert chances == pytest.approx([math.exp(logprob) for logprob in made["answer"]["logprobs"]])
    page.locator("button.token >> nth=1").hover()
    rows = page.locator(".popover li").all_inner_texts()
    assert len(rows) == len(made["answer"]["alternatives"][1])
    assert rows[1].split()[0] == "▁eine"
    page.locator("button.token >> nth=4").click()
    playwright.expect(page.locator(".ranking h3")).to_have_text("▁der looks at")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.at") == "5"


def test_an_address_holds_the_view_and_brings_it_back(show: Open):
    page = show(made_records.transformer())
    page.locator("[data-view=saliency]").click()
    page.locator("[data-kind=layer][data-value='2']").click()
    page.locator("[data-kind=head][data-value='3']").click()
    page.mouse.click(*cell(page, 5, 1, "[data-twin=attention] .heat-map"))
    playwright.expect(page).to_have_url(re.compile("view=saliency&layer=2&head=3&query=5&key=1"))
    address = page.url
    value = number(page, "[data-twin=saliency]")
    page.goto("about:blank")
    page.goto(address)
    playwright.expect(page.locator("#view")).to_have_attribute("data-view", "saliency")
    assert (pressed(page, "layer"), pressed(page, "head")) == (["2"], ["3"])
    page.mouse.move(0, 0)
    assert number(page, "[data-twin=saliency]") == value
    page.evaluate("location.hash = '#view=heads&layer=0&key=2'")
    playwright.expect(page.locator(".stage")).to_have_attribute("data-isolated", "key 2")


@pytest.mark.parametrize(
    "address", ["view=nothing&layer=99&head=77&query=1e9&key=-3", "map=%3Cscript%3E&heads=x,y&query=900"]
)
def test_an_address_that_asks_for_what_there_is_not_shows_what_there_is(show: Open, address: str):
    page = show(made_records.two_heads(), at=address)
    for view in VIEWS[:3]:
        page.locator(f"[data-view={view}]").first.click()
    page.locator("[data-view=alignment]").click()
    playwright.expect(page.locator(".heat-map")).to_have_attribute("data-rows", "2")


UNSEEMLY = """() => {
    const found = [];
    const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
    for (let at = walker.nextNode(); at; at = walker.nextNode()) {
        if (at.closest?.("script, style") || at.parentElement?.closest("script, style")) continue;
        const texts = at.nodeType === Node.TEXT_NODE
            ? [at.data] : ["aria-label", "aria-description", "title"].map(name => at.getAttribute(name) ?? "");
        for (const text of texts) {
            const strange = /[\\u0000\\u202a-\\u202e\\u2028\\u2029]/.test(text);
            if (strange || text.length > 2500) found.push(text.slice(0, 60));
        }
    }
    return found;
}"""


def assert_harmless(page: Any) -> None:
    """Nothing was executed or made into markup; nothing invisible, turning or endless is in any text of the page."""
    assert page.evaluate("[typeof window.hacked, document.scripts.length]") == ["undefined", 1]
    assert page.evaluate("[...document.images].every(each => each.src.startsWith('data:'))")
    assert page.evaluate(UNSEEMLY) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_text_that_would_be_harmful_is_found_by_the_test_for_it(show: Open):
    page = show(made_records.two_heads())
    assert_harmless(page)
    page.evaluate("document.body.append('a\\u202eb')")
    assert page.evaluate(UNSEEMLY) == ["a\u202eb"]


@pytest.mark.parametrize("made", [made_media.captioned(), made_media.citations(), made_media.passengers()])
def test_hostile_names_of_patches_nodes_and_steps_are_text(show: Open, made: made_records.Record):
    for side in made["sides"].values():
        for field in ("items", "labels"):
            if field in side:
                count = len(side[field])
                side[field] = [made_records.HOSTILE[place % len(made_records.HOSTILE)] for place in range(count)]
    page = show(made)
    for view in page.locator("[role=tab]").evaluate_all("all => all.map(tab => tab.dataset.view)"):
        page.locator(f"[data-view={view}]").first.click()
        playwright.expect(page.locator("#view")).to_have_attribute("data-view", view)
        page.keyboard.press("Tab")
        for key in ("ArrowDown", "ArrowRight"):
            page.keyboard.press(key)
        assert_harmless(page)


def test_hostile_text_is_text_in_every_view(show: Open):
    page = show(made_records.hostile())
    for view in VIEWS:
        page.locator(f"[data-view={view}]").first.click()
        for key in ("]", ".", "ArrowDown"):
            page.keyboard.press(key)
        playwright.expect(page.locator("#view")).to_have_attribute("data-view", view)
        for place in range(0, len(made_records.HOSTILE), 2):
            page.locator("button.token").nth(place).click()
        assert_harmless(page)
    assert page.evaluate("document.images.length") == 0
    tokens = page.locator("button.token").all_inner_texts()
    assert tokens[0].startswith("</script><script>window.")
    assert tokens[1].startswith("<img src=x onerror=")
    assert tokens[2] == "‹RLO›right to left‹PDF›"
    assert tokens[3] == "nul␀nul"
    assert max(map(len, tokens)) < 60


def test_two_records_stand_side_by_side(show: Open):
    page = show(made_records.two_heads(), made_records.transformer())
    playwright.expect(page.locator(".answer")).to_have_count(2)
    left, right = (page.locator(".heat-map >> nth=0"), page.locator(".heat-map >> nth=1"))
    playwright.expect(left).to_have_attribute("data-columns", "3")
    playwright.expect(right).to_have_attribute("data-columns", str(len(made_records.SOURCE)))
    assert left.bounding_box()["y"] == right.bounding_box()["y"]
    page.locator("[data-view=beam]").click()
    playwright.expect(page.locator(".pane >> nth=0")).to_have_text("This record has nothing for this view.")


def test_weights_that_need_not_sum_to_one_say_so(show: Open):
    page = show(made_records.gates(), at="query=4&key=0")
    playwright.expect(page.locator("[data-note=map]")).to_contain_text("need not sum to one")
    playwright.expect(page.locator(".total")).to_have_text("The whole row sums to 3.7500.")


def test_a_picture_lights_the_patches_looked_at(show: Open):
    page = show(made_records.picture())
    playwright.expect(page.locator("#view")).to_have_attribute("data-view", "picture")
    playwright.expect(page.locator(".ranking h3")).to_have_text("[CLS] looks at")
    assert ranked(page) == {12: 0.75, 0: 0.25}
    box = page.locator(".patches").bounding_box()
    page.mouse.click(box["x"] + 40, box["y"] + 40)
    playwright.expect(page.locator(".patches")).to_have_attribute("data-query", "1")
    assert ranked(page) == {11: 0.75, 0: 0.25}
    page.locator(".patches").focus()
    page.keyboard.press("ArrowDown")
    playwright.expect(page.locator(".patches")).to_have_attribute("data-query", "5")
    assert inked(page, ".patches .base") > 2


def test_a_graph_shows_where_a_node_looks(show: Open):
    made = made_records.graph()
    page = show(made, at="head=1&query=3")
    playwright.expect(page.locator(".graph")).to_have_attribute("data-isolated", "3")
    weights = made_records.decode(made["maps"][0])[1, 3]
    assert ranked(page) == pytest.approx({place: float(weight) for place, weight in enumerate(weights) if weight > 0})
    page.locator(".graph").focus()
    page.keyboard.press("ArrowRight")
    playwright.expect(page.locator(".graph")).to_have_attribute("data-isolated", "4")


def test_a_live_page_sends_what_is_typed_and_shows_what_comes_back(watched: Callable[..., Any]):
    page = watched(allowed="http://regard.test/")
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(route.request.post_data)
        text = json.loads(route.request.post_data)["text"]
        if text == "both":
            route.fulfill(json=[made_records.two_heads(), made_records.transformer()])
        else:
            route.fulfill(json=made_records.transformer() | {"title": text})

    page.route(
        "http://regard.test/",
        lambda route: route.fulfill(body=look_page.render([], live=True), content_type="text/html"),
    )
    page.route("http://regard.test/look", answer)
    page.goto("http://regard.test/")
    page.get_by_label("text", exact=True).fill("a man [.,] sleeps")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("button.token")).to_have_count(len(made_records.TARGET))
    playwright.expect(page).to_have_title("a man [.,] sleeps · regard")
    page.get_by_label("text", exact=True).fill("both")
    page.get_by_role("button", name="Look").click()
    playwright.expect(page.locator(".heat-map")).to_have_count(2)
    assert [json.loads(body) for body in asked] == [{"text": "a man [.,] sleeps"}, {"text": "both"}]


def test_a_live_page_for_pairs_has_a_second_box_whose_text_comes_after_a_tab(watched: Callable[..., Any]):
    page = watched(allowed="http://regard.test/")
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(json.loads(route.request.post_data)["text"])
        route.fulfill(json=made_records.two_heads())

    body = look_page.render([], live=True, pairs=True)
    page.route("http://regard.test/", lambda route: route.fulfill(body=body, content_type="text/html"))
    page.route("http://regard.test/look", answer)
    page.goto("http://regard.test/")
    for label, text in (("text", "who sat?"), ("second text, passage", "the cat sat.")):
        page.get_by_label(label, exact=True).fill(text)
        with page.expect_response("http://regard.test/look"):
            page.keyboard.press("Enter")
    assert asked == ["who sat?", "who sat?\tthe cat sat."]


def test_a_live_page_says_what_went_wrong(browser: Any):
    page = browser.new_page()
    page.route(
        "http://regard.test/",
        lambda route: route.fulfill(body=look_page.render([], live=True), content_type="text/html"),
    )
    page.route("http://regard.test/look", lambda route: route.fulfill(status=400, json={"error": "the text is empty"}))
    page.goto("http://regard.test/")
    page.get_by_role("button", name="Look").click()
    playwright.expect(page.locator(".status.error")).to_have_text("the text is empty")
    page.unroute("http://regard.test/look")
    hostile = made_records.HOSTILE[0]
    page.route("http://regard.test/look", lambda route: route.fulfill(status=400, json={"error": hostile}))
    page.get_by_role("button", name="Look").click()
    playwright.expect(page.locator(".status.error")).to_have_text(hostile)
    assert page.evaluate("typeof window.hacked") == "undefined"
    page.unroute("http://regard.test/look")
    page.route("http://regard.test/look", lambda route: route.abort())
    page.get_by_role("button", name="Look").click()
    playwright.expect(page.locator(".status.error")).to_contain_text("does not answer")
    page.close()


COUNT_DRAWING = """() => {
    window.long = [];
    new PerformanceObserver(list => long.push(...list.getEntries().map(entry => Math.round(entry.duration))))
        .observe({ type: "longtask" });
    window.drawn = {};
    for (const name of ["drawImage", "fillRect", "strokeRect", "fillText", "lineTo", "bezierCurveTo", "putImageData"]) {
        drawn[name] = 0;
        const draw = CanvasRenderingContext2D.prototype[name];
        CanvasRenderingContext2D.prototype[name] = function (...all) {
            drawn[name] += 1;
            return draw.apply(this, all);
        };
    }
}"""


def test_512_tokens_6_layers_8_heads_load_and_stay_responsive(show: Open, tmp_path: Path):
    made = made_records.long_self_attention()
    page = show(made, at="layer=4&head=1")
    assert (tmp_path / "look.html").stat().st_size < 20e6
    point(page, 300, 299)
    weights = made_records.decode(made["maps"][4])[1]
    assert number(page) == pytest.approx(float(weights[300, 299]), abs=float(weights[300].max()) / 510)
    page.evaluate(COUNT_DRAWING)
    for place in range(100, 200, 20):
        point(page, place, place + 30)
    assert page.evaluate("drawn.drawImage") == 0  # pointing draws over the picture, never the picture
    assert sum(page.evaluate("drawn").values()) < 5 * 40
    page.keyboard.down("Control")
    for _ in range(6):
        page.mouse.wheel(0, -120)
        page.wait_for_timeout(50)
    page.keyboard.up("Control")
    page.mouse.wheel(40, 40)
    page.wait_for_timeout(50)
    drawn = page.evaluate("drawn")
    assert 1 <= drawn["drawImage"] <= 8  # one stretched image a frame, whatever is in it
    assert sum(drawn.values()) < 8 * 1000  # and not a stroke for each of 262,144 cells
    assert page.evaluate("document.querySelectorAll('*').length") < 2000
    assert page.evaluate("Math.max(...[...document.querySelectorAll('canvas')].map(each => each.width))") <= 1280
    page.locator("[data-view=heads]").click()
    page.locator(".stage[data-lines]").wait_for(**BIG)
    page.locator(".lines").focus()
    page.keyboard.press("End")
    playwright.expect(page.locator(".stage")).to_have_attribute("data-isolated", "query 511", **BIG)
    page.locator("[data-view=all]").click()
    page.locator(".glance canvas[data-drawn]").first.wait_for(**BIG)
    print("tasks of more than 50 ms, in ms:", page.evaluate("long"))  # to be read with -s: no machine is alike


def test_the_page_works_in_the_frame_of_a_notebook(watched: Callable[..., Any], tmp_path: Path):
    inside = html.escape(look_page.render([made_records.two_heads()]), quote=True)
    path = tmp_path / "notebook.html"
    frame = f'<iframe sandbox="allow-scripts" srcdoc="{inside}" width="1200" height="700"></iframe>'
    path.write_text(f'<!doctype html><meta charset="utf-8">{frame}', encoding="utf-8")
    page = watched()
    page.goto(path.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("[data-kind=head][data-value='1']").click()
    frame.locator("[data-view=heads]").click()
    playwright.expect(frame.locator(".stage")).to_have_attribute("data-lines", "0")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_follow_the_system_and_the_button(show: Open, scheme: str):
    page = show(made_records.two_heads(), color_scheme=scheme)
    brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    assert (sum(page.evaluate(brightness)) > 380) == (scheme == "light")
    other = "dark" if scheme == "light" else "light"
    page.get_by_role("button", name=f"show in {other} colours").click()
    assert (sum(page.evaluate(brightness)) > 380) == (other == "light")
    assert page.url.endswith(f"#theme={other}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_its_ground(show: Open, scheme: str):
    page = show(made_records.transformer(), color_scheme=scheme)

    def luminance(selector: str, name: str) -> float:
        colour = page.locator(selector).first.evaluate(f"element => getComputedStyle(element).{name}")
        numbers = np.array([float(part) for part in colour.strip("rgba()").split(",")[:3]]) / 255
        linear = np.where(numbers <= 0.04045, numbers / 12.92, ((numbers + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    ground = luminance("body", "backgroundColor")
    for selector in ("body", ".about", "[role=tab][aria-selected=false]", ".quiet"):
        text = luminance(selector, "color")
        assert (max(text, ground) + 0.05) / (min(text, ground) + 0.05) >= 4.5, selector


def test_those_who_hear_the_page_get_names_and_numbers(show: Open):
    page = show(made_records.two_heads(), at="head=0")
    table = page.locator("table.spoken")
    playwright.expect(table.locator("td >> nth=1")).to_have_text("0.7500")
    assert table.locator("th[scope=col]").all_inner_texts() == ["one", "two", "three"]
    assert table.locator("tr").count() == 3
    page.locator("[data-view=heads]").click()
    page.locator("[data-view=all]").click()
    nameless = """[...document.querySelectorAll("button, select, input, [tabindex]")].filter(
        each => !(each.getAttribute("aria-label") || each.textContent.trim() || each.id)).length"""
    assert page.evaluate(nameless) == 0
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("canvas:not([aria-hidden])").evaluate_all(
        "all => all.every(each => each.closest('[aria-label]'))"
    )


def test_the_tab_key_reaches_everything(show: Open):
    page = show(made_records.transformer())
    cell(page, 0, 0)
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.className || document.activeElement.getAttribute('role')"))
    for wanted in ("quiet", "token", "tab", "choice", "surface heat-map"):
        assert wanted in reached
    page.locator("[role=tab][aria-selected=true]").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.view") == "heads"
    page.get_by_role("button", name="Keys").click()
    playwright.expect(page.get_by_role("dialog")).to_be_visible()
    page.get_by_role("button", name="Close").click()
    playwright.expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_record_that_cannot_be_shown_says_why(show: Open):
    newer = made_records.two_heads() | {"version": 2}
    damaged = made_records.two_heads()
    damaged["maps"][0]["weights"] = damaged["maps"][0]["weights"][:8]
    page = show(newer, damaged)
    playwright.expect(page.get_by_role("alert").first).to_contain_text("not a record of version 1")
    playwright.expect(page.get_by_role("alert").last).to_contain_text("1 weights where 4 rows of 3 were announced")


def test_an_empty_answer_breaks_nothing(show: Open):
    empty = made_records.attention_map("cross", np.zeros((2, 0, 3)))
    sides = {"source": made_records.tokens(["a", "b", "c"]), "target": made_records.tokens([])}
    said = {"text": "", "logprobs": [], "alternatives": []}
    page = show(made_records.record(sides, [empty], answer=said), at="query=1&key=1&scale=row")
    for view in VIEWS[:3]:
        page.locator(f"[data-view={view}]").first.click()
        playwright.expect(page.locator("#view")).to_have_attribute("data-view", view)
