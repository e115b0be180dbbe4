"""Sets of whole numbers, and a number that depends on all of them.

largest     [3, 17, 99]  →  99        max regression, Lee 2019
digit_sum   [3, 7, 7]    →  17        to learn on small sets and to test on larger ones, Zaheer 2017

The numbers are in ascending order, so that a set is written in one way only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import Self

from pydantic import PositiveInt, model_validator

from regard.checking import Settings
from regard.errors import RegardError


class Numbers(Settings, ABC):
    """Sets of `shortest` to `longest` numbers, which may be equal."""

    shortest: PositiveInt = 1
    longest: PositiveInt = 10

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.shortest > self.longest:
            raise RegardError(f"shortest = {self.shortest} is more than longest = {self.longest}")
        return self

    @abstractmethod
    def draw(self, random: Random) -> tuple[str, str]:
        """One example: a set as JSON, and the number."""

    def _numbers(self, random: Random, lowest: int, highest: int) -> list[int]:
        size = random.randint(self.shortest, self.longest)
        return sorted(random.randint(lowest, highest) for _ in range(size))


class Largest(Numbers):
    """The largest of the numbers 1 to `highest`."""

    highest: PositiveInt = 99

    def draw(self, random: Random) -> tuple[str, str]:
        numbers = self._numbers(random, 1, self.highest)
        return str(numbers), str(max(numbers))


class DigitSum(Numbers):
    """The sum of the digits 0 to 9."""

    def draw(self, random: Random) -> tuple[str, str]:
        numbers = self._numbers(random, 0, 9)
        return str(numbers), str(sum(numbers))
