"""A forecaster: a recurrent network or a causal Transformer that predicts the next number of a series, with quantiles.

    h_t = body(x_≤t)        q_t = W h_t + A x_t        ŷ_{t+1}(p) = y_{t+1−m} + s · q_t(p)

x_t holds y_t, its difference from the number a season of m steps before, and y_{t+1−m}, all divided by s; the logarithm
of how many steps t+1 lies ahead of the last known number; and the calendar of step t+1. s is the mean of
|y_t − y_{t−m}| over the known numbers, and y is counted from the last of them, so that the forecast of a·y + b is a
times that of y, plus b, for every a > 0 (compare Salinas 2020, 3.3). With difference = "last", m is 1.

Several steps are forecast by feeding medians back as if they were known. The quantiles are learned on such forecasts by
the pinball loss (Koenker 1978), and so they are those of a number k steps ahead, given the known numbers alone.

B batch  T known steps  K steps ahead  N steps that enter the body  F features of the calendar  Q levels
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import positions
from regard.attention.cache import Past
from regard.attention.heads import MultiHead
from regard.attention.patterns import Causal
from regard.kernels.linear import Linear
from regard.layers.blocks import Block, Stack
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import FeedForward
from regard.layers.recurrent import Recurrent, RecurrentState
from regard.layers.wiring import build as build_wiring
from regard.models.facts import ModelConfig

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MEDIAN = LEVELS.index(0.5)
NUMBERS = 4  # in x_t, beside the calendar
State = RecurrentState | list[Past]


class ForecasterConfig(ModelConfig):
    kind: Literal["forecaster"] = "forecaster"
    cell: Literal["rnn", "lstm", "gru", "transformer"] = "gru"
    layers: PositiveInt = 1
    width: PositiveInt = 32
    heads: PositiveInt = 4  # of a Transformer
    hidden: PositiveInt | None = None  # width of its feed-forward layers; 4 × width unless given
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    difference: Literal["season", "last"] = "season"  # what is predicted is the change since then


@dataclass(frozen=True)
class Window:
    """Numbers (B, T + K) counted from the last of the T known ones (B, 1), their scale s (B, 1), and the calendar of
    the step after each (B, T + K, F)."""

    numbers: Tensor
    last: Tensor
    scale: Tensor
    calendar: Tensor
    known: int


class Forecaster(nn.Module):
    """`season` is the number of steps in a season, `calendar` the number of features of the calendar."""

    alignment = ""
    levels = LEVELS

    def __init__(self, config: ForecasterConfig, *, season: int, calendar: int) -> None:
        super().__init__()
        width, inputs = config.width, NUMBERS + calendar
        self.lag = season if config.difference == "season" else 1
        self.inward: nn.Module | None = None
        if config.cell == "transformer":
            wiring = build_wiring("pre_norm", layers=config.layers)

            def block() -> Block:
                place = positions.build("rotary", width=width, heads=config.heads)
                attention = MultiHead(width, heads=config.heads, pattern=Causal(), position=place)
                feed_forward = FeedForward(width, hidden=config.hidden or 4 * width, activation="gelu")
                return Block(
                    attention=attention, feed_forward=feed_forward, wiring=wiring, width=width, dropout=config.dropout
                )

            self.inward = Linear(inputs, width)
            self.body: Stack | Recurrent = Stack(config.layers, block, wiring=wiring, width=width)
        else:
            self.body = Recurrent(config.cell, inputs, width=width, layers=config.layers, dropout=config.dropout)
        self.dropout = Dropout(config.dropout)
        self.output = Linear(width, len(LEVELS))
        self.direct = Linear(inputs, 1, bias=False)  # A, the same for all levels
        nn.init.zeros_(self.direct.weight)

    def looks(self, path: str) -> tuple[str, str]:
        """Which side the attention or the gates at `path` look from, and at which."""
        return "target", "source"

    def scales(self, values: Tensor) -> Tensor:
        """The scale s of known numbers, values (B, T) → (B, 1). It is 0 for numbers that repeat each season: their
        forecast repeats them."""
        return (values[:, self.lag :] - values[:, : -self.lag]).abs().mean(1, keepdim=True)

    def forward(self, values: Tensor, calendar: Tensor, said: Tensor) -> Tensor:
        """The quantiles of K steps, given known numbers and the medians of the steps before each.

        values (B, T), said (B, K − 1), calendar of the steps after all of them (B, T + K − 1, F) → (B, K, Q)
        """
        window = self._window(values, calendar, said)
        changes, _ = self._read(self._inputs(window), None)
        return self._numbers(window, changes[:, -said.shape[1] - 1 :])

    def forecast(self, values: Tensor, calendar: Tensor) -> Tensor:
        """The same, with medians that the model says itself: values (B, T), calendar (B, T + K − 1, F) → (B, K, Q)"""
        known, said, found = values.shape[1], values[:, :0], []
        state: State | None = None if isinstance(self.body, Recurrent) else self.body.past()
        for step in range(calendar.shape[1] - known + 1):
            window = self._window(values, calendar[:, : known + step], said)
            changes, state = self._read(self._inputs(window, only_last=step > 0), state)
            found.append(self._numbers(window, changes[:, -1:]))
            said = torch.cat([said, found[-1][..., MEDIAN]], 1)
        return torch.cat(found, 1)

    def _window(self, values: Tensor, calendar: Tensor, said: Tensor) -> Window:
        last = values[:, -1:]
        return Window(torch.cat([values, said], 1) - last, last, self.scales(values), calendar, values.shape[1])

    def _inputs(self, window: Window, *, only_last: bool = False) -> Tensor:
        """x_t of the steps that have one a season before them, or of the last step: (B, N, 4 + F)"""
        numbers, end = window.numbers, window.numbers.shape[1]
        first = end - 1 if only_last else self.lag
        now, before = numbers[:, first:], numbers[:, first - self.lag : end - self.lag]
        coming = numbers[:, first + 1 - self.lag : end + 1 - self.lag]
        scale = torch.where(window.scale > 0, window.scale, 1.0)
        x = torch.stack([now, now - before, coming], -1) / scale.unsqueeze(-1)
        ahead = torch.arange(first + 1 - window.known, end + 1 - window.known, device=x.device)
        age = ahead.clamp(min=0).log1p().view(1, -1, 1).expand(len(x), -1, 1)
        return torch.cat([x, age, window.calendar[:, first:]], -1)

    def _read(self, x: Tensor, state: State | None) -> tuple[Tensor, State | None]:
        """q_t after each of some steps x (B, N, 4 + F), (B, N, Q) by level, and the state after them."""
        after: State | None
        if isinstance(self.body, Recurrent):
            assert not isinstance(state, list)
            hidden, after = self.body(x, state=state)
        else:
            assert self.inward is not None
            hidden, after = self.body(self.inward(x), caches=state), state
        found = self.output(self.dropout(hidden))
        median, apart = found[..., MEDIAN : MEDIAN + 1] + self.direct(x), F.softplus(found)
        below = apart[..., :MEDIAN].flip(-1).cumsum(-1).flip(-1)
        above = apart[..., MEDIAN + 1 :].cumsum(-1)
        return torch.cat([median - below, median, median + above], -1), after

    def _numbers(self, window: Window, changes: Tensor) -> Tensor:
        """Changes (B, K, Q) of the last K steps, which follow the numbers of a window, as numbers of the series."""
        end, count = window.numbers.shape[1] + 1 - self.lag, changes.shape[1]
        before = (window.numbers[:, end - count : end] + window.last).unsqueeze(-1)
        return before + changes * window.scale.unsqueeze(-1)
