"""Comparisons: which runs they have, what is trained again, and what is said of the runs."""

import json
import sys
from pathlib import Path

import pytest

import regard
from regard import RegardError
from regard.api import comparing, trial
from regard.api.variants import parse
from regard.data.tokenizers import Tokenizers
from regard.training.watchers import Interrupted

FEW = [
    "training.steps=3",
    "training.validate_every=2",
    "decoding.max_length=5",
    "data.hold_out=9",
    "training.threads=1",
]


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("words.tsv").write_text("".join(f"{word}\t{word[::-1]}\n" for word in map("{:05b}".format, range(32))))
    Path("tiny.toml").write_text(
        '[data]\ntrain = "words.tsv"\n[tokenizer]\nkind = "characters"\n'
        '[model]\nkind = "seq2seq"\nlayers = 1\nwidth = 8\nembedding = 8\n'
    )
    return "tiny.toml"


@pytest.fixture
def started(monkeypatch):
    """The runs that were started, in this process: starting others takes seconds."""
    names = []

    def run(arguments):
        names.append(Path(arguments[1]).name)
        monkeypatch.setattr(sys, "argv", ["trial", *arguments])
        trial.main()
        return 0, False

    monkeypatch.setattr(comparing, "_run", run)
    return names


def test_every_combination_is_trained_and_told(recipe, started):
    found = regard.compare(recipe, vary={"model.score": ["additive", "dot"], "model.width": [8, 12]}, changes=FEW)
    names = ["score=additive,width=8", "score=additive,width=12", "score=dot,width=8", "score=dot,width=12"]
    assert started == names
    assert [run.name for run in found.runs] == [name.replace(",", ", ") for name in names]
    assert [run.path for run in found.runs] == [Path("runs/compare-tiny") / name for name in names]
    assert [regard.load(run.path).recipe.model.width for run in found.runs] == [8, 12, 8, 12]
    first, *others = found.differences
    assert found.main == "bleu"
    assert all("difference" not in row for row in first.values())
    for rows, run in zip(others, found.runs[1:], strict=True):
        for name, row in rows.items():
            assert row["value"] == pytest.approx(run.report["scores"][name])
            assert row["difference"] == pytest.approx(row["value"] - first[name]["value"])
            assert row["low"] <= row["high"]
    written = json.loads(Path("runs/compare-tiny/compare.json").read_text())
    assert written == found.to_json()
    assert [run["values"] for run in written["runs"]][1] == {"model.score": '"additive"', "model.width": "12"}
    assert all(run["peak_memory"] > 1e6 and run["flops"] > 0 and run["steps"] == 3 for run in written["runs"])
    assert Path("runs/compare-tiny/compare.png").read_bytes().startswith(b"\x89PNG")
    lines = str(found).splitlines()
    assert lines[0].split()[:3] == ["bleu", "difference", "(95"]
    assert [line.split("  ")[0] for line in lines[1:5]] == [run.name for run in found.runs]
    assert found._repr_html_().count("<table>") == len(first)


def test_what_is_finished_is_not_trained_again(recipe, started):
    first = regard.compare(recipe, vary={"model.width": [8, 12]}, changes=FEW)
    again = regard.compare(recipe, vary={"model.width": [8, 12]}, changes=FEW)
    assert again.to_json() == first.to_json()
    assert started == ["width=8", "width=12"]
    Path("runs/compare-tiny/width=12/report.json").unlink()
    regard.compare(recipe, vary={"model.width": [8, 12, 16]}, changes=FEW)
    assert started[2:] == ["width=12", "width=16"]


def test_a_comparison_that_was_stopped_goes_on(recipe, started, monkeypatch):
    inside, asked = comparing._run, [(0, False), (130, True)]

    def stopping(arguments):
        code, stopped = asked.pop(0) if asked else (0, False)
        return (code, True) if stopped else inside(arguments)

    monkeypatch.setattr(comparing, "_run", stopping)
    with pytest.raises(Interrupted, match=r"stopped; 1 of 2 runs are finished .* run the same command to go on"):
        regard.compare(recipe, vary={"model.width": [8, 12]}, changes=FEW)
    assert len(regard.compare(recipe, vary={"model.width": [8, 12]}, changes=FEW)) == 2
    assert started == ["width=8", "width=12"]


