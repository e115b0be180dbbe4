"""Sets from .jsonl and .parquet files, or made by a rule: a list in one column, a label or numbers in another."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import TypeGuard

import numpy
from numpy.typing import NDArray

from regard.data import made
from regard.data.files import read_values
from regard.errors import RegardError, shown

Elements = NDArray[numpy.float64] | tuple[str, ...]  # numbers (n, F), or words
Wanted = str | tuple[float, ...]  # a label, or numbers

LARGEST = 1e30  # a number; larger ones do not fit into single precision
EXPECTED = "a set is a list of numbers, of lists of numbers of one length, or of texts, such as [3, 17, 99]"


@dataclass(frozen=True, eq=False)
class SetExample:
    """A set, what is to be said of it, and where it was read."""

    elements: Elements
    wanted: Wanted
    place: str

    @property
    def key(self) -> str:
        """The same for equal sets, in whatever order their elements were written."""
        if isinstance(self.elements, tuple):
            content = "\0".join(sorted(self.elements)).encode()
        else:
            content = self.elements[numpy.lexsort(self.elements.T[::-1])].tobytes()
        return blake2b(content, digest_size=16).hexdigest()


def read_sets(name: str, columns: tuple[str, str], *, words: bool = False) -> Iterator[SetExample]:
    """The examples of a file; blank lines are skipped. With `words`, whole numbers are names and not amounts."""
    for line, (listed, wanted) in _made(name) if made.is_made(name) else read_values(name, columns):
        if listed is None and wanted is None:
            continue
        place = f"{name}:{line}"
        try:
            yield SetExample(elements_of(listed, words=words), wanted_of(wanted), place)
        except RegardError as error:
            raise RegardError(f"{place}: {error}") from None


def _made(name: str) -> Iterator[tuple[int, list[object]]]:
    for line, (text, number) in enumerate(made.rows(name), 1):
        try:
            values = [json.loads(text), float(number)]
        except ValueError:
            raise RegardError(f"{name} makes no sets; take another rule, such as largest:train") from None
        yield line, values


def elements_of(value: object, *, words: bool = False) -> Elements:
    """The elements of a list: numbers (n, F) or words. What is no set is refused."""
    listed = value.tolist() if isinstance(value, numpy.ndarray) else value
    if not isinstance(listed, list | tuple):
        raise RegardError(f"{shown(value)} is no list; {EXPECTED}")
    if not listed:
        raise RegardError("the set is empty; give it one element or more, or leave it out")
    if words:
        return tuple(_word(number, each) for number, each in enumerate(listed, 1))
    kinds = set(map(type, listed))
    if kinds == {str}:
        return tuple(listed)
    if kinds <= {int, float}:
        return _numbers([[each] for each in listed])
    if kinds <= {list, tuple}:
        return _numbers(listed)
    number, odd = next((number, each) for number, each in enumerate(listed, 1) if not _alike(listed[0], each))
    first = f" and the first is {shown(listed[0])}" if number > 1 else ""
    raise RegardError(f"element {number} of the set is {shown(odd)}{first}; {EXPECTED}")


def _alike(first: object, other: object) -> bool:
    """Whether a set may hold both."""
    return any(_is_of(first, kinds) and _is_of(other, kinds) for kinds in ((int, float), (str,), (list, tuple)))


def _is_of(value: object, kinds: tuple[type, ...]) -> bool:
    return type(value) in kinds  # a bool is no number here


def _word(number: int, element: object) -> str:
    if type(element) not in (str, int):
        raise RegardError(f"element {number} of the set is {shown(element)}; texts and whole numbers are expected")
    return str(element)


def _numbers(rows: Sequence[Sequence[object]]) -> NDArray[numpy.float64]:
    """Vectors of one length, of finite numbers alone."""
    features = len(rows[0])
    for number, row in enumerate(rows, 1):
        if len(row) != features or not features:
            raise RegardError(
                f"element {number} of the set has {len(row)} numbers and the first has {features}; {EXPECTED}"
            )
    if not set(map(type, chain.from_iterable(rows))) <= {int, float}:
        number, odd = next(
            (at, each) for at, row in enumerate(rows, 1) for each in row if not _is_of(each, (int, float))
        )
        raise RegardError(f"element {number} of the set holds {shown(odd)}, which is no number; {EXPECTED}")
    try:
        found = numpy.array(rows, dtype=numpy.float64)
    except OverflowError:
        raise RegardError("the set holds a whole number that is too large; use a smaller unit") from None
    if not numpy.isfinite(found).all():
        row, column = numpy.argwhere(~numpy.isfinite(found))[0]
        raise RegardError(f"element {row + 1} of the set holds {found[row, column]}; every number must be finite")
    if (numpy.abs(found) > LARGEST).any():
        row, column = numpy.argwhere(numpy.abs(found) > LARGEST)[0]
        raise RegardError(
            f"element {row + 1} of the set holds {found[row, column]:g}; numbers up to {LARGEST:g} are read"
        )
    return found


def wanted_of(value: object) -> Wanted:
    """What is to be said of a set: text and true or false are labels; a number, or a list of them, are numbers."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.strip():
        return value.strip()
    listed = value if isinstance(value, list | tuple) else [value]
    if listed and _all_numbers(listed) and all(map(_is_finite, listed)):
        if max(map(abs, listed)) > LARGEST:
            raise RegardError(f"the label is {shown(value)}; numbers up to {LARGEST:g} are read")
        return tuple(map(float, listed))
    raise RegardError(f"the label is {shown(value)}; a text, a finite number or a list of finite numbers is expected")


def _all_numbers(values: Sequence[object]) -> TypeGuard[Sequence[float]]:
    return all(type(each) in (int, float) for each in values)


def _is_finite(number: float) -> bool:
    """Whether a number is finite in double precision; a whole number may be too large for that."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def names_of(elements: Elements) -> tuple[str, ...]:
    """The elements as people read them: 3, or (0.5, 2), or a word."""
    if isinstance(elements, tuple):
        return elements
    rows = ([f"{each:.6g}" for each in row] for row in elements.tolist())
    return tuple(row[0] if len(row) == 1 else f"({', '.join(row)})" for row in rows)


def line_of(elements: Elements) -> str:
    """The set as JSON on one line."""
    if isinstance(elements, tuple):
        return json.dumps(elements, ensure_ascii=False)
    rows = [[int(each) if each.is_integer() else each for each in row] for row in elements.tolist()]
    return json.dumps([row[0] for row in rows] if elements.shape[1] == 1 else rows)
