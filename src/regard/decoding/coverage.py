"""The coverage penalty of answers that do not look at every source token.

    cp = β Σ_i log min(Σ_t a_ti, 1)          Wu 2016, equation 14: a_ti is p_ij, the weight of step t on token i

N rows alive now  H heads  S source positions
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.attention.recorder import Recorder, recording
from regard.errors import RegardError


class Coverage:
    """How much each answer alive has looked at each token of its source. lengths (N,) of the sources."""

    def __init__(self, record: Recorder, *, alignment: str, lengths: Tensor, penalty: float) -> None:
        self._record, self._alignment, self._beta = record, alignment, penalty
        self._lengths = lengths
        self._seen: Tensor | None = None  # (N, S)

    def look(self) -> None:
        """Add the weights (N, H, 1, S) of the step just recorded, averaged over the heads."""
        looked = self._record[self._alignment].mean(1).squeeze(1)
        self._seen = looked if self._seen is None else self._seen + looked
        self._record.clear()

    def reorder(self, rows: Tensor) -> None:
        """Continue with these rows."""
        self._lengths = self._lengths[rows]
        self._seen = None if self._seen is None else self._seen[rows]

    def penalties(self) -> Tensor:
        """cp of each row if it ended here, (N,), at most 0; sums of weights are clamped to a tiny positive number."""
        if self._seen is None:
            return torch.zeros(self._lengths.shape, device=self._lengths.device)
        looked = self._seen.float().clamp(min=torch.finfo(torch.float32).tiny, max=1.0).log()
        beyond = torch.arange(looked.shape[1], device=looked.device) >= self._lengths.unsqueeze(1)
        return self._beta * looked.masked_fill(beyond, 0.0).sum(1)


@contextmanager
def covering(model: object, *, alignment: str, lengths: Tensor, penalty: float) -> Iterator[Coverage]:
    """Record `model` while the `with` lasts, for the coverage of its answers. lengths (B,) of the sources."""
    if not alignment or not isinstance(model, nn.Module):
        raise RegardError(
            f"coverage_penalty={penalty} needs attention to the source; {type(model).__name__} has none, so set it to 0"
        )
    with recording(model) as record:
        yield Coverage(record, alignment=alignment, lengths=lengths, penalty=penalty)
