"""Lines of standard input, in groups of what arrives together; texts of the command line."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Iterable, Iterator
from itertools import count
from typing import BinaryIO

from regard.errors import RegardError, shown

BLOCK = 4096  # bytes that a program writes at once if it has many: of one that writes fewer, nothing more is awaited
PAUSE = 0.02  # seconds without anything new that end a group of blocks
LARGEST = 1 << 22  # bytes of a group
LONGEST = 1 << 24  # bytes of a line
BOM = b"\xef\xbb\xbf"


def arriving(stream: BinaryIO) -> Iterator[Iterator[str]]:
    """Groups of lines. Lines that have arrived in an open pipe do not wait for later ones; those that come while a
    group is answered are the next group. A file is one group. Only a line feed ends a line, so that each line of input
    gives one line of output.
    """
    numbers = count(1)
    if not _is_pipe(stream):
        yield _text(iter(lambda: stream.readline(LONGEST + 1), b""), numbers)
        return
    for lines in _groups(stream.fileno()):
        yield _text(lines, numbers)


def typed(argument: str) -> str:
    """A text of the command line, which Python may have read in another encoding than UTF-8."""
    try:
        return os.fsencode(argument).decode()
    except UnicodeError:
        raise RegardError(f"the text {shown(argument)} is not UTF-8; convert it with iconv") from None


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
        while len(parts[-1]) >= BLOCK and sum(map(len, parts)) < LARGEST and select.select([pipe], [], [], PAUSE)[0]:
            if not (more := os.read(pipe, LARGEST)):
                break
            parts.append(more)
        *lines, rest = b"".join(parts).split(b"\n")
        if lines:
            yield lines
        if len(rest) > LONGEST:
            break
    if rest:
        yield [rest]


def _text(lines: Iterable[bytes], numbers: Iterator[int]) -> Iterator[str]:
    for raw, number in zip(lines, numbers, strict=False):
        if len(raw) > LONGEST:
            raise RegardError(f"line {number} of standard input has more than {LONGEST >> 20} MB; break it into lines")
        try:
            text = raw.removeprefix(BOM) if number == 1 else raw
            yield text.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise RegardError(
                f"line {number} of standard input is not UTF-8; "
                "convert it, if it is Latin-1 with: iconv -f latin1 -t utf-8"
            ) from None
