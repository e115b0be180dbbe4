"""Which target tokens may translate which source token, learned from the pairs.

    c(t, s) = Σ over sentences of p(t | s) / Σ_s' p(t | s')        p(t | s) = c(t, s) / Σ_t' c(t', s)        Brown 1993

This is IBM model 1: every target token translates one source token of its sentence, and any of them may be the one.

A translator that looks for its next token only among those listed for its source, and among the most common ones,
computes a fraction of the vocabulary.

V source vocabulary  K tokens listed for each  P pairs of tokens in sentences
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray
from safetensors.numpy import load_file, save

from regard.data.pairs.corpus import Corpus

NAME = "shortlist.safetensors"  # in a model directory
COMMON = 2000  # this many of the most common target tokens are always allowed
LISTED = 100  # target tokens for each source token, at most
LIKELY = 1e-4  # a listed token has at least this probability
PAIRS = 8_000_000  # pairs of tokens to learn from; from a larger corpus, evenly spaced sentences are taken
ROUNDS = 5

Ids = NDArray[numpy.int32]


@dataclass(frozen=True)
class Shortlist:
    """listed (V, K): target tokens for each source token, padded with −1; common: those that are always allowed."""

    listed: NDArray[numpy.int32]
    common: NDArray[numpy.int32]

    def allowed(self, source: NDArray[numpy.integer[Any]]) -> NDArray[numpy.int32]:
        """The target tokens that may translate a source, sorted."""
        found = numpy.union1d(self.listed[source], self.common)
        return found[found >= 0]

    def to_vmap(self, source_names: Sequence[str], target_names: Sequence[str]) -> bytes | None:
        """In CTranslate2's format: a line for each source token, the first for all; None if a name has a space."""
        if any(set(name) & set(" \t\n\r") for name in (*source_names, *target_names)):
            return None
        lines = [("", self.common), *zip(source_names, self.listed, strict=True)]
        return "".join(
            f"{name}\t{' '.join(target_names[token] for token in row if token >= 0)}\n"
            for name, row in lines
            if (row >= 0).any()
        ).encode()

    def to_bytes(self) -> bytes:
        return save({"listed": self.listed, "common": self.common})

    @classmethod
    def load(cls, path: Path) -> Shortlist:
        return cls(**load_file(path))


def learn(corpus: Corpus, *, source_size: int, target_size: int) -> Shortlist:
    """The shortlist of a corpus of pairs."""
    sources, targets, place = _pairs(corpus)
    key, link = numpy.unique(sources * numpy.int64(target_size) + targets, return_inverse=True)
    del sources, targets
    source_of, target_of = key // target_size, key % target_size
    chance: NDArray[Any] = numpy.ones(len(key))
    for _ in range(ROUNDS):
        guess = chance[link]
        because = numpy.bincount(place, weights=guess)
        counts = numpy.bincount(link, weights=guess / because[place], minlength=len(key))
        chance = counts / numpy.bincount(source_of, weights=counts, minlength=source_size)[source_of]
    frequency = numpy.bincount(numpy.concatenate([corpus.target[row] for row in _sample(corpus)]))
    common = numpy.argsort(-frequency, kind="stable")[:COMMON]
    return Shortlist(_table(source_of, target_of, chance, rows=source_size), common.astype(numpy.int32))


def _sample(corpus: Corpus) -> range:
    pairs = int((corpus.source.lengths.astype(numpy.int64) * corpus.target.lengths).sum())
    return range(0, len(corpus), max(1, -(-pairs // PAIRS)))


def _pairs(corpus: Corpus) -> tuple[Ids, Ids, Ids]:
    """Every source token with every target token of its sentence, and the number of that target position: (P,) each."""
    rows = _sample(corpus)
    lengths = corpus.source.lengths[rows], corpus.target.lengths[rows]
    end, begin, start = int((lengths[0].astype(numpy.int64) * lengths[1]).sum()), 0, 0
    sources, targets, places = (numpy.empty(end, dtype=numpy.int32) for _ in range(3))
    for row in rows:
        source, target = corpus.source[row], corpus.target[row]
        here = slice(begin, begin + len(source) * len(target))
        sources[here] = numpy.tile(source, len(target))
        targets[here] = numpy.repeat(target, len(source))
        places[here] = numpy.repeat(numpy.arange(start, start + len(target)), len(source))
        begin, start = here.stop, start + len(target)
    return sources, targets, places


def _table(source_of: Ids, target_of: Ids, chance: NDArray[Any], *, rows: int) -> NDArray[numpy.int32]:
    """For each source token its likeliest targets, likeliest first."""
    likely = chance >= LIKELY
    source_of, target_of, chance = source_of[likely], target_of[likely], chance[likely]
    order = numpy.lexsort((-chance, source_of))
    source_of, target_of = source_of[order], target_of[order]
    rank = numpy.arange(len(source_of)) - numpy.searchsorted(source_of, source_of)
    kept = rank < LISTED
    table = numpy.full((rows, LISTED), -1, dtype=numpy.int32)
    table[source_of[kept], rank[kept]] = target_of[kept]
    return table
