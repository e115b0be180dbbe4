"""What a Transformer has to multiply: floating-point operations by sizes and lengths, padding left out.

A product and a sum are two operations. Counted are matrix products alone, as the equations have them: every head's
scores over all keys, the vocabulary at every target.

S source tokens  T target tokens  M width  F feed-forward  V vocabulary
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Size:
    """A model that every system can build."""

    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int = 8000

    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("layers", "width", "heads", "hidden", "vocabulary")}


TINY = Size(layers=4, width=128, heads=4, hidden=256)
BASE = Size(layers=6, width=512, heads=8, hidden=2048)


def encoder(size: Size, source: int) -> float:
    """Queries, keys, values and output 8SM², scores and mixture 4S²M, feed-forward 4SMF; per layer."""
    width = size.width
    return size.layers * (8 * source * width**2 + 4 * source**2 * width + 4 * source * width * size.hidden)


def memory(size: Size, source: int) -> float:
    """Keys and values that the decoder makes of what was read."""
    return size.layers * 4 * source * size.width**2


def decoder(size: Size, source: int, target: int, looked_at: int) -> float:
    """All targets; `looked_at` sums over them the targets that each looks at: T² side by side, T(T + 1)/2 in turn."""
    width = size.width
    linear = target * (12 * width**2 + 4 * width * size.hidden)
    attention = 4 * width * (looked_at + source * target)
    return size.layers * (linear + attention) + 2 * target * width * size.vocabulary


def learning(size: Size, pairs: Iterable[tuple[int, int]]) -> float:
    """Forward and backward, which is twice as much again, over pairs of lengths (source, target), EOS counted."""
    return 3 * sum(
        encoder(size, source) + memory(size, source) + decoder(size, source, target, target**2)
        for source, target in pairs
    )


def writing(size: Size, length: int) -> float:
    """Forward and backward over a block of so many tokens; blocks of a GPT are those of an encoder."""
    return 3 * (encoder(size, length) + 2 * length * size.width * size.vocabulary)


def answering(size: Size, pairs: Iterable[tuple[int, int]], *, beam: int = 1) -> float:
    """Answers of these lengths, token by token, with keys and values kept, `beam` hypotheses side by side."""
    return sum(
        encoder(size, source) + memory(size, source) + beam * decoder(size, source, target, target * (target + 1) // 2)
        for source, target in pairs
    )
