import io
import json
import os
import signal
import warnings
from itertools import count

import numpy as np
import pytest
import safetensors.numpy
import toy_run
from rich.console import Console
from toy_run import config, learn, toy

from regard import durable
from regard.directory import WEIGHTS
from regard.errors import RegardError
from regard.tasks.base import Score
from regard.training import report, train
from regard.training.checkpoint import Checkpoints
from regard.training.watchers import Interrupted, Validation


@pytest.fixture(autouse=True)
def unsynced(monkeypatch):
    """Leave out the waiting for the disk, which only a power cut could tell."""
    monkeypatch.setattr(durable.os, "fsync", lambda _: None)


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def test_a_run_leaves_a_model_directory(tmp_path):
    found = learn(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoints", "curve.png", "report.json", "weights.safetensors"
    ]  # fmt: skip
    assert json.loads((tmp_path / "report.json").read_text()) == found
    assert found["ended"] == "all 40 steps are made"
    assert found["scores"].keys() == {"loss", "accuracy"}
    assert len(found["validations"]) == 8
    assert len(found["history"]) == 10


def test_the_final_weights_are_the_mean_of_the_last_checkpoints(tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoints, "finish", lambda *_: None)
    learn(tmp_path, average=3)
    assert_mean(tmp_path, weights_at(tmp_path, 30, 35, 40))


def test_training_again_changes_nothing(tmp_path):
    first = learn(tmp_path)
    before = contents(tmp_path)
    assert learn(tmp_path) == first
    assert contents(tmp_path) == before


def test_a_budget_of_time_that_is_used_up_stays_so(tmp_path):
    first = learn(tmp_path, minutes=1e-9, checkpoint_every=1)
    assert first["steps"] == 1
    assert learn(tmp_path, minutes=1e-9, checkpoint_every=1) == first
    assert learn(tmp_path, minutes=None)["steps"] == 40


def test_more_steps_go_on_from_the_last(tmp_path):
    learn(tmp_path / "whole", steps=60, average=1)
    learn(tmp_path / "longer", steps=40, average=1)
    found = learn(tmp_path / "longer", steps=60, average=1)
    assert found["steps"] == 60
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "longer")]
    assert weights[0] == weights[1]


def weights_at(directory, *steps):
    return [safetensors.numpy.load_file(directory / "checkpoints" / f"step-{step:08d}" / WEIGHTS) for step in steps]


def assert_mean(directory, checkpoints):
    """The weights of the directory are the mean of those of some checkpoints."""
    for name, weights in safetensors.numpy.load_file(directory / WEIGHTS).items():
        expected = np.mean([each[name] for each in checkpoints], axis=0, dtype=np.float64).astype(np.float32)
        np.testing.assert_array_equal(weights, expected)


@pytest.fixture
def growing(monkeypatch):
    """Validation scores that get better with every validation."""
    scores = count(1)
    monkeypatch.setattr(toy_run, "validate", lambda _: {"accuracy": Score(next(scores) / 8)})


@pytest.mark.usefixtures("growing")
def test_the_last_step_is_validated_and_can_be_chosen(tmp_path):
    found = learn(tmp_path, steps=18, average_of="best", average=1)
    assert [scores["step"] for scores in found["validations"]] == [5, 10, 15, 18]
    assert found["kept"] == [18]
    assert_mean(tmp_path, weights_at(tmp_path, 18))


@pytest.mark.usefixtures("growing")
def test_the_last_step_within_a_limit_of_time_is_validated_too(tmp_path):
    found = learn(tmp_path, minutes=1e-9, average_of="best", average=1)
    assert [scores["step"] for scores in found["validations"]] == found["kept"] == [1]
    assert learn(tmp_path, minutes=1e-9, average_of="best", average=1) == found


def test_an_older_step_that_is_better_is_kept_and_said(tmp_path, monkeypatch):
    scores = iter([25.0, 37.5, 31.0, 30.0, 12.0])
    monkeypatch.setattr(toy_run, "validate", lambda _: {"accuracy": Score(next(scores))})
    said = io.StringIO()
    found = learn(tmp_path, steps=18, average_of="best", average=1, console=Console(file=said, width=200))
    assert found["kept"] == [10]
    assert_mean(tmp_path, weights_at(tmp_path, 10))
    assert "the weights are those of step 10, the best of 4 validations by accuracy: 37.5" in said.getvalue()


@pytest.mark.parametrize(
    ("changes", "kept", "sentence"),
    [
        ({"average": 1}, [18], "the weights are those of step 18, the last one"),
        ({"average": 2}, [15, 18], "the weights are the mean of those of steps 15 and 18, the last 2 checkpoints"),
        (
            {"average": 3, "average_of": "best"},
            [10, 15, 18],
            "the weights are the mean of those of steps 10, 15 and 18, the best 3 of 4 validations by accuracy: "
            "0.25, 0.375 and 0.5",
        ),
    ],
)
@pytest.mark.usefixtures("growing")
def test_a_run_says_which_steps_it_kept(tmp_path, changes, kept, sentence):
    said = io.StringIO()
    assert learn(tmp_path, steps=18, console=Console(file=said, width=200), **changes)["kept"] == kept
    assert sentence in said.getvalue()


def test_nothing_is_validated_at_the_end_where_nothing_ever_is(tmp_path):
    assert learn(tmp_path, steps=18, validate_every=0)["validations"] == []


