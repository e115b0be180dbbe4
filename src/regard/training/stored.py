"""The files of a checkpoint: what they are called, what state.json holds, and reading them with every byte checked.

Each file has a checksum in state.json, and state.json has one of itself. What is not as it was written is a
`DamagedError`; weights that are intact and belong to another model are a `RegardError`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import safetensors
import safetensors.torch
import torch
from pydantic import BaseModel, Field, ValidationError
from torch import Tensor, nn

from regard.directory import WEIGHTS
from regard.training.plan import Plan
from regard.training.weights import Shapes, Tensors, require_shapes, weights_of

TRAINING, STATE = "training.safetensors", "state.json"

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
    plan: Plan | None = None
    preparing: Annotated[Finite, Field(ge=0)] = 0.0
    seconds: Annotated[Finite, Field(ge=0)]
    learning_seconds: Annotated[Finite, Field(ge=0)]
    learning_rate: Annotated[Finite, Field(ge=0)]
    loss: Finite
    recent: float  # a sum, which one bad loss made infinite in version 0.1 until the next point of the curve
    history: list[Point]
    validations: list[Point]
    random: Generators
    sha256: dict[str, str]


class Read(NamedTuple):
    """Tensors from one or several files: the rows that this process needs of each, and the shapes of all rows."""

    tensors: Tensors
    shapes: Shapes


class DamagedError(Exception):
    """A checkpoint whose content is not what was written; the message is the reason."""


def step_of(checkpoint: Path) -> int:
    """The step that the name of a checkpoint says."""
    return int(checkpoint.name.removeprefix("step-"))


def state_bytes(numbers: dict[str, Any], sums: dict[str, str]) -> bytes:
    """The content of state.json, with the checksums of the other files."""
    state = {**numbers, "sha256": sums}
    return json.dumps({"sha256": sha256(_canonical(state)), "state": state}).encode()


def read_state(checkpoint: Path) -> State:
    """The numbers of a checkpoint, checked."""
    content = _read_bytes(checkpoint / STATE)
    try:
        whole = json.loads(content)
        canonical = _canonical(whole["state"])
        intact = whole["sha256"] == sha256(canonical)
        state = State.model_validate_json(canonical, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DamagedError(f"{STATE}: {place}: {first['msg']}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(f"{STATE} cannot be read") from error
    if not intact:
        raise DamagedError(f"{STATE} is not what was written")
    if state.step != step_of(checkpoint):
        raise DamagedError(f"{STATE} is of step {state.step}")
    return state


def read_weights(checkpoint: Path, state: State, model: nn.Module, needed: Mapping[str, slice]) -> Read:
    """The weights of a checkpoint, if they fit a model: the `needed` rows of them, or all."""
    weights = read_tensors(checkpoint, WEIGHTS, state, needed)
    require_same_kind(model, weights, origin=checkpoint)
    return weights


def require_same_kind(model: nn.Module, weights: Read, *, origin: Path) -> None:
    """Weights that fit the model, in its own precision."""
    require_shapes(model, weights.shapes, origin=origin)
    for name, tensor in weights_of(model).items():
        if weights.tensors[name].dtype != tensor.dtype:
            raise DamagedError(f"{name} is {weights.tensors[name].dtype} there and {tensor.dtype} here")


def read_tensors(checkpoint: Path, name: str, state: State, needed: Mapping[str, slice]) -> Read:
    """The tensors of weights.safetensors or training.safetensors, or of the files that each process wrote of it: the
    `needed` rows, or all. One file at a time is in memory."""
    stem, _, _ = name.partition(".")
    files = sorted(file for file in state.sha256 if file.startswith((f"{stem}.", f"{stem}-")))
    parts: dict[str, list[Tensor]] = {}
    shapes: Shapes = {}
    for file in files or [name]:
        for key, tensor in _read_file(checkpoint / file, state).items():
            begin, shape = (shapes[key][0] if shapes.get(key) else 0), tuple(tensor.shape)
            shapes[key] = (begin + shape[0], *shape[1:]) if shape else ()
            parts.setdefault(key, []).append(_taken(tensor, begin, needed[key]) if key in needed else tensor)
    try:
        return Read({key: some[0] if len(some) == 1 else torch.cat(some) for key, some in parts.items()}, shapes)
    except RuntimeError as error:
        raise DamagedError(f"{name} is in parts that do not fit together") from error


def _taken(tensor: Tensor, begin: int, rows: slice) -> Tensor:
    """Those of some rows that a tensor has, whose first row is number `begin`; a single number is a row."""
    every = tensor if tensor.dim() else tensor.view(1)
    return every[max(rows.start - begin, 0) : max(rows.stop - begin, 0)].clone()


def _read_file(path: Path, state: State) -> Tensors:
    content = _read_bytes(path)
    if sha256(content) != state.sha256.get(path.name):
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


def _canonical(state: Any) -> bytes:
    return json.dumps(state, sort_keys=True).encode()


def sha256(content: bytes) -> str:
    """The checksum of the content of a file."""
    return hashlib.sha256(content).hexdigest()
