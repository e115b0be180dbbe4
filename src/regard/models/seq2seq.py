"""Recurrent encoder-decoder: one vector for the whole source, or attention over all of it.

    h_1 … h_S = encoder(x_1 … x_S)              the memory; the encoder's last state is s_0, all the decoder gets from
                                                the source if the score is "none" (Sutskever 2014)
    bahdanau    c_t = Σ_i w_ti h_i,   w_t = softmax_i score(s_{t−1}, h_i)                       Bahdanau 2015
                s_t = cell(s_{t−1}, [y_{t−1} ; c_t])
                attend_from="bottom": s_{t−1} of the lowest layer asks, every layer reads c_t   Wu 2016 (GNMT)
    luong       s_t = cell(s_{t−1}, y_{t−1}),   or cell(s_{t−1}, [y_{t−1} ; o_{t−1}]) with input feeding
                c_t = Σ_i w_ti h_i,   w_t = softmax_i score(s_t, h_i)                           Luong 2015

    o_t = tanh(W [s_t ; c_t]),   P(y_t given y_<t and x) = softmax(V o_t)

B batch  S source length  T target length  M width  E width of embeddings and of o_t
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.patterns import Padding
from regard.attention.scores import ScoreName
from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding, tied_output
from regard.layers.recurrent import Bidirectional, Cell, Recurrent, RecurrentState
from regard.models.choice import Glance, Hard, Nowhere, Rollout, Soft
from regard.models.facts import ModelConfig
from regard.special import OWN, PAD


class Seq2SeqConfig(ModelConfig):
    kind: Literal["seq2seq"] = "seq2seq"
    layers: PositiveInt = 1  # in the encoder, and in the decoder
    width: PositiveInt = 256  # width of a decoder state and of the memory; a direction of the encoder has half of it
    embedding: PositiveInt | None = None  # width of the embeddings and of o_t; as `width` unless given
    cell: Cell = "lstm"
    bidirectional: Bidirectional = True  # "first": the lowest layer of the encoder alone
    residual: bool = False  # layers from the third on add their input to their output
    score: ScoreName | Literal["none"] = "additive"
    choice: Literal["soft", "hard"] = "soft"
    order: Literal["bahdanau", "luong"] = "bahdanau"
    input_feeding: bool = False
    attend_from: Literal["top", "bottom"] = "top"  # the layer of the decoder whose state looks, in order "bahdanau"
    maximum: PositiveInt = 512  # the longest source that a location score can look at
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    tied: bool = False  # output = target embedding; = source embedding too, where both sides share a vocabulary

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.bidirectional and self.width % 2:
            raise RegardError(f"width={self.width} must be even for two directions; or set bidirectional=false")
        if self.choice == "hard" and self.score == "none":
            raise RegardError("choice='hard' has nothing to choose from with score='none'; set another score")
        if self.input_feeding and (self.order != "luong" or self.score == "none"):
            raise RegardError("input_feeding=true belongs to order='luong' and a score other than 'none'")
        if self.attend_from == "bottom" and (self.order != "bahdanau" or self.score == "none"):
            raise RegardError("attend_from='bottom' belongs to order='bahdanau' and a score other than 'none'")
        return self

    def reads(self) -> int | None:
        return self.maximum if self.score == "location" else None


@dataclass(frozen=True)
class Memory:
    """An encoded source: keys (B, 1, S, D′) as the score has them, values h (B, 1, S, M), lengths (B,) and s_0."""

    keys: Tensor
    values: Tensor
    lengths: Tensor
    last: RecurrentState

    def reorder(self, rows: Tensor) -> "Memory":
        keys, values, lengths = (part.index_select(0, rows) for part in (self.keys, self.values, self.lengths))
        return Memory(keys, values, lengths, self.last.reorder(rows))


@dataclass(frozen=True)
class State:
    """The state while decoding: cells, o_{t−1} (B, E), the memory, and the sentence that each row answers (B,)."""

    cells: RecurrentState
    fed: Tensor
    memory: Memory
    origin: Tensor

    def reorder(self, rows: Tensor) -> "State":
        """The state of these rows, in this order. The memory stays as it is if beams only change places within a
        sentence."""
        origin = self.origin.index_select(0, rows)
        memory = self.memory if torch.equal(origin, self.origin) else self.memory.reorder(rows)
        return State(self.cells.reorder(rows), self.fed.index_select(0, rows), memory, origin)


class Decoder(nn.Module):
    """y (B, T, E) embedded, and the state before it → the rollout, whose hidden is o (B, T, E), and the state after it.

    `lasting`: whether the context of one step affects the steps after it.
    """

    lasting: ClassVar[bool] = True

    def __init__(self, cells: Recurrent, *, attention: Nowhere | Soft | Hard, readout: nn.Linear) -> None:
        super().__init__()
        self.cells = cells
        self.attention = attention
        self.readout = readout

    def look(self, query: Tensor, memory: Memory) -> Glance:
        """Read the memory with queries (B, Q, M)."""
        glance: Glance = self.attention(query, memory.keys, memory.values, Padding(memory.lengths))
        return glance

    def read_out(self, s: Tensor, c: Tensor) -> Tensor:
        """o = tanh(W [s ; c])"""
        return torch.tanh(self.readout(torch.cat([s, c], dim=-1)))


class Luong(Decoder):
    """First the cell, then the context. No step waits for a context: all of T runs at once."""

    lasting = False

    def forward(self, y: Tensor, state: State) -> tuple[Rollout, State]:
        s, cells = self.cells(y, state=state.cells)
        context, draw = self.look(s, state.memory)
        return Rollout(self.read_out(s, context), draw, self.lasting), replace(state, cells=cells)


class InputFeeding(Decoder):
    """First the cell, which also reads o_{t−1}, then the context."""

    def forward(self, y: Tensor, state: State) -> tuple[Rollout, State]:
        outputs, draws = [], []
        cells, fed = state.cells, state.fed
        for y_t in y.unbind(1):
            s, cells = self.cells.step(torch.cat([y_t, fed], dim=-1), cells)
            context, draw = self.look(s.unsqueeze(1), state.memory)
            fed = self.read_out(s, context.squeeze(1))
            outputs.append(fed)
            draws.append(draw)
        hidden, draw = torch.stack(outputs, dim=1), torch.cat(draws, dim=1)
        return Rollout(hidden, draw, self.lasting), replace(state, cells=cells, fed=fed)


class Bahdanau(Decoder):
    """First the context, with s_{t−1} as the query, then the cell, which reads the context."""

    asking: ClassVar[int] = -1  # the layer whose state is the query

    def forward(self, y: Tensor, state: State) -> tuple[Rollout, State]:
        states, contexts, draws = [], [], []
        cells = state.cells
        for y_t in y.unbind(1):
            context, draw = self.look(cells.hidden[self.asking].unsqueeze(1), state.memory)
            c_t = context.squeeze(1)
            s, cells = self.cells.step(torch.cat([y_t, c_t], dim=-1), cells, beside=c_t if self.cells.beside else None)
            states.append(s)
            contexts.append(context)
            draws.append(draw)
        hidden = self.read_out(torch.stack(states, dim=1), torch.cat(contexts, dim=1))
        return Rollout(hidden, torch.cat(draws, dim=1), self.lasting), replace(state, cells=cells)


class FromBelow(Bahdanau):
    """The state of the lowest layer is the query, and all layers read the context."""

    asking = 0


class Seq2Seq(nn.Module):
    """Recurrent encoder-decoder with the step protocol; `target_vocabulary=None` shares one vocabulary."""

    special = OWN

    def __init__(self, config: Seq2SeqConfig, *, vocabulary: int, target_vocabulary: int | None = None) -> None:
        super().__init__()
        width, embedding, dropout = config.width, config.embedding or config.width, config.dropout
        targets = target_vocabulary or vocabulary
        shared = config.tied and target_vocabulary is None
        self.source = Embedding(vocabulary, embedding, dropout=dropout)
        self.target = self.source if shared else Embedding(targets, embedding, dropout=dropout)
        self.encoder = Recurrent(
            config.cell,
            embedding,
            width=width // 2 if config.bidirectional is True else width,
            layers=config.layers,
            bidirectional=config.bidirectional,
            residual=config.residual,
            dropout=dropout,
        )
        self.decoder = _decoder(config, embedding)
        self.dropout = Dropout(dropout)
        self.output = tied_output(self.target) if config.tied else Linear(embedding, targets)
        self.alignment = "" if config.score == "none" else "decoder.attention"

    def looks(self, path: str) -> tuple[str, str]:
        """Which side the attention (or the gates) at `path` look from, and at which."""
        if path.startswith("encoder"):
            return "source", "source"
        return "target", "source" if path == self.alignment else "target"

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Memory:
        """source (B, S) → its memory. An empty row is read as one PAD."""
        source = source if source.shape[1] else source.new_full((len(source), 1), PAD)
        lengths = (source != PAD).sum(1) if lengths is None else lengths
        lengths = lengths.clamp(min=1)
        states, last = self.encoder(self.source(source), lengths)
        values = states.unsqueeze(1)
        return Memory(self.decoder.attention.keys(values), values, lengths, self.encoder.joined(last))

    def start(self, memory: Memory) -> State:
        batch = len(memory.lengths)
        fed = memory.values.new_zeros(batch, self.decoder.readout.out_features)
        return State(memory.last, fed, memory, torch.arange(batch, device=fed.device))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token (B,) → logits (B, V) of the next one, and the state after it"""
        rollout, state = self._advance(token.unsqueeze(1), state)
        return self.output(rollout.hidden.squeeze(1)), state

    def rollout(self, source: Tensor, lengths: Tensor | None, target_in: Tensor) -> Rollout:
        """`forward`, together with the draws that a hard choice learns from: see `Rollout.surrogate`."""
        return self._advance(target_in, self.start(self.encode(source, lengths)))[0]

    def forward(self, source: Tensor, lengths: Tensor | None, target_in: Tensor) -> Tensor:
        """Teacher forcing: source (B, S), lengths (B,), target_in (B, T) from BOS on → o (B, T, E)"""
        return self.rollout(source, lengths, target_in).hidden

    def _advance(self, tokens: Tensor, state: State) -> tuple[Rollout, State]:
        rollout, state = self.decoder(self.target(tokens), state)
        return replace(rollout, hidden=self.dropout(rollout.hidden)), state


def _decoder(config: Seq2SeqConfig, embedding: int) -> Decoder:
    """The decoder's class decides what its cell reads beside y: nothing, o_{t−1} (E), or the context (M)."""
    width = config.width
    attention: Nowhere | Soft | Hard = Nowhere()
    if config.score != "none":
        score = scores.build(config.score, width=width, maximum=config.maximum)
        attention = Hard(score, width=width) if config.choice == "hard" else Soft(score)
    order: type[Decoder]
    if config.input_feeding:
        order, inputs = InputFeeding, embedding + embedding
    elif config.order == "bahdanau" and config.score != "none":
        order, inputs = FromBelow if config.attend_from == "bottom" else Bahdanau, embedding + width
    else:
        order, inputs = Luong, embedding
    cells = Recurrent(
        config.cell,
        inputs,
        width=width,
        layers=config.layers,
        residual=config.residual,
        beside=width if order is FromBelow else 0,
        dropout=config.dropout,
    )
    readout = Linear(width if config.score == "none" else 2 * width, embedding)
    return order(cells, attention=attention, readout=readout)
