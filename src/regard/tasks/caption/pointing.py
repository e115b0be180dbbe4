"""Where a model looks while it names an object: the pointing game of Zhang 2016, on drawn pictures.

A word that names an object (its colour or its shape) is a hit if it is said where the caption names that object, and if
the place that it looked at most lies inside the object's box. A word that is not said, or not there, is a miss.

T tokens  S places
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from torch import Tensor

from regard.data.made.drawn import COLOURS, SHAPES, Thing
from regard.data.tokenizers import Tokenizer
from regard.models.facts import Grid
from regard.tasks.base import Score

Word = tuple[str, Tensor]  # a word, and how much it looked at each place (S,)


def words_of(tokens: Sequence[int], weights: Tensor, tokenizer: Tokenizer) -> list[Word]:
    """The words of a caption, each with the sum of the weights (T, S) of its tokens."""
    begun = tokenizer.decode([list(tokens[: end + 1]) for end in range(len(tokens))])
    number = [max(len(text.split()) - 1, 0) for text in begun]
    said = begun[-1].split() if begun else []
    owners = [[at for at, word in enumerate(number) if word == place] for place in range(len(said))]
    return [(word, weights[owned].sum(0)) for word, owned in zip(said, owners, strict=True)]


def pointing(
    captions: Iterable[Sequence[Word]], things: Iterable[Sequence[Thing]], grid: Grid, size: tuple[int, int]
) -> Score:
    """The share of hits, in percent, over captions of pictures with these objects; size: rows and columns in pixels."""
    hits = total = 0
    for caption, objects in zip(captions, things, strict=True):
        total += 2 * len(objects)
        for thing, named in zip(objects, _named(caption), strict=False):
            hits += sum(
                word == right and _inside(_point(weights, grid, size), thing.box)
                for (word, weights), right in zip(named, thing.words, strict=True)
            )
    return Score(100 * hits / max(total, 1), f"percent of {total} words that name an object, which looked inside it")


def _named(caption: Sequence[Word]) -> list[tuple[Word, Word]]:
    """The colour and the shape of each object that a caption names, in order."""
    return [(one, two) for one, two in pairwise(caption) if one[0] in COLOURS and two[0] in SHAPES]


def _point(weights: Tensor, grid: Grid, size: tuple[int, int]) -> tuple[float, float]:
    """The middle of the place with the largest weight, in pixels: across and down."""
    row, column = divmod(int(weights.argmax()), grid.columns)
    return (column + 0.5) * size[1] / grid.columns, (row + 0.5) * size[0] / grid.rows


def _inside(point: tuple[float, float], box: tuple[int, int, int, int]) -> bool:
    (x, y), (left, upper, right, lower) = point, box
    return left <= x <= right and upper <= y <= lower
