"""How a recurrent decoder reads a memory: softly, by a hard choice, or not at all.

    soft    c = Σ_i w_i h_i                                                                     Bahdanau 2015
    hard    c = h_i,  i ~ w while training,  i = argmax w otherwise                             Mnih 2014, Xu 2015
            with `averaged`, c = Σ_i w_i h_i while training with probability H(w) / log S, in the spirit of Xu 2015, 4.1

with w = softmax_i score(q, h_i). A draw has no gradient, but the expected loss has: `Rollout.surrogate` estimates it.

B batch  Q queries  S memory length  T target length  M width
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.exact import masked_softmax
from regard.attention.formula import attend_projected
from regard.attention.patterns import Pattern
from regard.attention.recorder import deliver
from regard.attention.scores import Score


class Glance(NamedTuple):
    """The result of reading the memory: context (B, Q, M), and draw (B, Q, 2), the log-probability of the place that
    was drawn and the loss per target that the baseline expects from there on. Where nothing is drawn, both are 0."""

    context: Tensor
    draw: Tensor


class Nowhere(nn.Module):
    """No attention: the context has width 0.   query (B, Q, M) → Glance"""

    def keys(self, memory: Tensor) -> Tensor:
        return memory

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, pattern: Pattern) -> Glance:
        return Glance(query[..., :0], query.new_zeros(*query.shape[:2], 2))


class Soft(nn.Module):
    """Soft attention: the weighted mean of all values.

    query (B, Q, M), keys (B, 1, S, D′) from `keys`, values (B, 1, S, M) → Glance
    """

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score

    def keys(self, memory: Tensor) -> Tensor:
        """The keys of a memory (B, 1, S, M) for the score, computed once for all steps: (B, 1, S, D′)"""
        return self.score.keys(memory)

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, pattern: Pattern) -> Glance:
        projected = self.score.queries(query.unsqueeze(1))
        context = attend_projected(projected, keys, values, score=self.score, pattern=pattern)
        return Glance(context.squeeze(1), query.new_zeros(*query.shape[:2], 2))


class Hard(nn.Module):
    """Hard attention: the value at one place.

    query (B, Q, M), keys (B, 1, S, D′) from `keys`, values (B, 1, S, M) → Glance

    With `averaged`, a look is replaced by its expected value, the weighted mean, the more often the less sure it is:
    always where all weights are equal, and never where one of them is 1. So it begins to learn as soft attention does.
    The recorded weights show what was used: they are one-hot when a place was chosen.
    """

    def __init__(self, score: Score, *, width: int, averaged: bool = False) -> None:
        super().__init__()
        self.score, self.averaged = score, averaged
        self.baseline = nn.Linear(width, 1)

    def keys(self, memory: Tensor) -> Tensor:
        """The keys of a memory (B, 1, S, M) for the score, computed once for all steps: (B, 1, S, D′)"""
        return self.score.keys(memory)

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, pattern: Pattern) -> Glance:
        logits = self.score.matrix(self.score.queries(query.unsqueeze(1)), keys)  # (B, 1, Q, S)
        allowed = pattern.dense(*logits.shape[-2:], device=logits.device)
        weights = masked_softmax(logits, allowed)
        # Of S clocks that tick at the rates w, clock i ticks first with probability w_i.
        race = weights / torch.empty_like(weights).exponential_() if self.training else weights
        index = race.argmax(-1, keepdim=True)
        choice = torch.zeros_like(weights).scatter(-1, index, 1.0) * allowed
        log_probability = weights.gather(-1, index).clamp(min=torch.finfo(weights.dtype).tiny).log()
        if self.training and self.averaged:
            mean = torch.rand_like(log_probability) < unsureness(weights.detach(), allowed)  # (B, 1, Q, 1)
            choice, log_probability = torch.where(mean, weights, choice), log_probability * ~mean
        deliver(choice)
        draw = torch.cat([log_probability.squeeze(1), self.baseline(query.detach())], dim=-1)
        return Glance((choice @ values).squeeze(1), draw)


def unsureness(weights: Tensor, allowed: Tensor) -> Tensor:
    """H(w) / log S: 1 if all of S weights are equal, 0 if one of them is 1.   (…, S) → (…, 1)"""
    most = allowed.sum(-1, keepdim=True).clamp(min=2).log()
    return torch.special.entr(weights).sum(-1, keepdim=True) / most


@dataclass(frozen=True)
class Rollout:
    """A target run through a decoder: hidden (B, T, M), the draws (B, T, 2) made on the way, and whether a draw is
    `lasting`: it then affects later targets too, through the decoder's state, and not its own target alone.

    `weight` is that of what draws learn from: 1 gives the gradient of the expected loss. `compared`: whether rows are
    compared with each other, for which their losses have to be independent.
    """

    hidden: Tensor
    draw: Tensor
    lasting: bool
    weight: float = 1.0
    compared: bool = False

    def surrogate(self, losses: Tensor, counted: Tensor) -> Tensor:
        """A term for Σ losses that makes its gradient an unbiased estimate of the gradient of the expected loss.

            weight Σ_t (R_t − n_t (b_t + m_t)) log p(i_t) + ½ Σ_t (b_t − R_t / n_t)²      Williams 1992; Mnih 2014

        losses (B, T) of each target, counted (B, T) False on padding → a number whose value is 0: only its gradient
        counts. R_t is the loss of the n_t targets from t on, or of target t alone where draws do not last. The baseline
        b_t learns R_t / n_t. If rows are compared, a second baseline m_t is the mean of R_t / n_t − b_t over the other
        rows; it is 0 otherwise. R_t − n_t (b_t + m_t) counts as a constant. Without draws the gradient is 0 too.
        """
        log_probability, baseline = self.draw.unbind(-1)
        future = (lambda x: x.flip(1).cumsum(1).flip(1)) if self.lasting else (lambda x: x)
        total = future(losses.detach() * counted)
        number = future(counted.to(losses.dtype)).clamp(min=1.0)
        error = counted * (total / number - baseline)
        beyond = beyond_others(error.detach(), counted) if self.compared else error.detach()
        surrogate = (self.weight * number * beyond * log_probability + error.square() / 2).sum()
        return surrogate - surrogate.detach()


def beyond_others(value: Tensor, counted: Tensor) -> Tensor:
    """How much a value exceeds its mean over the other rows that count: (N, …), (N, …) → (N, …), 0 where not counted"""
    value, number = value * counted, counted.to(value.dtype)
    return counted * (value - (value.sum(0) - value) / (number.sum(0) - number).clamp(min=1.0))
