"""A record is a value: it goes to JSON and back, and keeps what it was given."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.errors import RegardError
from regard.look import record as subject
from regard.look.record import Answer, Map, Record, Side
from regard.look.seen import MOST_VECTORS


def made(weights: torch.Tensor) -> Record:
    heads, queries, keys = weights.shape
    sides = {"source": Side(tuple("abcdefghijk"[:keys])), "target": Side(tuple("lmnopqrstuv"[:queries]), text="lm")}
    maps = (
        Map("decoder.blocks.0.cross", "cross", "target", "source", weights, tuple(range(heads)), layer=0),
        Map("decoder.blocks.1.cross", "cross", "target", "source", weights.flip(-1), tuple(range(heads)), layer=1),
    )
    answer = Answer("lm", (-0.5,) * queries, ((("l", -0.5), ("x", -2.0)),) * queries)
    return Record("a title", sides, maps, answer=answer, model={"name": "m"})


@given(st.integers(0, 99), st.integers(1, 3), st.integers(1, 7), st.integers(1, 5))
@settings(max_examples=25)
def test_json_and_back_is_the_same_record(seed: int, heads: int, queries: int, keys: int):
    weights = torch.rand(heads, queries, keys, generator=torch.Generator().manual_seed(seed))
    record = made(weights)
    again = Record.from_json(json.loads(json.dumps(record.to_json())))
    for mine, other in zip(again.maps, record.maps, strict=True):
        assert torch.equal(mine.weights, other.weights)
        assert (mine.name, mine.kind, mine.heads, mine.layer) == (other.name, other.kind, other.heads, other.layer)
    assert (again.sides, again.answer, again.title) == (record.sides, record.answer, record.title)


def test_many_weights_are_stored_as_bytes_and_stay_close(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subject, "PRECISE", 100)
    monkeypatch.setattr(subject, "COMPRESSED", 50)
    weights = torch.rand(2, 11, 11).softmax(-1)
    stored = made(weights).to_json()["maps"][0]
    assert stored["encoding"] == "u8+deflate"
    found = Record.from_json(json.loads(json.dumps(made(weights).to_json()))).maps[0].weights
    assert ((found - weights).abs() <= weights.amax(-1, keepdim=True) / 509).all()


@pytest.mark.parametrize(("count", "largest", "encoding"), [(11, 1.0, "f32"), (4999, 1.0, "f16"), (4999, 1e6, "f32")])
def test_queries_and_keys_go_to_json_and_back(count: int, largest: float, encoding: str):
    vectors = torch.randn(2, count, 3), torch.randn(2, 5, 3) * largest
    side, other = Side(tuple(map(str, range(count)))), Side(tuple("abcde"))
    each = Map("m", "cross", "q", "k", torch.zeros(2, count, 5), (0, 1), vectors=vectors)
    stored = json.loads(json.dumps(Record("", {"q": side, "k": other}, (each,)).to_json()))
    assert stored["maps"][0]["vectors"]["encoding"] == encoding
    found = Record.from_json(stored).maps[0].vectors
    assert_close(found, vectors, rtol=1e-6 if encoding == "f32" else 1e-3, atol=1e-6)


def test_512_tokens_of_6_layers_and_8_heads_that_look_everywhere_are_a_page_of_less_than_20_megabytes(tmp_path: Path):
    """Weights without any order in them do not compress; the queries and keys are as many as a record keeps."""
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(2, MOST_VECTORS // 2, generator=generator).view(2, 8, -1, 1)
    maps = tuple(
        Map(f"blocks.{layer}", "self", "s", "s", torch.rand(8, 512, 512, generator=generator), tuple(range(8)), layer)
        for layer in range(6)
    )
    maps = (replace(maps[0], vectors=(vectors[0], vectors[1])), *maps[1:])
    Record("", {"s": Side(tuple(f"word {place}" for place in range(512)))}, maps).save(tmp_path / "look.html")
    assert (tmp_path / "look.html").stat().st_size < 20e6


def test_one_layer_or_head_can_be_kept():
    record = made(torch.rand(3, 5, 7))
    one = record.only(layer=1, head=2)
    assert [each.layer for each in one.maps] == [1]
    assert_close(one.maps[0].weights, record.maps[1].weights[2:])
    with pytest.raises(RegardError, match=r"layers are \[0, 1\]"):
        record.only(layer=7)


def test_every_ending_is_written_and_others_are_refused(tmp_path: Path):
    record = made(torch.rand(2, 5, 7).softmax(-1))
    for ending in (".json", ".html", ".png", ".svg", ".pdf"):
        record.save(tmp_path / f"look{ending}")
        assert (tmp_path / f"look{ending}").stat().st_size > 500
    assert Record.load(tmp_path / "look.json").title == "a title"
    with pytest.raises(RegardError, match="saved as"):
        record.save(tmp_path / "look.gif")


@pytest.mark.filterwarnings("ignore:Glyph")  # a font need not have a picture of NUL
@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_names_that_a_picture_could_read_as_something_else_are_drawn_as_they_are(tmp_path: Path, ending: str):
    names = ("$x^2$", "$\\frac$", "costs $5", "\x00\x1b[31m", "\u202eabc", "x" * 10_000, "</text><script>", "</s>")
    each = Map("m", "self", "s", "s", torch.rand(1, 8, 8).softmax(-1), (0,))
    Record("from $3 to $4 _{", {"s": Side(names)}, (each,)).save(tmp_path / f"look{ending}")
    written = (tmp_path / f"look{ending}").read_bytes()
    assert len(written) < 500_000
    if ending == ".svg":
        assert b"$x^2$" in written
        assert b"<script" not in written
        assert b"x" * 100 not in written


def test_a_record_of_another_time_or_a_damaged_one_is_refused(tmp_path: Path):
    stored = made(torch.rand(1, 2, 3)).to_json()
    with pytest.raises(RegardError, match="version 2"):
        Record.from_json({**stored, "version": 2})
    with pytest.raises(RegardError, match="damaged"):
        Record.from_json({**stored, "maps": [{**stored["maps"][0], "weights": "AAAA"}]})
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(RegardError, match="cannot be read"):
        Record.load(tmp_path / "x.json")


def test_a_notebook_shows_it_in_a_frame_of_its_own():
    shown = made(torch.rand(1, 2, 3))._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts" srcdoc="')
    assert shown.count("<iframe") == 1
    assert "<script" not in shown
