"""Transformer-XL: a causal language model that remembers the states of the segments before.

    h̃ = [stop_gradient(m_l) ; h_{l−1}]    q = W_q h_{l−1}    k, v = W_k h̃, W_v h̃    h_l = block_l(q, k, v)

Dai 2019, section 3. m_l are the last `memory` states that entered layer l in earlier segments. Positions are distances
(`attention/relative.py`), so that a state means the same in whichever segment it is looked at, and a memory may be
longer after training than during it. Each layer looks `memory` positions further back than the one above it.

| score | may look at | position | around it |
|---|---|---|---|
| scaled dot | causal, and the memory | distance | post-norm (the paper) or pre-norm |

B batch  T length  S length of the prompt  K positions remembered  M width  V vocabulary
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor, nn

from regard.attention import Cache, MultiHead
from regard.attention.patterns import Causal, Padding
from regard.attention.relative import Relative
from regard.kernels.linear import Linear
from regard.layers import wiring
from regard.layers.blocks import Block, Stack
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding, tied_output
from regard.layers.feed_forward import Activation, FeedForward
from regard.layers.initial import start_normal
from regard.layers.memory import Memory
from regard.models.body import Body
from regard.models.facts import BLOCK, BodyConfig, Pooling
from regard.models.prompt import Prompt


class TransformerXLConfig(BodyConfig):
    kind: Literal["transformer_xl"] = "transformer_xl"
    layers: PositiveInt = 16
    width: PositiveInt = 410
    heads: PositiveInt = 10
    hidden: PositiveInt | None = None  # width of the feed-forward layers; 4 × width unless given
    memory: NonNegativeInt = 150  # positions before a segment that are remembered while learning
    evaluation_memory: NonNegativeInt | None = None  # the same afterwards; as `memory` unless given
    clamp: PositiveInt | None = None  # larger distances count as this one
    activation: Activation = "relu"
    wiring: Literal["post_norm", "pre_norm"] = "post_norm"
    tied: bool = True  # output = embedding
    pooling: Literal["last", "mean"] | None = None

    carries: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    adjustable: ClassVar[frozenset[str]] = frozenset({"evaluation_memory"})

    def pools(self) -> Pooling:
        return self.pooling or "last"


@dataclass(frozen=True)
class State:
    """The state while decoding: keys and values of the positions remembered, and how many of them each row lacks
    (B,), where one does. It is used once."""

    caches: list[Cache]
    missing: Tensor | None

    def reorder(self, rows: Tensor) -> State:
        """These rows, in this order."""
        missing = None if self.missing is None else self.missing.index_select(0, rows)
        return State([cache.reorder(rows) for cache in self.caches], missing)


class TransformerXL(Body):
    """Causal language model with the step protocol, whose memory goes from one segment to the next."""

    output: nn.Linear

    def __init__(self, config: TransformerXLConfig, *, vocabulary: int) -> None:
        super().__init__()
        width, heads, around = config.width, config.heads, wiring.build(config.wiring, layers=config.layers)
        self.special, self.width, self.layers = config.special, width, config.layers
        self.memory = config.memory
        self.evaluation_memory = config.memory if config.evaluation_memory is None else config.evaluation_memory

        def block() -> Block:
            position = Relative(width, heads=heads, clamp=config.clamp)
            return Block(
                attention=MultiHead(width, heads=heads, pattern=Causal(), position=position, bias=False),
                feed_forward=FeedForward(
                    width, hidden=config.hidden or 4 * width, activation=config.activation, dropout=config.dropout
                ),
                wiring=around,
                width=width,
                dropout=config.dropout,
            )

        self.embedding = Embedding(vocabulary, width, dropout=config.dropout, padding=config.special.pad)
        self.body = Stack(config.layers, block, wiring=around, width=width)
        self.dropout = Dropout(config.dropout)
        self.output = tied_output(self.embedding, bias=True) if config.tied else Linear(width, vocabulary)
        start_normal(self)

    @property
    def remembers(self) -> int:
        """How many positions are remembered: `memory` while learning, `evaluation_memory` otherwise."""
        return self.memory if self.training else self.evaluation_memory

    def lead(self, block: int) -> int:
        """How many tokens before a segment its states depend on, if the text is read in segments of `block` tokens."""
        return self.layers * (self.remembers + block) if self.remembers else 0

    def looks(self, path: str) -> tuple[str, str]:
        """Which side the attention at `path` looks from, and at which."""
        return "target", "target"

    def forward(self, tokens: Tensor) -> Tensor:
        """A vector for each token, given all before it: tokens (B, T) → h (B, T, M), the input of `output`."""
        return self.dropout(self.body(self.embedding(tokens)))

    def states(self, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None) -> Tensor:
        return self(tokens)  # causal: no token looks at the padding after it

    def read(self, tokens: Tensor, state: Memory | None) -> tuple[Tensor, Memory]:
        """The next segment of a text: tokens (B, T) → h (B, T, M), and the memory of it and of what was before.

        No gradient flows into an earlier segment.
        """
        x, entered = self.embedding(tokens), []
        blocks = [cast(Block, block) for block in self.body.blocks]
        caches = [None] * len(blocks) if state is None else state.caches(blocks)
        for block, cache in zip(blocks, caches, strict=True):
            entered.append(x)
            x = block(x, pattern=state and state.pattern(), cache=cache)
        whole = Memory(tuple(entered)) if state is None else state.then(entered)
        return self.dropout(self.body.final(x)), whole.last(self.remembers)

    def recall(self, tensors: Mapping[str, Tensor]) -> Memory:
        """The memory that `Memory.tensors` gave."""
        return Memory.of(tensors)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Prompt:
        """A prompt (B, S), padded at the end; lengths (B,) are counted from the padding unless given."""
        return Prompt.of(source, lengths, special=self.special)

    def first(self, memory: Prompt) -> Tensor:
        """The input of the first step: the last token of each prompt (B,)."""
        return memory.last

    def start(self, memory: Prompt) -> State:
        """The state before the last token of the prompt. Prompts of different lengths end in the same column.

        A long prompt is read in segments, each as long as the memory.
        """
        state = State([Cache() for _ in self.body.blocks], memory.missing if memory.ragged else None)
        for tokens in memory.at_the_end()[:, :-1].split(max(self.remembers, BLOCK), 1):
            if tokens.shape[1]:
                _, state = self._read_on(tokens, state)
        return state

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """The logits (B, V) of the token that follows `token` (B,), and the state after it."""
        hidden, state = self._read_on(token.unsqueeze(1), state)
        return self.output(hidden[:, 0]), state

    def _read_on(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Tokens (B, T) that follow what the caches hold → h (B, T, M), and the state after them."""
        pattern = None if state.missing is None else ~Padding(state.missing)
        hidden = self.dropout(self.body(self.embedding(tokens), pattern=pattern, caches=state.caches))
        dropped = max(state.caches[0].length - self.remembers, 0)
        for cache in state.caches:
            cache.keep_last(self.remembers)
        return hidden, State(state.caches, None if state.missing is None else (state.missing - dropped).clamp(min=0))
