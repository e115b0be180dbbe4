"""Checkpoints: a run on disk, to resume from or to average.

    checkpoints/step-00000500/
        weights.safetensors     the model (its moving average if it has one): all that averaging needs
        training.safetensors    optimiser, random state, what the task remembers of the batches before, and the model's
                                own weights where those are averaged
        state.json              numbers: step, position in the data, curve, validations; and the checksums of all three

Where the model is divided among processes, each writes its rows: weights-00001-of-00002.safetensors and so on. A tensor
is the rows of all files in their order, so any number of processes can read it, divided or not. In the same way each of
several processes writes what its task remembers of the rows of its batches.

The newest `keep` are whole. Older ones that will be averaged, and the best validated one, keep their weights alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from regard import durable
from regard.data.streams import Laned
from regard.directory import WEIGHTS
from regard.errors import RegardError
from regard.tasks.base import Remembers
from regard.training import averaging, optimiser, randomness
from regard.training.distribution import Crew
from regard.training.run import Run
from regard.training.sharding import is_divided, like, local
from regard.training.stored import (
    STATE,
    TRAINING,
    DamagedError,
    Generators,
    Read,
    State,
    read_state,
    read_tensors,
    read_weights,
    require_same_kind,
    sha256,
    state_bytes,
    step_of,
)
from regard.training.weights import Tensors, to_bytes, weights_of

REMEMBERED = "remembered/"  # before the names of what a task remembers

Value = TypeVar("Value")

RUN = tuple(name for name in State.model_fields if name not in ("random", "sha256"))


class Saved(NamedTuple):
    """What was read from a checkpoint and fits the run, for this process."""

    state: State
    weights: Tensors
    training: Tensors


class Held(NamedTuple):
    """The best step since the last checkpoint: its weights, as far as this process writes them, its numbers, and how
    long the lists of the run were."""

    weights: Tensors
    numbers: dict[str, Any]
    history: int
    validations: int


class Checkpoints:
    """The checkpoints of one run. Of several processes only the leading one changes anything on the disk, except where
    the model is divided or the task remembers: then all call `hold` and `save` together, and each writes its own rows.

    `newest` is the step that this process saved or resumed last, 0 before that; `kept` are the steps whose mean
    `final_weights` returned.
    """

    def __init__(self, directory: Path, crew: Crew | None = None) -> None:
        self.directory, self.crew = directory, crew or Crew()
        self.newest = 0
        self.kept: list[int] = []
        self._held: Held | None = None

    def steps(self) -> list[int]:
        return [step_of(path) for path in self._named() if path.is_dir()]

    def path(self, step: int) -> Path:
        return self.directory / f"step-{step:08d}"

    def hold(self, run: Run) -> None:
        """Keep the weights of this step in memory. The next checkpoint writes them too, if they are still the best."""
        if not self._writes(run):
            return
        with run.averaged():
            weights = {name: each.detach().clone() for name, each in self._mine(weights_of(run.model), run).items()}
        self._held = Held(weights, _numbers(run), len(run.history), len(run.validations))

    def save(self, run: Run) -> None:
        """Write the run as it is now. Checkpoints that are no longer needed are removed after that is on the disk."""
        if not self._writes(run):
            self.newest = run.step
            return
        if self._held is not None and self._held.numbers["step"] == run.validations[run.best()]["step"]:
            self._write_held(run, self._held)
        self._held = None
        random_tensors, random_numbers = randomness.capture()
        training = {f"random/{name}": tensor for name, tensor in random_tensors.items()} | _optimiser_tensors(run)
        if run.moving:
            training |= {f"model/{name}": tensor for name, tensor in weights_of(run.model).items()}
        if run.remembers:
            training |= {f"{REMEMBERED}{name}": tensor for name, tensor in run.remembers.remembered().items()}
        contents = {TRAINING: to_bytes(self._mine(training, run))}
        with run.averaged():
            contents[WEIGHTS] = to_bytes(self._mine(weights_of(run.model), run))
        self._write(run, run.step, contents, {**_numbers(run), "random": random_numbers})
        self.newest = run.step
        if self.crew.leads:
            self._thin(run)

    def _write_held(self, run: Run, held: Held) -> None:
        """Write the weights of an earlier step, without what only resuming needs."""
        lists = {"history": run.history[: held.history], "validations": run.validations[: held.validations]}
        _, random_numbers = randomness.capture()
        numbers = {**held.numbers, **lists, "random": random_numbers}
        self._write(run, int(held.numbers["step"]), {WEIGHTS: to_bytes(held.weights)}, numbers)

    def _writes(self, run: Run) -> bool:
        """Whether this process has something to write."""
        return self.crew.leads or self._together(run)

    def _together(self, run: Run) -> bool:
        """Whether each process writes a part of a checkpoint."""
        return run.shards is not None or (self.crew.world > 1 and run.remembers is not None)

    def _mine(self, tensors: Tensors, run: Run) -> Tensors:
        """What this process writes of tensors: its rows of those that are divided; the leading one writes the rest."""
        kept = _optimised(run)
        scalars = [name for name, each in run.whole.named_parameters() if not each.dim()]
        single = {key for name in scalars for key in _keys(name, kept.get(name, frozenset()))}
        rows = {key: local(each) for key, each in tensors.items() if self.crew.leads or is_divided(each)}
        if isinstance(run.batches, Laned):
            lanes = run.batches.lanes(run.epoch)
            remembered = {key: each for key, each in tensors.items() if key.startswith(REMEMBERED)}
            rows |= {key: each[: lanes.stop - lanes.start] for key, each in remembered.items()}
        some = {key: each for key, each in rows.items() if self.crew.leads or len(each)}
        return {key: each.view(()) if key in single else each for key, each in some.items()}

    def _write(self, run: Run, step: int, contents: dict[str, bytes], numbers: dict[str, Any]) -> None:
        """Write the files of a checkpoint, each process its own; state.json has the checksums of all."""
        path, crew = self.path(step), self.crew if self._together(run) else Crew()
        part = f"-{crew.rank + 1:05d}-of-{crew.world:05d}" if crew.world > 1 else ""
        files = {name.replace(".", f"{part}.", 1): content for name, content in contents.items()}
        size = sum(map(len, files.values())) + len(state_bytes(numbers, {}))

        def begin() -> None:
            if not self.directory.parent.is_dir():
                raise RegardError(
                    f"{self.directory.parent} was removed while training in it; train again from the beginning"
                )
            durable.begin_directory(path, size)

        def add() -> dict[str, str]:
            durable.add_to_directory(path, files, size)
            return {name: sha256(content) for name, content in files.items()}

        def end() -> None:
            durable.add_to_directory(path, {STATE: state_bytes(numbers, sums)}, size)
            durable.end_directory(path, size)

        crew.each(lambda: begin() if crew.leads else None)
        sums = {name: found for said in crew.each(add) for name, found in said.items()}
        crew.each(lambda: end() if crew.leads else None)

    def resume(self, run: Run) -> bool:
        """Put the run where the newest whole checkpoint left it; False, and nothing changed, if there is none.

        Damaged checkpoints are skipped with a warning: the run repeats those steps, with the same result. Checkpoints
        that do not fit the run are skipped too, if an older one fits.
        """
        if self.crew.leads:
            durable.make_directory(self.directory.parent)
            durable.sweep(self.directory)
        misfits: list[tuple[Path, RegardError]] = []
        for path in reversed(self._named()):
            try:
                _restore(run, _read(path, run))
            except DamagedError as damage:
                _pass_over(path, damage)
            except RegardError as error:
                misfits.append((path, error))
            else:
                for misfit in misfits:
                    _pass_over(*misfit)
                self.newest = run.step
                return True
        if misfits:
            raise misfits[0][1]
        return False

    def members(self, run: Run) -> list[int]:
        """Steps of the checkpoints whose mean is the final weights, if the run ended now.

        With average_of = "last" these are the last ones at multiples of `checkpoint_every`, and that of this step. A
        checkpoint that was saved in between, after Ctrl-C, does not count: the result must be the same as without it.
        Those of the first half of a run do not count either, because the model had hardly begun to learn; in a run that
        is planned, those before the last tenth, because its rate had not fallen yet.
        """
        saved = [step for step in self.steps() if step <= run.step]
        best = [step for step in run.ranked() if step in saved]
        if run.config.average_of == "best" and best:
            return sorted(best[: run.config.average])
        regular = [step for step in saved if step % run.config.checkpoint_every == 0 or step == run.step]
        grown = [step for step in regular if step >= (0.9 if run.plan else 0.5) * run.step]
        return grown[-run.config.average :]

    def final_weights(self, run: Run) -> Tensors:
        """The mean of the members that can be read; a damaged one is left out with a warning."""
        self.kept = []
        weights = averaging.mean(self._readable(run))
        if not weights:
            raise RegardError(f"no checkpoint in {self.directory} can be read; delete it and train again")
        return weights

    def finish(self, run: Run) -> None:
        """Remove checkpoints once the final weights are written, except the newest, to resume from, and the best."""
        for step in self.steps() if self.crew.leads else []:
            if step != run.step and step not in run.ranked()[:1]:
                durable.remove_directory(self.path(step))

    def _named(self) -> list[Path]:
        """The paths that are named like checkpoints, whether they are checkpoints or not; the oldest first."""
        return sorted(self.directory.glob("step-" + 8 * "[0-9]"))

    def _readable(self, run: Run) -> Iterator[Tensors]:
        for step in self.members(run):
            try:
                weights = read_weights(self.path(step), read_state(self.path(step)), run.whole, {}).tensors
            except (DamagedError, RegardError) as damage:
                warnings.warn(f"{self.path(step)} is damaged ({damage}); averaging without it", stacklevel=2)
            else:
                self.kept.append(step)
                yield weights

    def _thin(self, run: Run) -> None:
        """Keep the newest whole, and the weights of what may still be averaged and of the best; remove the rest."""
        saved = [step for step in self.steps() if step <= run.step]
        whole = saved[-run.config.keep :]
        best = [step for step in run.ranked() if step in saved]
        if run.config.average_of == "best":
            averaged = best[: run.config.average]
        else:
            averaged = [step for step in saved if step % run.config.checkpoint_every == 0][-run.config.average :]
        for step in self.steps():
            if step in whole:
                continue
            if step in averaged or step in best[:1]:
                for file in self.path(step).glob(TRAINING.replace(".", "*.")):
                    durable.remove_file(file)
            else:
                durable.remove_directory(self.path(step))


def _numbers(run: Run) -> dict[str, Any]:
    """The numbers of the run as they are now."""
    return {
        **{name: getattr(run, name) for name in RUN},
        **{name: float(getattr(run, name)) for name in ("loss", "recent")},
        "plan": None if run.plan is None else run.plan.model_dump(),
    }


def _pass_over(checkpoint: Path, reason: Exception) -> None:
    warnings.warn(f"{checkpoint} is damaged ({reason}); resuming from the one before it", stacklevel=3)


def _restore(run: Run, saved: Saved) -> None:
    """Put the run where it was saved. Only the random state may still prove damaged, so it comes first."""
    state, weights, training = saved
    _restore_generators(_under("random/", training), state.random)
    if run.moving:
        _put(_under("model/", training), weights_of(run.model))
        _put({name: weights[name] for name in run.moving.weights}, run.moving.weights)
    else:
        _put(weights, weights_of(run.model))
    _restore_optimiser(run, _under("optimiser/", training))
    for name in RUN:
        setattr(run, name, getattr(state, name))
    if run.remembers and isinstance(run.batches, Laned):
        _remind(run, run.remembers, run.batches, _under(REMEMBERED, training))


def _remind(run: Run, task: Remembers, batches: Laned, tensors: Tensors) -> None:
    """Give a task what all processes remembered, as far as this one continues their rows."""
    if not tensors:
        warnings.warn(
            f"the checkpoint of step {run.step} does not have the memory of the processes that wrote it; it starts "
            f"empty in the rest of epoch {run.epoch + 1}",
            stacklevel=2,
        )
        return
    batches.keep_lanes(run.epoch, max(map(len, tensors.values())))
    lanes = batches.lanes(run.epoch)
    task.remind({name: tensor[lanes].clone() for name, tensor in tensors.items()})


@torch.no_grad()
def _put(rows: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Copy what was read into tensors, of which this process may have some rows only."""
    for name, tensor in tensors.items():
        local(tensor).copy_(rows[name].view(local(tensor).shape))


