"""Checkpoints that are not what was written: passed over, with a warning, for the one before."""

import hashlib
import json
import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from torch import nn
from toy_checkpoints import dies_at, everything, train
from toy_run import toy

from faulty_disk import Killed
from regard.directory import WEIGHTS
from regard.errors import RegardError
from regard.training.checkpoint import Checkpoints
from regard.training.stored import STATE, TRAINING
from regard.training.weights import to_bytes


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("name", [WEIGHTS, TRAINING, STATE])
@pytest.mark.parametrize("damage", [truncate, flip_a_bit, Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path, name, damage):
    whole, checkpoints = train(tmp_path, steps=20)
    expected = to_bytes(checkpoints.final_weights(whole))
    damage(tmp_path / "step-00000020" / name)
    with pytest.warns(UserWarning, match=rf"step-00000020 is damaged \({name}"):
        resumed, checkpoints = train(tmp_path, steps=20)
    assert everything(resumed) == everything(whole)
    assert to_bytes(checkpoints.final_weights(resumed)) == expected


@pytest.mark.usefixtures("unsynced")
def test_with_nothing_but_damage_a_run_begins_again(tmp_path):
    whole, _ = train(tmp_path, steps=10)
    for path in tmp_path.glob("*/" + STATE):
        path.write_text("{}")
    with pytest.warns(UserWarning, match="is damaged") as warned:
        resumed, _ = train(tmp_path, steps=10)
    assert len(warned) == 2
    assert everything(resumed) == everything(whole)


@pytest.mark.usefixtures("unsynced")
def test_an_average_leaves_out_what_is_damaged(tmp_path):
    run, checkpoints = train(tmp_path, steps=20)
    truncate(tmp_path / "step-00000010" / WEIGHTS)
    with pytest.warns(UserWarning, match="step-00000010 is damaged .* averaging without it"):
        found = checkpoints.final_weights(run)
    two = [safetensors.numpy.load_file(tmp_path / f"step-{step:08d}" / WEIGHTS) for step in (15, 20)]
    for name, weights in found.items():
        expected = np.mean([each[name] for each in two], axis=0, dtype=np.float64).astype(np.float32)
        np.testing.assert_array_equal(weights.numpy(), expected)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def forge(checkpoint, change_state=lambda state: state, weights=to_bytes, training=to_bytes):
    """Change a checkpoint and make its checksums right again."""
    state = json.loads((checkpoint / STATE).read_bytes())["state"]
    for name, change in ((WEIGHTS, weights), (TRAINING, training)):
        content = change(safetensors.torch.load_file(checkpoint / name))
        (checkpoint / name).write_bytes(content)
        state["sha256"][name] = sha256(content)
    state = change_state(state)
    whole = {"sha256": sha256(json.dumps(state, sort_keys=True).encode()), "state": state}
    (checkpoint / STATE).write_text(json.dumps(whole))


def put(*path, value):
    """A change to one place in the state."""

    def change(state):
        *outer, last = path
        place = state
        for key in outer:
            place = place[key]
        place[last] = value
        return state

    return change


def without(name):
    def change(state):
        del state[name]
        return state

    return change


NUMBERS = ("step", "epoch", "position", "tokens", "seconds", "learning_seconds", "learning_rate", "loss", "recent")
HUGE = 10**400
FORGED_STATES = {
    **{f"no {name}": without(name) for name in (*NUMBERS, "history", "validations", "random", "sha256")},
    **{f"{name} a text": put(name, value="7") for name in (*NUMBERS, "history", "validations", "random", "sha256")},
    **{f"{name} null": put(name, value=None) for name in (*NUMBERS, "history", "validations", "random", "sha256")},
    **{f"{name} true": put(name, value=True) for name in NUMBERS},
    **{f"{name} negative": put(name, value=-1) for name in ("step", "epoch", "position", "tokens", "seconds")},
    **{f"{name} huge": put(name, value=HUGE) for name in ("step", "epoch", "position", "tokens", "seconds", "loss")},
    **{f"{name} infinite": put(name, value=float("inf")) for name in ("seconds", "learning_rate", "loss")},
    "a list": lambda _: [],
    "a number": lambda _: 3,
    "step 0": put("step", value=0),
    "another step": put("step", value=19),
    "no checksum of the weights": put("sha256", value={TRAINING: "0" * 64}),
    "checksums that are numbers": put("sha256", value={WEIGHTS: 1, TRAINING: 2}),
    "a point that is a number": put("history", 0, value=3),
    "a point without a loss": put("history", 0, value={"step": 4}),
    "a point with a text": put("history", 0, "loss", value="x"),
    "a point of step 21": put("history", 0, "step", value=21),
    "a point of no step": put("history", 0, "step", value=float("nan")),
    "a validation of no step": put("validations", 0, value={"loss": 1.0}),
    "a validation of step -5": put("validations", 0, "step", value=-5),
    "a validation of a huge step": put("validations", 0, "step", value=HUGE),
    "a score in a list": put("validations", 0, "loss", value=[1.0]),
    "no numpy": put("random", value={"python": [3, [0] * 625, None]}),
    "another generator": put("random", "numpy", 0, value="PCG64"),
    "too few words": put("random", "numpy", 1, value=[1, 2, 3]),
    "words that are too long": put("random", "numpy", 1, value=[2**32] * 624),
    "a place beyond the words": put("random", "numpy", 2, value=625),
    "python of version 9": put("random", "python", 0, value=9),
    "a place beyond the words of python": put("random", "python", 1, value=[0] * 624 + [700]),
}  # fmt: skip


def changed(name, tensor):
    """A change to one tensor; None removes it."""

    def change(tensors):
        found = {**tensors, name: tensor}
        return to_bytes({name: tensor for name, tensor in found.items() if tensor is not None})

    return change


STEP, FIRST, TORCH = "optimiser/hidden.weight/step", "optimiser/hidden.weight/exp_avg", "random/torch"
FORGED_TRAINING = {
    "a model of another precision": changed("model/hidden.weight", torch.zeros(7, 7).double()),
    "no moment": changed(FIRST, None),
    "a moment of another shape": changed(FIRST, torch.zeros(7)),
    "a moment of whole numbers": changed(FIRST, torch.zeros(7, 7).long()),
    "many counts": changed(STEP, torch.zeros(3)),
    "a moment more": changed("optimiser/hidden.weight/third", torch.zeros(7, 7)),
    "no random state": changed(TORCH, None),
    "a short random state": changed(TORCH, torch.zeros(3, dtype=torch.uint8)),
    "a random state of floats": changed(TORCH, torch.zeros(5056)),
    "no safetensors": lambda _: b"nothing of the kind",
    "nothing": lambda _: b"",
}
FORGED_WEIGHTS = {
    "another precision": changed("hidden.weight", torch.zeros(7, 7).half()),
    "no safetensors": lambda _: b"\xff" * 64,
}
FORGERIES = [
    *(pytest.param({"change_state": change}, id=f"state: {name}") for name, change in FORGED_STATES.items()),
    *(pytest.param({"training": change}, id=f"training: {name}") for name, change in FORGED_TRAINING.items()),
    *(pytest.param({"weights": change}, id=f"weights: {name}") for name, change in FORGED_WEIGHTS.items()),
]
OF_ANOTHER_MODEL = [  # as if the recipe had been changed
    {"weights": changed("hidden.weight", torch.zeros(7, 5))},
    {"weights": changed("norm.weight", None)},
    {"weights": changed("other", torch.zeros(3))},
    {"training": changed("model/hidden.weight", torch.zeros(7, 5))},
    {"training": changed("model/hidden.weight", None)},
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of 20 steps with its moving average, to be copied and damaged; what it ended with."""
    directory = tmp_path_factory.mktemp("finished")
    run, checkpoints = train(directory, steps=20, ema=0.9)
    return directory, everything(run), to_bytes(checkpoints.final_weights(run))


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("forgery", [*FORGERIES, *OF_ANOTHER_MODEL])
def test_a_checkpoint_with_right_checksums_and_wrong_content_is_damaged(tmp_path, finished, forgery):
    directory, expected, final = finished
    shutil.copytree(directory, tmp_path, dirs_exist_ok=True)
    forge(tmp_path / "step-00000020", **forgery)
    with pytest.warns(UserWarning, match="step-00000020 is damaged .*; resuming from the one before it") as warned:
        resumed, checkpoints = train(tmp_path, steps=20, ema=0.9)
    assert len(warned) == 1
    assert everything(resumed) == expected
    assert to_bytes(checkpoints.final_weights(resumed)) == final


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("forgery", FORGERIES)
def test_where_all_is_forged_a_run_begins_again_as_if_nothing_were_there(tmp_path, finished, forgery):
    directory, expected, _ = finished
    shutil.copytree(directory / "step-00000020", tmp_path / "step-00000020")
    forge(tmp_path / "step-00000020", **forgery)
    with pytest.warns(UserWarning, match="step-00000020 is damaged"):
        resumed, _ = train(tmp_path, steps=20, ema=0.9)
    assert everything(resumed) == expected


@pytest.mark.parametrize("forgery", OF_ANOTHER_MODEL)
def test_where_all_is_of_another_model_nothing_is_begun(tmp_path, finished, forgery):
    shutil.copytree(finished[0] / "step-00000020", tmp_path / "step-00000020")
    forge(tmp_path / "step-00000020", **forgery)
    with pytest.raises(RegardError, match="does not fit the model"):
        train(tmp_path, steps=20, ema=0.9)


def test_an_untouched_forgery_is_whole(tmp_path, finished):
    """So that what the tests above find is the change alone."""
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    forge(tmp_path / "step-00000020")
    run = toy(steps=20, ema=0.9)
    assert Checkpoints(tmp_path).resume(run)
    assert run.step == 20


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("depth", [2000, 200_000])
@pytest.mark.parametrize("place", ["{}", '{{"sha256": "", "state": {}}}', '{{"sha256": "", "state": {{"step": {}}}}}'])
def test_a_state_that_is_nested_too_deeply_is_damaged(tmp_path, finished, depth, place):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / "step-00000020" / STATE).write_text(place.format("[" * depth + "]" * depth))
    with pytest.warns(UserWarning, match="step-00000020 is damaged"):
        resumed, _ = train(tmp_path, steps=20, ema=0.9)
    assert everything(resumed) == finished[1]


def stray_file(path):
    path.write_bytes(b"no checkpoint")


def stray_directory(path):
    path.mkdir()


def dangling_link(path):
    path.symlink_to("nowhere")


def link_to_a_file(path):
    path.with_name("file").write_bytes(b"")
    path.symlink_to(path.with_name("file"))


def link_to_itself(path):
    path.symlink_to(path)


def full_of_directories(path):
    for name in (STATE, WEIGHTS, TRAINING):
        (path / name).mkdir(parents=True)


def full_of_pipes(path):
    path.mkdir()
    for name in (STATE, WEIGHTS, TRAINING):
        os.mkfifo(path / name)


STRAYS = [
    stray_file,
    stray_directory,
    dangling_link,
    link_to_a_file,
    link_to_itself,
    full_of_directories,
    full_of_pipes,
]


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("stray", STRAYS)
@pytest.mark.parametrize("step", [3, 15, 20, 77])
def test_a_stray_named_like_a_checkpoint_is_passed_over(tmp_path, stray, step):
    """At resuming with a warning; and where it lies below, at and above the steps that are saved and thinned."""
    expected = everything(train(tmp_path / "whole", steps=20, keep=1)[0])
    with pytest.raises(Killed):
        train(tmp_path / "other", dies_at(12), steps=20, keep=1)
    stray(tmp_path / "other" / f"step-{step:08d}")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        resumed, checkpoints = train(tmp_path / "other", steps=20, keep=1)
        assert everything(resumed) == expected
        checkpoints.finish(resumed)
        found = toy(steps=20)
        assert Checkpoints(tmp_path / "other").resume(found)
    assert {str(warning.message).split()[0] for warning in warned} <= {str(tmp_path / "other" / f"step-{step:08d}")}
    assert bool(warned) == (step > 10)
    assert found.step == 20


@pytest.mark.usefixtures("unsynced")
def test_a_stray_does_not_count_among_the_newest_that_are_kept(tmp_path):
    run, checkpoints = train(tmp_path, steps=10, keep=2, average=1)
    stray_file(tmp_path / "step-00000012")
    run.step = 15
    checkpoints.save(run)
    assert checkpoints.steps() == [10, 15]
    assert (checkpoints.path(10) / TRAINING).exists()


def test_a_run_whose_directory_was_removed_says_so(tmp_path):
    run, checkpoints = train(tmp_path / "run" / "checkpoints", steps=5)
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(RegardError, match="run was removed while training"):
        checkpoints.save(run)
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("unsynced")
def test_an_older_checkpoint_that_fits_is_taken_before_a_newer_of_another_model(tmp_path):
    train(tmp_path, steps=10)
    forge(tmp_path / "step-00000010", weights=changed("hidden.bias", torch.zeros(3)))
    run = toy(steps=10)
    with pytest.warns(UserWarning, match=r"step-00000010 is damaged .*hidden.bias is \(3,\) there"):
        assert Checkpoints(tmp_path).resume(run)
    assert run.step == 5


@pytest.mark.usefixtures("unsynced")
def test_weights_of_another_shape_are_not_averaged(tmp_path):
    run, checkpoints = train(tmp_path, steps=20)
    expected = to_bytes(safetensors.torch.load_file(tmp_path / "step-00000020" / WEIGHTS))
    for step in (10, 15):
        (tmp_path / f"step-{step:08d}" / TRAINING).write_bytes(to_bytes({}))
        forge(tmp_path / f"step-{step:08d}", weights=changed("hidden.bias", torch.zeros(3)))
    with pytest.warns(UserWarning, match="is damaged .* averaging without it") as warned:
        found = checkpoints.final_weights(run)
    assert len(warned) == 2
    assert to_bytes(found) == expected


def test_weights_of_another_model_are_refused_by_name(tmp_path):
    train(tmp_path, steps=5)
    run = toy(steps=5)
    run.model.hidden = nn.Linear(7, 11)
    with pytest.raises(
        RegardError, match=r"step-00000005 does not fit the model: hidden.bias is \(7,\) there and \(11,\)"
    ):
        Checkpoints(tmp_path).resume(run)
