"""GPT: a decoder without an encoder that predicts the next token.

    x_0 = E[u] + P        x_l = block_l(x_{l−1})        P(u_{t+1} | u_≤t) = softmax(norm(x_L) Eᵀ)

Radford 2018; wired as in GPT-2 unless `wiring` is given: norm first and one more at the end. Maps that add to the
residual then start with weights divided by √2L.

| score | may look at | position | around it |
|---|---|---|---|
| scaled dot | causal; less with `attention` | `position` | `wiring` |

B batch  T length  S length of the prompt  M width  V vocabulary
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count
from typing import ClassVar, Literal, cast

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from regard.attention import Cache, Past, positions
from regard.attention.cache import CAPACITY
from regard.attention.patterns import Delay
from regard.kernels.linear import Linear
from regard.layers.blocks import Block, Layers, Stack
from regard.layers.embedding import Embedding, tied_output
from regard.layers.feed_forward import Activation
from regard.layers.initial import start_normal
from regard.layers.steps import Steps, can_step, steps_after, steps_of
from regard.layers.wiring import NormName, WiringName
from regard.layers.wiring import build as build_wiring
from regard.models.body import Body
from regard.models.facts import BodyConfig, Pooling
from regard.models.feeding import Feeding
from regard.models.long import LongAttention
from regard.models.prompt import Prompt


class GPTConfig(LongAttention, Feeding, BodyConfig):
    kind: Literal["gpt"] = "gpt"
    layers: PositiveInt = 12
    width: PositiveInt = 768
    heads: PositiveInt = 12
    key_value_heads: PositiveInt | None = None  # fewer than heads: groups of heads share keys and values
    hidden: PositiveInt | None = None  # width of the feed-forward layers; 4 × width unless given
    position: Literal["none", "sinusoidal", "learned", "rotary", "alibi"] = "learned"
    maximum: PositiveInt = 1024  # how many learned positions
    activation: Activation = "gelu_tanh"
    wiring: WiringName = "pre_norm"
    norm: NormName = "layer"
    epsilon: PositiveFloat = 1e-5  # of the norms
    bias: bool = True  # of the linear maps
    tied: bool = True  # output = embedding
    pooling: Literal["last", "mean"] | None = None

    looks_ahead: ClassVar[bool] = False

    def reads(self) -> int | None:
        return self.maximum if self.position == "learned" else None

    def block(self) -> int:
        return self.maximum

    def pools(self) -> Pooling:
        return self.pooling or "last"


@dataclass(frozen=True)
class State:
    """The state while decoding: caches, and for rows of different lengths the number of columns each lacks (B,). It is
    used once."""

    caches: list[Past]
    missing: Tensor | None

    def reorder(self, rows: Tensor) -> State:
        """The state of these rows, in this order."""
        missing = None if self.missing is None else self.missing.index_select(0, rows)
        return State([cache.reorder(rows) for cache in self.caches], missing)


class GPT(Body):
    """Causal language model with the step protocol; its source is a prompt to continue."""

    output: nn.Linear

    def __init__(self, config: GPTConfig, *, vocabulary: int) -> None:
        super().__init__()
        width, wiring, layers = config.width, build_wiring(config.wiring, layers=config.layers), count()
        self.special, self.width, self.layers = config.special, width, config.layers

        position, inside = positions.input_and_inside(
            config.position, width=width, heads=config.heads, maximum=config.maximum
        )

        def block() -> Block:
            return Block(
                attention=config.heads_of(
                    config.attention,
                    width,
                    heads=config.heads,
                    key_value_heads=config.key_value_heads,
                    causal=True,
                    layer=next(layers),
                    maximum=config.maximum,
                    position=inside(),
                    bias=config.bias,
                ),
                feed_forward=config.feed_forward(
                    width, hidden=config.hidden or 4 * width, activation=config.activation, bias=config.bias
                ),
                wiring=wiring,
                width=width,
                dropout=config.dropout,
                norm=config.norm,
                epsilon=config.epsilon,
            )

        self.embedding = Embedding(
            vocabulary,
            width,
            position=position,
            dropout=config.dropout,
            scale=False,
            padding=config.special.pad,
        )
        self.body: Layers = Stack(
            config.layers, block, wiring=wiring, width=width, norm=config.norm, epsilon=config.epsilon
        )
        self.output = tied_output(self.embedding) if config.tied else Linear(width, vocabulary, bias=False)
        start_normal(self)
        wiring.initialise(self.body)
        if config.wiring == "pre_norm":
            with torch.no_grad():
                for name, parameter in self.body.named_parameters():
                    if name.endswith(("attention.output.weight", ".outer.weight")):
                        parameter.div_(math.sqrt(2 * config.layers))

    def looks(self, path: str) -> tuple[str, str]:
        """Which side the attention at `path` looks from, and at which."""
        return "target", "target"

    def forward(self, tokens: Tensor) -> Tensor:
        """A vector for each token, given all before it: tokens (B, T) → h (B, T, M), the input of `output`.

        Padding is at the end, where no token looks.
        """
        return self.body(self.embedding(tokens))

    def states(self, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None) -> Tensor:
        return self(tokens)  # causal: no token looks at the padding after it

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Prompt:
        """A prompt (B, S), padded at the end; lengths (B,) are counted from the padding unless given."""
        return Prompt.of(source, lengths, special=self.special)

    def first(self, memory: Prompt) -> Tensor:
        """The input of the first step: the last token of each prompt (B,)."""
        return memory.last

    def start(self, memory: Prompt) -> State | Steps:
        """The state before the last token of the prompt.

        Prompts of different lengths end in the same column, so that the next tokens do too; columns before
        the first token of a row are masked, and its positions count from that token.
        """
        length = memory.tokens.shape[1] - 1
        state = State(self.body.past(length + CAPACITY), memory.missing if memory.ragged else None)
        if length:
            self._read(memory.at_the_end()[:, :-1], state)
        if not can_step(self.body):
            return state
        if not length:
            return cast(Steps, steps_of(self.body, rows=len(memory.tokens)))
        return steps_after(self.body, cast(list[Cache], state.caches), missing=state.missing)

    def step(self, token: Tensor, state: State | Steps) -> tuple[Tensor, State | Steps]:
        """The logits (B, V) of the token that follows `token` (B,), and the state after it."""
        if isinstance(state, Steps):
            at = torch.tensor([state.length], device=token.device)
            if state.missing is not None:
                at = (at - state.missing).unsqueeze(1)
            hidden = state.step(self.embedding(token.unsqueeze(1), at).squeeze(1))
            return state.output(hidden, self.output), state
        return self.output(self._read(token.unsqueeze(1), state)[:, 0]), state

    def _read(self, tokens: Tensor, state: State) -> Tensor:
        """Tokens (B, T) that follow what the caches hold → h (B, T, M)"""
        start = state.caches[0].length
        at, pattern = torch.arange(start, start + tokens.shape[1], device=tokens.device), None
        if state.missing is not None:
            at, pattern = (at - state.missing.unsqueeze(1)).clamp(min=0), Delay(state.missing)
        return self.body(self.embedding(tokens, at), pattern=pattern, caches=state.caches)
