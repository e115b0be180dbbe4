"""Recurrent layers, and their gates read as attention over the past.

    rnn     h_t = tanh(W x_t + U h_{t−1} + b)                                    Elman 1990
    lstm    c_t = f_t ⊙ c_{t−1} + i_t ⊙ g_t,   h_t = o_t ⊙ tanh(c_t)             Hochreiter 1997, Gers 2000
    gru     h_t = z_t ⊙ h_{t−1} + (1 − z_t) ⊙ n_t                                Cho 2014, in torch's convention

Each gate is a sigmoid, and each candidate (g, n) a tanh, of a linear map of x_t and h_{t−1}. The last two cells keep a
share u of a state and write a share v of something new, s_t = u_t ⊙ s_{t−1} + v_t ⊙ s̃_t, which unrolls to a weighted
sum over everything read so far:

    s_t = Σ_{i≤t} (Π_{i<j≤t} u_j) ⊙ v_i ⊙ s̃_i + (Π_{j≤t} u_j) ⊙ s_0

B batch  T time  D width of a direction
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.attention.recorder import deliver, watching
from regard.errors import RegardError, unknown_name
from regard.layers.dropout import Dropout

Cell = Literal["rnn", "lstm", "gru"]
Bidirectional = bool | Literal["first"]
Sequence = Tensor | PackedSequence
UNADDED = 2  # layers without a residual connection, from the bottom
FUSED: dict[Cell, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


@dataclass(frozen=True)
class RecurrentState:
    """The state of a recurrent stack: a (B, D) for each layer and direction, in the order layer 0 forward, layer 0
    reverse, layer 1 forward, …; `cell` is the c of an LSTM, and empty for the others."""

    hidden: tuple[Tensor, ...]
    cell: tuple[Tensor, ...] = ()

    def reorder(self, rows: Tensor) -> "RecurrentState":
        """The state of these rows of the batch, in this order; a row may be repeated or left out."""
        return RecurrentState(
            hidden=tuple(part.index_select(0, rows) for part in self.hidden),
            cell=tuple(part.index_select(0, rows) for part in self.cell),
        )

    def where(self, kept: Tensor) -> "RecurrentState":
        """The state in rows where `kept` (B, 1) is True, and the initial state in the others."""
        return RecurrentState(
            hidden=tuple(part * kept for part in self.hidden), cell=tuple(part * kept for part in self.cell)
        )

    def detach(self) -> "RecurrentState":
        """The same numbers without their gradient history."""
        return RecurrentState(
            hidden=tuple(part.detach() for part in self.hidden), cell=tuple(part.detach() for part in self.cell)
        )


@dataclass(frozen=True)
class Gates:
    """One direction of one gated layer, as it ran: s_t = u_t ⊙ s_{t−1} + v_t ⊙ s̃_t, in the order of the input.

    carry, write, candidates (B, T, D) are u, v and s̃; initial (B, D) is s_0; output (B, T, D) is an LSTM's o, None for
    a GRU; valid (B, T) is False on padding, where u = 1 and v = 0; reverse: time runs from the last position to the
    first.
    """

    carry: Tensor
    write: Tensor
    candidates: Tensor
    initial: Tensor
    output: Tensor | None
    valid: Tensor
    reverse: bool

    def weights(self) -> Tensor:
        """The weight of the initial state (first in axis 2) and of each position in each state: (B, T, 1 + T, D).

        The weights of a GRU sum to one. Memory grows with T² D.
        """
        return torch.stack([self._row_weights(row) for row in range(len(self.valid))])

    def states(self) -> Tensor:
        """h_t computed as the weighted sum: (B, T, D), zero on padding."""
        past = torch.cat([self.initial.unsqueeze(1), self.candidates], dim=1)
        total = torch.einsum("btid,bid->btd", self.weights(), past)
        return total if self.output is None else self.output * total.tanh()

    def summary(self) -> Tensor:
        """The weights on each position, averaged over units: (B, T, T)."""
        return torch.stack([self._row_weights(row)[:, 1:].mean(-1) for row in range(len(self.valid))])

    def _row_weights(self, row: int) -> Tensor:
        """`weights` of one row of the batch: (T, 1 + T, D)."""
        carry, write = self.carry[row].unsqueeze(1), self.write[row].unsqueeze(1)  # (T, 1, D)
        if self.reverse:
            carry, write = carry.flip(0), write.flip(0)
        now = torch.arange(1, len(carry) + 1, device=carry.device).view(-1, 1, 1)
        then = torch.arange(len(carry) + 1, device=carry.device).view(1, -1, 1)  # 0 is the initial state
        factors = torch.where(then < now, carry, torch.where(then == now, write, 1.0))
        weights = factors.cumprod(0).masked_fill(then > now, 0.0)
        if self.reverse:
            weights = torch.cat([weights[:, :1], weights[:, 1:].flip(1)], dim=1).flip(0)
        return weights.masked_fill(~self.valid[row].view(-1, 1, 1), 0.0)


class Recurrent(nn.Module):
    """A stack of torch's fused recurrent layers, of one cell, in one direction or both.

    x (B, T, inputs), lengths (B,) → (B, T, D · directions), zero on padding, and the state in which each direction has
    read the whole of its row and none of the padding.   Dropout is applied between layers.

    With bidirectional="first", the first layer has two directions of width D / 2 and all others have one. With
    `residual`, each layer from the third on adds its input to its output (Wu 2016, 3.1). With `beside`, each layer
    above the first also reads a vector of this width, which is the same for all of them; such a stack takes steps only.

    While weights are recorded, each gated layer and direction delivers its weights over the past, averaged over units,
    (B, 1, T, T), by the names "layers.0.forward", "layers.0.reverse", "layers.1.forward", …
    """

    def __init__(
        self,
        cell: Cell,
        inputs: int,
        *,
        width: int,
        layers: int = 1,
        bidirectional: Bidirectional = False,
        residual: bool = False,
        beside: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if cell not in FUSED:
            raise unknown_name("cell", cell, FUSED)
        if min(inputs, width, layers) < 1:
            raise RegardError(f"inputs={inputs}, width={width}, layers={layers}: each must be at least 1")
        if bidirectional == "first" and width % 2:
            raise RegardError(f"width={width} must be even for two directions side by side in the first layer")
        self.cell = cell
        self.inputs = inputs
        self.width = width
        self.residual = residual
        self.beside = beside
        self.directions = [
            2 if bidirectional is True or (bidirectional and not layer) else 1 for layer in range(layers)
        ]
        below = (width * 2 if bidirectional is True else width) + beside
        self.layers = nn.ModuleList(
            FUSED[cell](
                below if layer else inputs,
                width // 2 if bidirectional == "first" and not layer else width,
                batch_first=True,
                bidirectional=directions == 2,
            )
            for layer, directions in enumerate(self.directions)
        )
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, state: RecurrentState | None = None
    ) -> tuple[Tensor, RecurrentState]:
        hidden: list[Tensor] = []
        cell: list[Tensor] = []
        for layer, ran in enumerate(self._run(x, lengths, state)):
            hidden.extend(ran.end[0])
            cell.extend(ran.end[1] if self.cell == "lstm" else ())
            parts = [f"layers.{layer}.{direction}" for direction in ("forward", "reverse")[: self.directions[layer]]]
            if self.cell != "rnn" and any(map(watching, parts)):
                for part, gates in zip(parts, _read(ran, _valid(x, lengths)), strict=True):
                    deliver(gates.summary().unsqueeze(1), part=part)
        return _padded(ran.above, x.shape[1]), RecurrentState(tuple(hidden), tuple(cell))

    def step(
        self, x: Tensor, state: RecurrentState | None = None, beside: Tensor | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """One position: x (B, inputs) and the state before it (zeros if None) → (B, D) and the state after it.

        `beside` (B, width of `beside`) is what the layers above the first also read.
        """
        if max(self.directions) == 2:
            raise RegardError("bidirectional=True reads the future too and cannot take a step; use bidirectional=False")
        if x.dim() != 2 or x.shape[1] != self.inputs:
            raise RegardError(f"x has the shape {tuple(x.shape)}; a step reads (batch, {self.inputs})")
        before = self._zeros(x) if state is None else state
        hidden: list[Tensor] = []
        cell: list[Tensor] = []
        for index, layer in enumerate(self._stack()):
            below = x
            x = self.dropout(x) if index > 0 else x
            x = torch.cat([x, beside], dim=-1) if index > 0 and beside is not None else x
            (parameters,) = layer.all_weights
            if self.cell == "lstm":
                x, kept = torch.lstm_cell(x, (before.hidden[index], before.cell[index]), *parameters)
                cell.append(kept)
            elif self.cell == "gru":
                x = torch.gru_cell(x, before.hidden[index], *parameters)
            else:
                x = torch.rnn_tanh_cell(x, before.hidden[index], *parameters)
            hidden.append(x)
            x = x + below if self._adds(index) else x
        return x, RecurrentState(tuple(hidden), tuple(cell))

    def joined(self, state: RecurrentState) -> RecurrentState:
        """The state with one (B, D · directions) for each layer: both directions side by side where there are two."""

        def side_by_side(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            rest = iter(parts)
            return tuple(
                torch.cat((next(rest), next(rest)), dim=-1) if directions == 2 else next(rest)
                for directions in self.directions
            )

        return RecurrentState(side_by_side(state.hidden), side_by_side(state.cell) if state.cell else ())

    def _run(self, x: Tensor, lengths: Tensor | None, state: RecurrentState | None) -> Iterator["_Pass"]:
        """Layer by layer. Rows of different lengths are packed, so that no direction ever reads padding."""
        if x.dim() != 3 or x.shape[1] < 1 or x.shape[2] != self.inputs:
            raise RegardError(f"x has the shape {tuple(x.shape)}; expected (batch, time of at least 1, {self.inputs})")
        if self.beside:
            raise RegardError(f"beside={self.beside}: this stack reads a vector at every step; use step")
        below = _packed(x, lengths)
        before = self._zeros(x) if state is None else state
        first = 0
        for index, layer in enumerate(self._stack()):
            sequence = _over(below, self.dropout) if index > 0 else below
            own = slice(first, first + self.directions[index])
            start = tuple(torch.stack(part[own]) for part in (before.hidden, before.cell) if part)
            output, end = layer(sequence, start if self.cell == "lstm" else start[0])
            above = _sum(output, below) if self._adds(index) else output
            yield _Pass(layer, sequence, output, above, start, end if self.cell == "lstm" else (end,))
            below, first = above, own.stop

    def _stack(self) -> list[nn.RNNBase]:
        return cast(list[nn.RNNBase], list(self.layers))

    def _adds(self, layer: int) -> bool:
        return self.residual and layer >= UNADDED

    def _zeros(self, x: Tensor) -> RecurrentState:
        zeros = tuple(
            x.new_zeros(x.shape[0], layer.hidden_size)
            for layer, directions in zip(self._stack(), self.directions, strict=True)
            for _ in range(directions)
        )
        return RecurrentState(zeros, zeros if self.cell == "lstm" else ())


def gate_weights(
    module: Recurrent, x: Tensor, lengths: Tensor | None = None, state: RecurrentState | None = None
) -> list[Gates]:
    """Run `module` on x and read its gates: one entry for layer 0 forward, layer 0 reverse, layer 1 forward, …"""
    if module.cell == "rnn":
        raise RegardError('cell="rnn" has no gates to read; use "lstm" or "gru"')
    with torch.no_grad():
        return [gates for ran in module._run(x, lengths, state) for gates in _read(ran, _valid(x, lengths))]


class _Pass(NamedTuple):
    """A layer that has just run: its input and output, what the next layer gets, and its states (directions, B, D)
    before and after."""

    layer: nn.RNNBase
    sequence: Sequence
    output: Sequence
    above: Sequence
    start: tuple[Tensor, ...]
    end: tuple[Tensor, ...]


@torch.no_grad()
def _read(ran: _Pass, valid: Tensor) -> Iterator[Gates]:
    """The gates of each direction. Every h_{t−1} is known from the pass, so all times are computed at once."""
    x, output = (_padded(part, valid.shape[1]) for part in (ran.sequence, ran.output))
    nothing = ~valid.unsqueeze(-1)
    for direction, hidden in enumerate(output.chunk(len(ran.layer.all_weights), dim=-1)):
        first = ran.start[0][direction].unsqueeze(1)  # (B, 1, D)
        known = torch.where(nothing, first, hidden)
        previous = torch.cat([known[:, 1:], first] if direction == 1 else [first, known[:, :-1]], dim=1)
        weight_x, weight_h, bias_x, bias_h = ran.layer.all_weights[direction]
        read = _lstm_gates if isinstance(ran.layer, nn.LSTM) else _gru_gates
        carry, write, candidates, shown = read(F.linear(x, weight_x, bias_x), F.linear(previous, weight_h, bias_h))
        yield Gates(
            carry=carry.masked_fill(nothing, 1.0),
            write=write.masked_fill(nothing, 0.0),
            candidates=candidates,
            initial=ran.start[-1][direction],
            output=shown,
            valid=valid,
            reverse=direction == 1,
        )


def _lstm_gates(from_x: Tensor, from_h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    i, f, g, o = (from_x + from_h).chunk(4, dim=-1)
    return f.sigmoid(), i.sigmoid(), g.tanh(), o.sigmoid()


def _gru_gates(from_x: Tensor, from_h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    (reset_x, keep_x, new_x), (reset_h, keep_h, new_h) = from_x.chunk(3, dim=-1), from_h.chunk(3, dim=-1)
    z = (keep_x + keep_h).sigmoid()
    return z, 1 - z, (new_x + (reset_x + reset_h).sigmoid() * new_h).tanh(), None


def _valid(x: Tensor, lengths: Tensor | None) -> Tensor:
    """(B, T), True where a position is not padding."""
    if lengths is None:
        return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    return torch.arange(x.shape[1], device=x.device) < lengths.to(x.device).unsqueeze(1)


def _packed(x: Tensor, lengths: Tensor | None) -> Sequence:
    """x without its padding; x itself when there is none."""
    if lengths is None:
        return x
    if lengths.shape != x.shape[:1]:
        raise RegardError(
            f"lengths has the shape {tuple(lengths.shape)}; expected a length for each of the {len(x)} rows"
        )
    if lengths.min() < 1 or lengths.max() > x.shape[1]:
        raise RegardError(f"lengths={lengths.tolist()}: each must be between 1 and {x.shape[1]}, the length of x")
    if lengths.min() == x.shape[1]:
        return x
    return pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)


def _padded(sequence: Sequence, time: int) -> Tensor:
    """(B, T, …), zero on padding."""
    if isinstance(sequence, PackedSequence):
        return pad_packed_sequence(sequence, batch_first=True, total_length=time)[0]
    return sequence


def _over(sequence: Sequence, module: nn.Module) -> Sequence:
    """The module applied to each element."""
    if isinstance(sequence, PackedSequence):
        return sequence._replace(data=module(sequence.data))
    return module(sequence)


def _sum(one: Sequence, other: Sequence) -> Sequence:
    """Two sequences of the same lengths, added element by element."""
    if isinstance(one, PackedSequence):
        return one._replace(data=one.data + other.data)
    return one + cast(Tensor, other)
