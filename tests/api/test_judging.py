"""Faster forms of answering beside float32: when they are judged, within which time, and what is kept of it."""

import json
import math
import os
from pathlib import Path

import numpy
import pytest

from made_models import WORDS, write_model
from read_models import BERT, write_reader
from regard import api
from regard.api import judging
from regard.api.judging import judge
from regard.commands import judging as command
from regard.commands import run
from regard.data.pairs import shortlist
from regard.data.pairs.shortlist import Shortlist
from regard.data.tokenizers import Tokenizers
from regard.directory import ModelDirectory
from regard.engines.ctranslate2 import switches
from regard.engines.ctranslate2.precision import EXACT, Record, kept, switches_of
from regard.engines.ctranslate2.switches import CHOICES, set_here, worth_trying

SAID = frozenset(CHOICES)


@pytest.fixture(autouse=True)
def plain_cpu(monkeypatch):
    """A CPU on which there is nothing to switch."""
    monkeypatch.setattr(judging, "worth_trying", list)


@pytest.fixture
def labels(tmp_path):
    valid = tmp_path / "valid.tsv"
    valid.write_text("the small dog\tgood\na red house\tbad\nan old fox\tgood\n", encoding="utf-8")
    path = tmp_path / "model"
    return write_reader(path, "classify", labels=("bad", "good"), data={"valid": str(valid)}, **BERT)


def test_the_recipes_validation_data_judges(labels):
    found = judge(labels)
    assert isinstance(found, Record)
    assert (found.metric, found.examples, found.switches) == ("accuracy", 3, {})
    assert kept(ModelDirectory(labels)) == found
    assert str(found).startswith(f"{found.verdict} is used from now on")


def test_pairs_are_judged_by_bleu(tmp_path):
    model = write_model(tmp_path / "model", decoding={"beam": 1, "max_length": 6}, ending=4.0)
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{a} {b}\t{b} {a}\n" for a, b in zip(WORDS[:9], WORDS[9:18], strict=True)))
    found = judge(model, data=str(file))
    assert isinstance(found, Record)
    assert (found.metric, found.examples) == ("bleu", 9)


