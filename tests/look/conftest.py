"""A real browser with the network cut."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import made_records
import pytest

from regard.look import page as look_page

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need: pip install playwright")
    if not CHROMIUM:
        pytest.skip("the browser tests need Chromium: apt-get install chromium, or set CHROMIUM")
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture
def watched(browser: Any) -> Iterator[Callable[..., Any]]:
    """New pages, cut off; at the end none may have complained, failed, or asked anybody for anything."""
    complaints: list[str] = []
    contexts = []

    def new(*, allowed: str = "file:", **options: Any) -> Any:
        context = browser.new_context(offline=allowed == "file:", viewport={"width": 1280, "height": 800}, **options)
        contexts.append(context)
        made = context.new_page()
        made.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        made.on("pageerror", lambda error: complaints.append(str(error)))
        made.on(
            "request",
            lambda asked: None if asked.url.startswith((allowed, "data:")) else complaints.append(asked.url[:200]),
        )
        return made

    yield new
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def show(watched: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Opens the page of some records as a saved file."""

    def opened(*records: made_records.Record, at: str = "", **options: Any) -> Any:
        path = tmp_path / "look.html"
        path.write_text(look_page.render(records), encoding="utf-8")
        made = watched(**options)
        made.goto(f"{path.as_uri()}#{at}")
        return made

    return opened
