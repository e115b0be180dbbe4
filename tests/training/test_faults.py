"""Faults of training: memory that does not suffice, losses that are not finite, full disks, data that vanishes."""

import json
import math
import resource
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
import toy_run
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_run import Batch, Cycle, Following, learn, toy, validate

from faulty_disk import FullDisk, failing
from regard import durable
from regard.errors import RegardError
from regard.training import watchers
from regard.training.checkpoint import Checkpoints
from regard.training.distribution import Crew
from regard.training.learner import Learner
from regard.training.loop import fit, gradients
from regard.training.weights import to_bytes, weights_of

GIGABYTE = 1 << 30


def rate(step):
    return 0.003 * step


def moments(run):
    states = run.optimiser.state_dict()["state"]
    return {f"{index}/{name}": tensor for index, state in states.items() for name, tensor in state.items()}


def state(run):
    """All that a step changes, as bytes and numbers."""
    shadow = run.moving.weights if run.moving else {}
    return [to_bytes(each) for each in (weights_of(run.model), moments(run), shadow)], run.step, run.tokens


@contextmanager
def room_for(amount: int) -> Iterator[None]:
    """Within, the system gives this process so many bytes more and not one beyond."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + amount, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


# memory


class Roomy(Following):
    """A loss that needs a gigabyte for each row, which it never touches."""

    def __init__(self) -> None:
        super().__init__(noise=0)

    def loss(self, model, batch):
        room = torch.empty(batch.targets, GIGABYTE // 4)
        return super().loss(model, batch) + 0 * len(room)


class Limited(Following):
    """A loss that lacks memory for more than some rows, and says so in one of several ways."""

    def __init__(self, most: int, error: Exception, **options: float) -> None:
        super().__init__(**options)
        self.most, self.error = most, error

    def loss(self, model, batch):
        if batch.targets > self.most:
            raise self.error
        return super().loss(model, batch)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the size of a process is found in /proc")
def test_a_step_that_does_not_fit_into_memory_is_made_in_parts():
    """The largest batch has 11 rows and needs 11 GB where 4.5 are left: neither it nor its halves fit."""
    plain, tight = toy(dropout=0, steps=12), toy(dropout=0, steps=12)
    fit(plain, Following(noise=0), schedule=rate)
    with room_for(9 * GIGABYTE // 2), pytest.warns(UserWarning, match="divided into [24] parts") as said:
        fit(tight, Roomy(), schedule=rate)
    assert len(said) == 2
    assert (tight.parts, tight.step, tight.tokens) == (4, plain.step, plain.tokens)
    assert (tight.epoch, tight.position) == (plain.epoch, plain.position)
    for name, weights in weights_of(plain.model).items():
        torch.testing.assert_close(weights_of(tight.model)[name], weights, rtol=1e-3, atol=1e-5)


ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory"),
    MemoryError(),
    RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    RuntimeError("std::bad_alloc"),
]


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_every_error_of_an_allocator_is_known(error):
    run = toy(steps=8)
    with pytest.warns(UserWarning, match="into 2 parts, which takes longer"):
        fit(run, Limited(6, error), schedule=rate)
    assert (run.parts, run.step) == (2, 8)


def test_a_row_that_does_not_fit_ends_the_run_and_other_errors_are_left_alone():
    with pytest.raises(MemoryError), warnings.catch_warnings(action="ignore"):
        fit(toy(), Limited(0, MemoryError()), schedule=rate)
    with pytest.raises(RuntimeError, match="shapes"):
        fit(toy(), Limited(0, RuntimeError("shapes")), schedule=rate)


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(1, 13), min_size=1, max_size=4), parts=st.integers(2, 16), seed=st.integers(0, 9))
def test_parts_have_the_gradient_of_the_whole(sizes, parts, seed):
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(toy_run.SYMBOLS, (size,), generator=generator) for size in sizes]
    group = [Batch(symbols, (3 * symbols + 1) % toy_run.SYMBOLS) for symbols in rows]
    found = []
    for number in (1, parts):
        run = toy(dropout=0)
        run.parts = number
        learner = Learner(run.model, Following(noise=0))
        total = gradients(run, learner, group, sum(sizes), Crew())
        found.append((total, [parameter.grad for parameter in run.model.parameters()]))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-6)


def test_a_run_in_parts_is_resumed_to_the_bit(tmp_path, monkeypatch):
    """Parts change the order of summation, so a resumed run must have as many."""
    monkeypatch.setattr(toy_run, "Following", lambda: Limited(6, MemoryError()))

    def dies(run):
        if run.step == 23:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="not enough memory"):
        learn(tmp_path / "whole")
    average = watchers.update_moving_average
    monkeypatch.setattr(watchers, "update_moving_average", dies)
    with pytest.warns(UserWarning, match="not enough memory"), pytest.raises(KeyboardInterrupt):
        learn(tmp_path / "killed")
    monkeypatch.setattr(watchers, "update_moving_average", average)
    report = learn(tmp_path / "killed")  # without a warning: the parts are known
    assert report["parts"] == 2
    first, second = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "killed"))
    assert first == second


# numbers that are not finite


class Holed(Following):
    """A loss that is not finite, or whose gradient is not, for some places (epoch, position) of the data."""

    def __init__(self, places, kind="nan", noise=0.0):
        super().__init__(noise=noise)
        self.places, self.kind = places, kind

    def loss(self, model, batch):
        loss = super().loss(model, batch)
        if (batch.epoch, batch.position) not in self.places:
            return loss
        if self.kind == "gradient":
            return loss + (0 * model.output.bias.sum()).sqrt()
        return loss * (math.nan if self.kind == "nan" else math.inf)


class Without(Cycle):
    """The same batches without those of some places."""

    def __init__(self, places):
        self.places = places

    def stream(self, *, epoch=0, position=0):
        for batch in super().stream(epoch=epoch, position=position):
            if (batch.epoch, batch.position) not in self.places:
                yield batch


PLACES = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=7)


@settings(max_examples=30, deadline=None)
@given(places=PLACES, kind=st.sampled_from(["nan", "inf", "gradient"]), clip=st.sampled_from([0.0, 0.5]))
def test_a_skipped_step_leaves_a_run_as_if_its_batch_was_not_there(places, kind, clip):
    usual = [watchers.update_moving_average]
    changes = {"dropout": 0, "accumulate": 1, "steps": 12, "ema": 0.9, "clip": clip}
    skipping, without = toy(**changes, max_skips=100), toy(**changes, max_skips=0)
    without.batches = Without(places)
    with warnings.catch_warnings(action="ignore"):
        fit(skipping, Holed(places, kind), schedule=rate, watchers=usual)
    fit(without, Following(noise=0), schedule=rate, watchers=usual)
    assert state(skipping) == state(without)
    passed = {place for place in places if place < (skipping.epoch, skipping.position)}
    assert skipping.skipped == len(passed)


def test_skips_are_said_and_counted_in_the_curve_and_the_checkpoint(tmp_path):
    run, checkpoints = toy(accumulate=1, steps=10, record_every=5), Checkpoints(tmp_path)
    with pytest.warns(UserWarning, match=r"the loss is inf after step 2; the step is skipped, with batch 3 of epoch 1"):
        fit(run, Holed({(0, 2)}, "inf"), schedule=rate, watchers=[watchers.record, watchers.Saving(checkpoints)])
    assert [point["skipped"] for point in run.history] == [1, 1]
    found = toy(accumulate=1, steps=10, record_every=5)
    assert Checkpoints(tmp_path).resume(found)
    assert (found.step, found.skipped, found.position) == (10, 1, 3)


def test_what_a_task_remembers_of_a_skipped_batch_is_forgotten():
    class Remembering(Holed):
        kept = 0.0

        def remembered(self):
            return {"kept": torch.tensor(self.kept)}

        def remind(self, tensors):
            self.kept = float(tensors["kept"])

        def loss(self, model, batch):
            found = super().loss(model, batch)
            self.kept += float(found.detach())
            return found

    task = Remembering({(0, 1)})
    with pytest.warns(UserWarning, match="the loss is nan"):
        fit(toy(accumulate=1, steps=6), task, schedule=rate)
    assert math.isfinite(task.kept)


BAD = {(1, 1), (1, 2), (1, 3), (2, 0)}  # four batches in a row


@pytest.mark.usefixtures("unsynced")
def test_too_many_in_a_row_end_the_run_with_what_is_needed_to_understand_it(tmp_path, monkeypatch):
    monkeypatch.setattr(toy_run, "Following", lambda: Holed(BAD, noise=0.1))
    changes = {"accumulate": 1, "max_skips": 3}
    with pytest.raises(RegardError) as caught, pytest.warns(UserWarning, match="skipped"):
        learn(tmp_path / "run", **changes)
    place = tmp_path / "run" / "not-learned-0"
    assert str(caught.value) == (
        "the loss is nan after step 5, and 3 steps in a row before it were skipped for the same reason; try a "
        "learning_rate below 0.03, or a warmup above 7; step 5 is saved; run the same command to resume after it; "
        f"{place}.json and not-learned-0.safetensors show the batches"
    )
    (described,) = json.loads(place.with_suffix(".json").read_text())
    bad = next(Cycle().stream(epoch=2))
    assert described == {"epoch": 2, "position": 0, "targets": bad.targets}
    tensors = safetensors.torch.load_file(place.with_suffix(".safetensors"))
    assert torch.equal(tensors["0/symbols"], bad.symbols)

    report = learn(tmp_path / "run", **changes)  # the same command goes on
    assert report["skipped"] == 4
    with pytest.warns(UserWarning, match="skipped"):
        learn(tmp_path / "patient", accumulate=1, max_skips=4)
    first, second = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("run", "patient"))
    assert first == second


def test_a_run_that_never_had_a_finite_loss_has_nothing_to_save(tmp_path, monkeypatch):
    monkeypatch.setattr(toy_run, "Following", lambda: Holed({(0, 0)}))
    with pytest.raises(RegardError, match=r"nan after step 0, .* warmup above 7; \S+not-learned-0.json") as caught:
        learn(tmp_path, accumulate=1, max_skips=0)
    assert "is saved" not in str(caught.value)
    assert Checkpoints(tmp_path / "checkpoints").steps() == []


# disks


def saving(tmp_path, *first, **changes):
    """Fit the toy with its checkpoints; `first` are watchers before the one that saves."""
    run, checkpoints = toy(validate_every=0, **changes), Checkpoints(tmp_path)
    checkpoints.resume(run)
    fit(run, Following(noise=0), schedule=rate, watchers=[*first, watchers.Saving(checkpoints)])
    return run, checkpoints


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("operation", [0, 1, 2, 5])
def test_a_run_outlives_a_disk_that_is_full_for_a_while(tmp_path, operation):
    full = FullDisk(operation)
    within = failing(full)

    def fill(run):
        if run.step == 8:
            within.__enter__()
        if run.step == 12:
            within.__exit__(None, None, None)

    with pytest.warns(UserWarning, match="the disk is full") as said:
        run, checkpoints = saving(tmp_path, fill, steps=15)
    assert full.reached
    (told,) = {str(each.message) for each in said}
    size = sum(path.stat().st_size for path in (tmp_path / "step-00000015").iterdir())
    assert told.startswith(f"cannot write {tmp_path / 'step-00000010'}: the disk is full, and ")
    needed = int(told.partition("full, and ")[2].partition(" bytes")[0].replace(",", ""))
    assert needed == pytest.approx(size, rel=0.05)
    assert "the run continues, and saves again at its next checkpoint" in told
    assert checkpoints.steps() == [5, 15]
    assert Checkpoints(tmp_path).resume(toy(validate_every=0, steps=15))
    assert state(run) == state(saving(tmp_path / "other", steps=15)[0])


@pytest.mark.usefixtures("unsynced")
def test_the_best_step_is_kept_until_the_disk_has_room(tmp_path):
    losses = iter([5.0, 1.0, 3.0])
    run, checkpoints = toy(steps=15), Checkpoints(tmp_path)
    judged = watchers.Validation(lambda _: {"loss": toy_run.Score(next(losses))})

    def full(run):
        return failing(FullDisk(0)) if run.step == 10 else nullcontext()

    save = watchers.Saving(checkpoints)

    def saving_on_a_full_disk(run):
        with full(run):
            save(run)

    with pytest.warns(UserWarning, match="the disk is full"):
        fit(run, Following(), schedule=rate, watchers=[judged, saving_on_a_full_disk])
    assert checkpoints.steps() == [5, 10, 15]
    assert run.ranked()[0] == 10


@pytest.mark.usefixtures("unsynced")
def test_a_disk_that_stays_full_ends_the_run_kindly(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    learn(tmp_path / "run", steps=20)
    monkeypatch.setattr(durable.os, "fsync", full)
    with (
        pytest.raises(durable.DiskFullError, match=r"step-000000\d\d: the disk is full, and [\d,]+ bytes are needed; "),
        pytest.warns(UserWarning, match="the disk is full"),
    ):
        learn(tmp_path / "run", steps=40)
    assert Checkpoints(tmp_path / "run" / "checkpoints").resume(toy(steps=40))


def test_a_slow_save_is_said(tmp_path, monkeypatch):
    run, clock = toy(), count(0, 11)
    run.step, run.loss = 3, 1.0
    monkeypatch.setattr(watchers.time, "monotonic", lambda: next(clock))
    with pytest.warns(
        UserWarning, match=r"saving step 3 took 11 seconds; schedulers often kill a run 30 seconds after"
    ):
        watchers.save(Checkpoints(tmp_path), run)
    monkeypatch.setattr(watchers.time, "monotonic", lambda: 0)
    watchers.save(Checkpoints(tmp_path), run)


# data


@dataclass
class FromFile(Cycle):
    """Batches that are read from a file, one epoch after another."""

    path: Path

    def stream(self, *, epoch=0, position=0):
        for number in count(epoch):
            rows = np.array([line.split() for line in self.path.read_text().splitlines()], dtype=np.int64)
            order = np.random.default_rng((5, number)).permutation(4)
            for place in range(position if number == epoch else 0, 4):
                symbols = torch.from_numpy(rows[order[place]])
                yield Batch(symbols, (3 * symbols + 1) % toy_run.SYMBOLS, epoch=number, position=place)


@pytest.mark.usefixtures("unsynced")
def test_a_file_that_vanishes_is_named_and_nothing_is_lost(tmp_path, monkeypatch):
    path, hidden = tmp_path / "rows.txt", tmp_path / "hidden.txt"
    np.savetxt(path, np.arange(20).reshape(4, 5) % toy_run.SYMBOLS, fmt="%d")
    monkeypatch.setattr(toy_run, "Cycle", lambda: FromFile(path))
    changes = {"accumulate": 1, "steps": 11}
    learn(tmp_path / "whole", **changes)

    def judge(model):
        if path.exists():
            path.rename(hidden)  # in the second epoch, at step 5
        return validate(model)

    monkeypatch.setattr(toy_run, "validate", judge)
    with pytest.raises(RegardError) as caught:
        learn(tmp_path / "run", **changes)
    assert str(caught.value) == (
        f"{path} cannot be read any more (No such file or directory); put it back as it was; "
        "step 8 is saved; run the same command to resume after it"
    )
    assert Checkpoints(tmp_path / "run" / "checkpoints").steps()[-1] == 8
    hidden.rename(path)
    monkeypatch.setattr(toy_run, "validate", validate)
    learn(tmp_path / "run", **changes)
    first, second = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "run"))
    assert first == second
