import json
import os
import signal

import numpy as np
import pytest
import safetensors.numpy
from toy_run import config, learn, toy

from regard import durable
from regard.errors import RegardError
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
    found = safetensors.numpy.load_file(tmp_path / "weights.safetensors")
    saved = [
        safetensors.numpy.load_file(tmp_path / "checkpoints" / f"step-{step:08d}" / "weights.safetensors")
        for step in (30, 35, 40)
    ]
    for name, weights in found.items():
        expected = np.mean([each[name] for each in saved], axis=0, dtype=np.float64).astype(np.float32)
        np.testing.assert_array_equal(weights, expected)


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
    with pytest.raises(RegardError, match="finished model and no checkpoint to go on from"):
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
