"""The Universal Transformer: one block of an encoder and one of a decoder, each applied again and again.

    m = x_T,  x_t = block(x_{t−1} + P^t)        P^t: where a position stands, and how often the block was applied
    each position halts when it needs no more steps (`halting`)                                Dehghani 2019

| score | may look at | position | around it |
|---|---|---|---|
| scaled dot | padding; causal | position + time, before every step | `wiring`, one block shared over depth |

`universal` reads a source and writes a target, as `transformer` does; `universal_encoder` is a body as `bert` is, and
`universal_decoder` a language model as `gpt` is.

B batch  L length  M width
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, cast

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor

from regard.checking import Settings
from regard.layers.blocks import Block, Layers, Stack
from regard.layers.universal import PONDER, THRESHOLD, Universal, counting_from
from regard.models.bert import Bert, BertConfig
from regard.models.facts import BodyConfig, LearnsWords, ModelConfig, Pooling, Use
from regard.models.gpt import GPT, GPTConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.special import OWN, Special

PLAIN = {"width", "heads", "hidden", "dropout", "wiring", "activation", "special"}  # keys that a plain model has too


class Turns(Settings):
    """The keys that all three have."""

    layers: PositiveInt = 6  # how often a block is applied, at most
    width: PositiveInt = 512
    heads: PositiveInt = 8
    hidden: PositiveInt = 2048  # width of the feed-forward layer
    wiring: Literal["post_norm", "pre_norm"] = "post_norm"
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "relu"
    halting: bool = True  # each position stops when it has pondered enough
    threshold: float = Field(default=THRESHOLD, gt=0, lt=1)  # sum of probabilities at which a position halts
    ponder: float = Field(default=PONDER, ge=0)  # weight of the mean number of steps in the loss
    offset: NonNegativeInt = 0  # while learning, positions are counted from a random number up to this

    def one_block(self) -> dict[str, Any]:
        """The keys of a plain model with one block of these sizes."""
        return {"layers": 1, **self.model_dump(include=PLAIN)}

    def repeated(self, layers: Layers) -> Universal:
        """The first block of a stack, applied again and again."""
        assert isinstance(layers, Stack)
        return Universal(
            cast(Block, layers.blocks[0]),
            steps=self.layers,
            width=self.width,
            final=layers.final,
            halting=self.halting,
            threshold=self.threshold,
            ponder=self.ponder,
        )

    def first(self, tokens: Tensor) -> Tensor | None:
        """The number from which the positions of each row of tokens (B, L) are counted while learning: (B, 1)"""
        return torch.randint(self.offset + 1, (len(tokens), 1), device=tokens.device) if self.offset else None


class UniversalConfig(Turns, ModelConfig):
    kind: Literal["universal"] = "universal"
    tied: bool = True  # output = target embedding; = source embedding too, where both sides share a vocabulary
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    special: Special = OWN
    vocabulary: PositiveInt | None = None  # as large as the tokenizer's unless given
    target_vocabulary: PositiveInt | None = None  # of the target, if it has one of its own; needs vocabulary

    def ids(self) -> Special:
        return self.special

    def vocabularies(self) -> tuple[int | None, int | None]:
        return self.vocabulary, self.target_vocabulary


class UniversalTransformer(Transformer):
    """Encoder-decoder with the step protocol."""

    def __init__(self, config: UniversalConfig, *, vocabulary: int, target_vocabulary: int | None = None) -> None:
        plain = TransformerConfig(position="none", tied=config.tied, **config.one_block())
        super().__init__(plain, vocabulary=vocabulary, target_vocabulary=target_vocabulary)
        self.encoder, self.decoder = config.repeated(self.encoder), config.repeated(self.decoder)
        self.alignment = f"decoder.{config.layers - 1}.block.cross"
        self.config = config

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        with counting_from(self.config.first(source) if self.training else None):
            return super().forward(source, lengths, target)


class UniversalEncoderConfig(Turns, BodyConfig):
    kind: Literal["universal_encoder"] = "universal_encoder"
    segments: NonNegativeInt = 2  # how many kinds of segment; 0 does not tell them apart
    pooling: Literal["first", "mean"] | None = None
    masked_words: bool = True  # the head that predicts masked tokens

    learns_words: ClassVar[LearnsWords] = "masked"

    def segments_told_apart(self) -> int:
        return min(self.segments, 2)

    def says_words(self) -> bool:
        return self.masked_words

    def suited(self, use: Use) -> Self:
        return self.model_copy(update={"masked_words": self.masked_words and use in ("whole", "words")})


class UniversalEncoder(Bert):
    """tokens (B, L) → a vector for each token in its context (B, L, M)."""

    def __init__(self, config: UniversalEncoderConfig, *, vocabulary: int) -> None:
        plain = BertConfig(
            position="none",  # the block adds positions before every step
            segments=config.segments,
            pooler=False,
            next_sentence=False,
            masked_words=config.masked_words,
            **config.one_block(),
        )
        super().__init__(plain, vocabulary=vocabulary)
        self.layers, self.config = config.layers, config
        self.body = config.repeated(self.body)

    def forward(self, tokens: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        with counting_from(self.config.first(tokens) if self.training else None):
            return super().forward(tokens, lengths, segments)


class UniversalDecoderConfig(Turns, BodyConfig):
    kind: Literal["universal_decoder"] = "universal_decoder"
    tied: bool = True  # output = embedding
    maximum: PositiveInt = 1024  # tokens learned in one piece, unless data.block is given
    pooling: Literal["last", "mean"] | None = None

    def block(self) -> int:
        return self.maximum

    def pools(self) -> Pooling:
        return self.pooling or "last"


class UniversalDecoder(GPT):
    """Causal language model with the step protocol; its source is a prompt to continue."""

    def __init__(self, config: UniversalDecoderConfig, *, vocabulary: int) -> None:
        plain = GPTConfig(position="none", tied=config.tied, **config.one_block())
        super().__init__(plain, vocabulary=vocabulary)
        self.layers, self.config = config.layers, config
        self.body = config.repeated(self.body)

    def forward(self, tokens: Tensor) -> Tensor:
        with counting_from(self.config.first(tokens) if self.training else None):
            return super().forward(tokens)
