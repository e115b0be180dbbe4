"""The page: records → one HTML file that needs no network and no other file.

`page/` holds it as written: a template, a style sheet and plain ES modules, which a browser can also load one by one.
Here they are put into one file. Each module becomes a function of its own, after those it imports, so names stay apart:

    import { Matrix } from "./matrix.js";        →   const { Matrix } = modules["matrix.js"];
    export class Record { … }                    →   class Record { … }  …  return { Record };

Records are data, never code: they stand in a block that is not executed, with every character escaped that could end
it, and the page's own policy allows no script but the one whose hash it names, nothing to be loaded from anywhere, and
no markup made from text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from regard.durable import write_file
from regard.errors import RegardError

_IMPORT = re.compile(r'^import \{ (\w+(?:, \w+)*) \} from "\./(\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def render(
    records: Sequence[Mapping[str, Any]],
    *,
    live: bool = False,
    pairs: bool = False,
    models: Sequence[Mapping[str, Any]] = (),
) -> str:
    """One HTML file that shows `records` (docs/record.md), side by side where there are several.

    With `live` the page also has a box to type in, and with `pairs` a second one: it posts `{"text": …}` to `./look`,
    at the server it came from, and shows the record, or the list of records, that it gets back. With `models`, objects
    with "name", "examples", "picture" and "pair", one of them is chosen and posted as "model"; for one with a picture,
    a file is posted as `{"input": {"picture": …}}` instead of a text.
    """
    script, style = _bundle(), _file("style.css")
    title = " and ".join(str(record.get("title") or "untitled") for record in records)[:200]
    policy = _policy(script, style, live=live)
    chosen = f' data-models="{html.escape(json.dumps(list(models)))}"' if models else ""
    parts = {
        '<html lang="en">': f'<html lang="en"{" data-live" * live}{" data-pairs" * pairs}{chosen}>',
        '<meta charset="utf-8">': (
            f'<meta charset="utf-8">\n    <meta http-equiv="Content-Security-Policy" content="{policy}">'
        ),
        "<title>regard</title>": f"<title>{html.escape(_printable(title) or 'regard')}</title>",
        '<link rel="stylesheet" href="style.css">': f"<style>{style}</style>",
        '<script type="application/json" id="records">[]</script>': (
            f'<script type="application/json" id="records">{_data(records)}</script>'
        ),
        '<script type="module" src="main.js"></script>': f'<script type="module">{script}</script>',
    }
    anywhere = re.compile("|".join(map(re.escape, parts)))
    return anywhere.sub(lambda found: parts[found[0]], _file("index.html"))


def document(title: str, body: str, *, style: str) -> str:
    """One HTML file without a script, in the look of the page; `body` is HTML, `style` is added to the page's own."""
    sheet = _file("style.css") + style
    policy = f"default-src 'none'; style-src '{_digest(sheet)}'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"""<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta http-equiv="Content-Security-Policy" content="{policy}">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="referrer" content="no-referrer">
    <title>{html.escape(title)}</title>
    <link rel="icon" href="data:,">
    <style>{sheet}</style>
  </head>
  <body>
{body}
  </body>
</html>
"""


def save(records: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the page of `records`, whole or not at all; a place that cannot be written to is a RegardError."""
    write_file(path, render(records).encode())


def _policy(script: str, style: str, *, live: bool) -> str:
    """The content security policy: the page's own script and style, embedded pictures, and if live, its server."""
    allowed = {
        "default-src": "'none'",
        "script-src": f"'{_digest(script)}'",
        "style-src": f"'{_digest(style)}'",
        "img-src": "data:",
        "connect-src": "'self'" if live else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
    }
    return "; ".join(f"{what} {where}" for what, where in allowed.items())


def _data(records: Sequence[Mapping[str, Any]]) -> str:
    """Records as JSON in plain ASCII, without a character that means anything in HTML."""
    try:
        text = json.dumps(list(records), allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise RegardError(f"a record holds a number that JSON cannot hold ({error}); write null for it") from error
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _bundle() -> str:
    """All modules in one script, each after those it imports."""
    written: dict[str, str] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ValueError(f"modules of the page import each other in a circle: {' → '.join((*above, name))}")
        if name not in written:
            source = _file(name)
            for _, other in _IMPORT.findall(source):
                add(other, (*above, name))
            written[name] = _wrapped(name, source)

    add("main.js", ())
    return "const modules = {};\n" + "".join(written.values())


def _wrapped(name: str, source: str) -> str:
    """A module as a function that is called once and returns its exports."""
    exported = ", ".join(_EXPORT.findall(source))
    body = _IMPORT.sub(r'const { \1 } = modules["\2"];\n', _EXPORT.sub("", source))
    if unread := re.search(r"^(import|export)\b.*", body, re.MULTILINE):
        raise ValueError(f"{name}: {unread[0]!r} is not a form of import or export that page.py reads")
    if re.search(r"</script|<!--", body, re.IGNORECASE):
        raise ValueError(f"{name} holds text that would end the script it stands in")
    return f'\n// ---- {name}\nmodules["{name}"] = (() => {{\n{body}return {{ {exported} }};\n}})();\n'


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


@cache
def _file(name: str) -> str:
    return files("regard.look").joinpath("page", name).read_text(encoding="utf-8")
