"""The Transformer: an encoder and a decoder made of attention alone.

    m = encoder(E_s[x] + P)             each layer: self-attention, feed-forward
    h = decoder(E_t[y] + P, m)          each layer: causal self-attention, attention over m, feed-forward
    P(y_t | y_<t, x) = softmax(W h_t)                                                          Vaswani 2017

| score | may look at | position | around it |
|---|---|---|---|
| scaled dot | padding; causal | `position` | `wiring` |

With `decoder = "ssru"`, the decoder has a recurrent unit instead of causal self-attention (`layers.ssru`, Kim 2019).

B batch  S source length  T target length  M width  V vocabulary
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import count
from typing import Literal, Self

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from regard.attention import MultiHead, positions
from regard.attention.cache import Past, Projected
from regard.attention.patterns import Padding, Pattern
from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.blocks import Block, Layers, Stack
from regard.layers.embedding import Embedding, tied_output
from regard.layers.feed_forward import Activation
from regard.layers.padding import row_lengths
from regard.layers.ssru import SSRU
from regard.layers.steps import Steps, steps_of
from regard.layers.wiring import Wiring, WiringName, build_pair
from regard.models.facts import ModelConfig
from regard.models.feeding import Feeding
from regard.models.long import CausalName, LongAttention
from regard.special import OWN, Special

PositionName = Literal["none", "sinusoidal", "sinusoidal_halves", "learned", "shaw", "rotary", "alibi"]


class TransformerConfig(LongAttention, Feeding, ModelConfig):
    kind: Literal["transformer"] = "transformer"
    layers: PositiveInt = 6  # in the encoder, and in the decoder, unless one of the next two is given
    encoder_layers: PositiveInt | None = None
    decoder_layers: PositiveInt | None = None
    width: PositiveInt = 512
    heads: PositiveInt = 8
    decoder_heads: PositiveInt | None = None  # as heads unless given
    hidden: PositiveInt = 2048  # width of the feed-forward layers
    decoder_hidden: PositiveInt | None = None  # as hidden unless given
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    position: PositionName = "sinusoidal"
    maximum: PositiveInt = 1024  # how many learned positions
    wiring: WiringName = "post_norm"
    activation: Activation = "relu"
    tied: bool = True  # output = target embedding; = source embedding too, where both sides share a vocabulary
    scale: bool = True  # embeddings are multiplied by √width
    output_bias: bool = False
    decoder: Literal["attention", "ssru"] = "attention"  # what a decoder layer reads its own positions with
    decoder_attention: CausalName = "exact"  # of the decoder over itself; over the encoder it is always exact
    special: Special = OWN
    vocabulary: PositiveInt | None = None  # as large as the tokenizer's unless given
    target_vocabulary: PositiveInt | None = None  # of the target, if it has one of its own; needs vocabulary

    @model_validator(mode="after")
    def _decoder_looks(self) -> Self:
        if self.decoder != "attention" and self.decoder_attention != "exact":
            raise RegardError(
                f'decoder_attention = "{self.decoder_attention}" is a setting of decoder = "attention"; with decoder = '
                f'"{self.decoder}" the decoder does not look at its own words, so leave it out'
            )
        return self

    def ids(self) -> Special:
        return self.special

    def reads(self) -> int | None:
        return self.maximum if self.position == "learned" or self.attention == "linformer" else None

    def forms(self) -> tuple[str, ...]:
        return self.attention, self.decoder_attention

    def vocabularies(self) -> tuple[int | None, int | None]:
        return self.vocabulary, self.target_vocabulary


@dataclass(frozen=True)
class Memory:
    """An encoded source: the encoder's output (B, S, M), and where the source is not padding."""

    states: Tensor
    lengths: Tensor
    padded: bool

    @property
    def pattern(self) -> Pattern | None:
        return Padding(self.lengths) if self.padded else None


@dataclass(frozen=True)
class State:
    """The state while decoding: caches, and keys and values of the memory. It is used once."""

    caches: list[Past]
    memory: list[Projected]
    lengths: Tensor
    padded: bool
    origin: Tensor  # (B,) the sentence that each row answers

    def reorder(self, rows: Tensor) -> State:
        """The state of these rows, in this order. The memory stays as it is if beams only change places within a
        sentence."""
        caches, origin = [cache.reorder(rows) for cache in self.caches], self.origin.index_select(0, rows)
        if torch.equal(origin, self.origin):
            return State(caches, self.memory, self.lengths, self.padded, origin)
        lengths = self.lengths.index_select(0, rows)
        return State(caches, [seen.reorder(rows) for seen in self.memory], lengths, self.padded, origin)


