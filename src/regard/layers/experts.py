"""A feed-forward layer made of several, of which each position uses a few: a mixture of experts.

    p = softmax(W_g x)        y = Σ_{e in top k of p} (p_e / Σ_{top k} p) FF_e(x)                   Shazeer 2017
    penalty = weight · E Σ_e f_e p̄_e        f_e: share of choices, p̄_e: mean probability           Fedus 2021

The penalty is smallest when all experts are used equally. Every position gets all the experts it chose: there is no
limit on how many positions an expert serves, so a position's output does not depend on the others.

B batch  L length  M width  E experts  k used by a position
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.recorder import deliver, watching
from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.feed_forward import Activation, FeedForward
from regard.layers.penalty import penalise, penalised

BALANCE = 0.01  # weight of the penalty


class Experts(nn.Module):
    """x (…, M) → (…, M). Each of the `count` experts is a FeedForward; a position uses the `used` most probable."""

    def __init__(
        self,
        width: int,
        *,
        hidden: int,
        count: int,
        used: int = 2,
        balance: float = BALANCE,
        activation: Activation = "relu",
        bias: bool = True,
    ) -> None:
        super().__init__()
        if not 1 <= used <= count:
            raise RegardError(f"experts={count} and experts_used={used}: a position uses 1 to {count} of them")
        self.used, self.balance = used, balance
        self.gate = Linear(width, count, bias=False)
        nn.init.normal_(self.gate.weight, std=0.02)
        self.experts = nn.ModuleList(
            FeedForward(width, hidden=hidden, activation=activation, bias=bias) for _ in range(count)
        )

    def forward(self, x: Tensor) -> Tensor:
        logits = self.gate(x)
        probability = logits.softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))  # (…, E)
        share, chosen = probability.topk(self.used, dim=-1)  # (…, k)
        share = share / share.sum(-1, keepdim=True)
        if watching():
            shares = torch.zeros_like(probability).scatter(-1, chosen, share)
            deliver(shares.view(-1, 1, *shares.shape[-2:]), columns="expert")  # (B, 1, L, E)
        if penalised():
            penalise(self._imbalance(probability, chosen))
        flat, weight, expert = x.flatten(0, -2), share.to(x.dtype).flatten(0, -2), chosen.flatten(0, -2)
        out = torch.zeros_like(flat)
        for number, feed_forward in enumerate(self.experts):
            place, choice = (expert == number).nonzero(as_tuple=True)
            if len(place):
                found = feed_forward(flat[place]) * weight[place, choice].unsqueeze(-1)
                out = out.index_add(0, place, found.to(out.dtype))
        return out.view_as(x)

    def _imbalance(self, probability: Tensor, chosen: Tensor) -> Tensor:
        count = probability.shape[-1]
        used = torch.bincount(chosen.flatten(), minlength=count).to(probability.dtype) / chosen.numel()
        return self.balance * count * (used * probability.flatten(0, -2).mean(0)).sum()