@pytest.mark.parametrize("last", [17, 18])
@pytest.mark.parametrize("which", ["last", "best"])
def test_interrupted_before_or_while_the_last_step_is_validated_a_run_ends_the_same(tmp_path, monkeypatch, last, which):
    whole = learn(tmp_path / "whole", steps=18, average_of=which)
    validate = Validation.now

    def poke(run):
        if run.step == last:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Validation, "now", lambda self, run: (poke(run), validate(self, run)))
    monkeypatch.setattr(train.watchers, "update_moving_average", poke if last == 17 else lambda _: None)
    with pytest.raises(Interrupted):
        learn(tmp_path / "other", steps=18, average_of=which)
    monkeypatch.undo()
    found = learn(tmp_path / "other", steps=18, average_of=which)
    assert (found["kept"], found["validations"]) == (whole["kept"], whole["validations"])
    weights = [(tmp_path / name / WEIGHTS).read_bytes() for name in ("whole", "other")]
    assert weights[0] == weights[1]


def damage(path, how):
    if how == "missing":
        path.unlink()
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        path.write_text("[" * 100_000 if how == "deep" else how)


DAMAGES = ["", "garbage", "[]", "{}", "null", "missing", "cut", "deep"]


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", [WEIGHTS, "report.json"])
def test_damaged_results_are_written_again_from_the_checkpoint(tmp_path, name, how):
    first = learn(tmp_path, average=1)
    before = contents(tmp_path)
    damage(tmp_path / name, how)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = learn(tmp_path, average=1)
    assert {**found, "seconds": 0} == {**first, "seconds": 0}
    assert {**contents(tmp_path), "report.json": b""} == {**before, "report.json": b""}
    assert json.loads((tmp_path / "report.json").read_bytes()) == found
    assert all(f"{name} is damaged" in str(warning.message) for warning in warned)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_report_leaves_averaged_weights_as_they_are(tmp_path, how):
    """The checkpoints they are the mean of are gone."""
    first = learn(tmp_path, average=3)
    before = contents(tmp_path)[WEIGHTS]
    damage(tmp_path / "report.json", how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert learn(tmp_path, average=3)["kept"] == first["kept"] == [30, 35, 40]
    assert contents(tmp_path)[WEIGHTS] == before


@pytest.mark.parametrize("where", ["curve.png", "report.json", "weights.safetensors"])
def test_a_run_that_died_at_the_very_end_is_finished_the_same(tmp_path, where, monkeypatch):
    learn(tmp_path / "whole")
    write = durable.write_file

    def die(path, content):
        if path.name == where:
            raise SystemExit
        write(path, content)

    monkeypatch.setattr(train.durable, "write_file", die)
    with pytest.raises(SystemExit):
        learn(tmp_path / "other")
    monkeypatch.setattr(train.durable, "write_file", write)
    learn(tmp_path / "other")
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "other")]
    assert weights[0] == weights[1]


def test_interrupted_by_ctrl_c_a_run_goes_on_with_the_same_command(tmp_path, monkeypatch):
    """Asked at step 13, while validating at 15 and in between: each time one sitting less is left."""
    learn(tmp_path / "whole")
    validate = Validation.__call__
    for moment in (3, 13, 15, 40):

        def poke(self, run, moment=moment):
            if run.step == moment:
                os.kill(os.getpid(), signal.SIGINT)
            validate(self, run)

        monkeypatch.setattr(Validation, "__call__", poke)
        with pytest.raises(Interrupted, match=f"stopped at step {moment} of 40"):
            learn(tmp_path / "other")
    monkeypatch.undo()
    learn(tmp_path / "other")
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "other")]
    assert weights[0] == weights[1]


def test_early_stopping_survives_an_interruption(tmp_path, monkeypatch):
    whole = learn(tmp_path / "whole", steps=400, patience=3)
    assert whole["steps"] < 400
    assert "validation was best at step" in whole["ended"]
    monkeypatch.setattr(report, "build", lambda *_, **__: pytest.exit("killed"))
    with pytest.raises(pytest.exit.Exception):
        learn(tmp_path / "other", steps=400, patience=3)
    monkeypatch.undo()
    assert learn(tmp_path / "other", steps=400, patience=3)["steps"] == whole["steps"]


def test_a_finished_model_without_checkpoints_is_not_overwritten(tmp_path):
    learn(tmp_path)
    for step in Checkpoints(tmp_path / "checkpoints").steps():
        durable.remove_directory(tmp_path / "checkpoints" / f"step-{step:08d}")
    before = contents(tmp_path)
    with pytest.raises(RegardError, match="finished model and no checkpoint to resume from"):
        learn(tmp_path)
    assert contents(tmp_path) == before


def test_seeds_make_different_models(tmp_path):
    learn(tmp_path / "one", seed=1)
    learn(tmp_path / "two", seed=2)
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("one", "two")]
    assert weights[0] != weights[1]


def test_bfloat16_is_for_products_and_float32_for_weights(tmp_path):
    learn(tmp_path / "rounded", precision="bfloat16")
    learn(tmp_path / "exact", precision="float32")
    kept = [safetensors.numpy.load_file(tmp_path / name / "weights.safetensors") for name in ("rounded", "exact")]
    for rounded, exact in zip(*(weights.values() for weights in kept), strict=True):
        assert rounded.dtype == np.float32
        assert 0 < np.abs(rounded - exact).max() < 0.1


def test_tensorboard_is_written_beside(tmp_path):
    learn(tmp_path, tensorboard=True)
    assert list((tmp_path / "tensorboard").glob("events.out.tfevents.*"))


def test_the_toy_is_what_it_says():
    assert toy(steps=3).config == config(steps=3)
