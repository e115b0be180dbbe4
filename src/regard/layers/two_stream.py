"""A layer of two streams that share all weights."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.attention.two_stream import Seen, Standpoint, TwoStream
from regard.layers.feed_forward import FeedForward
from regard.layers.wiring import EPSILON, Wiring


class TwoStreamBlock(nn.Module):
    """Attention, then feed-forward, each with the wiring around it, for one stream or two.

    content (B, L, M), query (B, N, M) → the same shapes.   Both streams look at the content stream of the layer before.
    """

    def __init__(
        self,
        *,
        attention: TwoStream,
        feed_forward: FeedForward,
        wiring: Wiring,
        width: int,
        dropout: float = 0.0,
        epsilon: float = EPSILON,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.around_attention = wiring.around(width, dropout=dropout, epsilon=epsilon)
        self.feed_forward = feed_forward
        self.around_feed_forward = wiring.around(width, dropout=dropout, epsilon=epsilon)

    def forward(
        self, streams: Sequence[Tensor], memory: Tensor | None, distances: Tensor, stands: Sequence[Standpoint]
    ) -> list[Tensor]:
        """The streams, content first, with their standpoints; memory (B, K − L, M); sinusoids of distances (C, M)"""
        known = streams[0] if memory is None else torch.cat([memory, streams[0]], dim=1)
        seen = self.attention.look_at(known, distances)
        return [self._wired(x, seen, stand) for x, stand in zip(streams, stands, strict=True)]

    def _wired(self, x: Tensor, seen: Seen, stand: Standpoint) -> Tensor:
        x = self.around_attention(x, lambda y: self.attention(y, seen, stand))
        return self.around_feed_forward(x, self.feed_forward)
