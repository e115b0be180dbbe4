"""BPE-dropout: the same words cut in other ways while training (Provilkov 2020).

Words are put together from characters by merging pairs in the order learned. With dropout, at each step every merge
that is possible is left out with probability p, the first of the others is done, and when all are left out the word
stays as it is. So one word is seen in many segmentations, and decodes to the same text.

The tokenizers library has dropout too, but its random numbers cannot be seeded. Here a word has `VARIANTS`
segmentations, each drawn from (seed, word, number of the variant), and a row chooses among them with (seed, epoch,
row): the result depends on nothing else, not on the order of rows or what was asked before, and a word seen often
costs a look into a table.
"""

import json
from array import array
from collections.abc import Iterator
from hashlib import shake_128
from itertools import chain, count, pairwise

from regard.data.special import NAMES
from regard.data.tokenizers import Tokenizer
from regard.data.vocabularies import SPACE

VARIANTS = 64  # segmentations of a word; a power of two up to 256, so that a random byte chooses one
RANGE = 2**16  # random numbers are whole and below this
REMEMBERED = 2_000_000  # segmentations kept in memory at most


class BpeDropout:
    """ids → ids of another segmentation of the same text."""

    def __init__(self, tokenizer: Tokenizer, *, rate: float, seed: int) -> None:
        model = json.loads(tokenizer.json)["model"]
        if model["type"] != "BPE":
            raise ValueError(f"BPE-dropout needs a bpe tokenizer; this one is {model['type']}")
        self.rate = rate
        self.seed = seed
        names: dict[str, int] = model["vocab"]
        self._characters = {
            number: tuple(names[character] for character in name) if number >= len(NAMES) else (number,)
            for name, number in names.items()
        }
        self._begins_word = {number for name, number in names.items() if name.startswith(SPACE)}
        self._merges = {
            (names[left], names[right]): (rank, names[left + right])
            for rank, (left, right) in enumerate(model["merges"])
            if names[left + right] >= len(NAMES)
        }
        self._variants: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}

    def redraw(self, ids: list[int], *, epoch: int, row: int) -> list[int]:
        """The segmentation of a row in an epoch; at rate 0 it is `ids`."""
        words = self._words(ids)
        choices = shake_128(f"{self.seed} {epoch} {row}".encode()).digest(len(words))
        drawn: list[int] = []
        for word, byte in zip(words, choices, strict=True):
            key = (word, byte % VARIANTS)
            variant = self._variants.get(key)
            drawn += variant if variant is not None else self._draw(*key)
        return drawn

    def _words(self, ids: list[int]) -> list[tuple[int, ...]]:
        """The ids cut before each one that begins with a space; no merge reaches over such a place."""
        begins = [place for place, number in enumerate(ids) if place and number in self._begins_word]
        return [tuple(ids[begin:end]) for begin, end in pairwise([0, *begins, len(ids)])]

    def _draw(self, word: tuple[int, ...], number: int) -> tuple[int, ...]:
        variant = self._segment(word, _numbers(f"{self.seed} {number} {word}"))
        if len(self._variants) >= REMEMBERED:
            self._variants.clear()  # what is asked again is drawn again, the same
        self._variants[word, number] = variant
        return variant

    def _segment(self, word: tuple[int, ...], numbers: Iterator[int]) -> tuple[int, ...]:
        symbols = [character for number in word for character in self._characters[number]]
        merges, limit = self._merges, self.rate * RANGE
        while True:
            possible = [(merges[pair], place) for place, pair in enumerate(pairwise(symbols)) if pair in merges]
            for (_, merged), place in sorted(possible):
                if next(numbers) >= limit:
                    symbols[place : place + 2] = [merged]
                    break
            else:
                return tuple(symbols)


def _numbers(key: str) -> Iterator[int]:
    """Random numbers below RANGE, the same for the same key: quicker to begin than a seeded generator."""
    return chain.from_iterable(array("H", shake_128(f"{key} {block}".encode()).digest(64)) for block in count())
