"""Examples made by a rule, so that a recipe needs no file: `data.train = "listops:train"`.

Settings follow as in a web address, "listops:train?examples=20000&longest=512"; a wrong one is refused by name. The
same name always gives the same examples. An example belongs to one part (train, valid or test) by a hash of its text,
so that no part holds an example of another.

listops      nested operations on digits, and their value
algorithms   copy, reverse and addition of digits
sets         the largest of some numbers, and the sum of digits
drawn        scenes of coloured shapes, and their captions
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import count
from random import Random
from typing import Protocol
from urllib.parse import parse_qsl

from pydantic import PositiveInt

from regard.checking import Settings, check
from regard.data.made import algorithms, drawn, listops, sets
from regard.errors import RegardError, cut

VERSION = 3  # changes when a rule does, so that what was kept of it is made anew
SEED = 1  # of the examples of every rule
PARTS = {"train": 20_000, "valid": 1_000, "test": 2_000}  # examples, unless `examples` is given
TEST, VALID = 10, 10  # percent of all possible examples
TRIES = 10_000  # draws in a row that may all belong to other parts or be known


class Rule(Protocol):
    """A rule with its settings, as fields."""

    def draw(self, random: Random) -> tuple[str, str]:
        """One example: a text and its label or target."""
        ...


class _Amount(Settings):
    examples: PositiveInt


RULES: dict[str, type[listops.ListOps | algorithms.Digits | sets.Numbers | drawn.Drawn]] = {
    "listops": listops.ListOps,
    "copy": algorithms.Copy,
    "reverse": algorithms.Reverse,
    "addition": algorithms.Addition,
    "largest": sets.Largest,
    "digit_sum": sets.DigitSum,
    "drawn": drawn.Drawn,
}


def is_made(name: str) -> bool:
    """Whether a name of [data] stands for made examples, "listops:train", and not for a file."""
    rule, colon, _ = name.partition(":")
    return bool(colon) and rule in RULES


def rows(name: str) -> Iterator[tuple[str, str]]:
    """The examples that a name stands for, each once."""
    rule_name, _, rest = name.partition(":")
    part, _, query = rest.partition("?")
    if part not in PARTS:
        known = ", ".join(f"{rule_name}:{each}" for each in PARTS)
        raise RegardError(f"{cut(name)} is not a part of {rule_name}; there are {known}")
    settings: dict[str, object] = {key: _number(value) for key, value in parse_qsl(query, keep_blank_values=True)}
    amount = check(_Amount, {"examples": settings.pop("examples", PARTS[part])}, where=cut(name)).examples
    rule = check(RULES[rule_name], settings, where=cut(name))
    return _distinct(name, rule, part, amount)


def _distinct(name: str, rule: Rule, part: str, amount: int) -> Iterator[tuple[str, str]]:
    random, seen, last = Random(f"{SEED} {name.partition('?')[0]} {rule!r}"), set[bytes](), 0
    for tried in count(1):
        text, target = rule.draw(random)
        digest = blake2b(text.encode(), digest_size=8).digest()
        if _part(digest) == part and digest not in seen:
            seen.add(digest)
            last = tried
            yield text, target
            if len(seen) == amount:
                return
        elif tried - last > TRIES:
            raise RegardError(
                f"{cut(name)}: only {len(seen)} different examples were found; ask for fewer, or for longer ones"
            )


def _part(digest: bytes) -> str:
    percent = int.from_bytes(digest) % 100
    if percent < TEST:
        return "test"
    return "valid" if percent < TEST + VALID else "train"


def _number(text: str) -> object:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else text
