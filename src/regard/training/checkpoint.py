"""Checkpoints: a run on disk, to resume from or to average.

    checkpoints/step-00000500/
        weights.safetensors     the model (its moving average if it has one): all that averaging needs
        training.safetensors    optimiser, random state, what the task remembers of the batches before, and the model's
                                own weights where those are averaged
        state.json              numbers: step, position in the data, curve, validations; and the checksums of all three

The newest `keep` are whole. Older ones that will be averaged, and the best validated one, keep their weights alone.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import safetensors
import safetensors.torch
from pydantic import BaseModel, Field, ValidationError
from torch import Tensor, nn

from regard import durable
from regard.directory import Note, sum_of
from regard.errors import RegardError, listed
from regard.training import averaging, randomness
from regard.training.run import Run

WEIGHTS, TRAINING, STATE = "weights.safetensors", "training.safetensors", "state.json"
MOMENTS = {"step", "exp_avg", "exp_avg_sq"}  # of Adam, for each parameter

Tensors = dict[str, Tensor]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Word = Annotated[int, Field(ge=0, lt=2**32)]
Point = dict[str, Annotated[int, Field(ge=-(2**63), lt=2**63)] | float]


class Generators(BaseModel):
    """The random state of NumPy and Python as `randomness.capture` gives it: the words of a Mersenne twister."""

    numpy: tuple[
        Literal["MT19937"],
        Annotated[list[Word], Field(min_length=624, max_length=624)],
        Annotated[int, Field(ge=0, le=624)],
        Literal[0, 1],
        Finite,
    ]
    python: tuple[Literal[3], Annotated[list[Word], Field(min_length=625, max_length=625)], Finite | None]


class State(BaseModel):
    """The numbers of a run in a checkpoint; except for the random state and the checksums, they are fields of `Run`."""

    step: Annotated[int, Field(ge=1, lt=10**8)]
    epoch: Count
    position: Count
    tokens: Count
    skipped: Count = 0  # checkpoints of version 0.1 have neither this nor the next
    parts: Annotated[int, Field(ge=1, lt=2**63)] = 1
    seconds: Annotated[Finite, Field(ge=0)]
    learning_seconds: Annotated[Finite, Field(ge=0)]
    learning_rate: Annotated[Finite, Field(ge=0)]
    loss: Finite
    recent: float  # a sum, which one bad loss made infinite in version 0.1 until the next point of the curve
    history: list[Point]
    validations: list[Point]
    random: Generators
    sha256: dict[str, str]


RUN = tuple(name for name in State.model_fields if name not in ("random", "sha256"))


class Saved(NamedTuple):
    """What was read from a checkpoint and fits the run."""

    state: State
    weights: Tensors
    training: Tensors


class Held(NamedTuple):
    """The best step since the last checkpoint: its weights, its numbers, and how long the lists of the run were."""

    weights: Tensors
    numbers: dict[str, Any]
    history: int
    validations: int


class DamagedError(Exception):
    """A checkpoint whose content is not what was written; the message is the reason."""


class Checkpoints:
    """The checkpoints of one run. Of several processes only the one that `writes` changes anything on the disk.

    `newest` is the step that this process saved or resumed last, 0 before that; `kept` are the steps whose mean
    `final_weights` returned.
    """

    def __init__(self, directory: Path, *, writes: bool = True) -> None:
        self.directory, self.writes = directory, writes
        self.newest = 0
        self.kept: list[int] = []
        self._held: Held | None = None

    def steps(self) -> list[int]:
        return [_step_of(path) for path in self._named() if path.is_dir()]

    def path(self, step: int) -> Path:
        return self.directory / f"step-{step:08d}"

    def hold(self, run: Run) -> None:
        """Keep the weights of this step in memory. The next checkpoint writes them too, if they are still the best."""
        if not self.writes:
            return
        with run.averaged():
            weights = {name: tensor.detach().clone() for name, tensor in weights_of(run.model).items()}
        self._held = Held(weights, _numbers(run), len(run.history), len(run.validations))

    def save(self, run: Run) -> None:
        """Write the run as it is now. Checkpoints that are no longer needed are removed after that is on the disk."""
        if not self.writes:
            self.newest = run.step
            return
        if self._held is not None and self._held.numbers["step"] == run.validations[run.best()]["step"]:
            self._write_held(run, self._held)
        self._held = None
        if not self.directory.parent.is_dir():
            raise RegardError(
                f"{self.directory.parent} was removed while training in it; train again from the beginning"
            )
        random_tensors, random_numbers = randomness.capture()
        training = {f"random/{name}": tensor for name, tensor in random_tensors.items()} | _optimiser_tensors(run)
        if run.moving:
            training |= {f"model/{name}": tensor for name, tensor in weights_of(run.model).items()}
        if run.remembers:
            training |= {f"remembered/{name}": tensor for name, tensor in run.remembers.remembered().items()}
        contents = {TRAINING: to_bytes(training)}
        with run.averaged():
            contents[WEIGHTS] = to_bytes(weights_of(run.model))
        durable.write_directory(self.path(run.step), _with_state(contents, _numbers(run), random_numbers))
        self.newest = run.step
        self._thin(run)

    def _write_held(self, run: Run, held: Held) -> None:
        """Write the weights of an earlier step, without what only resuming needs."""
        lists = {"history": run.history[: held.history], "validations": run.validations[: held.validations]}
        contents = {WEIGHTS: to_bytes(held.weights)}
        _, random_numbers = randomness.capture()
        path = self.path(int(held.numbers["step"]))
        durable.write_directory(path, _with_state(contents, {**held.numbers, **lists}, random_numbers))

    def resume(self, run: Run) -> bool:
        """Put the run where the newest whole checkpoint left it; False, and nothing changed, if there is none.

        Damaged checkpoints are skipped with a warning: the run repeats those steps, with the same result. Checkpoints
        that do not fit the run are skipped too, if an older one fits.
        """
        if self.writes:
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
        Those of the first half of a run do not count either, because the model had hardly begun to learn.
        """
        saved = [step for step in self.steps() if step <= run.step]
        best = [step for step in run.ranked() if step in saved]
        if run.config.average_of == "best" and best:
            return sorted(best[: run.config.average])
        regular = [step for step in saved if step % run.config.checkpoint_every == 0 or step == run.step]
        grown = [step for step in regular if 2 * step >= run.step]
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
        for step in self.steps() if self.writes else []:
            if step != run.step and step not in run.ranked()[:1]:
                durable.remove_directory(self.path(step))

    def _named(self) -> list[Path]:
        """The paths that are named like checkpoints, whether they are checkpoints or not; the oldest first."""
        return sorted(self.directory.glob("step-" + 8 * "[0-9]"))

    def _readable(self, run: Run) -> Iterator[Tensors]:
        for step in self.members(run):
            try:
                weights = _read_weights(self.path(step), _read_state(self.path(step)), run.model)
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
                durable.remove_file(self.path(step) / TRAINING)
            else:
                durable.remove_directory(self.path(step))


