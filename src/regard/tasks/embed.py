"""A text in, one vector of length 1 out, so that the product of two says how near their texts are.

e = pool(h) / |pool(h)|                        Reimers 2019 (Sentence-BERT), section 3, normalised
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from regard.data.text_batches import TextBatch
from regard.models.heads import Pooling, pool
from regard.tasks.reading import Reading, Sight


class Embed:
    """The task, with how a text becomes one vector."""

    def __init__(self, reading: Reading, *, pooling: Pooling = "mean") -> None:
        self.reading = reading
        self.pooling = pooling

    def answer(self, model: Any, texts: Sequence[str]) -> list[list[float]]:
        """The vector of each text, in order; of an empty text, that of its frame alone."""
        framed = self.reading.frame(texts, [None] * len(texts))
        vectors: list[list[float]] = [[] for _ in texts]

        def embed(batch: TextBatch) -> Tensor:
            hidden = model(batch.tokens, batch.lengths)
            return F.normalize(pool(model, hidden, batch.lengths, self.pooling), dim=-1)

        for batch, found in self.reading.applied(model, framed, embed):
            for row, vector in zip(batch.rows, found.tolist(), strict=True):
                vectors[row] = vector
        return vectors

    def sight(self, model: Any, asked: str) -> Sight:
        """What the model reads of a text; it chooses nothing."""
        (row,) = self.reading.frame([asked], [None])
        return Sight(row, asked, lambda batch: model(batch.tokens, batch.lengths)[:, :0])
