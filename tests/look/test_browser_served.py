"""The page of a server of several models, in a browser: its boxes, on a phone too, and a key where one is needed."""

from __future__ import annotations

import json
from typing import Any

import made_records
from browsing import playwright

from regard.look import page as look_page

URL = "http://regard.test/"
MODELS = [
    {"name": "en-de", "examples": ["a text"], "picture": False, "pair": False},
    {"name": "answers", "examples": ["a question", "a passage"], "picture": False, "pair": True},
    {"name": "sees", "examples": ["photo.png"], "picture": True, "pair": False},
]


def served(page: Any, answer: Any) -> None:
    """Show the page of these models, whose questions `answer` answers."""
    body = look_page.render([], live=True, pairs=True, models=MODELS)
    page.route(URL, lambda route: route.fulfill(body=body, content_type="text/html"))
    page.route(f"{URL}look", answer)
    page.goto(URL)


def test_each_model_has_the_boxes_that_it_reads_within_the_width_of_a_phone(browser: Any):
    asked: list[Any] = []

    def answer(route: Any) -> None:
        asked.append(json.loads(route.request.post_data))
        route.fulfill(json=made_records.two_heads())

    page = browser.new_page(viewport={"width": 360, "height": 700})
    served(page, answer)
    boxes = page.locator("form.live > :not(p)")
    for name, count in (("sees", 3), ("en-de", 3), ("answers", 4)):  # the choice, the boxes and the button
        page.get_by_label("model").select_option(name)
        playwright.expect(boxes.locator("visible=true")).to_have_count(count)
        places = [each.bounding_box() for each in boxes.locator("visible=true").all()]
        assert min(place["x"] for place in places) >= 0
        assert max(place["x"] + place["width"] for place in places) <= 360
    playwright.expect(page.get_by_label("text", exact=True)).to_have_attribute("placeholder", "a question, then Enter")
    page.get_by_label("text", exact=True).fill("who sat?")
    page.get_by_label("second text, passage").fill("the cat sat.")
    page.keyboard.press("Enter")
    playwright.expect(page.locator(".heat-map")).to_have_count(1)
    page.get_by_label("model").select_option("en-de")
    page.get_by_label("text", exact=True).fill("a man")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("select[aria-label=model]")).to_have_value("en-de")
    assert asked == [{"text": "who sat?\tthe cat sat.", "model": "answers"}, {"text": "a man", "model": "en-de"}]
    page.close()


def test_a_key_is_asked_for_where_one_is_needed(browser: Any):
    def answer(route: Any) -> None:
        if route.request.headers.get("authorization") == "Bearer sesame":
            route.fulfill(json=made_records.two_heads())
        else:
            route.fulfill(status=401, json={"error": "an API key is needed"})

    page = browser.new_page()
    served(page, answer)
    key = page.get_by_label("API key")
    playwright.expect(key).to_be_hidden()
    page.get_by_label("text", exact=True).fill("a man")
    page.keyboard.press("Enter")
    playwright.expect(page.locator(".status.error")).to_have_text("an API key is needed")
    key.fill("sesame")
    page.keyboard.press("Enter")
    playwright.expect(page.locator(".heat-map")).to_have_count(1)
    assert "sesame" not in page.url
    page.close()
