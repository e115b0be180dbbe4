"""Cross-entropy over a large vocabulary without ever holding all logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.kernels.linear import GRAIN, Linear, rounded

ROWS = 8 * GRAIN  # rows of a product, or more in half precision: 512 × 10 000 logits stay in the cache of a CPU
PIECE = 1 << 20  # logits of them that are computed with at a time, in single precision


def vocabulary_loss(hidden: Tensor, output: Linear, target: Tensor, *, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The smoothed negative log-likelihood of `target`: summed over rows, and of each row (plain numbers, no gradient).

        −(1 − ε) log p_n(y_n) − ε/V Σ_v log p_n(v)        p_n = softmax(W h_n + b)            Szegedy 2016, section 7

    hidden (N, M), target (N,) → (), (N,).   Logits are made, used for loss and gradient, and dropped, `ROWS` at a time:
    memory does not grow with N·V, and each logit is computed once for both directions.
    """
    weight: Tensor = output.weight
    bias: Tensor | None = output.bias
    if not torch.is_grad_enabled():  # ask here: inside an autograd.Function gradients are always off
        weight, bias = weight.detach(), None if bias is None else bias.detach()
    return _VocabularyLoss.apply(hidden, weight, bias, target, smoothing, output.products)


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        smoothing: float,
        precision: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        learning = any(context.needs_input_grad[:3])
        device = hidden.device.type
        if torch.is_autocast_enabled(device):
            precision = torch.get_autocast_dtype(device)
        elif not learning:
            precision = weight.dtype
        with torch.autocast(device, enabled=False):
            losses, *gradients = _in_rows(hidden, weight, bias, target, smoothing, precision, learning)
        context.save_for_backward(*gradients)
        context.mark_non_differentiable(losses)
        return losses.sum(), losses

    @staticmethod
    def backward(context: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        to_hidden, to_weight, to_bias = (None if grad is None else grad * above[0] for grad in context.saved_tensors)
        return to_hidden, to_weight, to_bias, None, None, None


def _in_rows(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    smoothing: float,
    precision: torch.dtype,
    learning: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Losses (N,), and the gradients of their sum to hidden, weight and bias; matrix products are in `precision`."""
    losses = weight.new_empty(len(hidden))
    to_hidden = torch.empty_like(hidden) if learning else None
    to_weight = torch.zeros_like(weight) if learning else None
    to_bias = torch.zeros_like(bias) if learning and bias is not None else None
    average = weight.mean(0)  # the mean logit of a row is h · mean(W) + mean(b)
    matrix, exact = weight.to(precision), precision == weight.dtype
    step = ROWS * weight.itemsize // matrix.itemsize
    most = min(step, len(hidden))
    room = matrix.new_empty(most + -most % GRAIN, len(weight))
    half = torch.empty_like(matrix)  # of the gradient to weight; sums over rows are in full precision
    for start in range(0, len(hidden), step):
        part = slice(start, start + step)
        wanted = target[part].unsqueeze(1)
        rows = hidden[part].to(precision) if exact else rounded(hidden[part], precision)
        products = torch.mm(rows, matrix.T, out=room[: len(rows)])
        right, share = _to_gradient(products[: len(wanted)], bias, wanted, 1 - smoothing, to_bias, weight.dtype)
        likelihood = share.log()
        lost = (share < torch.finfo(share.dtype).tiny).squeeze(1).nonzero().squeeze(1)
        if len(lost):
            logits = (rows[lost] @ matrix.T).to(weight.dtype)
            likelihood[lost] = right[lost] - (logits if bias is None else logits + bias).logsumexp(1, keepdim=True)
        mean = hidden[part].to(weight.dtype) @ average + (bias.mean() if bias is not None else 0.0)
        losses[part] = smoothing * (right.squeeze(1) - mean) - likelihood.squeeze(1)
        if to_hidden is None or to_weight is None:
            continue
        # the term −ε/V by rank one instead of a pass over every logit
        to_hidden[part] = (products @ matrix)[: len(wanted)] - smoothing * average
        if exact:
            to_weight.addmm_(products.T, rows)
        else:
            to_weight += torch.mm(products.T, rows, out=half)
    if to_weight is not None:
        to_weight -= hidden.sum(0) * (smoothing / len(weight))
    if to_bias is not None:
        to_bias -= len(hidden) * smoothing / len(weight)
    return losses, to_hidden, to_weight, to_bias


def _to_gradient(
    logits: Tensor, bias: Tensor | None, wanted: Tensor, amount: float, to_bias: Tensor | None, kind: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Make softmax − amount · one-hot of the logits z (N, V), in place, and add its rows to `to_bias`.

    wanted (N, 1) → z_y (N, 1), and p_y (N, 1), which is 0 where `kind` has no number as small.
    """
    right, share = (torch.empty(wanted.shape, dtype=kind, device=logits.device) for _ in range(2))
    count = max(PIECE // logits.shape[1], 1)
    room = None if logits.dtype == kind else share.new_empty(min(count, len(logits)), logits.shape[1])
    for some, y, z, p in zip(*(x.split(count) for x in (logits, wanted, right, share)), strict=True):
        whole = some if room is None else room[: len(some)].copy_(some)
        if bias is not None:
            whole += bias
        torch.gather(whole, 1, y, out=z)
        torch.softmax(whole, 1, out=whole)
        torch.gather(whole, 1, y, out=p)
        whole.scatter_(1, y, p - amount)
        if to_bias is not None:
            to_bias += whole.sum(0)
        if whole is not some:
            some.copy_(whole)
    return right, share
