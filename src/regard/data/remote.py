"""Files elsewhere, by a URL that fsspec knows: s3://, gs://, https://, memory:// and others.

fsspec comes with torch; most protocols need a package of their own, such as s3fs, and an error names it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from regard.errors import RegardError, cut

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


def is_url(name: str) -> bool:
    """Whether a name is that of a file elsewhere: "s3://…", "https://…", "simplecache::s3://…"."""
    return "://" in name


def opened(name: str) -> io.RawIOBase:
    """The bytes of a file, as they are stored there."""
    with _explaining(name):
        system, path = _found(name)
        return _There(name, cast(io.BufferedIOBase, system.open(path, "rb")))


class _There(io.RawIOBase):
    """An open file elsewhere. What goes wrong while it is read is a RegardError."""

    def __init__(self, name: str, file: io.BufferedIOBase) -> None:
        self._name, self._file = name, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _explaining(self._name):
            return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        with _explaining(self._name):
            content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()


def matching(name: str) -> list[str]:
    """The URLs of all files that a URL with * or ? fits."""
    with _explaining(name):
        system, path = _found(name)
        return [system.unstrip_protocol(each) for each in system.glob(path)]


def stamp(name: str) -> tuple[str, int, str]:
    """Place, size, and a digest of what the place tells of a file: its time, or an ETag."""
    with _explaining(name):
        system, path = _found(name)
        about = system.info(path)
        told = repr(sorted((key, str(value)) for key, value in about.items()))
        return name, int(about.get("size") or 0), sha256(told.encode()).hexdigest()


def _found(name: str) -> tuple[AbstractFileSystem, str]:
    from fsspec.core import url_to_fs  # slow to import, and most files are here

    return cast("tuple[AbstractFileSystem, str]", url_to_fs(name))


@contextmanager
def _explaining(name: str) -> Iterator[None]:
    """Turn an error of fsspec, or of the package of a protocol, into a sentence."""
    try:
        yield
    except ImportError as error:
        raise RegardError(f"{cut(name)} needs a package that is not installed: {cut(error)}") from None
    except FileNotFoundError:
        raise RegardError(f"{cut(name)} does not exist; check the address") from None
    except RegardError:
        raise
    except Exception as error:  # each protocol has errors of its own
        reason = str(error) or type(error).__name__
        raise RegardError(f"{cut(name)} cannot be read ({cut(reason)}); check the address and your rights") from None
