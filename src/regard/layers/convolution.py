"""Gated convolutions over a sequence, and the weight normalisation and first weights that they are trained with.

B batch  L length  M width  k kernel: how many neighbouring positions are read at once
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from regard.errors import RegardError
from regard.kernels.linear import Linear


def even_linear(inputs: int, outputs: int, *, dropout: float = 0.0, gain: float = 1.0) -> Linear:
    """A linear map whose outputs start with the variance of its inputs.

        W starts normal with variance gain · p / inputs, the bias at 0                          Gehring 2017, 3.5

    (…, inputs) → (…, outputs).   p = 1 − `dropout` is the share of the inputs that dropout keeps; gain 4 makes up for a
    gate that follows.
    """
    linear = Linear(inputs, outputs)
    nn.init.normal_(linear.weight, std=(gain * (1 - dropout) / inputs) ** 0.5)
    nn.init.zeros_(linear.bias)
    return linear


def normed_linear(inputs: int, outputs: int, *, dropout: float = 0.0, gain: float = 1.0) -> Linear:
    """`even_linear` whose rows have a learned length and a learned direction: W_o = g_o v_o / |v_o|.  Salimans 2016

    Weight decay leaves g and v alone: g is a scale, and the length of v has no effect.
    """
    linear = even_linear(inputs, outputs, dropout=dropout, gain=gain)
    weight_norm(linear, dim=0)
    return linear


class GatedConvolution(nn.Module):
    """Each output reads a window of k inputs; half of what it computes is a gate for the other half.

        [a_i ; b_i] = W [x_i ; … ; x_{i+k−1}] + c        y_i = a_i ⊙ σ(b_i)               Dauphin 2017 (GLU)

    x (B, L + k − 1, M) → (B, L, M): the caller pads x, on both sides or, where it must not see the future, on the left.
    """

    def __init__(self, width: int, *, kernel: int, dropout: float = 0.0) -> None:
        super().__init__()
        if min(width, kernel) < 1:
            raise RegardError(f"width={width} and kernel={kernel}: both must be at least 1")
        self.kernel = kernel
        self.windows = normed_linear(kernel * width, 2 * width, dropout=dropout, gain=4.0)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1] - self.kernel + 1
        windows = torch.cat([x[:, start : start + length] for start in range(self.kernel)], dim=-1)  # (B, L, k·M)
        return F.glu(self.windows(windows), dim=-1)
