"""Rules on a source and its target. An example that has one of these defects cannot be mended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy

from regard.doctor import block
from regard.doctor.block import Block
from regard.doctor.report import Outcome

LONGEST = 150  # words of a text
LONGEST_CHARACTERS = 2000
RATIO = 3.0  # of the lengths of both sides, in characters
SLACK = 20  # characters that a side may have more in any case
FEWEST_LETTERS = 0.4  # of what is no space
COPIED = 4  # words that a copy has at least: names and exclamations are the same in many languages
ALIKE = 0.8  # of the words of both sides, for a near copy


@dataclass(frozen=True)
class PairRule:
    """A defect of a pair. `needs` are flags, of which one side with the defect has at least one."""

    name: str
    about: str
    needs: int
    finds: Callable[[str, str], object]
    outcome: Outcome = "dropped"


def _sets_differ(pattern: str) -> Callable[[str, str], bool]:
    """Whether a pattern finds something on both sides or on one, and not the same."""
    find = re.compile(pattern).findall
    return lambda source, target: sorted(find(source)) != sorted(find(target))


_NUMBER = re.compile(r"\d+(?:[.,'\u00a0\u202f ]\d{3})+(?!\d)|\d+")
_CENTURIES = tuple(map(str, range(10, 22)))
_TIME = re.compile(r"\d\s*(?:[:h]\s*\d|h\b|heures?|a\.m|p\.m|am\b|pm\b|Uhr|o'clock)", re.IGNORECASE)


def _numbers(text: str) -> list[str]:
    """The numbers of two digits or more, without the separators between thousands, in order of size."""
    plain = (re.sub(r"\D", "", found) for found in _NUMBER.findall(text))
    return sorted(number.lstrip("0") for number in plain if len(number) > 1)


def numbers_differ(source: str, target: str) -> bool:
    """Whether both sides have numbers and these are not the same; a number may be written as a word, and times are
    written in several ways."""
    if _TIME.search(source) or _TIME.search(target):
        return False
    ours, theirs = _numbers(source), _numbers(target)
    if not ours or not theirs:
        return any(map(_is_odd, ours or theirs))
    return len(ours) == len(theirs) and not any(map(_alike, ours, theirs)) and "".join(ours) != "".join(theirs)


def _is_odd(number: str) -> bool:
    """Whether nobody would write a number as words: it is long, no round number and no year."""
    return len(number) > 3 and not number.endswith("00") and not (len(number) == 4 and number[:2] in _CENTURIES)


def _alike(first: str, second: str) -> bool:
    """Whether two numbers can be the same, as 1950 and 50 can be the same years."""
    return first.endswith(second) or second.endswith(first)


_URL = r"(?:https?://|www\.)[^\s<>\"')\]]+"
_PLACEHOLDER = r"\{\{[^{}]{1,40}\}\}|\{\w{0,20}\}|\$\{\w{1,20}\}|%\(\w{1,20}\)[sd]|%[sd](?!\w)|%\d\$[sd]"

PAIR_RULES = (
    PairRule("numbers", "numbers that differ between the sides", block.DIGIT, numbers_differ),
    PairRule("URLs", "addresses that differ between the sides", block.ADDRESS, _sets_differ(_URL)),
    PairRule("e-mails", "e-mail addresses that differ", block.AT, _sets_differ(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")),
    PairRule(
        "placeholders",
        "placeholders that differ between the sides",
        block.BRACE | block.PERCENT | block.DOLLAR,
        _sets_differ(_PLACEHOLDER),
    ),
    PairRule(
        "currencies",
        "currencies that differ between the sides",
        block.DOLLAR | block.ODD,
        lambda source, target: (
            (a := set(re.findall("[$€£¥₽₹]", source))) and (b := set(re.findall("[$€£¥₽₹]", target))) and a != b
        ),
    ),
)


def sizes(some: Block, columns: int) -> Iterator[tuple[int, str, str]]:
    """Examples whose texts are empty, too long or of different lengths, with the name and a sentence of the defect."""
    characters, words = some.characters[:, :columns], some.words[:, :columns]
    empty = words == 0
    for row in numpy.flatnonzero(empty.any(1)).tolist():
        if empty[row].all():
            yield row, "empty", "no text"
        elif empty[row, 0]:
            yield row, "empty source", "an empty source"
        else:
            yield row, "empty target", "an empty target"
    if columns < 2:
        return
    full = ~empty.any(1)
    for row in numpy.flatnonzero(full & ((words > LONGEST) | (characters > LONGEST_CHARACTERS)).any(1)).tolist():
        yield row, "overlong", f"more than {LONGEST} words or {LONGEST_CHARACTERS:,} characters"
    shorter, longer = characters.min(1), characters.max(1)
    for row in numpy.flatnonzero(full & (longer > RATIO * shorter + SLACK)).tolist():
        yield row, "length ratio", f"one side more than {RATIO:g} times as long as the other"


def few_letters(some: Block, columns: int) -> Iterator[int]:
    """Examples with a text that is mostly no letters."""
    letters, solid = some.letters[:, :columns], some.solid[:, :columns]
    yield from numpy.flatnonzero(((solid > 8) & (letters < FEWEST_LETTERS * solid)).any(1)).tolist()


def copies(some: Block) -> Iterator[tuple[int, str, str]]:
    """Pairs whose sides are the same, or nearly."""
    characters, words = some.characters, some.words.min(1)
    close = abs(characters[:, 0] - characters[:, 1]) <= 0.2 * characters.max(1)
    for row in numpy.flatnonzero(close & (words >= COPIED) & some.begin_alike(2)).tolist():
        source, target = some.rows[row][:2]
        if source == target:
            yield row, "copy", "a target that is its source"
        else:
            ours, theirs = source.casefold().split(), target.casefold().split()
            if 2 * len(set(ours) & set(theirs)) > ALIKE * (len(set(ours)) + len(set(theirs))):
                yield row, "near copy", "a target that is nearly its source"
