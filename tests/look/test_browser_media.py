"""Pictures, graphs and series on the page: what is shown is what the record holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_media
import made_records
import numpy as np
import pytest
from browsing import Open, inked, playwright, ranked

from regard.look.record import Record as LookRecord


def strongest(weights: np.ndarray, count: int = 9) -> dict[int, float]:
    """The largest weights with their places."""
    return {int(place): float(weights[place]) for place in np.argsort(-weights)[:count]}


def test_the_class_token_is_shown_first_and_a_patch_by_a_click(show: Open):
    made = made_media.seen()
    page = show(made)
    mean = made_records.decode(made["maps"][-1]).mean(0)
    playwright.expect(page.locator(".ranking h3")).to_have_text("[CLS] looks at")
    assert ranked(page) == pytest.approx(strongest(mean[0]))
    box = page.locator(".patches").bounding_box()
    across, down = box["width"] / made_media.COLUMNS, box["height"] / made_media.ROWS
    page.mouse.click(box["x"] + 5.5 * across, box["y"] + 1.5 * down)
    playwright.expect(page.locator(".ranking h3")).to_have_text("row 1, column 5 looks at")
    assert ranked(page) == pytest.approx(strongest(mean[1 + made_media.COLUMNS + 5]))


def test_rollout_lies_over_the_picture(show: Open):
    made = made_media.seen()
    page = show(made, at="view=rollout")
    expected = np.eye(1 + made_media.ROWS * made_media.COLUMNS)
    for each in made["maps"]:
        mixed = made_records.decode(each).mean(0) + np.eye(len(expected))
        expected = mixed / mixed.sum(-1, keepdims=True) @ expected
    playwright.expect(page.locator(".ranking h3")).to_have_text("[CLS] looks at")
    assert ranked(page) == pytest.approx(strongest(expected[0]), abs=1e-6)
    assert inked(page, ".patches .over") > 8


def test_the_borders_of_windows_are_found_in_the_weights(show: Open):
    page = show(made_media.windowed(), at="layer=0")
    frame = page.locator(".patches")
    playwright.expect(frame).to_have_attribute("data-borders", str(2 * 8 + 1 * 12))  # between columns, between rows
    page.locator("[data-kind=layer][data-value='1']").click()
    playwright.expect(frame).to_have_attribute("data-borders", str(3 * 8 + 2 * 12))
    page.locator("select").select_option("self:stage 1:stage 1")
    playwright.expect(frame).to_have_attribute("data-borders", "0")
    assert inked(page, ".patches .base") > 2  # the coarser grid lies over the same picture


def test_arrows_lead_to_the_strongest_patches(show: Open):
    made = made_media.seen()
    page = show(made, at="query=20&head=1&layer=0")
    page.get_by_role("button", name="arrows to the strongest patches").click()
    weights = made_records.decode(made["maps"][0])[1, 20].copy()
    weights[[0, 20]] = 0  # neither the class token nor the patch itself
    frame = page.locator(".patches")
    playwright.expect(frame).to_have_attribute("data-arrows", " ".join(map(str, np.argsort(-weights)[:8][::-1])))
    page.get_by_role("button", name="[CLS]").click()
    playwright.expect(page.get_by_role("button", name="arrows to the strongest patches")).to_be_hidden()


def test_every_word_of_a_caption_has_a_small_picture(show: Open):
    made = made_media.captioned()
    page = show(made)
    words = page.locator(".strip button")
    assert words.all_inner_texts() == made_media.WORDS
    words.nth(2).click()
    assert ranked(page) == pytest.approx(strongest(made_records.decode(made["maps"][0])[0, 2]))
    page.keyboard.press("ArrowRight")
    playwright.expect(words.nth(3)).to_have_attribute("aria-pressed", "true")
    playwright.expect(page.locator("button.token").nth(3)).to_have_attribute("aria-pressed", "true")


def test_glimpses_are_a_path(show: Open):
    page = show(made_media.glimpsed(), at="query=1")
    playwright.expect(page.locator(".patches")).to_have_attribute("data-path", "5")
    playwright.expect(page.locator(".strip button")).to_have_count(5)
    assert list(ranked(page).values()) == pytest.approx([1 / 9] * 9)


def test_nodes_have_classes_and_the_one_asked_for_stands_out(show: Open):
    made = made_media.citations()
    page = show(made)
    classes = page.locator(".classes li")
    assert [text.split() for text in classes.all_inner_texts()] == [[name, "10"] for name in sorted(made_media.CLASSES)]
    playwright.expect(page.locator(".graph")).to_have_attribute("data-subject", "0")
    mean = made_records.decode(made["maps"][-1]).mean(0)
    assert ranked(page) == pytest.approx(strongest(mean[0]))
    assert inked(page, ".graph .over") > 8


def test_a_step_of_a_forecast_shows_its_interval_and_its_weights(show: Open):
    made = made_media.passengers()
    page = show(made, at="head=0")
    future = made["sides"]["target"]
    weights = made_records.decode(made["maps"][0])[0]
    box = page.locator(".series").bounding_box()
    page.mouse.click(box["x"] + box["width"] - 12, box["y"] + 60)  # the last step
    playwright.expect(page.locator(".reading")).to_have_attribute("data-value", str(future["values"][-1]))
    assert (
        f"80 %: {future['bands'][1][1][-1]:g} to {future['bands'][1][2][-1]:g}" in page.locator(".reading").inner_text()
    )
    assert ranked(page) == pytest.approx(strongest(weights[-1]), abs=1e-6)
    page.locator(".series").focus()
    page.keyboard.press("Home")
    assert ranked(page) == pytest.approx(strongest(weights[0]), abs=1e-6)
    page.locator("select").select_option("gates:source:source")
    playwright.expect(page.locator(".ranking h3")).to_have_text("1960-12 looks at")
    assert inked(page, ".series .base") > 8


def test_a_series_with_gaps_is_drawn(show: Open):
    made = made_media.passengers()
    made["sides"]["source"]["values"][3:9] = [None] * 6
    page = show(made, at="map=gates:source:source&query=5")
    playwright.expect(page.locator(".series")).to_have_attribute("data-query", "5")
    playwright.expect(page.locator(".reading")).to_have_count(0)


@pytest.mark.parametrize(
    ("made", "drawn"),
    [(made_media.seen(), ".patches"), (made_media.citations(), ".graph"), (made_media.passengers(), ".series")],
)
def test_a_notebook_shows_the_page(watched: Callable[..., Any], tmp_path: Path, made: made_records.Record, drawn: str):
    path = tmp_path / "notebook.html"
    shown = LookRecord.from_json(made | {"saliency": {}})._repr_html_()
    path.write_text(f'<!doctype html><meta charset="utf-8">{shown}', encoding="utf-8")
    page = watched()
    page.goto(path.as_uri())
    frame = page.frame_locator("iframe")
    playwright.expect(frame.locator(".ranking li").first).to_be_visible()
    assert frame.locator(f"{drawn} .base").bounding_box()["height"] > 200


def test_what_moved_the_answer_lies_over_the_picture(show: Open):
    made = made_media.seen()
    moved = np.random.default_rng(8).normal(size=(1, 1, 49)).astype(np.float32)
    made["saliency"] = {"source": made_records.attention_map("saliency", moved, sums="any")}
    page = show(made, at="view=saliency")
    playwright.expect(page.locator(".ranking h3")).to_have_text("landscape was moved by")
    strong = np.argsort(-np.abs(moved[0, 0]))[:9]
    assert ranked(page) == pytest.approx({int(place): float(moved[0, 0, place]) for place in strong})
    assert inked(page, ".patches .over") > 8
