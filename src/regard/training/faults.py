"""What can go wrong while a model learns, and what is left for people to read.

memory does not suffice          each batch is divided into more parts, and the run continues
the loss or the gradient is not finite      the step is skipped; too many in a row are a `NotFiniteError`
data can no longer be read       a `DataLostError`
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import safetensors.torch
import torch
from numpy import ndarray
from pydantic import JsonValue
from torch import Tensor

from regard import durable
from regard.data.streams import Batch
from regard.errors import RegardError
from regard.tasks.base import Quotes

PARTS = "parts.json"  # what processes that lack memory leave for those that are started after them


class StoppedError(RegardError):
    """The run cannot continue, and its weights are those of its last step, which are good."""


class DataLostError(StoppedError):
    """A file that the batches are made of cannot be read any more."""


class NotFiniteError(StoppedError):
    """Too many steps in a row had a loss or a gradient that is not finite; `batches` are those of the last one."""

    def __init__(self, message: str, batches: Sequence[Batch]) -> None:
        super().__init__(message)
        self.batches = batches


class LacksMemoryError(Exception):
    """Memory does not suffice for one process of several; the batches should be divided into this many `parts`."""

    def __init__(self, parts: int) -> None:
        super().__init__(parts)
        self.parts = parts


def of_data(error: Exception) -> str:
    """What to say of data that cannot be read."""
    if not isinstance(error, OSError):
        return str(error)
    name, reason = error.filename or "a file of the data", error.strerror or error
    return f"{name} cannot be read any more ({reason}); put it back as it was"


def write_batches(place: Path, batches: Sequence[Batch], task: object) -> None:
    """Write place.json, with the place of each batch in training, the numbers of its examples and, where there are any,
    their texts; and place.safetensors, with its tensors."""
    tensors = {f"{number}/{name}": tensor for number, batch in enumerate(batches) for name, tensor in _tensors(batch)}
    durable.write_file(place.with_suffix(".safetensors"), safetensors.torch.save(tensors))
    described = json.dumps([_described(batch, task) for batch in batches], indent=2, ensure_ascii=False)
    durable.write_file(place.with_suffix(".json"), described.encode())


def _described(batch: Batch, task: object) -> dict[str, JsonValue]:
    described: dict[str, JsonValue] = {"epoch": batch.epoch, "position": batch.position, "targets": batch.targets}
    rows = getattr(batch, "rows", None)
    if rows is not None:
        described["rows"] = list(rows)
    if isinstance(task, Quotes):
        described["texts"] = [dict(texts) for texts in task.quoted(batch)]
    return described


def _tensors(batch: Batch) -> list[tuple[str, Tensor]]:
    """The tensors and arrays of a batch, by name."""
    found = [
        (name, torch.from_numpy(each) if isinstance(each, ndarray) else each) for name, each in vars(batch).items()
    ]
    return [(name, each.contiguous()) for name, each in found if isinstance(each, Tensor)]


def note_parts(folder: Path, parts: int) -> None:
    """Let the processes that are started next divide each batch into this many parts."""
    durable.make_directory(folder)
    durable.write_file(folder / PARTS, json.dumps(parts).encode())


def noted_parts(folder: Path) -> int:
    """What `note_parts` has noted; 1 if nothing was, or nothing that can be read."""
    try:
        found = json.loads((folder / PARTS).read_bytes())
    except (OSError, ValueError):
        return 1
    return found if isinstance(found, int) and found > 0 else 1
