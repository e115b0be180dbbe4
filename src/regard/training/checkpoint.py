"""Checkpoints: a run on disk, to go on from or to average.

    checkpoints/step-00000500/
        weights.safetensors     the model (its moving average if it has one): all that averaging needs
        training.safetensors    optimiser, random state, and the model's own weights where those are averaged
        state.json              numbers: step, position in the data, curve, validations; and the checksums of all three

The newest `keep` are whole. Older ones that will be averaged, and the best validated one, keep their weights alone.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor, nn

from regard.errors import RegardError, listed
from regard.training import averaging, durable, randomness
from regard.training.run import Run

WEIGHTS, TRAINING, STATE = "weights.safetensors", "training.safetensors", "state.json"
PLACE = ("step", "epoch", "position", "tokens", "seconds", "learning_seconds", "learning_rate")
RECORDS = ("history", "validations")
LOSSES = ("loss", "recent")

Tensors = dict[str, Tensor]


class DamagedError(Exception):
    """A checkpoint that is not what was written; the reason as its message."""


class Checkpoints:
    """The checkpoints of one run. `newest` is the step that was saved or resumed last, here and now; 0 before that."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.newest = 0

    def steps(self) -> list[int]:
        return sorted(int(path.name.removeprefix("step-")) for path in self.directory.glob("step-" + 8 * "[0-9]"))

    def path(self, step: int) -> Path:
        return self.directory / f"step-{step:08d}"

    def save(self, run: Run) -> None:
        """Write the run as it is now; only when that is on the disk, drop what is no longer needed."""
        run.require_finite()
        random_tensors, random_numbers = randomness.capture()
        training = {f"random/{name}": tensor for name, tensor in random_tensors.items()} | _optimiser_tensors(run)
        if run.moving:
            training |= {f"model/{name}": tensor for name, tensor in weights_of(run.model).items()}
        contents = {TRAINING: to_bytes(training)}
        with run.averaged():
            contents[WEIGHTS] = to_bytes(weights_of(run.model))
        state = {
            **{name: getattr(run, name) for name in (*PLACE, *RECORDS)},
            **{name: float(getattr(run, name)) for name in LOSSES},
            "random": random_numbers,
            "sha256": {name: _sha256(content) for name, content in contents.items()},
        }
        contents[STATE] = json.dumps({"sha256": _sha256(_canonical(state)), "state": state}).encode()
        durable.write_directory(self.path(run.step), contents)
        self.newest = run.step
        self._thin(run)

    def resume(self, run: Run) -> bool:
        """Put the run where the newest whole checkpoint left it; False, and nothing changed, if there is none.

        Damaged ones are passed over with a warning: the run goes through those steps again, to the same result.
        """
        durable.sweep(self.directory)
        for step in reversed(self.steps()):
            try:
                state = _read_state(self.path(step))
                weights = _read_tensors(self.path(step) / WEIGHTS, state)
                training = _read_tensors(self.path(step) / TRAINING, state)
            except DamagedError as damage:
                warnings.warn(f"{self.path(step)} is damaged ({damage}); going back to before it", stacklevel=2)
                continue
            _restore(run, self.path(step), state, weights, training)
            self.newest = step
            return True
        return False

    def members(self, run: Run) -> list[int]:
        """Steps of the checkpoints whose mean is the final weights, if the run ended now.

        The last are those at multiples of `checkpoint_every`, and that of this step. One saved in between, because
        somebody pressed Ctrl-C, does not count, so that the result is the same as without; nor do those of the first
        half of a run, which had hardly begun to learn.
        """
        saved = [step for step in self.steps() if step <= run.step]
        best = [step for step in run.ranked() if step in saved]
        if run.config.average_of == "best" and best:
            return sorted(best[: run.config.average])
        regular = [step for step in saved if step % run.config.checkpoint_every == 0 or step == run.step]
        grown = [step for step in regular if 2 * step >= run.step]
        return grown[-run.config.average :]

    def final_weights(self, run: Run) -> Tensors:
        weights = averaging.mean(self._readable(self.members(run)))
        if not weights:
            raise RegardError(f"no checkpoint in {self.directory} can be read; delete it and train again")
        return weights

    def finish(self, run: Run) -> None:
        """Once the final weights are written: the newest stays, to go on from with more steps, and the best."""
        for step in self.steps():
            if step != run.step and step not in run.ranked()[:1]:
                durable.remove_directory(self.path(step))

    def _readable(self, steps: list[int]) -> Iterator[Tensors]:
        for step in steps:
            try:
                yield _read_tensors(self.path(step) / WEIGHTS, _read_state(self.path(step)))
            except DamagedError as damage:
                warnings.warn(f"{self.path(step)} is damaged ({damage}); averaging without it", stacklevel=2)

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
                (self.path(step) / TRAINING).unlink(missing_ok=True)
            else:
                durable.remove_directory(self.path(step))


def weights_of(model: nn.Module) -> Tensors:
    """What a model has learned, by name; weights that two modules share appear once."""
    once = {name for name, _ in model.named_parameters()} | {name for name, _ in model.named_buffers()}
    return {name: tensor for name, tensor in model.state_dict().items() if name in once}


def load_weights(model: nn.Module, weights: Tensors, *, origin: Path) -> None:
    """The opposite of `weights_of`; `origin` is where the weights came from, for the message if they do not fit."""
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
    model.load_state_dict(weights, strict=False)


def _restore(run: Run, origin: Path, state: dict[str, Any], weights: Tensors, training: Tensors) -> None:
    if run.moving:
        load_weights(run.model, _under("model/", training), origin=origin)
        run.moving.weights = {name: weights[name].clone() for name in run.moving.weights}
    else:
        load_weights(run.model, weights, origin=origin)
    _restore_optimiser(run, _under("optimiser/", training))
    for name in (*PLACE, *RECORDS, *LOSSES):
        setattr(run, name, state[name])
    randomness.restore(_under("random/", training), state["random"])


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
        # a copy, because what was read lies where the file had it, and not where arithmetic is fastest
        state["state"][index] = {which: tensor.clone() for which, tensor in _under(f"{name}/", tensors).items()}
    run.optimiser.load_state_dict(state)


def _optimised(run: Run) -> list[str]:
    """Names of the parameters in the order in which the optimiser counts them."""
    names = {id(parameter): name for name, parameter in run.model.named_parameters()}
    return [names[id(parameter)] for group in run.optimiser.param_groups for parameter in group["params"]]


def _under(prefix: str, tensors: Tensors) -> Tensors:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _read_state(checkpoint: Path) -> dict[str, Any]:
    try:
        whole = json.loads((checkpoint / STATE).read_bytes())
        state: dict[str, Any] = whole["state"]
        intact = whole["sha256"] == _sha256(_canonical(state))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{STATE} cannot be read") from error
    if not intact:
        raise DamagedError(f"{STATE} is not what was written")
    return state


def _read_tensors(path: Path, state: dict[str, Any]) -> Tensors:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise DamagedError(f"{path.name} is missing") from error
    except OSError as error:
        raise DamagedError(f"{path.name} cannot be read") from error
    if _sha256(content) != state["sha256"][path.name]:
        raise DamagedError(f"{path.name} is not what was written")
    return safetensors.torch.load(content)


def to_bytes(tensors: Tensors) -> bytes:
    """The content of a safetensors file."""
    return safetensors.torch.save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


def _canonical(state: dict[str, Any]) -> bytes:
    return json.dumps(state, sort_keys=True).encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
