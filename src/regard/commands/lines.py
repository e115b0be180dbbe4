"""Lines of standard input, in groups of what arrives together."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Iterable, Iterator
from itertools import count
from typing import BinaryIO

from regard.errors import RegardError

PAUSE = 0.02  # seconds without anything new that end a group
LARGEST = 1 << 22  # bytes


def arriving(stream: BinaryIO) -> Iterator[Iterator[str]]:
    """Of a pipe that stays open, nothing that is there waits for what is yet to come; a file is one group.

    Only a line feed ends a line, so that one line in stays one line out.
    """
    numbers = count(1)
    if not _is_pipe(stream):
        yield _text(stream, numbers)
        return
    for lines in _groups(stream.fileno()):
        yield _text(lines, numbers)


def _is_pipe(stream: BinaryIO) -> bool:
    if sys.platform == "win32":  # where pipes cannot be asked whether they hold something
        return False
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _groups(pipe: int) -> Iterator[list[bytes]]:
    rest = b""
    while data := os.read(pipe, LARGEST):
        parts = [rest, data]
        while sum(map(len, parts)) < LARGEST and select.select([pipe], [], [], PAUSE)[0]:
            if not (more := os.read(pipe, LARGEST)):
                break
            parts.append(more)
        *lines, rest = b"".join(parts).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def _text(lines: Iterable[bytes], numbers: Iterator[int]) -> Iterator[str]:
    for raw, number in zip(lines, numbers, strict=False):
        try:
            yield raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise RegardError(
                f"line {number} of standard input is not UTF-8; "
                "convert it, if it is Latin-1 with: iconv -f latin1 -t utf-8"
            ) from None
