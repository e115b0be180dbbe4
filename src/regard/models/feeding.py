"""The keys of [model] that choose the feed-forward layer: one, or several experts of which each position uses a few."""

from __future__ import annotations

from typing import Self

from pydantic import Field, PositiveInt, model_validator
from torch import nn

from regard.checking import Settings
from regard.errors import RegardError
from regard.layers.experts import BALANCE, Experts
from regard.layers.feed_forward import Activation, FeedForward

USED = 2


class Feeding(Settings):
    """A config inherits these keys beside its own."""

    experts: PositiveInt | None = None  # how many feed-forward layers stand side by side; one for all unless given
    experts_used: PositiveInt | None = None  # how many of them each position uses: 2
    balance: float | None = Field(default=None, ge=0)  # weight of the penalty for unequal use: 0.01

    @model_validator(mode="after")
    def _experts_can_be_used(self) -> Self:
        if self.experts is None and (self.experts_used is not None or self.balance is not None):
            raise RegardError("experts_used and balance are settings of experts; leave them out, or set experts = 4")
        if self.experts is not None and (self.experts_used or min(USED, self.experts)) > self.experts:
            raise RegardError(f"experts_used = {self.experts_used} is more than experts = {self.experts}")
        return self

    def feed_forward(self, width: int, *, hidden: int, activation: Activation, bias: bool = True) -> nn.Module:
        """The feed-forward layer of one block."""
        if self.experts is None:
            return FeedForward(width, hidden=hidden, activation=activation, bias=bias)
        return Experts(
            width,
            hidden=hidden,
            count=self.experts,
            used=self.experts_used or min(USED, self.experts),
            balance=BALANCE if self.balance is None else self.balance,
            activation=activation,
            bias=bias,
        )
