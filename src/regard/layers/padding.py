"""How long the rows of a padded batch are."""

import torch
from torch import Tensor


def row_lengths(tokens: Tensor, lengths: Tensor | None, *, pad: int | None) -> Tensor:
    """lengths (B,), counted from the padding of tokens (B, L) unless given; without padding tokens, rows are full."""
    if lengths is not None:
        return lengths.to(tokens.device)
    if pad is None:
        return torch.full((len(tokens),), tokens.shape[1], device=tokens.device)
    return (tokens != pad).sum(1)
