"""ListOps: nested operations on lists of digits, and their value (Nangia 2018, with the lengths of Tay 2021).

    [MAX 2 9 [MIN 4 7 ] 0 ]  →  9

The operations are MIN, MAX, MED (the median, rounded down) and SM (the sum modulo 10). Brackets are part of the text:
without them the value cannot be known.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Self

from pydantic import Field, PositiveInt, model_validator

from regard.checking import Settings
from regard.errors import RegardError

FEWEST = 4  # tokens of the shortest list: [MAX 1 2 ]
TRIES = 10_000  # draws of a list that may all be too short
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
        """A list and its value. Its length is drawn first, evenly; the list has as many tokens, or a few less."""
        longest = min(self.longest, self._most(self.depth))
        for _ in range(TRIES):
            words: list[str] = []
            value = self._write(words, random, random.randint(self.shortest, longest), self.depth)
            if len(words) >= self.shortest:
                return " ".join(words), DIGITS[value]
        raise RegardError(
            f"no list of {self.shortest} to {longest} tokens was found with depth = {self.depth} and arguments = "
            f"{self.arguments}; raise one of them, or lower shortest"
        )

    def _write(self, words: list[str], random: Random, tokens: int, depth: int) -> int:
        """Add a list of at most `tokens` tokens, or a digit, to `words`. → its value"""
        if tokens < FEWEST or depth == 0:
            digit = int(random.random() * 10)
            words.append(DIGITS[digit])
            return digit
        operation = OPERATIONS[int(random.random() * len(OPERATIONS))]
        words.append(f"[{operation}")
        values = [self._write(words, random, share, depth - 1) for share in self._shares(random, tokens - 2)]
        words.append("]")
        return VALUES[operation](values)

    def _shares(self, random: Random, inside: int) -> list[int]:
        """The tokens of each argument of a list with `inside` tokens between its brackets.

        The shares are drawn evenly. A share that is too small for a list becomes a digit, and the largest share gets
        what is left over.
        """
        arguments = 2 + int(random.random() * (min(self.arguments, inside) - 1))
        if inside - arguments < FEWEST - 1:  # no argument can be a list
            arguments = min(self.arguments, inside)
            return [1] * arguments
        cuts = sorted(random.sample(range(1, inside), arguments - 1))
        shares = [end - start for start, end in zip([0, *cuts], [*cuts, inside], strict=True)]
        whole = [share if share >= FEWEST else 1 for share in shares]
        whole[whole.index(max(whole))] += inside - sum(whole)
        return whole

    def _most(self, depth: int) -> int:
        """The tokens of the longest list that is nested `depth` deep, or a number that is more than `longest`."""
        tokens = 1
        for _ in range(depth):
            tokens = min(2 + self.arguments * tokens, self.longest + 1)
        return tokens
