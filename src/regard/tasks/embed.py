"""A text in, one vector of length 1 out, so that the product of two says how near their texts are.

    e = pool(h) / |pool(h)|                                                   Reimers 2019 (Sentence-BERT), section 3
    loss    ½ Σ_i −log softmax_j(σ e_i·e'_j)_i  +  ½ Σ_i −log softmax_j(σ e'_i·e_j)_i,   σ = 20         Henderson 2017

Each text of a batch is to be nearer to its partner than to the partners of others.

B pairs  L length  M width
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional as F

from regard.data.framing import Framed
from regard.data.similar import Similar
from regard.data.text_batches import TextBatch
from regard.models.heads import Pooling, pool, states
from regard.tasks.reading import Reading, Sight
from regard.tasks.scores import Score

SCALE = 20.0
TOGETHER = 1024  # texts that are compared with all others at once


class Embed:
    """The task, with how a text becomes one vector, and from which score on two texts mean the same."""

    def __init__(self, reading: Reading, *, pooling: Pooling = "mean", same: float | None = None) -> None:
        self.reading, self.pooling, self.same = reading, pooling, same

    @staticmethod
    def labels_of(examples: Sequence[Similar]) -> list[str]:  # noqa: ARG004 - there are none
        return []

    @staticmethod
    def texts(examples: Sequence[Similar]) -> Iterator[str]:
        return (text for example in examples for text in (example.text, example.pair))

    def alike(self, examples: Sequence[Similar]) -> list[Similar]:
        """Those that mean the same."""
        return [e for e in examples if e.score is None or (self.same is not None and e.score >= self.same)]

    def encode(self, examples: Sequence[Similar]) -> list[Framed]:
        """A row holds both texts of a pair, one after the other, as segments."""
        alike = self.alike(examples)
        nothing = [None] * len(alike)
        first = self.reading.frame([each.text for each in alike], nothing)
        second = self.reading.frame([each.pair for each in alike], nothing)
        return [
            Framed(a.ids + b.ids, (0,) * len(a.ids) + (1,) * len(b.ids), (1,))
            for a, b in zip(first, second, strict=True)
        ]

    def loss(self, model: Any, batch: TextBatch) -> Tensor:
        """Summed over the pairs."""
        second = batch.segments.sum(1)
        first = batch.lengths - second
        sides = _part(batch.tokens, torch.zeros_like(first), first), _part(batch.tokens, first, second)
        vectors = [self.vectors(model, *side) for side in zip(sides, (first, second), strict=True)]
        return contrast(vectors[0], vectors[1], also_right=_equal(sides[0]) | _equal(sides[1]))

    def vectors(self, model: Any, tokens: Tensor, lengths: Tensor) -> Tensor:
        """tokens (B, L) → (B, M), each of length 1."""
        return F.normalize(pool(model, states(model, tokens, lengths), lengths, self.pooling), dim=-1)

    def answer(self, model: Any, asked: Sequence[str]) -> list[list[float]]:
        """The vector of each text, in order; of an empty text, that of its frame alone."""
        return self._embed(model, asked).tolist()

    def scores(self, model: Any, examples: Sequence[Similar]) -> dict[str, Score]:
        """How many find their partner, and how well nearness goes with the scores that pairs have."""
        texts = list(dict.fromkeys(self.texts(examples)))
        vectors, place = self._embed(model, texts), {text: number for number, text in enumerate(texts)}
        found: dict[str, Score] = {}
        if alike := self.alike(examples):
            found |= retrieval(vectors, place, alike, list(dict.fromkeys(each.pair for each in examples)))
        if scored := [each for each in examples if each.score is not None]:
            near = [float(vectors[place[each.text]] @ vectors[place[each.pair]]) for each in scored]
            correlation = spearman(near, [float(each.score or 0) for each in scored])
            found["spearman"] = Score(100 * correlation, f"rank correlation with {len(scored)} scores, times 100")
        return found

    def sight(self, model: Any, asked: str) -> Sight:
        """What the model reads of a text; it chooses nothing."""
        (row,) = self.reading.frame([asked], [None])
        return Sight(row, asked, lambda batch: states(model, batch.tokens, batch.lengths)[:, :0])

    @staticmethod
    def shown(answer: Sequence[float]) -> list[str]:
        return [" ".join(f"{number:.6g}" for number in answer)]

    def _embed(self, model: Any, texts: Sequence[str]) -> Tensor:
        framed = self.reading.frame(texts, [None] * len(texts))
        found: list[Tensor] = [torch.empty(0)] * len(texts)
        for batch, vectors in self.reading.applied(model, framed, lambda b: self.vectors(model, b.tokens, b.lengths)):
            for row, vector in zip(batch.rows, vectors.cpu(), strict=True):
                found[row] = vector
        return torch.stack(found) if found else torch.empty(0, 0)


def contrast(first: Tensor, second: Tensor, *, also_right: Tensor) -> Tensor:
    """The loss of B pairs, first (B, M) and second (B, M), summed; partners that are `also_right` (B, B) count for
    nothing."""
    scores = SCALE * first @ second.T
    here = torch.arange(len(scores), device=scores.device)
    others = also_right & (here != here.unsqueeze(1))
    scores = scores.masked_fill(others, -torch.inf)
    return (F.cross_entropy(scores, here, reduction="sum") + F.cross_entropy(scores.T, here, reduction="sum")) / 2


def spearman(left: ArrayLike, right: ArrayLike) -> float:
    """Correlation of ranks, where equals share the mean of theirs; 0 where one side is the same throughout."""
    ranks = _ranks(left), _ranks(right)
    if min(each.std() for each in ranks) == 0:
        return 0.0
    return float(numpy.corrcoef(*ranks)[0, 1])


def _ranks(values: ArrayLike) -> NDArray[numpy.float64]:
    _, place, count = numpy.unique(numpy.asarray(values, dtype=float), return_inverse=True, return_counts=True)
    ranks: NDArray[numpy.float64] = (count.cumsum() - (count - 1) / 2)[place]
    return ranks


def retrieval(
    vectors: Tensor, place: dict[str, int], alike: Sequence[Similar], partners: Sequence[str]
) -> dict[str, Score]:
    """Where among all second texts the nearest right one stands; one that is just as near stands before it."""
    number = {text: at for at, text in enumerate(partners)}
    right: dict[str, list[int]] = {}
    for each in alike:
        right.setdefault(each.text, []).append(number[each.pair])
    there = vectors[[place[text] for text in partners]]
    ranks: list[int] = []
    for begin in range(0, len(right), TOGETHER):
        asked = list(right)[begin : begin + TOGETHER]
        for text, near in zip(asked, vectors[[place[text] for text in asked]] @ there.T, strict=True):
            best = near[right[text]].max()
            near[right[text]] = -torch.inf
            ranks.append(1 + int((near >= best).sum()))
    first, reciprocal = sum(rank == 1 for rank in ranks), sum(1 / rank for rank in ranks)
    how = f"of {len(ranks)} texts among {len(partners)}"
    return {
        "accuracy": Score(100 * first / len(ranks), f"percent {how} whose nearest means the same"),
        "mrr": Score(100 * reciprocal / len(ranks), f"mean of 1 / rank {how}, in percent"),
    }


def _part(tokens: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    """What stands in each row from `begin` (B,) on, `size` (B,) tokens, and then nothing: (B, L) → (B, longest)"""
    at = torch.arange(int(size.max()), device=tokens.device)
    found = tokens.gather(1, (begin.unsqueeze(1) + at).clamp(max=tokens.shape[1] - 1))
    return found.masked_fill(at >= size.unsqueeze(1), 0)


def _equal(rows: Tensor) -> Tensor:
    """Which rows are the same: (B, L) → (B, B)"""
    return (rows.unsqueeze(1) == rows.unsqueeze(0)).all(-1)
