"""A disk that fails at a chosen operation: for tests of what a kill or a full disk leaves behind."""

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHANGING = ("rename", "replace", "mkdir", "unlink", "rmdir")
TAKING_SPACE = ("open", "write", "fsync", "mkdir")  # what goes on failing while a disk is full

Fault = Callable[[str], None]  # told the name of each operation before it happens; may raise instead


class Killed(BaseException):
    """The process is no more. Nothing catches this, and everything that is tried afterwards raises it again."""


class Death:
    """Kills the process instead of its operation number `at`. `reached` tells whether it made so many."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.reached = False

    def __call__(self, operation: str) -> None:
        self.reached = self.left == 0
        if self.reached:
            raise Killed(operation)
        self.left -= 1


class FullDisk:
    """Has no space for operation number `at`, nor for anything that takes space afterwards; removing needs none."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.reached = False

    def __call__(self, operation: str) -> None:
        first, self.left = self.left == 0, self.left - 1
        self.reached = self.reached or first
        if (first and operation not in ("unlink", "rmdir")) or (self.reached and operation in TAKING_SPACE):
            raise OSError(errno.ENOSPC, "No space left on device")


@contextmanager
def failing(fault: Fault) -> Iterator[None]:
    """Within, every operation that changes files asks `fault` first; nothing waits for the real disk."""
    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGING:
            patch.setattr(os, name, _asking(name, getattr(os, name), fault))
        patch.setattr(os, "fsync", lambda _: fault("fsync"))
        patch.setattr(io, "open", _opening(io.open, fault))
        yield


def _asking(name: str, operation: Callable[..., Any], fault: Fault) -> Callable[..., Any]:
    def ask(*arguments: Any, **named: Any) -> Any:
        fault(name)
        return operation(*arguments, **named)

    return ask


def _opening(operation: Callable[..., Any], fault: Fault) -> Callable[..., Any]:
    def ask(path: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        if "w" not in mode:
            return operation(path, mode, *arguments, **named)
        fault("open")
        return _File(operation(path, mode, *arguments, **named), fault)

    return ask


class _File:
    """A file of which only half is written when writing fails."""

    def __init__(self, file: Any, fault: Fault) -> None:
        self.file, self.fault = file, fault

    def write(self, content: bytes) -> int:
        try:
            self.fault("write")
        except BaseException:
            self.file.write(content[: len(content) // 2])
            raise
        return self.file.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
