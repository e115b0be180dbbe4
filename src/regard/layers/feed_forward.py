"""What each position works out alone."""

from typing import Literal, get_args

from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RegardError, unknown_name
from regard.layers.dropout import Dropout
from regard.linear import Linear

Activation = Literal["relu", "gelu", "swiglu"]


class FeedForward(nn.Module):
    """Two linear maps with a bend between them, the same at every position.

        relu     W₂ max(0, W₁ x)                   Vaswani 2017, equation 2
        gelu     W₂ (h ⊙ Φ(h)),  h = W₁ x          Hendrycks 2016; Φ is the normal distribution function
        swiglu   W₂ (silu(W₁ x) ⊙ W₃ x)            Shazeer 2020, equation 6; silu(h) = h ⊙ sigmoid(h)

    x (…, M) → (…, M).   `inner` is W₁ (in swiglu W₃), `gate` is swiglu's W₁, `outer` is W₂; each adds its bias unless
    bias=False. Dropout falls on what enters W₂.
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
        hidden = self.inner(x)
        if self.gate is not None:
            hidden = F.silu(self.gate(x)) * hidden
        elif self.activation == "gelu":
            hidden = F.gelu(hidden)
        else:
            hidden = hidden.relu_()  # nobody else needs W₁ x: one buffer less
        return self.outer(self.dropout(hidden))
