"""Plain text: files that follow one another, read in pieces, never whole.

A byte-order mark and the carriage return before a line feed are not part of a text; line feeds and all else are.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import accumulate
from typing import Any

from regard.data.files import SNIFFED, expanded, opened, refuse_other_than_text, stamp
from regard.errors import RegardError

READ = 1 << 16  # characters read at a time


@dataclass(frozen=True)
class Text:
    """Files that follow one another, from character `start` up to character `end`; read anew by each iteration."""

    files: tuple[str, ...]
    start: int = 0
    end: int | None = None
    corpora: tuple[int, ...] = ()  # the number of files of each corpus of a mixture

    @property
    def parts(self) -> list["Text"]:
        """The corpora of a mixture; what is no mixture has one part."""
        if not self.corpora:
            return [self]
        ends = list(accumulate(self.corpora))
        both = zip([0, *ends], ends, strict=False)
        return [replace(self, files=self.files[begin:end], corpora=()) for begin, end in both]

    def __iter__(self) -> Iterator[str]:
        """The text in pieces of any length."""
        passed = 0
        for name in self.files:
            for piece in read_text(name):
                begin, stop = self.start - passed, len(piece) if self.end is None else self.end - passed
                passed += len(piece)
                if kept := piece[max(begin, 0) : max(stop, 0)]:
                    yield kept
                if self.end is not None and passed >= self.end:
                    return

    def cuts(self, longest: int) -> Iterator[str]:
        """The text in pieces of at most `longest` characters, cut before a space between two words if there is one."""
        rest = ""
        for piece in self:
            rest += piece
            while len(rest) > longest:
                at = _border(rest, longest)
                yield rest[:at]
                rest = rest[at:]
        if rest:
            yield rest

    @property
    def fingerprint(self) -> str:
        """Changes with the path, size or time of a file, and with the part that is taken from the files."""
        parts: list[Any] = [self.start, self.end, *([stamp(name)] for name in self.files)]
        parts += [self.corpora] if self.corpora else []
        return sha256(repr(parts).encode()).hexdigest()

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(stamp(name)[1] for name in self.files)

    def __str__(self) -> str:
        return ", ".join(self.files)


def hold_out_the_end(text: Text, *, share: float) -> tuple[Text, Text]:
    """A text without its end, and that end: the last `share` of its characters."""
    characters = sum(map(len, text))
    border = int(characters * (1 - share))
    if not 0 < border < characters:
        raise RegardError(
            f"{text} has {characters} characters, too few to hold some out for validation; "
            "give more text, or name a file as data.valid"
        )
    return replace(text, end=border), replace(text, start=border)


def open_text(files: str | list[str] | None, *, key: str) -> Text:
    """The text of one key of [data]."""
    if not files:
        raise RegardError(f"{key} is missing; name a file of text, such as --set {key}=input.txt")
    return Text(_expanded(files))


def open_mixture(corpora: Sequence[str | list[str]]) -> Text:
    """The text of all corpora of a mixture."""
    files = [_expanded(each) for each in corpora]
    return Text(tuple(name for each in files for name in each), corpora=tuple(map(len, files)))


def _expanded(files: str | list[str]) -> tuple[str, ...]:
    return tuple(each for name in ([files] if isinstance(files, str) else files) for each in expanded(name))


def read_text(name: str) -> Iterator[str]:
    """A UTF-8 file, plain or packed, in pieces of about `READ` characters."""
    read = 0
    with opened(name) as file:
        refuse_other_than_text(name, file.peek(SNIFFED)[:SNIFFED])
        with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as reader:
            try:
                while piece := reader.read(READ):
                    while piece.endswith("\r") and (more := reader.read(1)):
                        piece += more
                    if "\0" in piece:
                        raise RegardError(f"{name} holds a NUL byte: it is damaged or binary; give UTF-8 text")
                    read += len(piece)
                    yield piece.replace("\r\n", "\n")
            except UnicodeDecodeError as error:
                raise RegardError(
                    f"{name} is not UTF-8 (byte 0x{error.object[error.start]:02x}, after more than {read:,} "
                    "characters); convert the file, if it is Latin-1 with: iconv -f latin1 -t utf-8"
                ) from None


def _border(text: str, longest: int) -> int:
    """Where to cut a text that is too long: at the last space between two words, or else after `longest` characters."""
    at = text.rfind(" ", 1, longest)
    while at > 0 and (text[at - 1].isspace() or text[at + 1].isspace()):
        at = text.rfind(" ", 1, at)
    return at if at > 0 else longest
