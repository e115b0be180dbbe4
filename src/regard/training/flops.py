"""How many floating-point operations learning costs, counted while it runs.

Counted are matrix products, convolutions, attention and recurrent layers, a multiplication and an addition as two; not
what is done element by element, nor the optimiser.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, shape_wrapper

from regard.data.streams import Batch
from regard.training.learner import Loss

Shape = tuple[int, ...]


def flops_per_target(model: nn.Module, task: Loss[Batch], batches: Iterable[Batch]) -> float:
    """Floating-point operations of learning from one target, forward and backward, measured on these batches.

    The model keeps its weights and loses its gradients.
    """
    device, targets = next(model.parameters()).device, 0
    counting = Counting()
    model.train()
    with torch.random.fork_rng([]), counting:
        for batch in batches:
            task.loss(model, batch.to(device)).backward()
            model.zero_grad()
            targets += batch.targets
    return counting.total / targets


class Counting(TorchDispatchMode):
    """Sums the operations of every call while it is active. torch's own counter does the same by module, for which it
    holds on to tensors: a long input would need several times the memory."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.costs = {**flop_registry, **{name: shape_wrapper(cost) for name, cost in UNCOUNTED.items()}}

    def __torch_dispatch__(
        self, function: Any, types: object, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        cost = self.costs.get(function._overloadpacket)
        if cost is None:
            with self:
                parts = function.decompose(*args, **given)
            if parts is not NotImplemented:
                return parts
        found = function(*args, **given)
        if cost is not None:
            self.total += cost(*args, **given, out_val=found)
        return found


def _attention(query: Shape, key: Shape, value: Shape, *_: object, **__: object) -> int:
    """query (B, H, Q, D), key (B, H, K, D), value (B, H, K, Dv): the scores and the mixture."""
    return 2 * math.prod(query[:3]) * key[2] * (query[3] + value[3])


def _attention_backward(_: Shape, query: Shape, key: Shape, value: Shape, *__: object, **___: object) -> int:
    """The scores once more, and four products for the gradients of weights, query, key and value."""
    return 2 * math.prod(query[:3]) * key[2] * (3 * query[3] + 2 * value[3])


def _recurrent(x: Shape, input_weight: Shape, hidden_weight: Shape, *_: object, **__: object) -> int:
    """x (T, B, D), weights (gates · H, D) and (gates · H, H)."""
    return 2 * math.prod(x[:-1]) * (math.prod(input_weight) + math.prod(hidden_weight))


def _recurrent_backward(x: Shape, input_weight: Shape, hidden_weight: Shape, *_: object, **__: object) -> int:
    return 2 * _recurrent(x, input_weight, hidden_weight)


def _added_product(_: Shape, left: Shape, right: Shape, *__: object, **___: object) -> int:
    """A product that is added in place to a sum: left (N, K), right (K, M)."""
    return 2 * math.prod(left) * right[1]


def _added_products(_: Shape, left: Shape, right: Shape, *__: object, **___: object) -> int:
    """The same for batches: left (B, N, K), right (B, K, M)."""
    return 2 * math.prod(left) * right[2]


def _linear(x: Shape, weight: Shape, *_: object, **__: object) -> int:
    """x (N, in), weight (out, in)"""
    return 2 * math.prod(x) * weight[0]


# kernels that torch does not count by itself: some exist for CPUs alone, some work in place
UNCOUNTED = {
    torch.ops.aten.addmm_: _added_product,
    torch.ops.aten.baddbmm_: _added_products,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    torch.ops.aten.mkldnn_rnn_layer: _recurrent,
    torch.ops.aten.mkldnn_rnn_layer_backward: _recurrent_backward,
}
if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
    UNCOUNTED[torch.ops.mkldnn._linear_pointwise] = _linear
