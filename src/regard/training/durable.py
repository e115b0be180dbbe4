"""Files that are either whole or not there, whenever the power goes."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.errors import RegardError

PARTIAL = ".partial"  # ends the name of what is being written or removed; what a kill leaves behind is swept away later


def write_file(path: Path, content: bytes) -> None:
    """Write a file beside its place, wait until it is on the disk, and move it there in one step."""
    beside = path.with_name(path.name + PARTIAL)
    with explaining(path, beside):
        _write(beside, content)
        beside.replace(path)
        _sync(path.parent)


def write_directory(path: Path, contents: dict[str, bytes]) -> None:
    """The same for a directory of files; one that was there is replaced."""
    beside = path.with_name(path.name + PARTIAL)
    with explaining(path, beside):
        _discard(beside)
        beside.mkdir(parents=True)
        for name, content in contents.items():
            _write(beside / name, content)
        _sync(beside)
        if path.exists():
            remove_directory(path)
        beside.rename(path)
        _sync(path.parent)


def remove_directory(path: Path) -> None:
    """At no moment is there half a directory under its own name."""
    dying = path.with_name(path.name + ".old" + PARTIAL)
    path.rename(dying)
    shutil.rmtree(dying)


def sweep(directory: Path) -> None:
    """Remove what a killed process was writing or removing."""
    for leftover in directory.glob("*" + PARTIAL):
        _discard(leftover)


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Let one process at a time work in a directory; a killed one leaves nothing locked. Not known on Windows."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise RegardError(
            f"{directory} is being trained by another process; wait for it, or choose another directory with -o"
        ) from None
    finally:
        os.close(descriptor)


@contextmanager
def explaining(path: Path, beside: Path) -> Iterator[None]:
    """Turn a full disk, or another refusal to write, into a sentence, and leave nothing half-written behind."""
    try:
        yield
    except OSError as error:
        _discard(beside)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full" if full else error.strerror or str(error)
        remedy = "free some space" if full else "put that right"
        raise RegardError(
            f"cannot write {path}: {reason}; what was saved before is whole, so {remedy} and run the same command again"
        ) from error


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    """Have the names in a directory on the disk too; systems that cannot open a directory do it by themselves."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _discard(path: Path) -> None:
    """Remove as well as one can: this also runs where writing has just failed."""
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
