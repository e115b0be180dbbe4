"""A picture in, a text out: a convolutional encoder, and a decoder that looks at the places of the picture.

    a_1 … a_S = grid(picture)                       a vector for each place                        Xu 2015, section 3

    rnn           h_0, c_0 = tanh(W mean_i a_i),   o_t from h_{t−1}, y_{t−1} and a look at a: models/looking.py
                  P(y_t given y_<t and the picture) = softmax(V o_t)
    transformer   h = decoder(E[y] + P, a)          each layer: causal self-attention, attention over a, feed-forward

B batch  C channels  H, W height and width in pixels  S places  T target length  M width
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Self

import torch
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator
from torch import Tensor, nn

from regard.attention import MultiHead, scores
from regard.attention.patterns import Causal
from regard.attention.positions import Sinusoidal
from regard.attention.scores import ScoreName
from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.blocks import Block, Stack
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.feed_forward import FeedForward
from regard.layers.picture_grid import PictureGrid
from regard.layers.recurrent import Recurrent, RecurrentState
from regard.layers.wiring import PreNorm
from regard.models import transformer
from regard.models.choice import Hard, Rollout, Soft
from regard.models.facts import Grid, ModelConfig
from regard.models.looking import Looking
from regard.models.seq2seq import Memory, State
from regard.special import OWN, PAD

RNN = {"score": "additive", "choice": "soft", "even": 0.0}  # the settings of each decoder, if not given
WEIGHT = 0.1  # of what a hard choice learns by REINFORCE, as in the code of Xu 2015
TRANSFORMER = {"heads": 4, "hidden": 512}


class CaptionConfig(ModelConfig):
    kind: Literal["caption"] = "caption"
    decoder: Literal["rnn", "transformer"] = "rnn"
    layers: PositiveInt = 1  # of the decoder
    width: PositiveInt = 128  # of the places and of the decoder
    stride: PositiveInt = 4  # pixels of a place, down and across: 2, 4, 8, 16 …
    filters: PositiveInt = 32  # of the first convolution; each next scale has twice as many
    blocks: NonNegativeInt | list[NonNegativeInt] = 1  # residual blocks at each scale, or at the first, the second, …
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    score: ScoreName | None = None  # decoder = "rnn": additive
    choice: Literal["soft", "hard"] | None = None  # decoder = "rnn": soft
    even: float | None = Field(default=None, ge=0.0)  # decoder = "rnn": weight of the penalty for uneven looking, 0
    heads: PositiveInt | None = None  # decoder = "transformer": 4
    hidden: PositiveInt | None = None  # decoder = "transformer": width of its feed-forward layers, 512

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.stride < 2 or self.stride & (self.stride - 1):
            raise RegardError(f"stride={self.stride} must be 2, 4, 8 or another power of two: each scale halves")
        if isinstance(self.blocks, list) and len(self.blocks) != self._scales:
            raise RegardError(
                f"blocks={self.blocks}: stride={self.stride} has {self._scales} scales; give one for each"
            )
        owner, others = ("rnn", TRANSFORMER) if self.decoder == "rnn" else ("transformer", RNN)
        for name in others:
            if getattr(self, name) is not None:
                raise RegardError(f"{name} is no setting of decoder='{owner}'; leave it out, or choose the other")
        if self.even and self.choice == "hard":
            raise RegardError("even is for choice='soft', whose weights can be moved evenly; leave it out")
        if self.score == "location":
            raise RegardError("score='location' does not see the picture; choose another score")
        return self

    @property
    def _scales(self) -> int:
        """How often the picture is halved."""
        return self.stride.bit_length() - 1

    def residual_blocks(self) -> list[int]:
        """How many there are at each scale."""
        return self.blocks if isinstance(self.blocks, list) else [self.blocks] * self._scales


class _Captioner(nn.Module):
    """What both decoders have: the grid of a picture, the embedding of words, and the output."""

    special = OWN
    alignment: str
    output: nn.Linear

    def __init__(
        self, config: CaptionConfig, *, vocabulary: int, channels: int = 3, rows: int = 48, columns: int = 48
    ) -> None:
        super().__init__()
        stride, width = config.stride, config.width
        if rows % stride or columns % stride:
            raise RegardError(
                f"pictures of {rows} by {columns} pixels cannot be divided into places of {stride} by {stride}; choose "
                "data.size as a multiple of model.stride"
            )
        self.grid = Grid(rows // stride, columns // stride)
        blocks = config.residual_blocks()
        self.encoder = PictureGrid(channels, width=width, filters=config.filters, blocks=blocks)
        recurrent = config.decoder == "rnn"
        self.target = Embedding(vocabulary, width, dropout=config.dropout, position=None if recurrent else Sinusoidal())
        self.output = Linear(width, vocabulary)

    def grids(self) -> dict[str, Grid]:
        """The places of a picture."""
        return {"source": self.grid}

    def looks(self, path: str) -> tuple[str, str]:
        """Which side the attention (or the gates) at `path` look from, and at which."""
        return "target", "source" if path.endswith(("cross", "decoder.attention")) else "target"


class RecurrentCaptioner(_Captioner):
    """The recurrent decoder with the step protocol; hard attention learns from its rollout."""

    alignment = "decoder.attention"

    def __init__(self, config: CaptionConfig, **sizes: int) -> None:
        super().__init__(config, **sizes)
        width = config.width
        score = scores.build(config.score or "additive", width=width)
        cells = Recurrent("lstm", 2 * width, width=width, layers=config.layers, dropout=config.dropout)
        self.begin = Linear(width, 2 * config.layers * width)
        self.decoder = Looking(
            cells,
            attention=Hard(score, width=width, averaged=True) if config.choice == "hard" else Soft(score),
            readout=Linear(2 * width, width),
            even=config.even or 0.0,
        )
        self.dropout = Dropout(config.dropout)
        self.weight = WEIGHT

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Memory:
        """source (B, C, H, W) → its memory"""
        values = self.encoder(source)  # (B, S, M)
        parts = torch.tanh(self.begin(values.mean(1))).chunk(2 * len(self.decoder.cells.layers), dim=-1)
        half = len(parts) // 2
        places = torch.full((len(source),), values.shape[1], device=source.device)
        values = values.unsqueeze(1)
        return Memory(self.decoder.attention.keys(values), values, places, RecurrentState(parts[:half], parts[half:]))

    def start(self, memory: Memory) -> State:
        rows = torch.arange(len(memory.lengths), device=memory.lengths.device)
        return State(memory.last, memory.values.new_zeros(len(rows), 0), memory, rows)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token (B,) → logits (B, V) of the next one, and the state after it"""
        rollout, state = self._advance(token.unsqueeze(1), state)
        return self.output(rollout.hidden.squeeze(1)), state

    def rollout(self, source: Tensor, lengths: Tensor | None, target_in: Tensor) -> Rollout:
        """`forward`, together with the draws that a hard choice learns from: see `Rollout.surrogate`."""
        rollout, _ = self._advance(target_in, self.start(self.encode(source, lengths)))
        return replace(rollout, weight=self.weight, compared=True)

    def forward(self, source: Tensor, lengths: Tensor | None, target_in: Tensor) -> Tensor:
        """Teacher forcing: source (B, C, H, W), target_in (B, T) from BOS on → o (B, T, M)"""
        return self.rollout(source, lengths, target_in).hidden

    def _advance(self, tokens: Tensor, state: State) -> tuple[Rollout, State]:
        rollout, state = self.decoder(self.target(tokens), state, tokens != PAD)
        return replace(rollout, hidden=self.dropout(rollout.hidden)), state


