"""ListOps: nested operations on lists of digits, and their value (Nangia 2018).

    [MAX 2 9 [MIN 4 7 ] 0 ]  →  9

The operations are MIN, MAX, MED (the median, rounded down) and SM (the sum modulo 10). Brackets are part of the text:
without them the value cannot be known. As in the Long Range Arena (Tay 2021), a list has 2 to 10
arguments, evenly; each is a list itself with probability 1/4, or else a digit.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Self

from pydantic import Field, PositiveInt, model_validator

from regard.checking import Settings
from regard.errors import RegardError

FEWEST = 4  # tokens of the shortest list: [MAX 1 2 ]
TRIES = 100_000  # draws of a list that may all be too short or too long
NESTED = 0.25  # how probable it is that an argument is a list
DIGITS = "0123456789"


def _median(values: list[int]) -> int:
    """The middle value; of an even number of values the mean of the two in the middle, rounded down."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) // 2


VALUES: dict[str, Callable[[list[int]], int]] = {
    "MAX": max,
    "MED": _median,
    "MIN": min,
    "SM": lambda values: sum(values) % 10,
}
OPERATIONS = tuple(VALUES)


class ListOps(Settings):
    """Lists of `shortest` to `longest` tokens, nested at most `depth` deep, with at most `arguments` for each."""

    shortest: PositiveInt = 16
    longest: PositiveInt = 512
    depth: PositiveInt = 10
    arguments: int = Field(10, ge=2)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not FEWEST <= self.shortest <= self.longest:
            raise RegardError(
                f"shortest = {self.shortest} and longest = {self.longest}: a list has at least {FEWEST} tokens, and "
                "the longest is no shorter than the shortest"
            )
        if self._most(self.depth) < self.shortest:
            raise RegardError(
                f"shortest = {self.shortest}: lists nested {self.depth} deep with {self.arguments} arguments each have "
                f"at most {self._most(self.depth)} tokens; raise depth or arguments"
            )
        return self

    def draw(self, random: Random) -> tuple[str, str]:
        """A list and its value. Lists that are too short or too long are drawn again."""
        for _ in range(TRIES):
            words: list[str] = []
            value = self._list(words, random, self.depth)
            if self.shortest <= len(words) <= self.longest:
                return " ".join(words), DIGITS[value]
        raise RegardError(
            f"no list of {self.shortest} to {self.longest} tokens was found with depth = {self.depth} and arguments = "
            f"{self.arguments}; give lengths that lie further apart"
        )

    def _list(self, words: list[str], random: Random, depth: int) -> int:
        """Add a list, nested at most `depth` deep, to `words`, no further than just over `longest`. → its value"""
        operation = OPERATIONS[int(random.random() * len(OPERATIONS))]
        words.append(f"[{operation}")
        values = [
            self._argument(words, random, depth - 1) for _ in range(2 + int(random.random() * (self.arguments - 1)))
        ]
        words.append("]")
        return VALUES[operation](values)

    def _argument(self, words: list[str], random: Random, depth: int) -> int:
        """Add a list or a digit. → its value"""
        if depth > 0 and random.random() < NESTED and len(words) <= self.longest:
            return self._list(words, random, depth)
        digit = int(random.random() * 10)
        words.append(DIGITS[digit])
        return digit

    def _most(self, depth: int) -> int:
        """The tokens of the longest list that is nested `depth` deep, or a number that is more than `longest`."""
        tokens = 1
        for _ in range(depth):
            tokens = min(2 + self.arguments * tokens, self.longest + 1)
        return tokens
