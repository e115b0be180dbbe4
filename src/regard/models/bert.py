"""BERT: an encoder that reads a text from both sides, trained to predict masked tokens.

    x_0 = norm(E[u] + P + S[segment])        x_l = block_l(x_{l−1})
    masked words     P(u_t | the rest) = softmax(norm(act(W x_L,t)) Eᵀ + b)
    next sentence    P(B follows A) = softmax(W' tanh(W_p x_L,0))                                       Devlin 2019

| score | may look at | position | around it |
|---|---|---|---|
| scaled dot | padding; less with `attention` | `position` | `wiring` |

DistilBERT (Sanh 2019) has no segments, no pooler and half the layers; RoBERTa (Liu 2019) has one segment, no next
sentence, and counts positions from 2. A text begins with BOS, which is [CLS]; each segment ends with EOS, which is
[SEP].

B batch  L length  M width  V vocabulary
"""

from __future__ import annotations

from itertools import count
from typing import ClassVar, Literal, Self

import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn

from regard.attention import positions
from regard.attention.patterns import Padding
from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.blocks import Block, Layers, Stack
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding, tied_output
from regard.layers.feed_forward import bend
from regard.layers.initial import start_normal
from regard.layers.padding import row_lengths
from regard.layers.wiring import WiringName
from regard.layers.wiring import build as build_wiring
from regard.models.body import Body
from regard.models.facts import BodyConfig, LearnsWords, Pooling, Use
from regard.models.feeding import Feeding
from regard.models.long import LongAttention


class BertConfig(LongAttention, Feeding, BodyConfig):
    kind: Literal["bert"] = "bert"
    layers: PositiveInt = 12
    width: PositiveInt = 768
    heads: PositiveInt = 12
    hidden: PositiveInt | None = None  # width of the feed-forward layers; 4 × width unless given
    position: Literal["none", "sinusoidal", "learned", "shaw", "rotary", "alibi"] = "learned"
    maximum: PositiveInt = 512  # how many positions
    offset: NonNegativeInt = 0  # the position of the first token
    segments: NonNegativeInt = 2  # how many kinds of segment; 0 does not tell them apart
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "gelu"
    wiring: WiringName = "post_norm"
    epsilon: PositiveFloat = 1e-12  # of the norms
    pooler: bool = True  # one vector for the whole text
    pooler_activation: Literal["tanh", "relu"] = "tanh"
    pooling: Literal["pooler", "first", "mean"] | None = None
    masked_words: bool = True  # the head that predicts masked tokens
    next_sentence: bool = True  # the head that says whether the second segment follows the first

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.next_sentence and not self.pooler:
            raise RegardError("next_sentence=true needs the pooler's vector; set pooler=true, or next_sentence=false")
        if self.offset >= self.maximum:
            raise RegardError(f"offset={self.offset} leaves no position of maximum={self.maximum}; raise maximum")
        return self

    def reads(self) -> int:
        return self.maximum - self.offset

    def segments_told_apart(self) -> int:
        return min(self.segments, 2)

    learns_words: ClassVar[LearnsWords] = "masked"

    def pools(self) -> Pooling:
        return self.pooling or "pooler"

    def says_words(self) -> bool:
        return self.masked_words

    def says_what_follows(self) -> bool:
        return self.next_sentence

    def suited(self, use: Use) -> Self:
        if use == "whole":
            return self
        words, follows = use == "words", use == "words" and self.next_sentence
        way = self.pools() if use == "text" else self.pooling if use == "vector" else None
        heads = {"masked_words": words, "next_sentence": follows, "pooler": follows or way == "pooler"}
        return self.model_copy(update=heads)