def _restore_generators(tensors: Tensors, numbers: Generators) -> None:
    before = randomness.capture()
    try:
        randomness.restore(tensors, numbers.model_dump())
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        randomness.restore(*before)
        raise DamagedError(f"{TRAINING} holds a random state that cannot be restored") from error


def _optimiser_tensors(run: Run) -> Tensors:
    """The moments and counts of the optimiser as optimiser/<parameter>/<which>."""
    moments = run.optimiser.state_dict()["state"]
    return {
        f"optimiser/{name}/{which}": tensor
        for index, name in enumerate(_optimised(run))
        for which, tensor in moments.get(index, {}).items()
    }


def _restore_optimiser(run: Run, tensors: Tensors) -> None:
    state, parameters = run.optimiser.state_dict(), dict(run.model.named_parameters())
    for index, name in enumerate(_optimised(run)):
        # cloned: tensors read from safetensors share one unaligned buffer, and aligned copies compute faster
        state["state"][index] = {
            which: tensor.clone() if which == "step" else like(parameters[name], tensor.clone())
            for which, tensor in _under(f"{name}/", tensors).items()
        }
    run.optimiser.load_state_dict(state)


def _optimised(run: Run) -> dict[str, frozenset[str]]:
    """Names of the parameters in the order in which the optimiser counts them, and of what it keeps for each."""
    names = {id(parameter): name for name, parameter in run.model.named_parameters()}
    return {
        names[id(parameter)]: optimiser.kept(run.optimiser, group)
        for group in run.optimiser.param_groups
        for parameter in group["params"]
    }


