"""Files mapped into memory. Pages that were read stay resident until they are let go; the system reads them again."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path

import pyarrow

RESIDENT = 64 << 20  # bytes of a corpus that may stay resident


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
        if self._large and hasattr(mmap, "MADV_DONTNEED"):
            for each in self._maps if number is None else [self._maps[number]]:
                each.madvise(mmap.MADV_DONTNEED)
