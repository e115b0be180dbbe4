"""What tasks that read texts have in common: the tokenizer with the frame, and passes over many texts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.data.framing import Framed, Framing
from regard.data.text_batches import TextBatch, in_order_of_length
from regard.data.tokenizers import Tokenizer
from regard.errors import RegardError, listed

BATCH_TOKENS = 4096  # of texts that are answered together


@dataclass(frozen=True)
class Sight:
    """One row as a model is seen reading it, and what it chooses there: N times one of C."""

    row: Framed
    text: str  # what was asked
    logits: Callable[[TextBatch], Tensor]  # of the row, or of copies of it: (B, N, C)
    names: Sequence[Sequence[str]] = ()  # what may be chosen (N, C)
    chosen: Sequence[int] | None = None  # each the most probable unless given
    places: Sequence[int] = ()  # the tokens that each is asked of, if not of all (N,)
    said: Callable[[Sequence[int]], str] = str  # from what was chosen to the answer

    def saying(self, reference: str) -> Sight:
        """The same if `reference` is chosen."""
        if len(self.names) != 1:
            raise RegardError(
                f"reference={reference!r} is for one choice, and here are {len(self.names)}; leave it out"
            )
        if reference not in self.names[0]:
            raise RegardError(f"reference={reference!r} cannot be chosen here; there are {listed(self.names[0])}")
        return replace(self, chosen=[self.names[0].index(reference)])


@dataclass(frozen=True)
class Reading:
    """How texts become what a model reads."""

    tokenizer: Tokenizer
    framing: Framing

    def frame(self, firsts: Sequence[str], seconds: Sequence[str | None]) -> list[Framed]:
        """Texts, or pairs of them; what is longer than the model reads is cut, with a warning that says how much."""
        whole = self.tokenizer.encode(list(firsts))
        partners = iter(self.tokenizer.encode([text for text in seconds if text is not None]))
        pairs = [next(partners) if text is not None else None for text in seconds]
        framed = [self.framing.frame(*pair) for pair in zip(whole, pairs, strict=True)]
        cut = sum(
            len(row.ids) - self.framing.room_taken(pair=second is not None) < len(first) + len(second or ())
            for row, first, second in zip(framed, whole, pairs, strict=True)
        )
        if cut:
            warnings.warn(
                f"{cut:,} of {len(framed):,} texts have more than {self.framing.maximum} tokens, and only their "
                "beginning is read",
                stacklevel=2,
            )
        return framed

    def passes(
        self, model: Any, texts: Sequence[Framed], *, batch_tokens: int = BATCH_TOKENS
    ) -> Iterator[tuple[TextBatch, Tensor]]:
        """Every text once, in batches by length, with what the model makes of them; nothing is learned."""
        return self.applied(model, texts, lambda b: model(b.tokens, b.lengths, b.segments), batch_tokens=batch_tokens)

    def applied(
        self,
        model: Any,
        texts: Sequence[Framed],
        function: Callable[[TextBatch], Tensor],
        *,
        batch_tokens: int = BATCH_TOKENS,
    ) -> Iterator[tuple[TextBatch, Tensor]]:
        device = next(model.parameters()).device
        for batch in in_order_of_length(texts, batch_tokens=batch_tokens, special=self.framing.special):
            there = batch.to(device)
            with torch.no_grad():
                found = function(there)
            yield there, found