def _numbers(run: Run) -> dict[str, Any]:
    """The numbers of the run as they are now."""
    return {
        **{name: getattr(run, name) for name in RUN},
        **{name: float(getattr(run, name)) for name in ("loss", "recent")},
    }


def _with_state(contents: dict[str, bytes], numbers: dict[str, Any], random: Any) -> dict[str, bytes]:
    """The files of a checkpoint with state.json, which has the checksums of the others."""
    sums = {name: _sha256(content) for name, content in contents.items()}
    state = {**numbers, "random": random, "sha256": sums}
    return {**contents, STATE: json.dumps({"sha256": _sha256(_canonical(state)), "state": state}).encode()}


def _pass_over(checkpoint: Path, reason: Exception) -> None:
    warnings.warn(f"{checkpoint} is damaged ({reason}); resuming from the one before it", stacklevel=3)


def weights_of(model: nn.Module) -> Tensors:
    """What a model has learned, by name; weights that two modules share appear once."""
    once = {name for name, _ in model.named_parameters()} | {name for name, _ in model.named_buffers()}
    return {name: tensor for name, tensor in model.state_dict().items() if name in once}


def load_weights(model: nn.Module, weights: Tensors, *, origin: Path) -> None:
    """The opposite of `weights_of`; `origin` is where the weights came from, for the message if they do not fit."""
    require_fit(model, weights, origin=origin)
    model.load_state_dict(weights, strict=False)


def require_fit(model: nn.Module, weights: Tensors, *, origin: Path) -> None:
    """Refuse weights whose names or shapes are not those of the model."""
    expected = {name: tuple(tensor.shape) for name, tensor in weights_of(model).items()}
    given = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    wrong = [
        f"{name} is {given.get(name, 'missing')} there and {expected.get(name, 'missing')} here"
        for name in expected.keys() | given.keys()
        if expected.get(name) != given.get(name)
    ]
    if wrong:
        raise RegardError(
            f"{origin} does not fit the model: {listed(wrong)}; was the recipe changed? use the old one, or another "
            "directory"
        )


def _restore(run: Run, saved: Saved) -> None:
    """Put the run where it was saved. Only the random state may still prove damaged, so it comes first."""
    state, weights, training = saved
    _restore_generators(_under("random/", training), state.random)
    if run.moving:
        run.model.load_state_dict(_under("model/", training), strict=False)
        run.moving.weights = {name: weights[name].clone() for name in run.moving.weights}
    else:
        run.model.load_state_dict(weights, strict=False)
    _restore_optimiser(run, _under("optimiser/", training))
    if run.remembers:
        run.remembers.remind(_under("remembered/", training))
    for name in RUN:
        setattr(run, name, getattr(state, name))


def _restore_generators(tensors: Tensors, numbers: Generators) -> None:
    before = randomness.capture()
    try:
        randomness.restore(tensors, numbers.model_dump())
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        randomness.restore(*before)
        raise DamagedError(f"{TRAINING} holds a random state that cannot be restored") from error


