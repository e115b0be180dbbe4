"""XLNet's pretraining: predict some tokens of a text one after the other, in a random order.

    loss    Σ_n −log P(u_{z_n} | the given tokens, u_{z_1}, …, u_{z_{n−1}})                        Yang 2019, equation 5

z is drawn anew for each row and epoch. Only its end is predicted: about one token in six (`data.mask`), in spans of one
to five. The tokens before a row are its memory (`model.memory`): they are read again with the row, and see only
themselves, so that a row needs nothing of the rows before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.rows.batches import RowBatch
from regard.data.rows.framing import IGNORED, Row
from regard.errors import RegardError
from regard.tasks.base import Looking, Setting, Sight
from regard.tasks.fill.documents import Document
from regard.tasks.fill.masked import Masked
from regard.tasks.fill.reading import FillData
from regard.tasks.modules import PredictsInOrder
from regard.tasks.rows import Rows, body_config
from regard.tasks.surfaces import Texts

REMEMBERED, GIVEN, ASKED = -1, 0, 1  # ranks: of memory, of tokens that are given, and the first of those predicted
LONGEST = 5  # tokens or words in a span


class Permuted(Masked):
    """The task for models that predict tokens in an order. In a text that is asked about, every mask comes last."""

    hidden: ClassVar[str] = "predicted tokens"

    def __init__(self, rows: Rows, *, memory: int, share: float, whole_words: bool = False) -> None:
        super().__init__(rows, pairs=False, share=share, whole_words=whole_words)
        self.memory = memory

    @classmethod
    def made(cls, rows: Rows, setting: Setting[FillData]) -> Permuted:
        model, data = body_config(setting.model), setting.data
        if not model.says_words():
            raise RegardError('task = "fill" needs the head that predicts words; set model.masked_words=true')
        return cls(rows, memory=model.remembers(), share=data.mask, whole_words=data.whole_words)

    def encode(self, examples: Sequence[Document]) -> list[Row]:
        """Rows before an order is drawn, each after its memory."""
        rows = []
        for example in examples:
            ids = [token for sentence in self.rows.tokenizer.encode(list(example.sentences)) for token in sentence]
            rows += [self._after_memory(ids, begin) for begin in range(0, len(ids), self.room)]
        return rows

    @property
    def room(self) -> int:
        """How many tokens of a text a row has, without its memory."""
        return self.rows.framing.maximum - self.rows.framing.room_taken(pair=False)

    def _after_memory(self, ids: Sequence[int], begin: int) -> Row:
        """The row of a text from the token `begin` on, after its memory."""
        before = ids[max(begin - self.memory, 0) : begin]
        row = self.rows.framing.frame(ids[begin : begin + self.room])
        order = (REMEMBERED,) * len(before) + (GIVEN,) * len(row.ids)
        return Row((*before, *row.ids), (0,) * len(before) + row.segments, order=order)

    def draw(self, row: Row, generator: numpy.random.Generator) -> Row:
        """The row with ranks for the tokens that are predicted, which are its targets.

        Of each stretch of n / share tokens, a span of n is predicted; n is drawn from 1 to `LONGEST`. Yang 2019, 3.1
        """
        groups = [places for places in self.groups(row) if row.order[places[0]] != REMEMBERED]
        spans: list[list[int]] = []
        at = 0
        while at < len(groups):
            size = int(generator.integers(1, LONGEST + 1))
            stretch = max(round(size / self.share), size)
            begin = at + int(generator.integers(stretch - size + 1))
            spans += groups[begin : begin + size]
            at += stretch
        if groups and not spans:
            spans = [groups[int(generator.integers(len(groups)))]]
        order, wanted = list(row.order), [IGNORED] * len(row.ids)
        for rank, place in enumerate(generator.permutation([place for span in spans for place in span]).tolist()):
            order[place], wanted[place] = ASKED + rank, row.ids[place]
        return replace(row, wanted=tuple(wanted), order=tuple(order))

    def words_at(self, model: nn.Module, batch: RowBatch, places: Sequence[int]) -> Tensor:
        assert isinstance(model, PredictsInOrder)
        given = batch.order if batch.order.shape[1] else torch.full_like(batch.tokens, GIVEN)
        if not places:  # nothing is predicted, and the content stream is all there is
            return model(batch.tokens, batch.lengths, batch.segments, order=given)[:, :0]
        where = torch.tensor(places, device=batch.tokens.device).expand(len(batch.tokens), -1)
        order = given.scatter(1, where, ASKED)
        return model.words(model.predicted(batch.tokens, batch.lengths, batch.segments, order=order, places=where))

    def sight(self, model: nn.Module, asked: Texts, look: Looking) -> Sight:
        """What both streams look at: the content stream from each token, the query stream from what it predicts."""
        assert isinstance(model, PredictsInOrder)
        sight, memory = super().sight(model, asked, look), self._row(asked).order.count(REMEMBERED)
        notes = (f"the first {memory} tokens are the memory of the others",) if memory else ()
        return replace(sight, sides=model.looks, notes=(*sight.notes, *notes))

    def _row(self, asked: Texts) -> Row:
        """The row of a text or a pair. The beginning of a text that is too long for a row is its memory."""
        first, *others = self.reading.ids(asked)
        over = len(first) - self.room
        if others or not 0 < over <= self.memory:
            return super()._row(asked)
        return self._after_memory(first, over)

    def _losses(self, model: nn.Module, batch: RowBatch) -> list[tuple[Tensor, Tensor]]:
        """The loss of each predicted token, and whether the prediction is right."""
        assert isinstance(model, PredictsInOrder)
        real = batch.wanted != IGNORED  # (B, L)
        counts = real.sum(1, keepdim=True)
        places = real.int().argsort(dim=1, descending=True, stable=True)[:, : int(counts.max())]  # (B, N)
        hidden = model.predicted(batch.tokens, batch.lengths, batch.segments, order=batch.order, places=places)
        logits = model.words(hidden[torch.arange(places.shape[1], device=places.device) < counts])
        return [
            (F.cross_entropy(logits, batch.wanted[real], reduction="none"), logits.argmax(-1) == batch.wanted[real])
        ]
