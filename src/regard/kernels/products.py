"""Products of rows with weights in float32, without gradients, by the faster of the two libraries that torch brings.

    y = x Wᵀ + b        x (…, in)  W (out, in) → (…, out)

torch asks MKL. On a CPU that is not Intel's, MKL computes with AVX2 even where there is AVX-512, and oneDNN then takes
less than half the time, but a few microseconds more for each call.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

PAYS = 1 << 20  # multiplications from which a product makes up for the call of oneDNN
PLAIN = (Tensor, torch.nn.Parameter)  # other classes, such as shares of a weight, have products of their own


@cache
def onednn_is_faster() -> bool:
    """Whether large products are faster by oneDNN on this machine."""
    there = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return there and torch.backends.cpu.get_cpu_capability() == "AVX512" and not _is_by_intel()


def fits_onednn(weight: Tensor) -> bool:
    """Whether products with a weight may be oneDNN's, if they are large."""
    return (
        type(weight) in PLAIN and weight.device.type == "cpu" and weight.dtype == torch.float32 and onednn_is_faster()
    )


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b of rows on the weight's device and in its precision."""
    if x.numel() * len(weight) >= PAYS and x.dtype == torch.float32 and fits_onednn(weight):
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return found
    return F.linear(x, weight, bias)


def _is_by_intel() -> bool:
    with suppress(OSError):
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return True  # it is not known, so what torch chooses stays