def _optimiser_tensors(run: Run) -> Tensors:
    """Adam's moments and counts as optimiser/<parameter>/<which>."""
    moments = run.optimiser.state_dict()["state"]
    return {
        f"optimiser/{name}/{which}": tensor
        for index, name in enumerate(_optimised(run))
        for which, tensor in moments.get(index, {}).items()
    }


def _restore_optimiser(run: Run, tensors: Tensors) -> None:
    state = run.optimiser.state_dict()
    for index, name in enumerate(_optimised(run)):
        # cloned: tensors read from safetensors share one unaligned buffer, and aligned copies compute faster
        state["state"][index] = {which: tensor.clone() for which, tensor in _under(f"{name}/", tensors).items()}
    run.optimiser.load_state_dict(state)


def _optimised(run: Run) -> list[str]:
    """Names of the parameters in the order in which the optimiser counts them."""
    names = {id(parameter): name for name, parameter in run.model.named_parameters()}
    return [names[id(parameter)] for group in run.optimiser.param_groups for parameter in group["params"]]


def _under(prefix: str, tensors: Tensors) -> Tensors:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step-"))


def _read(checkpoint: Path, run: Run) -> Saved:
    """All of a checkpoint, checked: it is what was written, and it fits the run. Nothing is changed."""
    state = _read_state(checkpoint)
    for name, points, needed in (
        ("history", state.history, {"step", "loss", "tokens", "learning_seconds"}),
        ("validations", state.validations, {"step"}),
    ):
        if not all(needed <= point.keys() and 1 <= point["step"] <= state.step for point in points):
            raise DamagedError(f"{STATE} has {name} that nothing could have recorded")
    if not all(run.objective.name in scores for scores in state.validations):
        raise RegardError(f'{checkpoint} does not fit the run: it has no score "{run.objective.name}" to compare by')
    weights = _read_weights(checkpoint, state, run.model)
    training = _read_tensors(checkpoint / TRAINING, state)
    if run.moving:
        _require_same_kind(run.model, _under("model/", training), origin=checkpoint / TRAINING)
    parameters = dict(run.model.named_parameters())
    for name in _optimised(run):
        moments = _under(f"optimiser/{name}/", training)
        shapes = {which: () if which == "step" else parameters[name].shape for which in MOMENTS}
        if moments and {which: tensor.shape for which, tensor in moments.items()} != shapes:
            raise DamagedError(f"{TRAINING} does not hold the moments of {name}")
        if not all(tensor.is_floating_point() for tensor in moments.values()):
            raise DamagedError(f"{TRAINING} does not hold the moments of {name}")
    return Saved(state, weights, training)


def _read_state(checkpoint: Path) -> State:
    content = _read_bytes(checkpoint / STATE)
    try:
        whole = json.loads(content)
        canonical = _canonical(whole["state"])
        intact = whole["sha256"] == _sha256(canonical)
        state = State.model_validate_json(canonical, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DamagedError(f"{STATE}: {place}: {first['msg']}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(f"{STATE} cannot be read") from error
    if not intact:
        raise DamagedError(f"{STATE} is not what was written")
    if state.step != _step_of(checkpoint):
        raise DamagedError(f"{STATE} is of step {state.step}")
    return state


def _read_weights(checkpoint: Path, state: State, model: nn.Module) -> Tensors:
    weights = _read_tensors(checkpoint / WEIGHTS, state)
    _require_same_kind(model, weights, origin=checkpoint)
    return weights


def _require_same_kind(model: nn.Module, weights: Tensors, *, origin: Path) -> None:
    """Weights that fit the model, in its own precision."""
    require_fit(model, weights, origin=origin)
    for name, tensor in weights_of(model).items():
        if weights[name].dtype != tensor.dtype:
            raise DamagedError(f"{name} is {weights[name].dtype} there and {tensor.dtype} here")


def _read_tensors(path: Path, state: State) -> Tensors:
    content = _read_bytes(path)
    if _sha256(content) != state.sha256.get(path.name):
        raise DamagedError(f"{path.name} is not what was written")
    try:
        return safetensors.torch.load(content)
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise DamagedError(f"{path.name} is not a safetensors file") from error


def _read_bytes(path: Path) -> bytes:
    try:
        if not path.is_file():  # reading a pipe or a device may never end
            raise DamagedError(f"{path.name} is missing")
        return path.read_bytes()
    except OSError as error:
        raise DamagedError(f"{path.name} cannot be read") from error


def to_bytes(tensors: Tensors, note: Note | None = None) -> bytes:
    """The content of a safetensors file; a note is written into its header, with the sum of the tensors."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    if note is None:
        return safetensors.torch.save(plain)
    whole = note.model_copy(update={"sum": sum_of(safetensors.torch.save(plain))})
    return safetensors.torch.save(plain, whole.header())


def _canonical(state: Any) -> bytes:
    return json.dumps(state, sort_keys=True).encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
