"""Say what comes next and what came before: how ELMo learns to read.

    loss    ½ Σ_t −log P(u_{t+1} | u_≤t)  +  ½ Σ_t −log P(u_{t−1} | u_≥t)                     Peters 2018, section 3.1

A row is one sentence in its frame, so that one direction learns where a sentence ends and the other where it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.data.documents import Document, pack
from regard.data.framing import IGNORED, Framed
from regard.data.text_batches import TextBatch
from regard.errors import RegardError
from regard.tasks.fill import MASK, likeliest
from regard.tasks.reading import Reading, Sight
from regard.tasks.scores import Score
from regard.tasks.vocabulary_loss import vocabulary_loss


class TwoWay:
    """The task."""

    best = "loss"

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def encode(self, examples: Sequence[Document]) -> list[Framed]:
        """A row for each sentence, or several where it is too long; wanted are all of its tokens but the first."""
        sentences = self.reading.tokenizer.encode([sentence for each in examples for sentence in each.sentences])
        rows = pack([[ids] for ids in sentences], framing=self.reading.framing)
        return [Framed(row.ids, row.segments, row.ids[1:]) for row in rows]

    def loss(self, model: Any, batch: TextBatch) -> Tensor:
        """Summed over the tokens, the mean of both directions."""
        there, back = (vocabulary_loss(known, model.output, wanted)[0] for known, wanted in _both(model, batch))
        return (there + back) / 2

    def scores(self, model: Any, examples: Sequence[Document]) -> dict[str, Score]:
        """The perplexity of each direction, and the mean of the two."""

        def losses(batch: TextBatch) -> Tensor:
            return torch.stack([vocabulary_loss(known, model.output, w)[1] for known, w in _both(model, batch)])

        found = [each for _, each in self.reading.applied(model, self.encode(examples), losses)]
        if not found:
            raise RegardError("there is not one token to be judged by; name another file")
        every = torch.cat(found, dim=1)
        there, back = every.double().mean(1).exp().tolist()
        how = f"of {every.shape[1]:,} tokens"
        return {
            "perplexity": Score((there + back) / 2, "mean of both directions"),
            "forward_perplexity": Score(there, f"{how}, each after those before it"),
            "backward_perplexity": Score(back, f"{how}, each before those after it"),
        }

    def answer(self, model: Any, asked: Sequence[str | Sequence[str]]) -> list[list[dict[str, Any]]]:
        """For the one mask in each text, the tokens that are likeliest by the product of both directions."""
        return [self._fill(model, text if isinstance(text, str) else " ".join(text)) for text in asked]

    def sight(self, model: Any, asked: str | Sequence[str]) -> Sight:
        """What both directions read of a text; they choose nothing."""
        text = asked if isinstance(asked, str) else " ".join(asked)
        if MASK in text:
            raise RegardError(f"{text!r} has a {MASK}, and neither direction reads beyond it; look without it")
        (row,) = self.reading.frame([text], [None])
        return Sight(row, text, lambda batch: model(batch.tokens, batch.lengths)[:, :0])

    @staticmethod
    def shown(answer: Sequence[Mapping[str, Any]]) -> list[str]:
        """The text with its mask filled in by the likeliest token."""
        return [str(answer[0]["sequence"])]

    def _fill(self, model: Any, text: str) -> list[dict[str, Any]]:
        parts = text.split(MASK)
        if len(parts) != 2:
            raise RegardError(f"{text!r} has {len(parts) - 1} {MASK}; put one where a word is to be filled in")
        before, after = self.reading.tokenizer.encode(parts)
        special, device = self.reading.framing.special, next(model.parameters()).device
        with torch.no_grad():
            there, _ = model.both_ways(torch.tensor([[special.bos, *before]], device=device))
            _, back = model.both_ways(torch.tensor([[*after, special.eos]], device=device))
            logits = sum(model.output(known).log_softmax(-1) for known in (there[0, -1], back[0, 0]))
        logits[[*special.silent, *([special.unk] if special.unk is not None else [])]] = -torch.inf
        return likeliest(self.reading.tokenizer, logits.softmax(-1), [*before, special.bos, *after], len(before))


def _both(model: Any, batch: TextBatch) -> Iterator[tuple[Tensor, Tensor]]:
    """Of each direction: what it knows (N, M), and the token that comes then (N,)."""
    real = batch.wanted != IGNORED
    there, back = model.both_ways(batch.tokens, batch.lengths)
    yield there[:, :-1][real], batch.wanted[real]
    yield back[:, 1:][real], batch.tokens[:, :-1][real]