@pytest.mark.usefixtures("started")
def test_a_run_is_the_one_that_train_makes_and_the_vocabulary_is_learned_once(recipe, monkeypatch):
    learned, learn = [], Tokenizers.train
    monkeypatch.setattr(Tokenizers, "train", lambda *given: (learned.append(1), learn(*given))[1])
    found = regard.compare(recipe, vary={"model.dropout": [0.0, 0.2]}, changes=FEW)
    assert len(learned) == 1
    alone = regard.train(recipe, out="alone", changes=[*FEW, "model.dropout=0.2"])
    assert (alone.path / "weights.safetensors").read_bytes() == (found[1].path / "weights.safetensors").read_bytes()


@pytest.mark.usefixtures("started")
def test_another_vocabulary_is_learned_for_its_run(recipe):
    found = regard.compare(recipe, vary={"tokenizer.kind": ["characters", "bytes"]}, changes=FEW)
    sizes = [regard.load(run.path).task.tokenizers.source.size for run in found.runs]
    assert sizes[0] < 10 < 256 <= sizes[1]


@pytest.mark.usefixtures("started")
def test_runs_that_are_judged_on_other_examples_have_no_intervals(recipe):
    for number in (1, 2):
        Path(f"valid{number}.tsv").write_text("0101\t1010\n" * number)
    found = regard.compare(recipe, vary={"data.valid": ["valid1.tsv", "valid2.tsv"]}, changes=FEW)
    assert not found.paired
    assert all(row.keys() == {"value"} for rows in found.differences for row in rows.values())
    assert "not judged on the same examples" in str(found)


@pytest.mark.parametrize(
    ("vary", "changes", "message"),
    [
        ({"model.width": [8, -3]}, [], r"width=-3: .*model\.width"),
        ({"model.score": ["dot", "dott"]}, [], r"score=dott: .*model\.score"),
        ({"model.weight": [1, 2]}, [], r"weight=1: .*model\.weight"),
        ({"training.r_drop": [0.0, 1.0], "training.freeze": [0, 2]}, [], r"freeze=2: .*training\.freeze"),
        ({"model.width": [8]}, [], "one run is nothing to compare"),
        ({}, [], "one run is nothing to compare"),
        ({"model.width": [8, 8]}, [], "model.width has a value twice"),
        ({"model.width": 8}, [], "a list of values is expected"),
        ({"model.score": "dot"}, [], "a list of values is expected"),
        ({"model.width": [8, 12]}, ["model.width=3"], "model.width is varied and set"),
        ({"model.width": [8, None]}, [], "cannot be the value"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_trained(recipe, started, vary, changes, message):
    with pytest.raises(RegardError, match=message):
        regard.compare(recipe, vary=vary, changes=[*FEW, *changes])
    assert started == []
    assert not Path("runs").exists()


def test_a_folder_with_other_runs_is_refused_before_anything_is_trained(recipe, started):
    regard.compare(recipe, vary={"model.width": [8, 12]}, changes=FEW)
    with pytest.raises(RegardError, match=r"width=8: .*trained with another recipe \(data\.hold_out"):
        regard.compare(recipe, vary={"model.width": [8, 12]}, changes=[*FEW, "data.hold_out=7"])
    assert len(started) == 2


@pytest.mark.usefixtures("started")
def test_an_error_of_a_run_names_the_run(recipe):
    Path("words.tsv").write_text("no partner\n")
    with pytest.raises(RegardError, match=r"width=8: words\.tsv:1"):
        regard.compare(recipe, vary={"model.width": [8, 12]}, changes=FEW)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1,2", ["1", "2"]),
        ("a=x, y", ["x", "y"]),
        ("a=[1,2],[3]", ["[1,2]", "[3]"]),
        ('a={p="x,y", q=[1,2]},b', ['{p="x,y", q=[1,2]}', "b"]),
        ("a='1,2',\"3,]4\"", ["'1,2'", '"3,]4"']),
        ("a=b=c,d", ["b=c", "d"]),
    ],
)
def test_values_are_divided_at_commas_outside_of_brackets_and_quotes(text, values):
    assert parse([text]) == {"a": values}


@pytest.mark.parametrize("text", ["model.width", "=1,2", ""])
def test_what_names_no_key_and_values_is_told(text):
    with pytest.raises(RegardError, match="expected KEY=A,B"):
        parse([text])


def test_a_run_has_a_process_of_its_own(recipe):
    """Its peak memory leaves out what this process holds."""
    held = bytearray(700_000_000)
    found = regard.compare(recipe, vary={"model.width": [8, 12]}, changes=FEW)
    assert all(50e6 < run.peak_memory < len(held) for run in found.runs)
