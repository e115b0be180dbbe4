"""The prompt that a causal language model continues.

B batch  S longest prompt
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.layers.padding import row_lengths
from regard.special import Special


@dataclass(frozen=True)
class Prompt:
    """Tokens (B, S) that begin in the first column, and the length of each row (B,), at least 1."""

    tokens: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, tokens: Tensor, lengths: Tensor | None, *, special: Special) -> Prompt:
        """A prompt padded at the end; lengths (B,) are counted from the padding unless given. An empty row is BOS."""
        lengths = row_lengths(tokens, lengths, pad=special.pad)
        empty = lengths == 0
        if empty.any():
            tokens = tokens.new_zeros(len(tokens), 1) if tokens.shape[1] == 0 else tokens.clone()
            tokens[empty, 0] = special.bos
        return cls(tokens, lengths.clamp(min=1))

    @property
    def last(self) -> Tensor:
        """The last token of each row (B,)."""
        return self.tokens.gather(1, (self.lengths - 1).unsqueeze(1)).squeeze(1)

    @property
    def ragged(self) -> bool:
        """Whether some rows are shorter than others."""
        return bool((self.lengths < self.tokens.shape[1]).any())

    @property
    def missing(self) -> Tensor:
        """How many columns each row is short of the longest (B,)."""
        return self.tokens.shape[1] - self.lengths

    def at_the_end(self) -> Tensor:
        """The tokens (B, S) moved so that each row ends in the last column; the columns before a row mean nothing."""
        column = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return self.tokens.gather(1, (column - self.missing.unsqueeze(1)).clamp(min=0))