class Answers(nn.Module, ABC):
    """A decoder that looks at a memory, with the step protocol; subclasses say how a source becomes the memory."""

    special: Special
    target: Embedding
    decoder: Layers
    output: nn.Linear

    @abstractmethod
    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Memory:
        """The memory of a source."""

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """Every step at once, given the target so far: source, target (B, T) from BOS on → h (B, T, M).

        Padding is at the end, where causal attention does not look.
        """
        memory = self.encode(source, lengths)
        return self.decoder(self.target(target), memory=memory.states, memory_pattern=memory.pattern)

    def start(self, memory: Memory) -> State | Steps:
        """The state before the first token."""
        lengths = memory.lengths if memory.padded else None
        steps = steps_of(self.decoder, rows=len(memory.lengths), memory=memory.states, lengths=lengths)
        if steps is not None:
            return steps
        origin = torch.arange(len(memory.lengths), device=memory.lengths.device)
        return State(self.decoder.past(), self.decoder.remember(memory.states), memory.lengths, memory.padded, origin)

    def step(self, token: Tensor, state: State | Steps) -> tuple[Tensor, State | Steps]:
        """The logits (B, V) of the token that follows `token` (B,), and the state after it."""
        if isinstance(state, Steps):
            at = torch.tensor([state.length], device=token.device)
            hidden = state.step(self.target(token.unsqueeze(1), at).squeeze(1))
            return state.output(hidden, self.output), state
        at = torch.arange(state.caches[0].length, state.caches[0].length + 1, device=token.device)
        pattern = Padding(state.lengths) if state.padded else None
        x = self.target(token.unsqueeze(1), at)
        hidden = self.decoder(x, memory=state.memory, memory_pattern=pattern, caches=state.caches)
        return self.output(hidden[:, 0]), state


class Transformer(Answers):
    """Encoder-decoder Transformer with the step protocol; `target_vocabulary=None` shares one vocabulary."""

    def __init__(self, config: TransformerConfig, *, vocabulary: int, target_vocabulary: int | None = None) -> None:
        super().__init__()
        self.special = config.special
        self.source = self._embedding(config, vocabulary)
        shared = config.tied and target_vocabulary is None
        self.target = self.source if shared else self._embedding(config, target_vocabulary or vocabulary)
        depths = config.encoder_layers or config.layers, config.decoder_layers or config.layers
        wirings = build_pair(config.wiring, encoder_layers=depths[0], decoder_layers=depths[1])
        self.encoder: Layers = self._stack(config, depths[0], wirings[0], cross=False)
        self.decoder: Layers = self._stack(config, depths[1], wirings[1], cross=True)
        if config.tied:
            self.output = tied_output(self.target, bias=config.output_bias)
        else:
            self.output = Linear(config.width, target_vocabulary or vocabulary, bias=config.output_bias)
        self.alignment = f"decoder.blocks.{depths[1] - 1}.cross"

    @staticmethod
    def _embedding(config: TransformerConfig, vocabulary: int) -> Embedding:
        position = positions.build(config.position, width=config.width, heads=config.heads, maximum=config.maximum)
        return Embedding(
            vocabulary,
            config.width,
            position=position,
            dropout=config.dropout,
            scale=config.scale,
            padding=config.special.pad,
        )

    @staticmethod
    def _stack(config: TransformerConfig, layers: int, wiring: Wiring, *, cross: bool) -> Stack:
        numbers = count()
        heads = (cross and config.decoder_heads) or config.heads
        hidden = (cross and config.decoder_hidden) or config.hidden

        def attention() -> MultiHead:
            inside = config.position if config.position in ("shaw", "rotary", "alibi") else "none"
            return config.heads_of(
                config.decoder_attention if cross else config.attention,
                config.width,
                heads=heads,
                causal=cross,
                layer=next(numbers),
                maximum=config.maximum,
                position=positions.build(inside, width=config.width, heads=heads),
            )

        def block() -> Block:
            return Block(
                attention=SSRU(config.width) if cross and config.decoder == "ssru" else attention(),
                cross=MultiHead(config.width, heads=heads) if cross else None,
                feed_forward=config.feed_forward(config.width, hidden=hidden, activation=config.activation),
                wiring=wiring,
                width=config.width,
                dropout=config.dropout,
            )

        return Stack(layers, block, wiring=wiring, width=config.width)

    def looks(self, path: str) -> tuple[str, str]:
        """Which side the attention at `path` looks from, and at which."""
        if path.startswith("encoder"):
            return "source", "source"
        return "target", "source" if path.endswith("cross") else "target"

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Memory:
        """Read the source (B, S), padded at the end; lengths (B,) are counted from the padding unless given."""
        lengths = row_lengths(source, lengths, pad=self.special.pad)
        padded = bool((lengths < source.shape[1]).any())
        states = self.encoder(self.source(source), pattern=Padding(lengths) if padded else None)
        return Memory(states, lengths, padded)