class Bert(Body):
    """tokens (B, L) → a vector for each token in its context (B, L, M).

    `pool` makes one vector of a text; `transform` and then `output` predict masked tokens; `next_sentence` maps the
    pooled vector to two logits, of which the first says that the second segment follows.
    """

    lowest = ("embedding.", "segments.", "norm.")
    heads = ("pooler.", "transform.", "output.", "next_sentence.")

    def __init__(self, config: BertConfig, *, vocabulary: int) -> None:
        super().__init__()
        width, wiring, layers = config.width, build_wiring(config.wiring, layers=config.layers), count()
        self.special, self.width, self.layers = config.special, width, config.layers
        self.offset = config.offset
        self.pooler_activation = config.pooler_activation

        position, inside = positions.input_and_inside(
            config.position, width=width, heads=config.heads, maximum=config.maximum
        )

        def block() -> Block:
            hidden = config.hidden or 4 * width
            return Block(
                attention=config.heads_of(
                    config.attention,
                    width,
                    heads=config.heads,
                    causal=False,
                    layer=next(layers),
                    maximum=config.maximum,
                    position=inside(),
                ),
                feed_forward=config.feed_forward(width, hidden=hidden, activation=config.activation),
                wiring=wiring,
                width=width,
                dropout=config.dropout,
                epsilon=config.epsilon,
            )

        self.embedding = Embedding(vocabulary, width, position=position, scale=False, padding=config.special.pad)
        self.segments = nn.Embedding(config.segments, width) if config.segments else None
        self.norm = nn.LayerNorm(width, eps=config.epsilon)
        self.dropout = Dropout(config.dropout)
        self.body: Layers = Stack(config.layers, block, wiring=wiring, width=width, epsilon=config.epsilon)
        self.pooler = Linear(width, width) if config.pooler else None
        self.transform = Transform(config) if config.masked_words else None
        self.output = tied_output(self.embedding, bias=True) if config.masked_words else None
        self.next_sentence = Linear(width, 2) if config.next_sentence else None
        start_normal(self)
        wiring.initialise(self.body)

    def looks(self, path: str) -> tuple[str, str]:
        """Which side the attention at `path` looks from, and at which."""
        return "source", "source"

    def forward(self, tokens: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """tokens (B, L) padded at the end, segments (B, L) from 0 on → h (B, L, M); vectors of
        padding mean nothing. lengths (B,) are counted from the padding unless given; without segments, all are 0."""
        lengths = row_lengths(tokens, lengths, pad=self.special.pad)
        padded = bool((lengths < tokens.shape[1]).any())
        x = self.embedding(tokens, torch.arange(self.offset, self.offset + tokens.shape[1], device=tokens.device))
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(tokens) if segments is None else segments)
        elif segments is not None:
            raise RegardError("this model does not tell segments apart (segments=0); leave them out")
        return self.body(self.dropout(self.norm(x)), pattern=Padding(lengths) if padded else None)

    def states(self, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None) -> Tensor:
        return self(tokens, lengths, None if self.segments is None else segments)

    def pooled(self, hidden: Tensor, lengths: Tensor, pooling: Pooling) -> Tensor:
        return self.pool(hidden) if pooling == "pooler" else super().pooled(hidden, lengths, pooling)

    def pool(self, hidden: Tensor) -> Tensor:
        """One vector for each text: tanh(W_p h_0), or relu.   (B, L, M) → (B, M)"""
        if self.pooler is None:
            raise RegardError(
                "this model has no pooler (pooler=false); use the vector of the first token, or their mean"
            )
        return (torch.tanh if self.pooler_activation == "tanh" else torch.relu)(self.pooler(hidden[:, 0]))

    def without_words(self) -> None:
        """Nothing to drop: the config says which heads there are, see `BertConfig.suited`."""

    def words(self, hidden: Tensor) -> Tensor:
        """The logits of the words in these places: h (…, M) → (…, V)"""
        if self.transform is None or self.output is None:
            raise RegardError("this model has no head that fills in words (masked_words=false)")
        return self.output(self.transform(hidden))

    def follows(self, hidden: Tensor) -> Tensor:
        """Whether the second text follows the first: (B, L, M) → logits (B, 2)"""
        if self.next_sentence is None:
            raise RegardError("this model has no head for the next sentence (next_sentence=false)")
        return self.next_sentence(self.pool(hidden))


class Transform(nn.Module):
    """The vector that is compared with the embeddings of the vocabulary: norm(act(W h)).   h (…, M) → (…, M)"""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.linear = Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.activation = config.activation

    def forward(self, hidden: Tensor) -> Tensor:
        return self.norm(bend(self.linear(hidden), self.activation))
