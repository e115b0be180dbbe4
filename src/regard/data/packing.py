"""Packed files, by their first bytes or their names: .gz, .bz2, .xz and .zst."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from typing import Any, BinaryIO, cast

SUFFIXES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
BEGINNINGS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError)  # what reading a damaged file raises


def without_packing(name: str) -> str:
    """A name in lower case without the suffix of its packing, and of a URL without its query: "a.tsv.gz" → "a.tsv"."""
    plain = name.lower().partition("?")[0] if "://" in name else name.lower()
    return next((plain.removesuffix(suffix) for suffix in SUFFIXES if plain.endswith(suffix)), plain)


def packing_of(name: str, head: bytes) -> str | None:
    """How a file is packed, by its first bytes; one that is named as packed and is not is damaged, and not plain."""
    named = next((packing for suffix, packing in SUFFIXES.items() if name.lower().endswith(suffix)), None)
    return next((packing for begin, packing in BEGINNINGS.items() if head.startswith(begin)), named)


def unpacked(packed: BinaryIO, packing: str) -> io.RawIOBase:
    """The content of a packed file."""
    if packing == "gzip":
        return cast(io.RawIOBase, gzip.GzipFile(fileobj=packed))
    if packing == "bzip2":
        return cast(io.RawIOBase, bz2.BZ2File(packed))
    if packing == "xz":
        return cast(io.RawIOBase, lzma.LZMAFile(packed))
    return _Zstd(packed)


class _Zstd(io.RawIOBase):
    """The content of a file packed by zstd, which pyarrow unpacks."""

    def __init__(self, packed: BinaryIO) -> None:
        import pyarrow  # slow to import

        self._content = pyarrow.CompressedInputStream(pyarrow.PythonFile(packed, mode="r"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._content.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)