class TransformerCaptioner(_Captioner, transformer.Answers):
    """The decoder of a Transformer, which looks at the places of the picture in every layer."""

    def __init__(self, config: CaptionConfig, **sizes: int) -> None:
        super().__init__(config, **sizes)
        width, heads, hidden = (
            config.width,
            config.heads or TRANSFORMER["heads"],
            config.hidden or TRANSFORMER["hidden"],
        )
        wiring = PreNorm()

        def block() -> Block:
            return Block(
                attention=MultiHead(width, heads=heads, pattern=Causal()),
                cross=MultiHead(width, heads=heads),
                feed_forward=FeedForward(width, hidden=hidden),
                wiring=wiring,
                width=width,
                dropout=config.dropout,
            )

        self.decoder = Stack(config.layers, block, wiring=wiring, width=width)
        self.alignment = f"decoder.blocks.{config.layers - 1}.cross"

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> transformer.Memory:
        """source (B, C, H, W) → its memory"""
        states = self.encoder(source)
        places = torch.full((len(source),), states.shape[1], device=source.device)
        return transformer.Memory(states, places, padded=False)


def captioner(config: CaptionConfig, **sizes: int) -> RecurrentCaptioner | TransformerCaptioner:
    """The model with the decoder that the config names; `sizes` are vocabulary, channels, rows and columns."""
    return (RecurrentCaptioner if config.decoder == "rnn" else TransformerCaptioner)(config, **sizes)
