"""Pictures for print: the colours of the page, a bar that explains them, notes below, no character lost in silence."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.look import page
from regard.look.palette import CLASSES, SEQUENTIAL, distinct, ramp
from regard.look.pictures import draw, sheet
from regard.look.record import Map, Record
from regard.look.show import scale_end
from regard.tasks.base import Side

ITEMS = ("[CLS]", "▁a", "▁man", "sleeps", "[SEP]")


def made(items: tuple[str, ...] = ITEMS, title: str = "a title", notes: tuple[str, ...] = ()) -> Record:
    size = len(items)
    weights = torch.rand(2, size, size, generator=torch.Generator().manual_seed(2)).softmax(-1)
    each = Map("blocks.3", "cross", "s", "s", weights, (0, 1), layer=3)
    return Record(title, {"s": Side(items)}, (each,), notes=notes)


def text_of(svg: bytes) -> str:
    return " ".join(re.findall(r">([^<>]+)</text>", svg.decode()))


def test_the_stops_are_those_of_the_page():
    script = (Path(page.__file__).parent / "page" / "palette.js").read_text("utf-8")
    light = script[script.index("const SEQUENTIAL") :].partition("dark:")[0]
    stops = re.findall(r"\[([\d.]+), ([\d.]+), ([\d.]+)\]", light)
    assert [tuple(map(float, stop)) for stop in stops] == [tuple(map(float, stop)) for stop in SEQUENTIAL]


def test_the_colours_of_classes_are_those_of_the_page():
    script = (Path(page.__file__).parent / "page" / "palette.js").read_text("utf-8")
    light = script[script.index("const HEADS") :].partition("dark:")[0]
    stops = re.findall(r"\[([\d.]+), ([\d.]+), ([\d.]+)\]", light)
    assert [tuple(map(float, stop)) for stop in stops] == [tuple(map(float, stop)) for stop in CLASSES]
    apart = np.linalg.norm(distinct()[:, None] - distinct(), axis=-1)
    assert apart[~np.eye(len(CLASSES), dtype=bool)].min() > 0.2


def test_colours_get_darker_step_by_step():
    light = ramp() @ [0.2126, 0.7152, 0.0722]
    assert light.shape == (256,)
    assert (np.diff(light) < 0).all()
    assert light[0] > 0.85
    assert light[-1] < 0.2


def test_a_picture_has_a_bar_of_colours_a_whole_title_and_the_notes():
    title = "the words of a title that is long " * 8
    found = text_of(draw(made(title=title, notes=("The text was cut to 256 tokens.",)), ".svg"))
    assert found.count("title") == 8
    assert "weight" in found
    assert "cut to 256 tokens" in found


@pytest.mark.parametrize("title", ["A MAN WITH 10 WAGONS " * 12, "W" * 300], ids=["words", "one word"])
def test_no_line_of_a_title_or_of_the_notes_reaches_the_edge(title: str):
    with Image.open(io.BytesIO(draw(made(title=title, notes=(title,)), ".png"))) as image:
        pixels = np.asarray(image.convert("L"))
    edge = 6  # constrained layout leaves 8 pixels around axes
    assert pixels[:, :edge].min() == pixels[:, -edge:].min() == 255


def test_an_svg_keeps_every_character():
    assert "注意" in text_of(draw(made(("注意", "b", "c")), ".svg"))


@pytest.mark.parametrize("suffix", [".png", ".pdf"])
def test_a_character_that_no_font_has_is_a_square_and_is_named(suffix: str, monkeypatch: pytest.MonkeyPatch):
    written: list[str] = []
    monkeypatch.setattr(sheet, "_wrapped", lambda text, *_: written.append(text) or text)
    own = sheet._characters
    monkeypatch.setattr(sheet, "_characters", lambda path: own(path) - {ord("ж")})
    draw(made(("ж", "b", "c")), suffix)
    assert "no font of this computer has: U+0436." in written[-1]


def test_a_font_that_has_the_character_is_found(monkeypatch: pytest.MonkeyPatch):
    """The fonts that come with matplotlib have it: ℵ in the second of them if the first lacked it."""
    own = sheet._characters
    first = sheet._file(sheet.FONT)
    monkeypatch.setattr(sheet, "_characters", lambda path: own(path) - {0x2135} if path == first else own(path))
    families, missing = sheet._fonts("aℵ")
    assert missing == ""
    assert len(families) == 2


def test_the_scale_of_self_attention_ends_before_what_would_swallow_it():
    causal = torch.ones(6, 6).tril() / torch.arange(1.0, 7).unsqueeze(1)
    assert scale_end(causal, "self") == pytest.approx(0.5)  # row 0 is 1 by necessity
    assert scale_end(causal, "cross") == 1.0
    first = torch.full((8, 8), 0.04)
    first[:, 0] = 1 - 7 * 0.04
    first[5, 2] = 0.3
    assert scale_end(first, "self") == pytest.approx(0.3)
    first[5, 2] = 0.04
    assert scale_end(first, "self") == pytest.approx(0.72 / 8)  # an eighth of the largest, no less
    even = torch.full((8, 8), 1 / 8)
    assert scale_end(even, "self") == pytest.approx(1 / 8)
    assert scale_end(torch.zeros(0, 5), "self") == 0


def test_a_picture_says_where_its_colours_end():
    weights = torch.full((1, 8, 8), 0.04)
    weights[..., 0] = 0.72
    each = Map("m", "self", "s", "s", weights, (0,))
    found = text_of(draw(Record("", {"s": Side(tuple("abcdefgh"))}, (each,)), ".svg"))
    assert "Colours end at 0.09; larger weights, up to 0.72" in found


def test_a_causal_map_names_the_token_read_and_the_token_said():
    each = Map("m", "self", "target", "target", torch.eye(2)[None], (0,), inputs=("RO", "O"))
    found = text_of(draw(Record("", {"target": Side(("O", "Romeo"))}, (each,)), ".svg"))
    assert "RO ▸ O" in found
    assert "O ▸ Romeo" in found
    assert "the weights from x, the last token read, when y was predicted" in found
