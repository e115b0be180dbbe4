"""ListOps: nested operations on lists of digits, and their value (Nangia 2018, with the lengths of Tay 2021).

    [MAX 2 9 [MIN 4 7 ] 0 ]  →  9

The operations are MIN, MAX, MED (the median, rounded down) and SM (the sum modulo 10). Brackets are part of the text:
without them the value cannot be known.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from statistics import median
from typing import Self

from pydantic import Field, PositiveInt, model_validator

from regard.checking import Settings
from regard.errors import RegardError

FEWEST = 4  # tokens of the shortest list: [MAX 1 2 ]

Tree = int | tuple[str, list["Tree"]]

VALUES: dict[str, Callable[[list[int]], int]] = {
    "MIN": min,
    "MAX": max,
    "MED": lambda values: int(median(values)),
    "SM": lambda values: sum(values) % 10,
}


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
        return self

    def draw(self, random: Random) -> tuple[str, str]:
        """A list and its value. Its length is drawn first, evenly; the list has about as many tokens."""
        while True:
            tree = self._tree(random, random.randint(self.shortest, self.longest), self.depth)
            words = _words(tree)
            if self.shortest <= len(words) <= self.longest:
                return " ".join(words), str(value(tree))

    def _tree(self, random: Random, tokens: int, depth: int) -> Tree:
        """A list of at most `tokens` tokens, or a digit."""
        if tokens < FEWEST or depth == 0:
            return random.randrange(10)
        inside = tokens - 2  # without the operation and the closing bracket
        arguments = random.randint(2, min(self.arguments, inside))
        cuts = sorted(random.sample(range(1, inside), arguments - 1))
        shares = [end - start for start, end in zip([0, *cuts], [*cuts, inside], strict=True)]
        return random.choice(sorted(VALUES)), [self._tree(random, share, depth - 1) for share in shares]


def value(tree: Tree) -> int:
    """The value of a list: the operation on the values of its arguments."""
    if isinstance(tree, int):
        return tree
    operation, arguments = tree
    return VALUES[operation]([value(argument) for argument in arguments])


def _words(tree: Tree) -> list[str]:
    if isinstance(tree, int):
        return [str(tree)]
    operation, arguments = tree
    return [f"[{operation}", *(word for argument in arguments for word in _words(argument)), "]"]
