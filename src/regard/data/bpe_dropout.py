"""BPE-dropout: the same words are segmented differently while training (Provilkov 2020).

BPE builds words from characters by merging pairs in the order learned. With dropout, at each step every possible merge
is left out with probability p, the first of the others is done, and when all are left out the word stays as it is. So
the model sees one word in many segmentations, which all decode to the same text.

The tokenizers library has dropout too, but its random numbers cannot be seeded. Here a word has 256 segmentations,
each drawn from (seed, word, number of the variant), and a row chooses among them with (seed, epoch, row): the result
depends on nothing else, such as the order of rows or earlier calls, and a frequent word costs one lookup in a table.
"""

from array import array
from collections.abc import Iterator
from hashlib import shake_128
from itertools import chain, count, islice, pairwise

from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.data.vocabularies import SPACE
from regard.special import NAMES

RANGE = 2**16  # random numbers are whole and below this
REMEMBERED = 400_000  # segmentations kept in memory at most, about 100 MB


class BpeDropout:
    """ids → ids of another segmentation of the same text."""

    def __init__(self, tokenizer: Tokenizer, *, rate: float, seed: int) -> None:
        if not tokenizer.merges:
            raise ValueError("BPE-dropout leaves out merges, and this tokenizer has none; give one of kind bpe")
        self.rate = rate
        self.seed = seed
        names = tokenizer.vocabulary
        self._characters = {
            number: tuple(names[character] for character in name) if number >= len(NAMES) else (number,)
            for name, number in names.items()
        }
        self._begins_word = {number for name, number in names.items() if name.startswith(SPACE)}
        self._merges = {
            (names[left], names[right]): (rank, names[left + right])
            for rank, (left, right) in enumerate(tokenizer.merges)
            if names[left + right] >= len(NAMES)
        }
        self._variants: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}

    def redraw(self, ids: list[int], *, key: str) -> list[int]:
        """Another segmentation, the same for the same key; at rate 0 it is `ids`."""
        words = self._words(ids)
        choices = shake_128(f"{self.seed} {key}".encode()).digest(len(words))  # a byte chooses one of 256
        drawn: list[int] = []
        for wanted in zip(words, choices, strict=True):
            variant = self._variants.get(wanted)
            drawn += variant if variant is not None else self._draw(*wanted)
        return drawn

    def _words(self, ids: list[int]) -> list[tuple[int, ...]]:
        """The ids cut before each one that begins with a space; no merge reaches over such a place."""
        begins = [place for place, number in enumerate(ids) if place and number in self._begins_word]
        return [tuple(ids[begin:end]) for begin, end in pairwise([0, *begins, len(ids)])]

    def _draw(self, word: tuple[int, ...], number: int) -> tuple[int, ...]:
        variant = self._segment(word, _numbers(f"{self.seed} {number} {word}"))
        if len(self._variants) >= REMEMBERED:
            self._variants.clear()  # a variant that is needed again is drawn again, the same
        self._variants[word, number] = variant
        return variant

    def _segment(self, word: tuple[int, ...], numbers: Iterator[int]) -> tuple[int, ...]:
        symbols = [character for number in word for character in self._characters[number]]
        merges, limit = self._merges, self.rate * RANGE
        first = list(islice(numbers, len(symbols) - len(word)))
        if all(number >= limit for number in first):
            return word  # no merge that leads to it was left out
        numbers = chain(first, numbers)
        while True:
            possible = [(merges[pair], place) for place, pair in enumerate(pairwise(symbols)) if pair in merges]
            for (_, merged), place in sorted(possible):
                if next(numbers) >= limit:
                    symbols[place : place + 2] = [merged]
                    break
            else:
                return tuple(symbols)


class PairDropout:
    """BPE-dropout for pairs, on each side whose tokenizer is bpe.

    A row that would become longer than `longest` stays as it is.
    """

    def __init__(self, tokenizers: Tokenizers, *, rate: float, seed: int, longest: int) -> None:
        self.longest = longest
        self._source = _for(tokenizers.source, rate, seed)
        self._target = self._source if tokenizers.shared else _for(tokenizers.target, rate, seed)

    def redraw(self, source: list[int], target: list[int], *, epoch: int, row: int) -> tuple[list[int], list[int]]:
        """The ids of both sides of a row in an epoch."""
        return (
            self._side(self._source, source, f"source {epoch} {row}"),
            self._side(self._target, target, f"target {epoch} {row}"),
        )

    def _side(self, dropout: BpeDropout | None, ids: list[int], key: str) -> list[int]:
        drawn = dropout.redraw(ids, key=key) if dropout else ids
        return drawn if len(drawn) <= self.longest else ids


def _for(tokenizer: Tokenizer, rate: float, seed: int) -> BpeDropout | None:
    return BpeDropout(tokenizer, rate=rate, seed=seed) if tokenizer.merges else None


def _numbers(key: str) -> Iterator[int]:
    """Random numbers below RANGE, the same for the same key; this starts faster than a seeded generator."""
    return chain.from_iterable(array("H", shake_128(f"{key} {block}".encode()).digest(64)) for block in count())
