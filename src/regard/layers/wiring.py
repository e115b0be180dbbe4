"""The wiring around any sublayer f: where the norm is, and how the residual is weighted.

    PostNorm    norm(x + f(x))           Vaswani 2017
    PreNorm     x + f(norm(x))           as in GPT-2; one more norm ends the stack
    DeepNorm    norm(α x + f(x))         Wang 2022, with f's weights scaled by β when they are made
    StochasticDepth    any of them, with f left out at random while learning         Huang 2016

A scheme is a value; `around(width)` makes the module for one sublayer, called as `residual(x, sublayer)`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.errors import RegardError, unknown_name
from regard.layers.dropout import Dropout, DropRows
from regard.layers.feed_forward import FeedForward
from regard.layers.ssru import SSRU

NormName = Literal["layer", "rms"]
WiringName = Literal["post_norm", "pre_norm", "deep_norm"]
Sublayer = Callable[[Tensor], Tensor]
EPSILON = 1e-5  # ε of the norms


class NormLast(nn.Module):
    """norm(α x + dropout(f(x))):   x (…, M), f: (…, M) → (…, M)   → (…, M)"""

    def __init__(self, width: int, *, alpha: float, dropout: float, norm: NormName, epsilon: float) -> None:
        super().__init__()
        self.alpha = alpha
        self.norm = build_norm(norm, width, epsilon=epsilon)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return self.norm(torch.add(self.dropout(sublayer(x)), x, alpha=self.alpha))


class NormFirst(nn.Module):
    """x + dropout(f(norm(x))):   x (…, M), f: (…, M) → (…, M)   → (…, M)"""

    def __init__(self, width: int, *, dropout: float, norm: NormName, epsilon: float) -> None:
        super().__init__()
        self.norm = build_norm(norm, width, epsilon=epsilon)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return x + self.dropout(sublayer(self.norm(x)))


class Wiring:
    """The base of all schemes. By default there is no final norm and no weights are changed."""

    def around(
        self, width: int, *, dropout: float = 0.0, norm: NormName = "layer", epsilon: float = EPSILON
    ) -> nn.Module:
        """The module for one sublayer, called as `residual(x, sublayer)`."""
        raise NotImplementedError

    def final(self, width: int, *, norm: NormName = "layer", epsilon: float = EPSILON) -> nn.Module:  # noqa: ARG002
        """The module after the last sublayer of a stack."""
        return nn.Identity()

    def initialise(self, module: nn.Module) -> None:
        """Give the sublayers inside `module` the weights that the scheme starts from."""


@dataclass(frozen=True)
class PostNorm(Wiring):
    """norm(x + dropout(f(x))): the original Transformer's. Deep stacks need warm-up."""

    def around(
        self, width: int, *, dropout: float = 0.0, norm: NormName = "layer", epsilon: float = EPSILON
    ) -> nn.Module:
        return NormLast(width, alpha=1.0, dropout=dropout, norm=norm, epsilon=epsilon)


@dataclass(frozen=True)
class PreNorm(Wiring):
    """x + dropout(f(norm(x))): the residual is never normalised on its way, so the stack ends with a norm."""

    def around(
        self, width: int, *, dropout: float = 0.0, norm: NormName = "layer", epsilon: float = EPSILON
    ) -> nn.Module:
        return NormFirst(width, dropout=dropout, norm=norm, epsilon=epsilon)

    def final(self, width: int, *, norm: NormName = "layer", epsilon: float = EPSILON) -> nn.Module:
        return build_norm(norm, width, epsilon=epsilon)


