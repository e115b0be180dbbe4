"""Many examples at once: cells of text, and flags that tell which of them a rule has to look at.

Most texts have nothing that most rules look for. One pass of NumPy over the bytes of a block finds, for each cell,
which characters occur in it at all, how many characters and words it has, and what repeats; a rule in Python then looks
only at cells that can have its defect.

n examples   w cells of each
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy
from numpy.typing import NDArray

# what occurs in a cell
BEYOND = 1 << 0  # the first byte of a letter of another script than Latin
ODD = 1 << 1  # one that is not a plain letter of most alphabets: a sign, a space, an accent by itself, half a character
CONTROL = 1 << 2  # a control character
DIGIT = 1 << 3
ANGLE = 1 << 4  # < or >
AMPERSAND = 1 << 5
AT = 1 << 6
BACKSLASH = 1 << 7
ADDRESS = 1 << 8  # :/ or ww
BRACE = 1 << 9  # any of {}[]=
PERCENT = 1 << 10
DOLLAR = 1 << 11
SPACES = 1 << 12  # two spaces in a row
SPACED = 1 << 13  # a space before a full stop, a comma or an apostrophe
RUN = 1 << 14  # the same byte eight times in a row
STUTTER = 1 << 15  # three words of the same length in a row that begin alike, as far as their first bytes tell
STRETCH = 1 << 16  # sixty bytes without a space

LONG_WORD, LONG_RUN = 60, 8  # bytes
_TAB, _LINE, _SPACE = 9, 10, 32

# first bytes of characters in UTF-8 that are ODD: signs, spaces, accents by themselves, characters of private use, …
_ODD_BYTES = (0xC2, 0xC6, 0xCB, 0xCC, 0xCD, 0xD9, 0xE0, 0xE1, 0xE2, 0xED, 0xEE, 0xEF, *range(0xF0, 0x100))
_BEYOND_BYTES = (*range(0xCD, 0xE2), *range(0xE3, 0xF0))  # those of the scripts that `languages` knows
_FULL_STOP, _COMMA, _APOSTROPHE = 46, 44, 39
_COLON, _SLASH, _W = 58, 47, 119


def _table() -> NDArray[numpy.uint32]:
    table = numpy.zeros(256, dtype=numpy.uint32)
    table[list(_ODD_BYTES)] |= ODD
    table[list(_BEYOND_BYTES)] |= BEYOND
    table[:32] |= CONTROL
    table[127] |= CONTROL
    table[[_TAB, _LINE]] = 0
    marks = {b"0123456789": DIGIT, b"<>": ANGLE, b"&": AMPERSAND, b"@": AT, b"\\": BACKSLASH}
    marks |= {b"{}[]=": BRACE, b"%": PERCENT, b"$": DOLLAR}
    for characters, flag in marks.items():
        table[list(characters)] |= flag
    return table


_FLAGS = _table()


# what a byte adds to the counts of its cell: 16 bits for each of characters, letters and solid bytes
_PLACES = (0, 16, 32)
_CHARACTERS, _LETTERS, _SOLID = _PLACES
_FIELD = numpy.uint64(0xFFFF)


def _counted() -> NDArray[numpy.uint64]:
    table = numpy.zeros(256, dtype=numpy.uint64)
    separators = (_TAB, _LINE)
    table[[byte for byte in range(256) if byte & 0xC0 != 0x80 and byte not in separators]] += 1 << _CHARACTERS
    table[[*range(65, 91), *range(97, 123), *range(128, 256)]] += 1 << _LETTERS
    table[_SPACE + 1 :] += 1 << _SOLID
    return table


_COUNTED = _counted()


@dataclass(frozen=True)
class Block:
    """Examples with the numbers of their lines. No cell has a tab or a line feed."""

    numbers: Sequence[int]
    rows: list[list[str]]

    @cached_property
    def _bytes(self) -> NDArray[numpy.uint8]:
        text = "\n".join(["\t".join(row) for row in self.rows]) + "\n"
        return numpy.frombuffer(text.encode(errors="surrogatepass"), dtype=numpy.uint8)

    @cached_property
    def _spaces(self) -> tuple[NDArray[numpy.int64], NDArray[numpy.uint8]]:
        """Where there are spaces, tabs, line feeds and other characters that separate words, and which they are."""
        places = numpy.flatnonzero(self._bytes <= _SPACE)
        return places, self._bytes[places]

    @cached_property
    def _ends(self) -> NDArray[numpy.int64]:
        """Where each cell ends: the place of the tab or line feed after it."""
        places, which = self._spaces
        return places[(which == _TAB) | (which == _LINE)]

    @cached_property
    def _starts(self) -> NDArray[numpy.int64]:
        return numpy.concatenate([[0], self._ends[:-1] + 1])

    def _in_cells(self, values: NDArray[numpy.integer]) -> NDArray[numpy.int64]:
        return values.astype(numpy.int64).reshape(len(self.rows), -1)

    @cached_property
    def _counts(self) -> tuple[NDArray[numpy.int64], ...]:
        """Characters, bytes of letters, and bytes that are no spaces in each cell: (n, w) each.

        Each count has 16 bits of one number for each byte, and all are summed at once. A cell may be longer than
        these bits can count: then each is summed by itself.
        """
        marks = _COUNTED[self._bytes]
        if int((self._ends - self._starts).max(initial=0)) < 1 << 16:
            sums = numpy.add.reduceat(marks, self._starts)
            return tuple(self._in_cells((sums >> numpy.uint64(place)) & _FIELD) for place in _PLACES)
        apart = ((marks >> numpy.uint64(place)) & _FIELD for place in _PLACES)
        return tuple(self._in_cells(numpy.add.reduceat(each, self._starts)) for each in apart)

    @property
    def characters(self) -> NDArray[numpy.int64]:
        """(n, w)"""
        return self._counts[0]

    @cached_property
    def _words(self) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int64]]:
        """The place after each word, its length in bytes, and the number of its cell. Between two spaces, and between a
        space and the end of a cell, is a word of length 0."""
        ends, which = self._spaces
        last = (which == _TAB) | (which == _LINE)
        return ends, numpy.diff(ends, prepend=-1) - 1, numpy.cumsum(last) - last

    @cached_property
    def words(self) -> NDArray[numpy.int64]:
        """Groups of characters between spaces: (n, w)"""
        _, lengths, cell = self._words
        return self._in_cells(numpy.bincount(cell[lengths > 0], minlength=len(self._ends)))

    @property
    def letters(self) -> NDArray[numpy.int64]:
        """Bytes of letters, with every byte beyond ASCII: (n, w)"""
        return self._counts[1]

    @property
    def solid(self) -> NDArray[numpy.int64]:
        """Bytes that are no spaces: (n, w)"""
        return self._counts[2]

    @cached_property
    def flags(self) -> NDArray[numpy.int64]:
        """What occurs in each cell: (n, w)"""
        content = self._bytes
        marks = _FLAGS[content]
        pairs = [
            (SPACES, _SPACE, (_SPACE,)),
            (SPACED, _SPACE, (_FULL_STOP, _COMMA, _APOSTROPHE)),
            (ADDRESS, _COLON, (_SLASH,)),
            (ADDRESS, _W, (_W,)),
            (ODD, 0xC3, (0x82, 0x83)),  # Â and Ã
        ]
        spaces, which = self._spaces
        places = {byte: numpy.flatnonzero(content == byte) for byte in (_COLON, _W, 0xC3)}
        places[_SPACE] = spaces[which == _SPACE]
        for flag, first, second in pairs:
            after = content[places[first] + 1]  # there is one: the last byte is a line feed
            marks[places[first][numpy.isin(after, second)]] |= flag
        doubled = numpy.flatnonzero(content[1:] == content[:-1])
        most = LONG_RUN - 2
        marks[doubled[most:][doubled[most:] - doubled[:-most] == most]] |= RUN
        found = self._in_cells(numpy.bitwise_or.reduceat(marks, self._starts))
        self._add_words(found)
        return found

    def _add_words(self, flags: NDArray[numpy.int64]) -> None:
        """Set STUTTER and STRETCH, by the lengths of words."""
        ends, lengths, cell = self._words
        flat = flags.reshape(-1)
        flat[cell[lengths >= LONG_WORD]] |= STRETCH
        letter = self._bytes[ends - lengths] | 0x20  # the first of each word, whatever its case
        same = (lengths[1:] == lengths[:-1]) & ((letter[1:] == letter[:-1]) | (letter[1:] >= 0x80))
        third = numpy.flatnonzero(same[1:] & same[:-1] & (lengths[2:] > 0)) + 2
        flat[cell[third[cell[third] == cell[third - 2]]]] |= STUTTER

    @cached_property
    def edges(self) -> NDArray[numpy.bool_]:
        """Whether a cell begins or ends with white space: (n, w)"""
        content, starts, ends = self._bytes, self._starts, self._ends
        full = ends > starts
        first, last = content[starts] <= _SPACE, content[numpy.maximum(ends - 1, 0)] <= _SPACE
        return (full & (first | last)).reshape(len(self.rows), -1)

    def begin_alike(self, count: int) -> NDArray[numpy.bool_]:
        """Whether the first two cells begin with the same bytes, so many, whatever their case: (n,)"""
        starts = self._starts.reshape(len(self.rows), -1)
        places = numpy.minimum(starts[:, :2, None] + numpy.arange(count), len(self._bytes) - 1)  # (n, 2, count)
        found = self._bytes[places] | 0x20
        same: NDArray[numpy.bool_] = (found[:, 0] == found[:, 1]).all(1)
        return same

    def likely(self, needs: int, columns: int) -> Iterator[tuple[int, int]]:
        """The examples and columns (of the first `columns`) whose cells have at least one of the flags."""
        rows, cells = numpy.nonzero(self.flags[:, :columns] & needs)
        return zip(rows.tolist(), cells.tolist(), strict=True)
