"""The input is a query and several texts, the output is the texts ordered by how well they answer the query.

    together   s(q, t) = σ(w · pool(h[q ; t]) + b)              one reading of both texts             Nogueira 2019
               loss    −log s where the text is relevant, −log(1 − s) where it is not
    apart      s(q, t) = e_q · e_t,   e = W pool(h) / |W pool(h)|      each text is read once          Karpukhin 2020
               loss    −log softmax_j(20 s(q_i, t_j))_i for relevant t_i, over the texts of a batch without the other
                       relevant texts of q_i

    scores     MRR: mean of 1 / rank of the first relevant text        accuracy: how often it is the first
               nDCG@10 = Σ_r (2^label − 1) / log₂(1 + r) over the first ten, divided by its largest possible value

B rows  M width  D width of the compared vectors
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.files import is_numbered, read_rows
from regard.data.rows.batches import RowBatch
from regard.data.rows.framing import Row
from regard.data.splits import Splits
from regard.errors import RegardError
from regard.tasks.base import Codec, Looking, Objective, RunOptions, Score, Setting, Sight
from regard.tasks.parts import shares
from regard.tasks.rank.reading import RELEVANCE, Query, RankData, Ranked, Ranking, RankReading
from regard.tasks.rows import Choices, Rows, RowsTask, equal_rows, halves, pooled_places
from regard.tasks.together import together

SCALE = 20.0
TOP = 10  # texts that nDCG counts
CHOICES = ("not relevant", "relevant")


@dataclass(frozen=True)
class Candidate:
    """A query, a text, and a number that says how well the text answers the query."""

    query: str
    text: str
    label: float
    place: str

    @property
    def key(self) -> str:
        return self.query  # all texts of a query stay together


class Rank(RowsTask[RankData, Candidate, Query, list[Ranked]]):
    """The task. If query and text are read together, the head has one output; otherwise it has D outputs, a vector."""

    forms = ("encoder", "causal")
    uses = "text"
    data = RankData
    surface = Ranking()
    best = "mrr"

    def __init__(self, rows: Rows, labels: Sequence[str] = (RELEVANCE,), *, relevant: float = 1.0) -> None:
        self.rows, self.labels, self.relevant = rows, tuple(labels), relevant
        self.reading = RankReading(rows, apart=self.labels != (RELEVANCE,))

    @property
    def apart(self) -> bool:
        return self.reading.apart

    @classmethod
    def from_setting(cls, setting: Setting[RankData], codec: Codec) -> Self:
        rows = Rows.of(setting.model, codec, max_length=setting.data.max_length)
        return cls(rows, codec.labels, relevant=setting.data.relevant)

    @classmethod
    def learn(cls, setting: Setting[RankData], train: list[Candidate], body: Codec | None) -> Codec:
        """The tokenizer, and a name for each output of the head. If texts are read apart, the outputs are a vector, and
        the texts of other queries serve as texts that are not relevant."""
        data, together = setting.data, setting.data.read == "together"
        relevant = sum(example.label >= data.relevant for example in train)
        if not relevant:
            raise RegardError("data.train has no relevant texts, so nothing can be learned; check data.relevant")
        if together and relevant == len(train):
            raise RegardError(
                "data.train has only relevant texts; add others with a lower label, check data.relevant, or set "
                'data.read="apart", which takes the texts of other queries'
            )
        labels = (RELEVANCE,) if together else tuple(f"vector {number}" for number in range(data.vector))
        return Codec(super().learn(setting, train, body).tokenizers, labels)

    @classmethod
    def examples(cls, name: str, data: RankData) -> Iterator[Candidate]:
        """The candidates of a file; blank lines are skipped."""
        columns = data.columns.pick(numbered=is_numbered(name))
        for line, (query, text, label) in read_rows(name, columns, numbers=True):
            place = f"{name}:{line}"
            if not query and not text and not label:
                continue
            if not query.strip() or not text.strip():
                missing = "text" if query.strip() else "query"
                raise RegardError(f"{place} has no {missing}; fill it in, or leave the line out")
            yield Candidate(query, text, _number(label, place), place)

    @classmethod
    def lines(cls, examples: list[Candidate]) -> Iterator[str]:
        every = ((query, *(each.text for each in group)) for query, group in _by_query(examples).items())
        return ("\t".join(" ".join(text.split()) for text in texts) for texts in every)

    @classmethod
    def texts(cls, examples: Sequence[Candidate]) -> Iterator[str]:
        return (text for example in examples for text in (example.query, example.text))

    def encode(self, examples: Sequence[Candidate]) -> list[Row]:
        queries, texts = [each.query for each in examples], [each.text for each in examples]
        wanted = [(int(each.label >= self.relevant),) for each in examples]
        if not self.apart:
            framed = self.rows.frame(queries, texts)
            return [Row(row.ids, row.segments, each) for row, each in zip(framed, wanted, strict=True)]
        nothing = [None] * len(examples)
        both = zip(self.rows.frame(queries, nothing), self.rows.frame(texts, nothing), wanted, strict=True)
        return [Row(q.ids + t.ids, (0,) * len(q.ids) + (1,) * len(t.ids), each) for q, t, each in both]

    def loss(self, model: nn.Module, batch: RowBatch, *, plain: bool = False) -> Tensor:
        """The loss, summed over the texts.

        If texts are read apart, a text that is not relevant counts as a target, but its own loss is 0. Each query is
        compared with all texts of its batch, so that accumulating several batches is not equal to one large batch.
        """
        right = batch.wanted[:, 0]
        if not self.apart:
            logits = model(batch.tokens, batch.lengths, batch.segments)[:, 0]  # (B,)
            return F.binary_cross_entropy_with_logits(logits, right.to(logits.dtype), reduction="sum")
        queries, texts = halves(batch)
        scores = SCALE * self._vectors(model, *queries) @ self._vectors(model, *texts).T  # (B, B)
        relevant = (equal_rows(queries[0]) & (right == 1)).float() @ equal_rows(texts[0]).float() > 0  # t_j for q_i
        others = relevant & ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        losses = -scores.masked_fill(others, -torch.inf).log_softmax(-1).diagonal()
        return (losses * right).sum()

    def _vectors(self, model: nn.Module, tokens: Tensor, lengths: Tensor) -> Tensor:
        """tokens (B, L) → (B, D), each of length 1."""
        return F.normalize(model(tokens, lengths), dim=-1)

    def answer(self, model: nn.Module, asked: Sequence[Query], options: RunOptions) -> list[list[Ranked]]:
        return self.reading.answers(asked, lambda rows: self.rows.outputs(model, rows))

    def judged(self, model: nn.Module, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """s(q, t) of each pair."""
        return self.reading.judged(pairs, lambda rows: self.rows.outputs(model, rows))

    def sight(self, model: nn.Module, asked: Query, look: Looking) -> Sight:
        """The query with the text of the highest score. If texts are read apart, the sight is of that text alone."""
        best = self.answer(model, [asked], RunOptions())[0][0]["text"]
        title = f"{asked.query} | {best}"
        if self.apart:
            if look.reference is not None:
                raise RegardError(f"reference={look.reference!r}: vectors are no choice to be forced; leave it out")
            (row,) = self.rows.frame([best], [None])
            note = "query and text are read apart, and their vectors are compared: this is the reading of the text"
            sight = self.rows.sight(
                model, row, best, lambda b: model(b.tokens, b.lengths, b.segments)[:, None, :0], notes=(note,)
            )
            return replace(sight, title=title)
        (row,) = self.rows.frame([asked.query], [best])

        def logits(batch: RowBatch) -> Tensor:
            relevance = model(batch.tokens, batch.lengths, batch.segments)  # (B, 1)
            return torch.cat([torch.zeros_like(relevance), relevance], -1).unsqueeze(1)  # σ(s) is softmax(0, s)

        choices = Choices([CHOICES], said=lambda chosen: CHOICES[chosen[0]], places=pooled_places(model, row))
        return self.rows.sight(model, row, title, logits, choices=choices.forced(look.reference))

    def objective(self, splits: Splits[list[Candidate]]) -> Objective:
        if all(each.label < self.relevant for each in splits.valid):
            raise RegardError("no text of data.valid is relevant, so no ranking can be judged; check data.relevant")
        return super().objective(splits)

    def some(self, examples: list[Candidate], count: int) -> list[Candidate]:
        """Queries with all of their texts, up to `count` texts in all, and one query at least."""
        groups = self._scored(examples)
        random.Random(0).shuffle(groups)
        found: list[Candidate] = []
        for group in groups:
            if found and len(found) + len(group) > count:
                break
            found += group
        return found

    def scores(self, model: nn.Module, examples: Sequence[Candidate]) -> dict[str, Score]:
        groups = self._scored(examples)
        if not groups:
            raise RegardError("no query has a relevant text, so nothing can be scored; check data.relevant")
        flat = [each for group in groups for each in group]
        judged = iter(together([(each.query, each.text) for each in flat], lambda some: self.judged(model, some)))
        ranked = [self._ranked(group, [next(judged) for _ in group]) for group in groups]
        firsts = [1 + [label >= self.relevant for label in labels].index(True) for labels in ranked]
        how = f"of {len(groups)} queries with {len(flat) / len(groups):.1f} texts each"
        found: dict[str, tuple[list[float], str]] = {
            "mrr": ([1 / first for first in firsts], f"mean of 1 / rank {how}, in percent"),
            "ndcg@10": ([ndcg(labels) for labels in ranked], f"{how}, in percent"),
            "accuracy": ([first == 1 for first in firsts], f"percent {how}"),
        }
        return {name: Score(100 * sum(each) / len(each), said, shares(each)) for name, (each, said) in found.items()}

    def _scored(self, examples: Sequence[Candidate]) -> list[list[Candidate]]:
        """The texts of each query that has a relevant one."""
        return [group for group in _by_query(examples).values() if any(e.label >= self.relevant for e in group)]

    @staticmethod
    def _ranked(group: Sequence[Candidate], scores: Sequence[float]) -> list[float]:
        """The labels in the order of the scores; of equal scores, the text with the lower label comes first."""
        order = sorted(zip(scores, (each.label for each in group), strict=True), key=lambda pair: (-pair[0], pair[1]))
        return [label for _, label in order]


def ndcg(labels: Sequence[float], *, top: int = TOP) -> float:
    """Discounted gain of labels in the order found, divided by that of the best order (Järvelin 2002)."""

    def gain(order: Sequence[float]) -> float:
        return sum((2 ** max(label, 0.0) - 1) / math.log2(1 + rank) for rank, label in enumerate(order[:top], start=1))

    best = gain(sorted(labels, reverse=True))
    return gain(labels) / best if best else 0.0


def _by_query(examples: Sequence[Candidate]) -> dict[str, list[Candidate]]:
    groups: dict[str, list[Candidate]] = {}
    for example in examples:
        groups.setdefault(example.query, []).append(example)
    return groups


def _number(cell: str, place: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or abs(number) > 100:
        raise RegardError(
            f"{place} has the label {cell[:40]!r}, and a number up to 100 is expected: how relevant the text is"
        )
    return number