def test_a_shortlist_is_judged_where_there_is_one_and_it_is_to_be_measured(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{a} {b}\t{b} {a}\n" for a, b in zip(WORDS[:9], WORDS[9:18], strict=True)))
    for asked, forms in (("measured", 4), (True, 2), (False, 2)):
        model = write_model(
            tmp_path / str(asked), decoding={"beam": 1, "max_length": 6, "shortlist": asked}, ending=4.0
        )
        size = Tokenizers.load(model).source.size
        listed, few = numpy.full((size, 1), -1, dtype=numpy.int32), numpy.array([2, 5], dtype=numpy.int32)
        (model / shortlist.NAME).write_bytes(Shortlist(listed, few).to_bytes())
        found = judge(model, data=str(file))
        assert isinstance(found, Record)
        assert len(found.tried) == forms
        assert found.tried[0].form == EXACT


def test_what_would_take_too_long_is_not_judged(labels):
    assert "regard bench takes the time" in judge(labels, seconds=0.0)
    assert kept(ModelDirectory(labels)) is None


def test_without_data_there_is_a_reason(tmp_path):
    path = write_reader(tmp_path, "classify", labels=("bad", "good"), **BERT)
    assert "names no data" in judge(path)


def test_switches_are_kept_if_answers_are_faster_with_them(labels, monkeypatch):
    monkeypatch.setattr(judging, "worth_trying", lambda: [{"CT2_USE_MKL": "0"}])
    timed = judging._timed

    def faster(engine, asked, options):
        found, _ = timed(engine, asked, options)
        environment = Path(f"/proc/{engine.apart.pid}/environ").read_text()
        return found, 1.0 if "CT2_USE_MKL=0" in environment else 2.0

    monkeypatch.setattr(judging, "_timed", faster)
    found = judge(labels)
    assert isinstance(found, Record)
    assert found.switches == switches_of(ModelDirectory(labels)) == {"CT2_USE_MKL": "0"}
    assert "CT2_USE_MKL=0 is faster" in str(found)
    monkeypatch.setattr(judging, "GAIN", 3.0)
    assert judge(labels).switches == {}


def test_switches_are_those_of_the_cpu_and_what_somebody_has_set_stays(monkeypatch):
    for name, _ in CHOICES.values():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(switches, "said_of_the_cpu", lambda: SAID)
    both = {"CT2_FORCE_CPU_ISA": "AVX512", "CT2_USE_MKL": "0"}
    assert list(worth_trying()) == [{"CT2_FORCE_CPU_ISA": "AVX512"}, {"CT2_USE_MKL": "0"}, both]
    monkeypatch.setenv("CT2_USE_MKL", "1")
    assert list(worth_trying()) == [{"CT2_FORCE_CPU_ISA": "AVX512"}]
    monkeypatch.setattr(switches, "said_of_the_cpu", frozenset)
    assert list(worth_trying()) == []


def test_switches_are_set_before_the_library_is_loaded_alone(monkeypatch):
    monkeypatch.setenv("CT2_USE_MKL", "1")
    monkeypatch.delenv("CT2_FORCE_CPU_ISA", raising=False)
    both = {"CT2_FORCE_CPU_ISA": "AVX2", "CT2_USE_MKL": "0"}
    monkeypatch.setitem(switches.sys.modules, "ctranslate2", object())
    set_here(both)
    assert "CT2_FORCE_CPU_ISA" not in os.environ
    monkeypatch.delitem(switches.sys.modules, "ctranslate2")
    monkeypatch.setenv("CT2_FORCE_CPU_ISA", "")  # so that it is put back
    monkeypatch.delenv("CT2_FORCE_CPU_ISA")
    set_here(both)
    assert (os.environ["CT2_FORCE_CPU_ISA"], os.environ["CT2_USE_MKL"]) == ("AVX2", "1")


def test_it_is_judged_once(labels, capsys):
    command.judge_once(labels, seconds=60)
    first = capsys.readouterr().err
    assert "at most 60 s" in first
    assert "is used from now on" in first
    command.judge_once(labels, seconds=60)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("valid", [None, "nowhere.tsv", ["nowhere.tsv"], {"source": "a", "target": "b"}])
def test_nothing_is_judged_or_said_without_validation_files(tmp_path, capsys, valid):
    path = write_reader(tmp_path, "classify", labels=("bad", "good"), **BERT)
    text = (path / "recipe.toml").read_text()
    lines = "" if valid is None else f"valid = {json.dumps(valid).replace(':', ' =') if valid else ''}\n"
    (path / "recipe.toml").write_text(text.replace("[data]\n", f"[data]\n{lines}", 1))
    command.judge_once(path, seconds=60)
    assert capsys.readouterr().err == ""


def test_an_interrupted_judgement_is_no_error(labels, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(judging, "judge", interrupted)
    command.judge_once(labels, seconds=60)
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "much", "times"), [({}, 0.0, 1), ({}, math.inf, 0), ({"compute_type": "float32"}, 0.0, 0)]
)
def test_a_long_run_judges_after_its_answers(labels, capsys, monkeypatch, given, much, times):
    monkeypatch.setattr(run, "MUCH", much)
    asked = []
    monkeypatch.setattr(run, "judge_once", lambda path, *, seconds: asked.append((path, seconds)))
    run.run(labels, [["the small dog", "an old fox"]], given)
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert len(asked) == times
    assert all(path == labels and seconds > 0 for path, seconds in asked)


def test_a_long_training_judges_when_it_ends(labels, monkeypatch, capsys):
    from rich.console import Console

    from regard.api import training

    examples = [1, 2]
    asked = []
    monkeypatch.setattr(training, "judge", lambda path, **given: asked.append((path, given)) or "a reason")
    console = Console(stderr=True, highlight=False)
    training._judge_forms(ModelDirectory(labels), examples, console, seconds=training.WORTH - 1)
    assert asked == []
    training._judge_forms(ModelDirectory(labels), examples, console, seconds=training.WORTH)
    assert asked == [(labels, {"examples": examples, "seconds": training.WORTH})]
    assert "a reason" in capsys.readouterr().err
    assert api.judging is judging
