"""Algorithms on digits, to learn on short inputs and to test on longer ones (Dehghani 2019, table 4).

copy      3 1 4        →  3 1 4
reverse   3 1 4        →  4 1 3
addition  4 1 + 7      →  4 8           with first = lowest: 1 4 + 7 → 8 4, as in tensor2tensor
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import Literal, Self

from pydantic import PositiveInt, model_validator

from regard.checking import Settings
from regard.errors import RegardError


class Digits(Settings, ABC):
    """Inputs of `shortest` to `longest` symbols."""

    shortest: PositiveInt = 1
    longest: PositiveInt = 40

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.shortest > self.longest:
            raise RegardError(f"shortest = {self.shortest} is more than longest = {self.longest}")
        return self

    @abstractmethod
    def draw(self, random: Random) -> tuple[str, str]:
        """One example: an input and its output."""

    def _digits(self, random: Random, length: int) -> str:
        return "".join(random.choices("0123456789", k=length))


class Copy(Digits):
    """The same digits."""

    def draw(self, random: Random) -> tuple[str, str]:
        digits = self._digits(random, random.randint(self.shortest, self.longest))
        return " ".join(digits), " ".join(digits)


class Reverse(Digits):
    """The digits from the last to the first."""

    def draw(self, random: Random) -> tuple[str, str]:
        digits = self._digits(random, random.randint(self.shortest, self.longest))
        return " ".join(digits), " ".join(reversed(digits))


class Addition(Digits):
    """The sum of two numbers, which have `shortest` to `longest` symbols together with the plus between them.

    With `first = lowest` each digit of the sum depends on what is written before it and on one pair of digits of the
    input; with `highest` it depends on all carries.
    """

    shortest: PositiveInt = 3
    first: Literal["highest", "lowest"] = "highest"  # the digit that a number begins with

    def draw(self, random: Random) -> tuple[str, str]:
        digits = max(random.randint(self.shortest, self.longest), 3) - 1
        first = random.randint(1, digits - 1)
        left, right = (self._number(random, length) for length in (first, digits - first))
        return " ".join([*self._written(left), "+", *self._written(right)]), " ".join(self._written(left + right))

    def _written(self, number: int) -> str:
        return str(number)[:: 1 if self.first == "highest" else -1]

    @staticmethod
    def _number(random: Random, digits: int) -> int:
        return random.randint(10 ** (digits - 1) if digits > 1 else 0, 10**digits - 1)
