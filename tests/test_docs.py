"""What the documentation shows, runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPETS = {
    page.name: re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE) for page in PAGES
}
RUNNABLE = [name for name, snippets in SNIPPETS.items() if snippets and name != "README.md"]


def test_pages_were_found():
    assert len(PAGES) >= 4
    assert "attention.md" in RUNNABLE


@pytest.mark.parametrize("name", RUNNABLE)
def test_the_python_of_a_page_runs_from_top_to_bottom(name: str):
    scope: dict[str, object] = {}
    for snippet in SNIPPETS[name]:
        exec(compile(snippet, name, "exec"), scope)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
