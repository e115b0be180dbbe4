"""A record is a value: it goes to JSON and back, and keeps what it was given."""

import errno
import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.errors import RegardError
from regard.look import record as subject
from regard.look.record import Answer, Map, Record
from regard.look.watch import MOST_VECTORS
from regard.tasks.base import Side


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


def test_sides_of_every_kind_go_to_json_and_back():
    bands = ((0.5, (1.0, 1.5), (3.0, 3.5)), (0.95, (-1.0, -2.0), (4.0, 5.0)))
    sides = {
        "image": Side(("[CLS]", "left", "right"), "patches", rows=1, columns=2, picture="data:image/png;base64,"),
        "papers": Side(("one", "two"), "nodes", edges=((0, 1),), labels=("theory", "practice")),
        "future": Side(("May", "June"), "steps", values=(2.0, 2.5), bands=bands),
    }
    assert Record.from_json(json.loads(json.dumps(Record("", sides, ()).to_json()))).sides == sides


def test_a_gap_in_a_series_is_null_in_json():
    past = Side(("a", "b"), "steps", values=(math.nan, 1.0), bands=((0.8, (0.0, 0.5), (math.inf, 1.5)),))
    stored = json.loads(json.dumps(Record("", {"past": past}, ()).to_json(), allow_nan=False))
    assert stored["sides"]["past"]["values"] == [None, 1.0]
    found = Record.from_json(stored).sides["past"]
    assert found.values is not None
    assert found.bands is not None
    assert math.isnan(found.values[0])
    assert math.isnan(found.bands[0][2][0])
    assert found.bands[0][1] == (0.0, 0.5)


def test_many_weights_are_stored_as_bytes_and_stay_close(monkeypatch: pytest.MonkeyPatch):
    weights = torch.rand(2, 11, 11).softmax(-1)
    monkeypatch.setattr(subject, "PRECISE", 2 * weights.numel() - 1)  # more than one map of the two has, less than both
    monkeypatch.setattr(subject, "COMPRESSED", 50)
    assert {each["encoding"] for each in made(weights).to_json()["maps"]} == {"u8+deflate"}
    assert {each["encoding"] for each in made(weights[:1]).to_json()["maps"]} == {"f32+deflate"}
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
    for text in ("{", "[" * 100_000, "\udcff"):
        (tmp_path / "x.json").write_text(text, errors="surrogateescape")
        with pytest.raises(RegardError, match="cannot be read"):
            Record.load(tmp_path / "x.json")
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(RegardError, match="not a record"):
        Record.load(tmp_path / "x.json")


def test_a_notebook_shows_it_in_a_frame_of_its_own():
    shown = made(torch.rand(1, 2, 3))._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts" srcdoc="')
    assert shown.count("<iframe") == 1
    assert "<script" not in shown


def test_a_record_prints_as_one_short_line():
    record = made(torch.rand(8, 11, 11))
    assert repr(record) == "Record('a title', sides: source 11, target 11, maps: 2)"
    assert len(repr(replace(record, title="x\n" * 10_000))) < 200
    assert len(repr(record.maps[0])) < 200


def test_notes_go_to_json_and_back_and_older_records_have_none():
    record = made(torch.rand(1, 2, 3))
    assert "notes" not in record.to_json()
    assert Record.from_json(record.to_json()).notes == ()
    noted = replace(record, notes=("The text was cut to 256 tokens.",))
    assert Record.from_json(json.loads(json.dumps(noted.to_json()))).notes == noted.notes


def test_the_border_of_a_pair_goes_to_json_and_back():
    side = Side(("[CLS]", "a", "[SEP]", "b", "[SEP]"), border=3)
    each = Map("m", "self", "s", "s", torch.eye(5)[None], (0,))
    assert Record.from_json(json.loads(json.dumps(Record("", {"s": side}, (each,)).to_json()))).sides["s"] == side


def test_what_is_not_finite_is_null_in_json_and_a_probability_of_nothing_again():
    record = made(torch.rand(1, 2, 3))
    answer = Answer("lm", (-0.5, -math.inf), ((("l", -0.5),), (("m", -math.inf),)))
    stored = json.loads(json.dumps(replace(record, answer=answer).to_json(), allow_nan=False))
    assert stored["answer"]["logprobs"] == [-0.5, None]
    assert Record.from_json(stored).answer == answer


ENDINGS = (".json", ".html", ".png", ".svg", ".pdf")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_place_that_cannot_be_written_to_is_a_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
):
    record = made(torch.rand(1, 2, 3))
    with pytest.raises(RegardError, match="cannot write"):
        record.save(tmp_path / "missing" / f"look{ending}")
    (tmp_path / f"folder{ending}").mkdir()
    with pytest.raises(RegardError, match="cannot write"):
        record.save(tmp_path / f"folder{ending}")
    (tmp_path / f"look{ending}").write_text("before")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RegardError, match="the disk is full"):
        record.save(tmp_path / f"look{ending}")
    assert (tmp_path / f"look{ending}").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"folder{ending}", f"look{ending}"]


@pytest.mark.parametrize("place", [3, None, b"look.json", ["look.json"]])
def test_what_is_no_name_of_a_file_is_said(place: object):
    with pytest.raises(RegardError, match="a record is saved to a file with a name"):
        made(torch.rand(1, 2, 3)).save(place)  # type: ignore[arg-type]


def test_half_a_character_is_saved_and_loaded(tmp_path: Path):
    side = Side(("a", "\ud800"))
    Record("\ud800 ▁b", {"s": side}, (Map("m", "self", "s", "s", torch.eye(2)[None], (0,)),)).save(tmp_path / "l.json")
    assert Record.load(tmp_path / "l.json").sides["s"] == side
    assert "▁b" in (tmp_path / "l.json").read_text("utf-8")
