"""The input is a text, the output is a vector of length 1; the product of two vectors says how similar their texts are.

    e = pool(h) / |pool(h)|                                                   Reimers 2019 (Sentence-BERT), section 3
    loss    ½ Σ_i −log softmax_j(σ e_i·e'_j)_i  +  ½ Σ_i −log softmax_j(σ e'_i·e_j)_i,   σ = 20         Henderson 2017

Each text of a batch learns to be nearer to its partner than to the partners of others.

B pairs  L length  M width
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from regard import models
from regard.data.files import has_column, is_numbered, read_rows
from regard.data.rows.batches import RowBatch
from regard.data.rows.framing import Row
from regard.data.splits import Splits
from regard.errors import RegardError
from regard.models.facts import ModelConfig, Pooling
from regard.models.heads import body_of
from regard.tasks.base import Codec, Looking, Objective, RunOptions, Score, Setting, Sight
from regard.tasks.embed.reading import SimilarData, Vector
from regard.tasks.parts import shares
from regard.tasks.rows import Rows, RowsTask, body_config, equal_rows, halves
from regard.tasks.together import together

SCALE = 20.0
TOGETHER = 1024  # texts that are compared with all others at once


@dataclass(frozen=True)
class Similar:
    """Two texts: they mean the same if they have no score."""

    text: str
    pair: str
    score: float | None
    place: str

    @property
    def key(self) -> str:
        return self.text


class Embed(RowsTask[SimilarData, Similar, str, list[float]]):
    """The task. `pooling` makes one vector of a text; two texts whose score is `same` or higher mean the same."""

    forms = ("encoder", "causal")
    uses = "vector"
    data = SimilarData
    surface = Vector()

    def __init__(
        self,
        rows: Rows,
        *,
        pooling: Pooling = "mean",
        same: float | None = None,
        score_column: int | str | None = None,
    ) -> None:
        self.rows, self.pooling, self.same, self.score_column = rows, pooling, same, score_column

    @classmethod
    def from_setting(cls, setting: Setting[SimilarData], codec: Codec) -> Self:
        data = setting.data
        rows = Rows.of(setting.model, codec, max_length=data.max_length)
        pooling = body_config(setting.model).pooling or "mean"
        return cls(rows, pooling=pooling, same=data.same, score_column=data.columns.score)

    @classmethod
    def examples(cls, name: str, data: SimilarData) -> Iterator[Similar]:
        """The pairs of a file; blank lines are skipped."""
        columns, score = data.columns.pick(numbered=is_numbered(name)), data.columns.score
        if score is not None and has_column(name, score):
            columns.append(score)
        for line, (text, pair, *scores) in read_rows(name, columns, numbers=True):
            place = f"{name}:{line}"
            if not text and not pair:
                continue
            if not text.strip() or not pair.strip():
                raise RegardError(f"{place} has one text and no other; fill it in, or leave the line out")
            yield Similar(text, pair, _number(scores[0], place) if scores else None, place)

    @classmethod
    def lines(cls, examples: list[Similar]) -> Iterator[str]:
        return (" ".join(example.text.split()) for example in examples)

    @classmethod
    def texts(cls, examples: Sequence[Similar]) -> Iterator[str]:
        return (text for example in examples for text in (example.text, example.pair))

    def alike(self, examples: Sequence[Similar]) -> list[Similar]:
        """The pairs whose texts mean the same."""
        return [e for e in examples if e.score is None or (self.same is not None and e.score >= self.same)]

    def objective(self, splits: Splits[list[Similar]]) -> Objective:
        """The rank correlation if data.valid has scores, and otherwise the mean reciprocal rank of the partners."""
        scored = any(each.score is not None for each in splits.valid)
        column = self.score_column
        if column is not None and not scored and all(each.score is None for each in splits.test or ()):
            raise RegardError(f"data.columns.score = {column!r} is in neither data.valid nor data.test; check its name")
        if not self.alike(splits.train):
            raise RegardError(
                "data.train has no pairs that mean the same, only pairs with scores; set data.same to the lowest "
                "score that means the same, or leave data.columns.score out"
            )
        return Objective("spearman" if scored else "mrr", higher=True)

    def module(self, model: ModelConfig) -> nn.Module:
        """The body itself, without a head."""
        return models.from_config(model, vocabulary=self.rows.tokenizer.size)

    def encode(self, examples: Sequence[Similar]) -> list[Row]:
        """A row holds both texts of a pair, one after the other, as segments."""
        alike = self.alike(examples)
        nothing = [None] * len(alike)
        first = self.rows.frame([each.text for each in alike], nothing)
        second = self.rows.frame([each.pair for each in alike], nothing)
        return [
            Row(a.ids + b.ids, (0,) * len(a.ids) + (1,) * len(b.ids), (1,)) for a, b in zip(first, second, strict=True)
        ]

    def loss(self, model: nn.Module, batch: RowBatch, *, plain: bool = False) -> Tensor:
        """The contrastive loss, summed over the pairs. Each text is compared with all texts of its batch, so that
        accumulating several batches is not equal to one large batch."""
        first, second = halves(batch)
        also_right = equal_rows(first[0]) | equal_rows(second[0])
        return contrast(self.vectors(model, *first), self.vectors(model, *second), also_right=also_right)

    def vectors(self, model: nn.Module, tokens: Tensor, lengths: Tensor) -> Tensor:
        """tokens (B, L) → (B, M), each of length 1."""
        body = body_of(model)
        return F.normalize(body.pooled(body.states(tokens, lengths), lengths, self.pooling), dim=-1)

    def answer(self, model: nn.Module, asked: Sequence[str], options: RunOptions) -> list[list[float]]:
        """The vector of each text, in order; the vector of an empty text is that of its special tokens."""
        return self.embed(model, asked).tolist()

    def scores(self, model: nn.Module, examples: Sequence[Similar]) -> dict[str, Score]:
        """How often the partner of a text is the nearest, and how similarity correlates with the scores of pairs."""
        texts = list(dict.fromkeys(self.texts(examples)))
        written = together(texts, lambda some: [vector.numpy().tobytes().hex() for vector in self.embed(model, some)])
        vectors = torch.stack([torch.frombuffer(bytearray.fromhex(each), dtype=torch.float32) for each in written])
        place = {text: number for number, text in enumerate(texts)}
        found: dict[str, Score] = {}
        if alike := self.alike(examples):
            found |= retrieval(vectors, place, alike, list(dict.fromkeys(each.pair for each in examples)))
        if scored := [each for each in examples if each.score is not None]:
            near = [float(vectors[place[each.text]] @ vectors[place[each.pair]]) for each in scored]
            correlation = spearman(near, [float(each.score or 0) for each in scored])
            found["spearman"] = Score(100 * correlation, f"rank correlation with {len(scored)} scores, times 100")
        return found

    def sight(self, model: nn.Module, asked: str, look: Looking) -> Sight:
        """What the model reads of a text; it chooses nothing."""
        if look.reference is not None:
            raise RegardError(f"reference={look.reference!r}: a vector is no choice to be forced; leave it out")
        (row,) = self.rows.frame([asked], [None])
        body = body_of(model)
        return self.rows.sight(model, row, asked, lambda batch: body.states(batch.tokens, batch.lengths)[:, :0])

    def embed(self, model: nn.Module, texts: Sequence[str]) -> Tensor:
        """texts → (N, M)"""
        framed = self.rows.frame(texts, [None] * len(texts))
        found: list[Tensor] = [torch.empty(0)] * len(texts)
        for batch, vectors in self.rows.applied(model, framed, lambda b: self.vectors(model, b.tokens, b.lengths)):
            for row, vector in zip(batch.rows, vectors.cpu(), strict=True):
                found[row] = vector
        return torch.stack(found) if found else torch.empty(0, 0)


def contrast(first: Tensor, second: Tensor, *, also_right: Tensor) -> Tensor:
    """The loss of B pairs, first (B, M) and second (B, M), summed. Other partners that are `also_right` (B, B) are left
    out of the softmax."""
    scores = SCALE * first @ second.T
    here = torch.arange(len(scores), device=scores.device)
    others = also_right & (here != here.unsqueeze(1))
    scores = scores.masked_fill(others, -torch.inf)
    return (F.cross_entropy(scores, here, reduction="sum") + F.cross_entropy(scores.T, here, reduction="sum")) / 2


def spearman(left: ArrayLike, right: ArrayLike) -> float:
    """The correlation of ranks; equal values share the mean of their ranks. It is 0 if a side has one value only."""
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
    """The rank of the nearest right partner among all second texts; an equally near wrong text ranks before it."""
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
    first, reciprocal = [rank == 1 for rank in ranks], [1 / rank for rank in ranks]
    how = f"of {len(ranks)} texts among {len(partners)}"
    nearest = Score(100 * sum(first) / len(ranks), f"percent {how} whose nearest means the same", shares(first))
    mrr = Score(100 * sum(reciprocal) / len(ranks), f"mean of 1 / rank {how}, in percent", shares(reciprocal))
    return {"accuracy": nearest, "mrr": mrr}


def _number(cell: str, place: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise RegardError(
            f"{place} has the score {cell!r}, which is not a number; correct it, or set data.columns.score"
        )
    return number
