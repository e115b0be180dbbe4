"""`regard compare` on the command line."""

import json
import sys
from pathlib import Path

import pytest

from regard.api import comparing, trial


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """A recipe and its settings; runs are made in this process."""
    monkeypatch.chdir(tmp_path)
    Path("texts.tsv").write_text(
        "".join(f"film {n} is {word}\t{word}\n" for n in range(15) for word in ("good", "bad"))
    )

    def run(arguments):
        monkeypatch.setattr(sys, "argv", ["trial", *arguments])
        trial.main()
        return 0, False

    monkeypatch.setattr(comparing, "_run", run)
    few = ["data.train=texts.tsv", "model.layers=1", "model.heads=2", "training.steps=2", "training.warmup=1"]
    return ["labels", *(part for change in few for part in ("--set", change))]


def test_a_table_and_json(call, settings):
    table = call("compare", *settings, "--vary", "model.width=8,16", "-o", "both")
    assert table.code == 0, table.err
    lines = table.out.splitlines()
    assert lines[0].split()[0] == "accuracy"
    assert [line.split()[0] for line in lines[1:3]] == ["width=8", "width=16"]
    assert "1 of 2: width=8" in table.err
    assert lines[-1].startswith("the models are in both, the numbers in both/compare.json")
    found = json.loads(call("compare", *settings, "--vary", "model.width=8,16", "-o", "both", "--json").out)
    assert found == json.loads(Path("both/compare.json").read_text())
    assert [run["name"] for run in found["runs"]] == ["width=8", "width=16"]


def test_minutes_are_those_of_each_run(call, settings):
    asked = ["--vary", "model.width=8,16", "--minutes", "0.00001", "--json"]
    found = json.loads(call("compare", *settings, *asked).out)
    assert [run["steps"] for run in found["runs"]] == [1, 1]


def test_an_impossible_value_is_one_line(call, settings):
    told = call("compare", *settings, "--vary", "model.width=8,many")
    assert told.code == 2
    assert "width=many" in told.err
    assert "model.width" in told.err
    assert not Path("runs").exists()
