"""ELMo's pretraining: one language model predicts the next token, another the previous one.

    loss    ½ Σ_t −log P(u_{t+1} | u_≤t)  +  ½ Σ_t −log P(u_{t−1} | u_≥t)                     Peters 2018, section 3.1

A row is one sentence in its frame, so that one direction learns where a sentence ends and the other where it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from regard.data.rows.batches import RowBatch
from regard.data.rows.framing import IGNORED, Row
from regard.errors import RegardError
from regard.kernels.vocabulary_loss import vocabulary_loss
from regard.tasks.base import Looking, Score, Setting, Sight
from regard.tasks.fill.documents import Document, pack
from regard.tasks.fill.reading import MASK, FillData, Filled, likeliest
from regard.tasks.fill.task import Fill
from regard.tasks.modules import ReadsBothWays
from regard.tasks.parts import perplexities
from regard.tasks.rows import Rows
from regard.tasks.surfaces import Texts
from regard.tasks.together import together


class TwoWay(Fill):
    """The task for models of two language models, one in each direction."""

    best = "loss"

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @classmethod
    def made(cls, rows: Rows, setting: Setting[FillData]) -> TwoWay:
        return cls(rows)

    def encode(self, examples: Sequence[Document]) -> list[Row]:
        """A row for each sentence, or several if it is too long; the targets are all of its tokens but the first."""
        sentences = self.rows.tokenizer.encode([sentence for each in examples for sentence in each.sentences])
        rows = pack([[ids] for ids in sentences], framing=self.rows.framing)
        return [Row(row.ids, row.segments, row.ids[1:]) for row in rows]

    def loss(self, model: nn.Module, batch: RowBatch, *, plain: bool = False) -> Tensor:
        """The cross-entropy, summed over the tokens; the mean of both directions."""
        assert isinstance(model, ReadsBothWays)
        there, back = (vocabulary_loss(known, model.output, wanted)[0] for known, wanted in _both(model, batch))
        return (there + back) / 2

    def scores(self, model: nn.Module, examples: Sequence[Document]) -> dict[str, Score]:
        """The perplexity of each direction, and the mean of the two."""
        assert isinstance(model, ReadsBothWays)

        def losses(batch: RowBatch) -> Tensor:
            return torch.stack([vocabulary_loss(known, model.output, w)[1] for known, w in _both(model, batch)])

        def part(rows: Sequence[Row]) -> list[list[float]]:
            return [pair for _, each in self.rows.applied(model, rows, losses) for pair in each.T.tolist()]

        found = together(self.encode(examples), part)
        if not found:
            raise RegardError("there are no tokens to score a model on; name another file")
        every = torch.tensor(found).T
        there, back = every.double().mean(1).exp().tolist()
        how = f"of {every.shape[1]:,} tokens"
        return {
            "perplexity": Score((there + back) / 2, "mean of both directions"),
            "forward_perplexity": Score(there, f"{how}, each after those before it", perplexities(every[0].tolist())),
            "backward_perplexity": Score(back, f"{how}, each before those after it", perplexities(every[1].tolist())),
        }

    def sight(self, model: nn.Module, asked: Texts, look: Looking) -> Sight:
        """What both directions read of a text; the model chooses nothing."""
        text = asked.joined
        if MASK in text:
            raise RegardError(f"{text!r} has a {MASK}, and neither direction reads beyond it; look without it")
        if look.reference is not None:
            raise RegardError(f"reference={look.reference!r}: nothing is chosen here to be forced; leave it out")
        (row,) = self.rows.frame([text], [None])
        return self.rows.sight(model, row, text, lambda batch: model(batch.tokens, batch.lengths)[:, :0])

    def filled(self, model: nn.Module, asked: Texts) -> list[list[Filled]]:
        assert isinstance(model, ReadsBothWays)
        text = asked.joined
        parts = self.rows.tokenizer.encode_around(text, MASK)
        if len(parts) != 2:
            raise RegardError(f"{text!r} has {len(parts) - 1} {MASK}; put one where a word is to be filled in")
        before, after = parts
        special, device = self.rows.framing.special, next(model.parameters()).device
        with torch.no_grad():
            there, _ = model.both_ways(torch.tensor([[special.bos, *before]], device=device))
            _, back = model.both_ways(torch.tensor([[*after, special.eos]], device=device))
            logits = sum(model.output(known).log_softmax(-1) for known in (there[0, -1], back[0, 0]))
        logits[[*special.silent, *([special.unk] if special.unk is not None else [])]] = -torch.inf
        ids = [*before, special.bos, *after]
        return [likeliest(self.rows.tokenizer, logits.softmax(-1).float().cpu().numpy(), ids, len(before))]


def _both(model: ReadsBothWays, batch: RowBatch) -> Iterator[tuple[Tensor, Tensor]]:
    """For each direction: its hidden states (N, M), and the tokens to predict from them (N,)."""
    real = batch.wanted != IGNORED
    there, back = model.both_ways(batch.tokens, batch.lengths)
    yield there[:, :-1][real], batch.wanted[real]
    yield back[:, 1:][real], batch.tokens[:, :-1][real]
