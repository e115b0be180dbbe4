"""Clients of LibreTranslate work unchanged: its paths, its ways of sending, its words for errors."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deep_translator
import libretranslatepy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import Running, serving
from typer.testing import CliRunner

import regard
from made_models import WORDS, write_model
from regard import Model
from regard.cli import app

SETTINGS: Any = {"ending": 4.0, "position": "learned", "decoding": {"beam": 2, "max_length": 12}}
TEXT = "w0 w1 w2 w3"
KEY = "a secret key"


def in_languages(model: Path, *codes: str) -> Path:
    """A model directory whose recipe names its languages."""
    recipe = model / "recipe.toml"
    text = recipe.read_text("utf-8")
    assert "[data]" in text
    recipe.write_text(text.replace("[data]", f"[data]\nlanguages = {json.dumps(codes)}"), encoding="utf-8")
    return model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    pairs = {"there": ("en", "de"), "back": ("de", "en"), "other": ("fr", "en")}
    return {
        name: in_languages(write_model(folder / name, seed=seed, **SETTINGS), *codes)
        for seed, (name, codes) in enumerate(pairs.items())
    }


@pytest.fixture(scope="module")
def german(models: dict[str, Path]) -> Model:
    """The model from en to de, in this process."""
    return regard.load(models["there"])


@pytest.fixture(scope="module")
def server(models: dict[str, Path]) -> Iterator[Running]:
    with serving(*models.values(), "--workers", "1", "--max-characters", "5000", "--max-batch", "20") as running:
        yield running


def post(server: Running, path: str = "/translate", **fields: Any) -> Any:
    response = server.client.post(path, json={"source": "en", "target": "de", **fields})
    assert response.status_code == 200, response.text
    return response.json()


def refused(server: Running, status: int = 400, path: str = "/translate", **sent: Any) -> str:
    response = server.client.post(path, **sent)
    assert response.status_code == status, response.text
    (name,) = response.json()
    assert name == "error"
    return str(response.json()["error"])


def test_libretranslatepy(server: Running, german: Model) -> None:
    client = libretranslatepy.LibreTranslateAPI(server.url)
    assert client.translate(TEXT, "en", "de") == german(TEXT)
    assert client.detect("Das ist ein deutscher Text über das Wetter und den Hund")[0]["language"] == "de"
    assert {"code": "en", "name": "English", "targets": ["de", "en"]} in client.languages()


def test_deep_translator(server: Running, german: Model) -> None:
    client = deep_translator.LibreTranslator(source="en", target="de", api_key="any", custom_url=f"{server.url}/")
    assert client.translate(TEXT) == german(TEXT)
    assert client.translate_batch([TEXT, "w7"]) == [german(TEXT), german("w7")]


def test_as_weblate_sends_it(server: Running, german: Model) -> None:
    """A list in JSON, twenty at most, with a key that is empty."""
    texts = [f"w{number} w{number + 1}" for number in range(20)]
    fields = {"api_key": "", "q": texts, "source": "en", "target": "de"}
    response = server.client.post("/translate", json=fields, headers={"Accept": "application/json; charset=utf-8"})
    assert response.json()["translatedText"] == [german(text) for text in texts]
    assert [row["code"] for row in server.client.get("/languages").json()] == ["en", "de", "fr"]


def test_as_mastodon_sends_it(server: Running, german: Model) -> None:
    """HTML in JSON, of a language that may be unknown."""
    link = '<a href="https://example.org/@bob" class="u-url mention">@<span>bob</span></a>'
    mention = f'<span class="h-card" translate="no">{link}</span>'
    text = f"<p>{mention} w1 w2</p><p>w5 w6 w7</p>"
    fields = {"q": [text], "source": "en", "target": "de", "format": "html", "api_key": None}
    found = server.client.post("/translate", json=fields).json()
    assert found["translatedText"][0].count(mention) == 1
    assert found["translatedText"][0].endswith(f"<p>{german('w5 w6 w7')}</p>")
    told = server.client.post("/translate", json={**fields, "source": "auto"}).json()["detectedLanguage"]
    assert [row.keys() for row in told] == [{"confidence", "language"}]


def test_forms_and_addresses(server: Running, german: Model) -> None:
    fields = {"q": TEXT, "source": "en", "target": "de", "format": "text", "alternatives": "0"}
    expected = {"translatedText": german(TEXT)}
    assert server.client.post("/translate", data=fields).json() == expected
    assert server.client.post("/translate", params=fields).json() == expected
    assert server.client.post("/translate", params={"q": TEXT}, data=fields | {"q": "w9"}).json() == expected
    parts = {name: (None, value) for name, value in fields.items()}
    assert server.client.post("/translate", files=parts).json() == expected
    assert post(server, q=TEXT, target="en")["translatedText"] == TEXT  # a language in itself


def test_lines_white_space_and_text_without_letters(server: Running, german: Model) -> None:
    text = f" \n\t{TEXT}\r\n\n  12:30 …\n{TEXT}  \n"
    assert post(server, q=text)["translatedText"] == f" \n\t{german(TEXT)}\r\n\n  12:30 …\n{german(TEXT)}  \n"
    form = {"q": f"{TEXT}\r\n", "source": "en", "target": "de"}
    assert server.client.post("/translate", data=form).json()["translatedText"] == f"{german(TEXT)}\n"


def test_long_texts_are_split_at_the_ends_of_sentences(server: Running, german: Model) -> None:
    sentences = [f"{' '.join(random.Random(seed).choices(WORDS, k=30))}." for seed in range(6)]
    whole = post(server, q=" ".join(sentences))["translatedText"]
    assert whole == " ".join(german(sentence) for sentence in sentences)
    html = f"<p>{' '.join(sentences).replace('w9 ', '<b>w9</b> ')} <img></p>"
    found = post(server, q=html, format="html")["translatedText"]
    assert found.count("<img>") == 1
    assert found.count("<b>") >= html.count("<b>")


def test_alternatives(server: Running, german: Model) -> None:
    ranked = [answer.text for answer in german.answers([TEXT], n_best=3)[0]]
    found = post(server, q=TEXT, alternatives=2)
    assert [found["translatedText"], *found["alternatives"]] == list(dict.fromkeys(ranked))
    several = post(server, q=[TEXT, "7"], alternatives="2")
    assert several["alternatives"] == [found["alternatives"], []]
    assert post(server, q=TEXT, alternatives=2, format="html")["alternatives"] == []


def test_marks_pass_through(server: Running) -> None:
    fields = {"q": "w1 {{name}} w2 <keep>New York</keep> w3 w4", "glossary": {"w3": "Köter"}}
    found = post(server, **fields)["translatedText"]
    assert all(found.count(mark) == 1 for mark in ("{{name}}", "New York", "Köter"))
    form = {"source": "en", "target": "de", **fields, "glossary": json.dumps(fields["glossary"])}
    assert server.client.post("/translate", data=form).json()["translatedText"] == found
    assert (
        post(server, q="w1", glossary={"w1": "Eins & <b>"}, format="html")["translatedText"] == "Eins &amp; &lt;b&gt;"
    )


BITS = [
    "w1 ",
    "w2",
    "<b>",
    "</b>",
    "<p>",
    "<br>",
    "<img>",
    "{{n}}",
    "{",
    "}}",
    "<keep>",
    "</keep>",
    "\n",
    "&",
    "<!--",
    ". ",
]
BITS += [
    "文字",
    "é",
    "\u2028",
    "<td>",
    "<script>a<b</script>",
    "<pre>a\nb",
    "<?x?>",
    "\U0001f600",
    "\ufffe",
    "\x01",
    "w5 " * 40,
]


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(q=st.lists(st.sampled_from(BITS), max_size=12).map("".join), form=st.sampled_from(["text", "html"]))
def test_whatever_the_text_it_is_translated_or_refused(server: Running, q: str, form: str) -> None:
    fields = {"q": q, "source": "en", "target": "de", "format": form}
    response = server.client.post("/translate", json=fields)
    if response.status_code == 400:
        assert not q or "tokens" in response.json()["error"]  # a sentence that is too long
        return
    assert response.status_code == 200, response.text
    if form == "text" and "keep" not in q:
        assert response.json()["translatedText"].count("{{n}}") == q.count("{{n}}")


def test_detection(server: Running) -> None:
    found = server.client.post("/detect", json={"q": "Le chat noir est assis sur la table de la cuisine"}).json()
    assert found[0]["language"] == "fr"
    assert found[0]["confidence"] > 90
    assert [row["confidence"] for row in found] == sorted((row["confidence"] for row in found), reverse=True)
    told = post(server, q=["Der Hund schläft heute im Garten", "w1"], source="auto", target="en")["detectedLanguage"]
    assert [row["language"] for row in told] == ["de", "de"]
    assert server.client.post("/detect", json={"q": "123"}).json() == [{"confidence": 0.0, "language": "en"}]


def test_settings(server: Running) -> None:
    assert server.client.get("/frontend/settings").json() == {
        "charLimit": 5000,
        "frontendTimeout": 500,
        "apiKeys": False,
        "keyRequired": False,
        "suggestions": False,
        "filesTranslation": True,
        "supportedFilesFormat": [".txt", ".html", ".srt"],
        "language": {"source": {"code": "en", "name": "English"}, "target": {"code": "de", "name": "German"}},
    }


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": "x"}, "Invalid request: missing source parameter"),
        ({"q": "x", "source": "en"}, "Invalid request: missing target parameter"),
        ({"q": "x", "source": "xx", "target": "de"}, "xx is not supported"),
        ({"q": "x", "source": "en", "target": "yy"}, "yy is not supported"),
        ({"q": "x", "source": ["en"], "target": "de"}, "['en'] is not supported"),
        (
            {"q": "x", "source": "de", "target": "fr"},
            "French (fr) is not available as a target language from German (de)",
        ),
        ({"q": "x", "source": "en", "target": "de", "format": "xml"}, "xml format is not supported"),
        (
            {"q": "x", "source": "en", "target": "de", "alternatives": "many"},
            "Invalid request: alternatives parameter is not a number",
        ),
        (
            {"q": "x", "source": "en", "target": "de", "alternatives": [1]},
            "Invalid request: alternatives parameter is not a number",
        ),
        (
            {"q": "x", "source": "en", "target": "de", "alternatives": 10000},
            "Invalid request: alternatives parameter must be <= 31",
        ),
        (
            {"q": "x" * 5001, "source": "en", "target": "de"},
            "Invalid request: request (5001) exceeds text limit (5000)",
        ),
        ({"q": ["x"] * 21, "source": "en", "target": "de"}, "Invalid request: request (21) exceeds text limit (20)"),
        ({"q": [1], "source": "en", "target": "de"}, "Invalid request: q parameter is not a text or a list of texts"),
        (
            {"q": {"a": 1}, "source": "en", "target": "de"},
            "Invalid request: q parameter is not a text or a list of texts",
        ),
        (
            {"q": "<b>" * 999, "source": "en", "target": "de", "format": "html"},
            "Invalid request: the HTML is nested too deeply; make it simpler",
        ),
    ],
)
def test_errors(server: Running, fields: dict[str, Any], sentence: str) -> None:
    assert refused(server, json=fields) == sentence


def test_more_errors(server: Running) -> None:
    header = {"Content-Type": "application/json"}
    assert refused(server, content=b"[1]", headers=header) == "Invalid JSON format"
    assert refused(server, content=b"{", headers=header) == "Invalid JSON format"
    assert refused(server, content=b"\xff\xfe", headers=header) == "Invalid JSON format"
    assert "UTF-8" in refused(server, content=b"q=%ff", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert refused(server, path="/detect", json={}) == "Invalid request: missing q parameter"
    assert refused(server, 403, path="/suggest", json={}) == "Suggestions are disabled on this server."
    assert "glossary" in refused(server, json={"q": "x", "source": "en", "target": "de", "glossary": [1]})
    assert "NUL" in refused(server, json={"q": "a\0b", "source": "en", "target": "de"})
    assert "boundary" in refused(server, content=b"x", headers={"Content-Type": "multipart/form-data"})


def fetched(server: Running, name: str, content: bytes, **fields: str) -> tuple[str, bytes]:
    """The name and the content of a file that was translated."""
    form = {"source": "en", "target": "de", **fields}
    response = server.client.post("/translate_file", data=form, files={"file": (name, content)})
    assert response.status_code == 200, response.text
    found = server.client.get(response.json()["translatedFileUrl"])
    assert found.status_code == 200
    return found.headers["content-disposition"], found.content


def test_files(server: Running, german: Model) -> None:
    there = german(TEXT)
    header, content = fetched(server, "ä.txt", f"{TEXT}\r\n\r\n{TEXT}\n".encode())
    assert header == "attachment; filename*=UTF-8''%C3%A4_de.txt"
    assert content.decode() == f"{there}\r\n\r\n{there}\n"
    page = f'<!DOCTYPE html>\n<html><head><title>{TEXT}</title></head><body><p class="x">{TEXT}</p></body></html>'
    assert fetched(server, "../../a.html", page.encode())[1].decode() == page.replace(TEXT, there)
    times = "1\n00:00:01,000 --> 00:00:02,000\n"
    assert fetched(server, "a.SRT", f"\ufeff{times}{TEXT}\n".encode())[1].decode() == f"{times}{there}\n"


def test_the_address_of_a_file_is_that_of_the_server_in_front(server: Running) -> None:
    form, file = {"source": "en", "target": "de"}, {"file": ("a.txt", b"w1")}
    headers = {"X-Forwarded-Host": "mt.example.org", "X-Forwarded-Proto": "https"}
    for sent, begin in ((headers, "https://mt.example.org/"), ({"X-Forwarded-Host": "a b/"}, f"{server.url}/")):
        found = server.client.post("/translate_file", data=form, files=file, headers=sent).json()["translatedFileUrl"]
        assert found.startswith(f"{begin}download_file/")


def test_files_that_are_refused(server: Running) -> None:
    form = {"source": "en", "target": "de"}

    def file(name: str, content: bytes) -> str:
        return refused(server, path="/translate_file", data=form, files={"file": (name, content)})

    assert file("a.pdf", b"x") == "Invalid request: file format not supported"
    assert file("a.txt", b"") == "Invalid request: empty file"
    assert file("a.txt", b"\xff") == "Invalid request: the file is not UTF-8"
    assert refused(server, path="/translate_file", data=form) == "Invalid request: missing file parameter"
    assert server.client.get("/download_file/nothing.txt").status_code == 404
    assert server.client.get("/download_file/..%2f..%2fetc%2fpasswd").status_code == 404


def test_keys_and_languages_of_the_command_line(models: dict[str, Path], german: Model) -> None:
    names = ["--languages", "en,it"]  # instead of those of the recipe
    with serving(models["there"], "--workers", "1", *names, env={"REGARD_KEYS": KEY}) as server:
        fields = {"q": TEXT, "source": "en", "target": "it"}
        assert refused(server, json=fields) == "Please contact the server operator to get an API key"
        assert refused(server, 403, json={**fields, "api_key": "wrong"}) == "Invalid API key"
        assert [row["name"] for row in server.client.get("/languages").json()] == ["English", "Italian"]
        client = deep_translator.LibreTranslator(source="en", target="it", api_key=KEY, custom_url=f"{server.url}/")
        assert client.translate(TEXT) == german(TEXT)
        header = {"Authorization": f"Bearer {KEY}"}
        assert server.client.post("/translate", json=fields, headers=header).status_code == 200
        assert server.client.get("/frontend/settings").json()["keyRequired"]


def test_languages_of_the_command_line_that_are_refused(models: dict[str, Path]) -> None:
    runner = CliRunner()
    for codes, sentence in (("en", "such as en,de"), ("x=en,de", "no model 'x'"), ("en,d/", "such as en,de")):
        result = runner.invoke(app, ["serve", str(models["there"]), "--languages", codes])
        assert result.exit_code != 0
        assert sentence in " ".join(str(result.exception or result.output).split())
