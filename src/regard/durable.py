"""Files and directories that are either whole or absent, even after a kill or a power cut.

    X.PID.partial           is being written by one process, and takes its place in one rename
    X.partial               is a directory that is being written, by one process or by several
    X.replaced.partial      was X until the new X takes its place; `sweep` puts it back where that never happened
    X.old.partial           is being removed

A killed process leaves some of these behind; `sweep`, called before the next one begins, puts them right.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.errors import RegardError

PARTIAL = ".partial"
REPLACED = ".replaced" + PARTIAL
OLD = ".old" + PARTIAL


class DiskFullError(RegardError):
    """The disk is full. `reason` says what could not be written, and how many bytes that needs."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}; what was saved before is whole, so free some space and run the same command again")


def write_file(path: Path, content: bytes) -> None:
    """Write a file beside its place, wait until it is on the disk, and move it there in one step."""
    with replacing(path, size=len(content)) as beside:
        beside.write_bytes(content)


@contextmanager
def replacing(path: Path, *, size: int = 0) -> Iterator[Path]:
    """The same for a file that the caller writes: yields where to; if the caller fails, `path` stays as it was.

    `size` is how many bytes the file will have, if that is known.
    """
    beside = _named(path, f".{os.getpid()}{PARTIAL}")  # a child of a killed process may still be writing the same file
    with _explaining(path, "write", size=size):
        try:
            yield beside
            with beside.open("r+b") as file:
                os.fsync(file.fileno())
            beside.replace(path)
            _sync(path.parent)
        except BaseException:
            _discard(beside)
            raise


def write_directory(path: Path, contents: dict[str, bytes]) -> None:
    """The same for a directory of files, by name or by path inside it; one that was there is replaced.

    At every moment the old or the new directory is whole: at `path`, or at a name from which `sweep` puts it back.
    """
    size = sum(map(len, contents.values()))
    begin_directory(path, size)
    add_to_directory(path, contents, size)
    end_directory(path, size)


def begin_directory(path: Path, size: int) -> None:
    """`write_directory` in three steps, for several processes: one begins, all add their files, one ends.

    `size` is how many bytes this process writes in all, for the message of a full disk.
    """
    beside = _named(path, PARTIAL)
    with _explaining(path, "write", size=size), _or_not_at_all(beside):
        _discard(beside)
        beside.mkdir(parents=True)


def add_to_directory(path: Path, contents: dict[str, bytes], size: int) -> None:
    """Write files of a directory that was begun; they are on the disk before this returns."""
    beside = _named(path, PARTIAL)
    with _explaining(path, "write", size=size), _or_not_at_all(beside):
        for name, content in contents.items():
            (beside / name).parent.mkdir(parents=True, exist_ok=True)
            _write(beside / name, content)


def end_directory(path: Path, size: int) -> None:
    """Put a directory to which all files were added in its place."""
    beside, replaced = _named(path, PARTIAL), _named(path, REPLACED)
    with _explaining(path, "write", size=size), _or_not_at_all(beside):
        try:
            _sync(beside)
            if _is_there(path):
                _discard(replaced)
                path.rename(replaced)
            beside.rename(path)
            _sync(path.parent)
        finally:
            _recover(replaced)


def make_directory(path: Path) -> None:
    """Make a directory and those above it, as far as they are not there."""
    with _explaining(path, "write"):
        path.mkdir(parents=True, exist_ok=True)


def remove_directory(path: Path) -> None:
    """Remove a directory, so that there is never a part of it under its own name."""
    dying = _named(path, OLD)
    with _explaining(path, "remove"):
        _discard(dying)
        path.rename(dying)
        _discard(dying)


def is_file(name: str | Path) -> bool:
    """Whether a name is that of a regular file; a text that cannot be a name, being too long, is not."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def remove_file(path: Path) -> None:
    """Remove a file, if it is there."""
    with _explaining(path, "remove"):
        path.unlink(missing_ok=True)


def sweep(directory: Path) -> None:
    """Put right what a killed process left, in a directory and in those below it; links are not followed.

    What it was replacing is put back, unless the new one is there; what it was writing or removing is removed. No other
    process may be writing there.
    """
    for place, directories, files in os.walk(directory):
        for name in directories + files:
            if name.endswith(REPLACED):
                _recover(Path(place, name))
            elif name.endswith(PARTIAL):
                _discard(Path(place, name))
        directories[:] = [name for name in directories if not name.endswith(PARTIAL)]


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Let one process at a time work in a directory; a killed one leaves nothing locked.

    Where there are no locks (on Windows, on some network drives) any number of processes may enter.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with _explaining(directory, "open"):
        descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RegardError(
                f"{directory} is being trained by another process; wait for it, or choose another directory with -o"
            ) from None
        except OSError:
            pass  # this drive has no locks
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _explaining(path: Path, what: str, *, size: int = 0) -> Iterator[None]:
    """Turn a full disk, or another refusal of the system, into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            needed = f", and {size:,} bytes are needed" if size else ""
            raise DiskFullError(f"cannot {what} {path}: the disk is full{needed}") from error
        raise RegardError(
            f"cannot {what} {path}: {error.strerror or error}; what was saved before is whole, "
            "so put that right and run the same command again"
        ) from error


@contextmanager
def _or_not_at_all(beside: Path) -> Iterator[None]:
    """Remove what was being written, if the system refuses to write more of it."""
    try:
        yield
    except OSError:
        _discard(beside)
        raise


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


def _recover(replaced: Path) -> None:
    """Put back what was to be replaced, unless something has taken its place: then it is removed."""
    path = replaced.with_name(replaced.name.removesuffix(REPLACED))
    with suppress(OSError):
        if not _is_there(path) and _is_there(replaced):
            replaced.rename(path)
    if _is_there(path):
        _discard(replaced)


def _discard(path: Path) -> None:
    """Remove a file, a link (but not what it points to) or a directory, if the system lets it: `sweep` tries again."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _is_there(path: Path) -> bool:
    """Whether a name is taken, be it by a link that points nowhere."""
    return path.exists() or path.is_symlink()


def _named(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
