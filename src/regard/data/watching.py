"""How many bytes of files were read, for a progress bar: inside `watching`, every file that is opened counts."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass
class Watch:
    """The bytes read so far, packed where a file is packed."""

    read: int = 0


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watching() -> Iterator[Watch]:
    """What is read while the `with` lasts, by this thread."""
    watch = Watch()
    token = _watch.set(watch)
    try:
        yield watch
    finally:
        _watch.reset(token)


def watched(file: io.RawIOBase) -> io.RawIOBase:
    """The same file, whose bytes are counted if someone watches."""
    watch = _watch.get()
    return file if watch is None else _Watched(file, watch)


class _Watched(io.RawIOBase):
    def __init__(self, file: io.RawIOBase, watch: Watch) -> None:
        self._file, self._watch = file, watch

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer) or 0
        self._watch.read += count
        return count
