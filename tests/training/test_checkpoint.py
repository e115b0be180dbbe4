import errno
import json
import random
import re
import resource
import shutil
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from torch import nn
from toy_checkpoints import dies_at, everything, rate, train
from toy_run import Following, Predictor, toy, validate

import regard.training
from faulty_disk import Death, Killed, failing
from regard import durable
from regard.directory import WEIGHTS
from regard.errors import RegardError
from regard.training import randomness, watchers
from regard.training.checkpoint import Checkpoints
from regard.training.loop import fit
from regard.training.stored import STATE, TRAINING
from regard.training.weights import load_weights, to_bytes, weights_of


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize(
    "changes",
    [{}, {"ema": 0.9}, {"average_of": "best"}, {"checkpoint_every": 4, "validate_every": 3}, {"optimiser": "muon"}],
)
def test_interrupted_at_every_step_a_run_ends_the_same(tmp_path, changes):
    whole, checkpoints = train(tmp_path / "whole", steps=17, **changes)
    expected, final = everything(whole), to_bytes(checkpoints.final_weights(whole))
    for step in range(1, 18):
        with pytest.raises(Killed):
            train(tmp_path / str(step), dies_at(step), steps=17, **changes)
        random.random(), np.random.random(), torch.rand(7)
        resumed, checkpoints = train(tmp_path / str(step), steps=17, **changes)
        assert everything(resumed) == expected
        assert to_bytes(checkpoints.final_weights(resumed)) == final


@pytest.mark.usefixtures("unsynced")
def test_a_checkpoint_in_between_changes_nothing(tmp_path):
    """As after Ctrl-C: at step 13, where none was due."""
    whole, checkpoints = train(tmp_path / "whole")
    expected = to_bytes(checkpoints.final_weights(whole))

    def save_and_leave(run):
        if run.step == 13:
            Checkpoints(tmp_path / "other").save(run)
            raise Killed

    with pytest.raises(Killed):
        train(tmp_path / "other", last=[save_and_leave])
    assert 13 in Checkpoints(tmp_path / "other").steps()
    resumed, checkpoints = train(tmp_path / "other")
    assert everything(resumed) == everything(whole)
    assert to_bytes(checkpoints.final_weights(resumed)) == expected


SAVED_TWICE = {"steps": 4, "checkpoint_every": 2, "validate_every": 2, "ema": 0.9}


def train_and_save_twice(directory, promised, **changes):
    """As a run with a time limit ends: its last step is saved once more, with the time that is used up.

    The steps whose saving came to its end are added to `promised`.
    """

    class Promising(Checkpoints):
        def save(self, run):
            super().save(run)
            promised.append(run.step)

    run, checkpoints = toy(**SAVED_TWICE, **changes), Promising(directory)
    randomness.seed(run.config.seed)
    checkpoints.resume(run)
    usual = [watchers.update_moving_average, watchers.record, watchers.Validation(validate)]
    fit(run, Following(), schedule=rate, watchers=[*usual, watchers.Saving(checkpoints)])
    run.seconds += 1
    checkpoints.save(run)
    return run, checkpoints


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("changes", [{"keep": 1, "average": 1}, {"keep": 2, "average": 2}], ids=str)
def test_killed_at_any_operation_on_files_a_run_ends_the_same(tmp_path, changes):
    """What was saved is found again, even if the process that goes on is killed too; no checkpoint is ever damaged."""
    whole, checkpoints = train_and_save_twice(tmp_path / "whole", [], **changes)
    expected, final = everything(whole), to_bytes(checkpoints.final_weights(whole))
    for moment in count():
        directory, promised = tmp_path / str(moment), [0]
        try:
            with failing(Death(moment)):
                train_and_save_twice(directory, promised, **changes)
            break
        except Killed:
            pass
        try:
            with failing(Death(moment % 13)):
                train_and_save_twice(directory, promised, **changes)
        except Killed:
            pass
        found = toy(**SAVED_TWICE, **changes)
        assert Checkpoints(directory).resume(found) or promised == [0]
        assert found.step >= max(promised)
        resumed, checkpoints = train_and_save_twice(directory, promised, **changes)
        assert everything(resumed) == expected
        assert to_bytes(checkpoints.final_weights(resumed)) == final
    assert moment > 50


def test_a_full_disk_is_said_and_the_last_checkpoint_stays(tmp_path, monkeypatch):
    """The disk is full from the third checkpoint on, when it is half written."""
    whole, _ = train(tmp_path / "whole", steps=20)

    def fill(run):
        if run.step == 15:
            monkeypatch.setattr(durable.os, "fsync", full)

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with (
        pytest.raises(RegardError, match="step-00000020: the disk is full") as caught,
        pytest.warns(UserWarning, match="the disk is full") as said,
    ):
        train(tmp_path / "other", fill, steps=20)
    assert ["step-00000015" in str(each.message) for each in said] == [True, False]
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == ["step-00000005", "step-00000010"]
    monkeypatch.undo()
    resumed, _ = train(tmp_path / "other", steps=20)
    assert everything(resumed) == everything(whole)


