"""Files mapped into memory. Pages that were read stay resident until they are let go; the system reads them again."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Generic, TypeVar

import numpy
import pyarrow
from numpy.typing import NDArray

RESIDENT = 64 << 20  # bytes of a corpus that may stay resident
FEW = 8 << 20  # bytes of numbers that stay in memory

Number = TypeVar("Number", bound=numpy.generic)


class Mapped:
    """Files of Arrow record batches, mapped into memory one after the other."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._maps: list[mmap.mmap] = []
        self._large = sum(path.stat().st_size for path in paths) > RESIDENT
        for path in paths:
            with path.open("rb") as file:
                self._maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def batches(self, number: int) -> list[pyarrow.RecordBatch]:
        """The record batches of one file, which stay on disk."""
        with pyarrow.ipc.open_file(pyarrow.py_buffer(self._maps[number])) as file:
            return [file.get_batch(place) for place in range(file.num_record_batches)]

    def release(self, number: int | None = None) -> None:
        """Let go of the pages of one file or of all, unless all files are small."""
        if self._large:
            for each in self._maps if number is None else [self._maps[number]]:
                _release(each)


class Numbers(Generic[Number]):
    """Numbers that are read and not changed; many of them move to a temporary file that is mapped into memory."""

    def __init__(self, values: NDArray[Number]) -> None:
        self._map: mmap.mmap | None = None
        self.values = values
        if values.nbytes > FEW:
            with tempfile.TemporaryFile() as file:
                values.tofile(file)
                file.flush()
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.values = numpy.frombuffer(self._map, dtype=values.dtype)

    def release(self) -> None:
        """Let go of the pages that were read."""
        if self._map is not None:
            _release(self._map)


def _release(mapped: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_DONTNEED"):  # not on every system
        mapped.madvise(mmap.MADV_DONTNEED)
