"""The feed-forward layer, which treats each position alone."""

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from regard.errors import RegardError, unknown_name
from regard.kernels.feed_forward import feed_forward
from regard.kernels.gelu import gelu_tanh
from regard.kernels.linear import Linear, rounding
from regard.layers.dropout import Dropout

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"]
PART = 8192  # positions of a long text whose hidden layer is computed at a time


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, the same at every position.

        relu        W₂ max(0, W₁ x)                   Vaswani 2017, equation 2
        gelu        W₂ (h ⊙ Φ(h)),  h = W₁ x          Hendrycks 2016; Φ is the normal distribution function
        gelu_tanh   the same, Φ(h) ≈ ½ (1 + tanh(√(2/π) (h + 0.044715 h³)))          Hendrycks 2016, as in GPT-2
        silu        W₂ (h ⊙ sigmoid(h))               Ramachandran 2017 (swish), as in Marian
        swiglu      W₂ (silu(W₁ x) ⊙ W₃ x)            Shazeer 2020, equation 6

    x (…, M) → (…, M).   `inner` is W₁ (in swiglu W₃), `gate` is swiglu's W₁, `outer` is W₂; each adds its bias unless
    bias=False. Dropout is applied to the input of W₂. Of a text of more than `PART` positions the hidden layer is not
    kept while learning but computed again in the backward pass, part by part: it is most of what a layer would keep.
    """

    def __init__(
        self, width: int, *, hidden: int, activation: Activation = "relu", dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        if activation not in get_args(Activation):
            raise unknown_name("activation", activation, get_args(Activation))
        if width < 1 or hidden < 1:
            raise RegardError(f"width={width} and hidden={hidden}: both must be at least 1")
        self.activation = activation
        self.inner = Linear(width, hidden, bias=bias)
        self.gate = Linear(width, hidden, bias=bias) if activation == "swiglu" else None
        self.outer = Linear(hidden, width, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.inner.in_features:
            raise RegardError(f"x has the shape {tuple(x.shape)}; its last dimension must be {self.inner.in_features}")
        if torch.is_grad_enabled() and x.dim() > 1 and x.shape[-2] > PART:
            parts = [checkpoint(self._map, part, use_reentrant=False) for part in x.split(PART, -2)]
            return torch.cat(parts, -2)
        return self._map(x)

    def _map(self, x: Tensor) -> Tensor:
        if self.gate is None and self.dropout.p == 0.0 and rounding(self.inner, self.outer):
            return feed_forward(x, self.inner, self.outer, self.activation)
        hidden = self.inner(x)
        hidden = bend(hidden, self.activation) if self.gate is None else F.silu(self.gate(x)) * hidden
        return self.outer(self.dropout(hidden))


def bend(hidden: Tensor, activation: Activation) -> Tensor:
    """Apply the activation of that name; `hidden` may be overwritten. (…) → (…)"""
    if activation == "relu":
        return hidden.relu_()
    if activation == "silu":
        return F.silu(hidden)
    return gelu_tanh(hidden) if activation == "gelu_tanh" else F.gelu(hidden)
