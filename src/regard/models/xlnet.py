"""XLNet: an encoder that learns to predict tokens in a random order, each from those before it in that order.

    content stream    h_0,t = E[u_t]     h_l,t = block_l(query h_{l−1},t ; keys and values h_{l−1},j of z_j ≤ z_t)
    query stream      g_0,t = w          g_l,t = block_l(query g_{l−1},t ; keys and values h_{l−1},j of z_j < z_t)
    P(u_t | u_j of z_j < z_t) = softmax(E g_L,t + b)                                                    Yang 2019

z_t is the rank of token t in the order. Tokens of rank 0 are given, all at once. Those of higher ranks are predicted,
one after the other. Those of rank −1 are the memory: all tokens look at it, and it looks at itself alone. Without an
order, h_L,t is the vector of a token in its whole text.

| score | may look at | position | around it |
|---|---|---|---|
| scaled dot, with distance and segment | the order, memory, padding | relative | post-norm |

A text ends with EOS and BOS, which are <sep> and <cls>; BOS is a segment of its own.

B batch  L length  N places to predict  K memory and length  M width  V vocabulary
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn

from regard.attention.two_stream import Standpoint, TwoStream, distances_between, sinusoids
from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding, tied_output
from regard.layers.feed_forward import FeedForward
from regard.layers.initial import DEVIATION, start_normal
from regard.layers.padding import row_lengths
from regard.layers.two_stream import TwoStreamBlock
from regard.layers.wiring import PostNorm
from regard.models.body import Body
from regard.models.facts import BodyConfig, LearnsWords, Pooling, Use
from regard.special import BOS_SEGMENT


class XLNetConfig(BodyConfig):
    kind: Literal["xlnet"] = "xlnet"
    layers: PositiveInt = 12
    width: PositiveInt = 768
    heads: PositiveInt = 12
    hidden: PositiveInt | None = None  # width of the feed-forward layers; 4 × width unless given
    memory: NonNegativeInt = 0  # tokens before a piece of a text that are read as its memory
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "gelu"
    epsilon: PositiveFloat = 1e-12  # of the norms
    pooler: bool = False  # one vector for the whole text
    pooling: Literal["pooler", "last", "mean"] | None = None
    masked_words: bool = True  # the head that predicts tokens

    learns_words: ClassVar[LearnsWords] = "permuted"
    ends_with_bos: ClassVar[bool] = True

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.width % 2:
            raise RegardError(f"width={self.width} must be even: half of it are sines of distances, half cosines")
        return self

    def remembers(self) -> int:
        return self.memory

    def segments_told_apart(self) -> int:
        return 2

    def pools(self) -> Pooling:
        return self.pooling or "pooler"

    def says_words(self) -> bool:
        return self.masked_words

    def suited(self, use: Use) -> Self:
        if use == "whole":
            return self
        way = self.pools() if use == "text" else self.pooling if use == "vector" else None
        return self.model_copy(update={"masked_words": use == "words", "pooler": way == "pooler"})


class XLNet(Body):
    """tokens (B, L) → a vector for each token in its context (B, L, M).

    `predicted` and then `words` predict tokens in an order; `pooled` makes one vector of a text.
    """

    lowest = ("embedding.", "mask")
    heads = ("pooler.", "output.")

    def __init__(self, config: XLNetConfig, *, vocabulary: int) -> None:
        super().__init__()
        width = config.width
        self.special, self.width, self.layers, self.memory = config.special, width, config.layers, config.memory
        self.embedding = Embedding(vocabulary, width, scale=False, padding=config.special.pad)
        self.mask = nn.Parameter(torch.zeros(1, width), requires_grad=config.masked_words)  # w, the same at every place
        self.dropout = Dropout(config.dropout)
        self.body = nn.ModuleList(
            TwoStreamBlock(
                attention=TwoStream(width, heads=config.heads),
                feed_forward=FeedForward(
                    width, hidden=config.hidden or 4 * width, activation=config.activation, dropout=config.dropout
                ),
                wiring=PostNorm(),
                width=width,
                dropout=config.dropout,
                epsilon=config.epsilon,
            )
            for _ in range(config.layers)
        )
        self.pooler = Linear(width, width) if config.pooler else None
        self.output = tied_output(self.embedding, bias=True) if config.masked_words else None
        start_normal(self)
        nn.init.normal_(self.mask, std=DEVIATION)

    def looks(self, path: str) -> tuple[str, str]:
        """Which side the attention at `path` looks from, and at which: the query stream looks from what it predicts."""
        return "target" if path.endswith(".query") else "source", "source"

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        segments: Tensor | None = None,
        *,
        order: Tensor | None = None,
    ) -> Tensor:
        """The content stream: tokens (B, L) padded at the end, segments (B, L) → h (B, L, M); vectors of padding mean
        nothing. order (B, L) is the rank of each token; without it, each token looks at all."""
        lengths = row_lengths(tokens, lengths, pad=self.special.pad)
        return self.dropout(self._streams(tokens, lengths, segments, order=order)[0][0])

    def predicted(
        self, tokens: Tensor, lengths: Tensor, segments: Tensor | None, *, order: Tensor, places: Tensor
    ) -> Tensor:
        """The query stream at places (B, N), each from all tokens of lower rank: g (B, N, M)"""
        return self.dropout(self._streams(tokens, lengths, segments, order=order, places=places)[0][1])

    def read_on(
        self, tokens: Tensor, memory: Sequence[Tensor] | None = None, segments: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """The content stream of full rows after a memory, and the memory after them, without gradients.

        A memory is the input of each layer at the last positions, at most `memory` of them: (B, K − L, M) each. It
        counts as segment 0.
        """
        lengths = torch.full((len(tokens),), tokens.shape[1], device=tokens.device)
        streams, inputs = self._streams(tokens, lengths, segments, memory=memory)
        every = inputs if memory is None else [torch.cat(pair, dim=1) for pair in zip(memory, inputs, strict=True)]
        return streams[0], [x[:, max(x.shape[1] - self.memory, 0) :].detach() for x in every]

    def states(self, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None) -> Tensor:
        if segments is None:
            segments = BOS_SEGMENT * (tokens == self.special.bos)
        return self(tokens, lengths, segments)

    def pooled(self, hidden: Tensor, lengths: Tensor, pooling: Pooling) -> Tensor:
        """As `Body.pooled`; "pooler" is tanh(W h) of the last token.   (B, L, M) → (B, M)"""
        if pooling != "pooler":
            return super().pooled(hidden, lengths, pooling)
        if self.pooler is None:
            raise RegardError(
                "this model has no pooler (pooler=false); use the vector of the last token, or their mean"
            )
        return torch.tanh(self.pooler(super().pooled(hidden, lengths, "last")))

    def without_words(self) -> None:
        """Nothing to drop: the config says which heads there are, see `XLNetConfig.suited`."""

    def words(self, hidden: Tensor) -> Tensor:
        """The logits of the words in these places: g (…, M) → (…, V)"""
        if self.output is None:
            raise RegardError("this model has no head that predicts words (masked_words=false)")
        return self.output(hidden)

    def _streams(
        self,
        tokens: Tensor,
        lengths: Tensor,
        segments: Tensor | None,
        *,
        order: Tensor | None = None,
        places: Tensor | None = None,
        memory: Sequence[Tensor] | None = None,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The last layer of the content stream, and of the query stream if there are places; and the content stream's
        input of each layer."""
        length, kept = tokens.shape[1], 0 if memory is None else memory[0].shape[1]
        streams = [self.dropout(self.embedding(tokens))]
        stands = [Standpoint.of(lengths, segments, order, memory=kept)]
        if places is not None:
            streams.append(self.dropout(self.mask.expand(*places.shape, -1)))
            stands.append(Standpoint.of(lengths, segments, order, places, memory=kept))
        away = distances_between(length, kept + length, device=tokens.device)
        distances = self.dropout(sinusoids(away, self.width).to(self.mask.dtype))
        inputs = []
        for number, layer in enumerate(self.body):
            inputs.append(streams[0])
            streams = layer(streams, None if memory is None else memory[number], distances, stands)
        return streams, inputs
