"""What tests do with the page in a browser: point at a cell, read a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need: pip install playwright")

VIEWS = ["alignment", "heads", "all", "query", "tendencies", "beam", "rollout", "saliency"]
BIG = {"timeout": 60_000}  # for what may take long on a busy machine

Open = Callable[..., Any]


def cell(page: Any, row: int, column: int, heat_map: str = ".heat-map") -> tuple[float, float]:
    """Where the middle of a cell of a heat map is."""
    frame = page.locator(heat_map)
    frame.and_(page.locator("[data-geometry]")).wait_for(**BIG)
    left, top, width, height = map(float, frame.get_attribute("data-geometry").split())
    box = frame.bounding_box()
    return box["x"] + left + (column + 0.5) * width, box["y"] + top + (row + 0.5) * height


def point(page: Any, row: int, column: int, heat_map: str = ".heat-map") -> None:
    page.mouse.move(*cell(page, row, column, heat_map))
    playwright.expect(page.locator(heat_map)).to_have_attribute("data-pointed", f"{row} {column}", **BIG)


def number(page: Any, inside: str = "") -> float:
    return float(page.locator(f"{inside} .reading").get_attribute("data-value"))


def ranked(page: Any) -> dict[int, float]:
    """The numbers beside the picture, by the place of their items."""
    items = page.locator(".ranking li").evaluate_all("all => all.map(each => [each.dataset.index, each.dataset.value])")
    return {int(index): float(value) for index, value in items}


def pressed(page: Any, kind: str) -> list[str]:
    return page.locator(f"[data-kind={kind}][aria-pressed=true]").all_inner_texts()


def inked(page: Any, canvas: str) -> int:
    """How many different colours a canvas shows."""
    return page.locator(canvas).first.evaluate(
        """canvas => new Set(new Uint32Array(
            canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size"""
    )