@dataclass(frozen=True)
class DeepNorm(Wiring):
    """norm(α x + dropout(f(x))): the more layers, the heavier the residual and the smaller f's first weights.

    So one update changes the whole stack by a bounded amount, however deep it is (Wang 2022, figure 2):

                            α                   β
        encoder only        (2N)^¼              (8N)^−¼            N layers
        decoder only        (2M)^¼              (8M)^−¼            M layers
        both: encoder       0.81 (N⁴M)^(1/16)   0.87 (N⁴M)^(−1/16)
        both: decoder       (3M)^¼              (12M)^−¼
    """

    alpha: float
    beta: float

    @classmethod
    def encoder(cls, layers: int) -> "DeepNorm":
        """For an encoder that stands alone."""
        _require_layers(layers)
        return cls(alpha=(2 * layers) ** 0.25, beta=(8 * layers) ** -0.25)

    @classmethod
    def decoder(cls, layers: int) -> "DeepNorm":
        """For a decoder that stands alone: the same numbers."""
        return cls.encoder(layers)

    @classmethod
    def encoder_decoder(cls, encoder_layers: int, decoder_layers: int) -> tuple["DeepNorm", "DeepNorm"]:
        """For an encoder and a decoder that looks at it: (the encoder's, the decoder's)."""
        _require_layers(encoder_layers)
        _require_layers(decoder_layers)
        depth = (encoder_layers**4 * decoder_layers) ** (1 / 16)
        return (
            cls(alpha=0.81 * depth, beta=0.87 / depth),
            cls(alpha=(3 * decoder_layers) ** 0.25, beta=(12 * decoder_layers) ** -0.25),
        )

    def around(
        self, width: int, *, dropout: float = 0.0, norm: NormName = "layer", epsilon: float = EPSILON
    ) -> nn.Module:
        return NormLast(width, alpha=self.alpha, dropout=dropout, norm=norm, epsilon=epsilon)

    def initialise(self, module: nn.Module) -> None:
        """Xavier-normal weights, zero biases: gain β for feed-forward, value, output and an SSRU's candidates, gain 1
        for query, key and gates."""
        for part in module.modules():
            if isinstance(part, FeedForward):
                _restart([part.inner, part.outer] + ([part.gate] if part.gate is not None else []), gain=self.beta)
            elif isinstance(part, MultiHead):
                _restart([part.value, part.output], gain=self.beta)
                _restart([part.query, part.key], gain=1.0)
            elif isinstance(part, SSRU):
                _restart([part.candidate], gain=self.beta)
                _restart([part.forget], gain=1.0)


@dataclass(frozen=True)
class StochasticDepth(Wiring):
    """Another wiring, with f(x) left out of a share of the rows while learning, and divided by 1 − share elsewhere."""

    inner: Wiring
    share: float

    def around(
        self, width: int, *, dropout: float = 0.0, norm: NormName = "layer", epsilon: float = EPSILON
    ) -> nn.Module:
        residual = self.inner.around(width, dropout=dropout, norm=norm, epsilon=epsilon)
        residual.dropout = nn.Sequential(Dropout(dropout), DropRows(self.share))
        return residual

    def final(self, width: int, *, norm: NormName = "layer", epsilon: float = EPSILON) -> nn.Module:
        return self.inner.final(width, norm=norm, epsilon=epsilon)

    def initialise(self, module: nn.Module) -> None:
        self.inner.initialise(module)


def build(name: WiringName, *, layers: int) -> Wiring:
    """The wiring of a stack that stands alone."""
    if name == "post_norm":
        return PostNorm()
    if name == "pre_norm":
        return PreNorm()
    if name == "deep_norm":
        return DeepNorm.encoder(layers)
    raise unknown_name("wiring", name, get_args(WiringName))


def build_pair(name: WiringName, *, encoder_layers: int, decoder_layers: int) -> tuple[Wiring, Wiring]:
    """The wirings of an encoder and of the decoder that looks at it."""
    if name == "deep_norm":
        return DeepNorm.encoder_decoder(encoder_layers, decoder_layers)
    wiring = build(name, layers=encoder_layers)
    return wiring, wiring


def build_norm(name: NormName, width: int, *, epsilon: float = EPSILON) -> nn.Module:
    """One width-wise norm.

        layer   g ⊙ (x − mean(x)) / √(var(x) + ε) + b         Ba 2016
        rms     g ⊙ x / √(mean(x²) + ε)                       Zhang 2019

    x (…, M) → (…, M), ε is `epsilon`.
    """
    if name == "layer":
        return nn.LayerNorm(width, eps=epsilon)
    if name == "rms":
        return nn.RMSNorm(width, eps=epsilon)
    raise unknown_name("norm", name, get_args(NormName))


def _restart(linears: Sequence[nn.Linear], *, gain: float) -> None:
    for linear in linears:
        nn.init.xavier_normal_(linear.weight, gain=gain)
        if linear.bias is not None:
            nn.init.zeros_(linear.bias)


def _require_layers(layers: int) -> None:
    if layers < 1:
        raise RegardError(f"layers={layers}: DeepNorm's α and β follow from the depth, which must be at least 1")