def _read(checkpoint: Path, run: Run) -> Saved:
    """All of a checkpoint, checked: it is what was written, and it fits the run. Nothing is changed."""
    state = read_state(checkpoint)
    for name, points, needed in (
        ("history", state.history, {"step", "loss", "tokens", "learning_seconds"}),
        ("validations", state.validations, {"step"}),
    ):
        if not all(needed <= point.keys() and 1 <= point["step"] <= state.step for point in points):
            raise DamagedError(f"{STATE} has {name} that nothing could have recorded")
    if not all(run.objective.name in scores for scores in state.validations):
        raise RegardError(f'{checkpoint} does not fit the run: it has no score "{run.objective.name}" to compare by')
    rows = _needed(run)
    weights = read_weights(checkpoint, state, run.whole, rows)
    training = read_tensors(checkpoint, TRAINING, state, rows)
    if run.moving:
        own = Read(_under("model/", training.tensors), _under("model/", training.shapes))
        require_same_kind(run.whole, own, origin=checkpoint / TRAINING)
    parameters = dict(run.whole.named_parameters())
    for name, kept in _optimised(run).items():
        moments = _under(f"optimiser/{name}/", training.tensors)
        shapes = _under(f"optimiser/{name}/", training.shapes)
        expected = {which: () if which == "step" else tuple(parameters[name].shape) for which in kept}
        if moments and shapes != expected:
            raise DamagedError(f"{TRAINING} does not hold the moments of {name}")
        if not all(tensor.is_floating_point() for tensor in moments.values()):
            raise DamagedError(f"{TRAINING} does not hold the moments of {name}")
    return Saved(state, weights.tensors, training.tensors)


def _needed(run: Run) -> dict[str, slice]:
    """Which rows of the tensors in a checkpoint this process needs, where it has only some."""
    if run.shards is None:
        return {}
    needed: dict[str, slice] = {}
    kept = _optimised(run)
    for name, parameter in run.whole.named_parameters():
        rows = run.shards.rows(parameter.shape[0] if parameter.dim() else 1)
        needed |= dict.fromkeys(_keys(name, kept.get(name, frozenset())), rows)
    return needed


def _keys(name: str, kept: frozenset[str]) -> list[str]:
    """What the tensors of a checkpoint are called that have the shape of the weight of that name."""
    moments = [f"optimiser/{name}/{which}" for which in kept if which != "step"]
    return [name, f"model/{name}", *moments]


def _under(prefix: str, named: dict[str, Value]) -> dict[str, Value]:
    return {name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)}
