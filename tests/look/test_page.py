"""The page as a file: one, whole, and deaf to what its records would like to say."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import made_records
import pytest

from regard.errors import RegardError
from regard.look import page

FOLDER = Path(page.__file__).parent / "page"
MODULES = sorted(FOLDER.glob("*.js"))


class Elements(HTMLParser):
    """The elements of a page: their names and attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self._open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag in self.inside:
            self.inside[tag].append("")
            self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = "" if tag == self._open else self._open

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inside[self._open][-1] += data


def policy(text: str) -> dict[str, str]:
    (content,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    return dict(part.strip().split(" ", 1) for part in content.split(";"))


def test_modules_were_found():
    assert len(MODULES) >= 25


def test_the_page_is_one_file_that_loads_nothing():
    elements = Elements(page.render([made_records.transformer()]))
    assert [attributes for _, attributes in elements.found if "src" in attributes] == []
    assert [attributes["href"] for _, attributes in elements.found if "href" in attributes] == ["data:,"]
    assert "url(" not in elements.inside["style"][0]
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", elements.inside["script"][1]) == []


def test_only_the_pages_own_script_and_style_may_act():
    text = page.render([made_records.two_heads()])
    elements, allowed = Elements(text), policy(text)

    def digest(inside: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'"

    assert allowed["default-src"] == "'none'"
    assert allowed["script-src"] == digest(elements.inside["script"][1])
    assert allowed["style-src"] == digest(elements.inside["style"][0])
    assert allowed["img-src"] == "data:"


def test_only_a_live_page_may_ask_its_server():
    assert policy(page.render([]))["connect-src"] == "'none'"
    assert policy(page.render([], live=True))["connect-src"] == "'self'"
    assert "data-live" in Elements(page.render([], live=True)).found[0][1]
    assert "data-live" not in Elements(page.render([])).found[0][1]


def test_hostile_records_stay_data():
    plain, hostile = Elements(page.render([made_records.two_heads()])), Elements(page.render([made_records.hostile()]))
    assert [tag for tag, _ in hostile.found] == [tag for tag, _ in plain.found]
    assert json.loads(hostile.inside["script"][0]) == [made_records.hostile()]
    assert re.search(r"[<>&\u2028\u2029\x00]", hostile.inside["script"][0]) is None
    page.render([made_records.hostile()]).encode("utf-8")  # can be written, surrogates and all


def test_a_number_that_json_cannot_hold_is_refused_with_a_remedy():
    record = made_records.two_heads() | {"answer": {"text": "", "logprobs": [float("-inf")], "alternatives": []}}
    with pytest.raises(RegardError, match="write null"):
        page.render([record])


def test_the_same_records_give_the_same_page():
    assert page.render([made_records.two_heads()]) == page.render([made_records.two_heads()])


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_every_module_is_in_the_page_once_and_after_those_it_imports(path: Path):
    script = Elements(page.render([])).inside["script"][1]
    beginnings = re.findall(r"^// ---- (\w+\.js)$", script, re.MULTILINE)
    assert beginnings.count(path.name) == 1
    for other in re.findall(r'^import .* from "\./([\w.]+)";$', path.read_text("utf-8"), re.MULTILINE):
        assert beginnings.index(other) < beginnings.index(path.name)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_is_short_and_makes_no_markup_from_text(path: Path):
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 300
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text) == []


def test_a_module_says_what_it_is():
    assert [path.name for path in MODULES if not path.read_text("utf-8").startswith("/**")] == []


@pytest.mark.parametrize("line", ["export default 1;", 'import * as all from "./a.js";', "export { a };"])
def test_a_form_of_import_or_export_that_is_not_read_is_refused(line: str):
    with pytest.raises(ValueError, match="not a form of import or export"):
        page._wrapped("a.js", f"{line}\n")


def test_a_module_that_would_end_its_script_is_refused():
    with pytest.raises(ValueError, match="would end the script"):
        page._wrapped("a.js", 'const text = "</script>";\n')


def test_a_circle_of_imports_is_refused(monkeypatch: pytest.MonkeyPatch):
    modules = {
        "main.js": 'import { a } from "./a.js";\n',
        "a.js": 'import { b } from "./main.js";\nexport const a = 1;\n',
    }
    monkeypatch.setattr(page, "_file", modules.__getitem__)
    with pytest.raises(ValueError, match=r"main\.js → a\.js → main\.js"):
        page._bundle.__wrapped__()