def test_a_write_that_the_system_cuts_short_is_said(tmp_path):
    """A real refusal in the middle of a file: none may grow beyond 2 000 bytes."""
    run, checkpoints = train(tmp_path, steps=5)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    run.step = 6
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
        with pytest.raises(RegardError, match="step-00000006: File too large"):
            checkpoints.save(run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000005"]


@pytest.mark.usefixtures("unsynced")
def test_the_newest_are_whole_and_older_ones_keep_what_is_averaged(tmp_path):
    train(tmp_path, steps=40, keep=2, average=4, validate_every=0)
    held = {path.name: sorted(file.name for file in path.iterdir()) for path in tmp_path.iterdir()}
    thin, whole = [STATE, WEIGHTS], [STATE, TRAINING, WEIGHTS]
    assert held == {"step-00000025": thin, "step-00000030": thin, "step-00000035": whole, "step-00000040": whole}


@pytest.mark.usefixtures("unsynced")
def test_the_best_is_kept_however_old(tmp_path):
    run, checkpoints = train(tmp_path, steps=10, keep=1, average=1)
    run.validations[-1]["loss"] = -1.0
    for run.step in (15, 20, 25):
        run.validations.append({"step": run.step, "loss": 3.0})
        checkpoints.save(run)
    assert checkpoints.steps() == [10, 25]
    checkpoints.finish(run)
    assert checkpoints.steps() == [10, 25]


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize(("which", "members"), [("last", [15, 20, 25]), ("best", [5, 10, 25])])
def test_final_weights_are_the_mean_of_numpy(tmp_path, which, members):
    losses = iter([0.2, 0.1, 0.5, 0.4, 0.3])

    def invent(run):
        """Scores whose best three are at steps 5, 10 and 25."""
        if run.step % 5 == 0:
            run.validations.append({"step": run.step, "loss": next(losses)})

    run, checkpoints = toy(steps=25, average=3, average_of=which, keep=1), Checkpoints(tmp_path)
    copies = {}

    def copy(run):
        if run.step % 5 == 0:
            copies[run.step] = {name: weights.numpy().copy() for name, weights in weights_of(run.model).items()}

    fit(run, Following(), schedule=rate, watchers=[invent, copy, watchers.Saving(checkpoints)])
    assert checkpoints.members(run) == members
    for name, weights in checkpoints.final_weights(run).items():
        expected = np.mean([copies[step][name] for step in members], axis=0, dtype=np.float64).astype(np.float32)
        np.testing.assert_array_equal(weights.numpy(), expected)


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize(("steps", "members"), [(25, [15, 20, 25]), (20, [10, 15, 20])])
def test_an_average_leaves_out_the_first_half_of_a_run(tmp_path, steps, members):
    run, checkpoints = train(tmp_path, steps=steps, average=9)
    assert checkpoints.members(run) == members


def test_with_a_moving_average_it_is_what_a_checkpoint_offers(tmp_path):
    run, _ = train(tmp_path, steps=5, ema=0.9)
    saved = safetensors.torch.load_file(tmp_path / "step-00000005" / WEIGHTS)
    own = safetensors.torch.load_file(tmp_path / "step-00000005" / TRAINING)
    for name, weights in weights_of(run.model).items():
        assert torch.equal(saved[name], run.moving.weights[name])
        assert torch.equal(own[f"model/{name}"], weights)
        assert not torch.equal(saved[name], weights)


def test_shared_weights_are_written_once_and_shared_again():
    model, other = Predictor(), Predictor()
    nn.init.normal_(model.embed.weight)
    assert "output.weight" not in weights_of(model)
    load_weights(other, safetensors.torch.load(to_bytes(weights_of(model))), origin=Path("here"))
    assert torch.equal(other.output.weight, model.embed.weight)
    assert other.output.weight is other.embed.weight


def test_nothing_in_a_checkpoint_or_in_the_code_is_pickle(tmp_path):
    train(tmp_path, steps=5)
    for path in (tmp_path / "step-00000005").iterdir():
        if path.suffix == ".json":
            json.loads(path.read_text())
        else:
            safetensors.numpy.load_file(path)
    sources = list(Path(regard.training.__file__).parent.glob("*.py"))
    assert len(sources) > 10
    unsafe = re.compile(r"pickle|(?<!safetensors\.)torch\.(load|save)\b|shelve|marshal")
    assert [source.name for source in sources if unsafe.search(source.read_text())] == []


def test_what_a_kill_left_half_written_is_ignored_and_removed(tmp_path):
    train(tmp_path, steps=5)
    shutil.copytree(tmp_path / "step-00000005", tmp_path / f"step-00000006{durable.PARTIAL}")
    run = toy(steps=5)
    assert Checkpoints(tmp_path).resume(run)
    assert run.step == 5
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000005"]
