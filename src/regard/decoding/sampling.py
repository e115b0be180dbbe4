"""Answers drawn at random from the model's probabilities.

    y_t ~ softmax(logits / temperature), kept to the top_k most probable tokens, then to the nucleus that holds top_p

Each source has random numbers of its own, made from the seed and its tokens, so that it draws the same answers alone
and in any batch. Tokens of equal probability are kept or left out together.

N rows alive now  V vocabulary  t tokens said so far
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.constraints import Constraints
from regard.decoding.finished import Finished
from regard.decoding.greedy import follow
from regard.decoding.protocol import Model, StateT, source_lengths
from regard.decoding.vocabulary import largest
from regard.special import OWN, Special

_FIRST_GUESS = 64  # tokens sorted first when looking for a nucleus


def sample(
    model: Model[Any, StateT],
    state: StateT,
    source: Tensor,
    first: Tensor,
    *,
    config: DecodingConfig,
    constraints: Constraints,
    uniform: Tensor,
) -> Finished:
    """n_best answers for each row of the state. source (B,): which source a row answers; first (B,): the token that
    the first step reads; uniform (B · n_best, max_length)."""
    copies = torch.arange(len(source), device=source.device).repeat_interleave(config.n_best)

    def choose(scores: Tensor, rows: Tensor, length: int) -> tuple[Tensor, Tensor]:
        token = choose_at_random(scores, uniform[rows, length], config=config).unsqueeze(1)
        return token, scores.gather(1, token)

    state = state.reorder(copies)
    return follow(model, state, source[copies], first[copies], config=config, constraints=constraints, choose=choose)


def choose_at_random(logits: Tensor, uniform: Tensor, *, config: DecodingConfig) -> Tensor:
    """One token for each row, by the temperature, top_k and top_p of `config`. (N, V), (N,) in [0, 1) → (N,)."""
    heated = logits.float() / config.temperature
    if config.top_k:
        heated = keep_top_k(heated, config.top_k)
    if config.top_p < 1:
        heated = keep_nucleus(heated, config.top_p)
    return draw(heated, uniform)


def uniform_numbers(
    source: Tensor, lengths: Tensor | None, *, config: DecodingConfig, special: Special = OWN
) -> Tensor:
    """Random numbers in [0, 1) for each token of each answer, from seed and source. (B · n_best, max_length)."""
    text = source.dim() == 2 and not source.is_floating_point()
    ends = source_lengths(source, lengths, special=special).tolist() if text else [None] * source.shape[0]
    numbers = []
    for row, end in zip(source.cpu(), ends, strict=True):
        content = (row[:end].long() if text else row).contiguous().view(torch.uint8).numpy().tobytes()
        digest = hashlib.blake2b(f"{config.seed} ".encode() + content, digest_size=8).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest, "little", signed=True))
        numbers.append(torch.rand(config.n_best, config.max_length, generator=generator))
    return torch.cat(numbers).to(source.device)


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """The k most probable tokens, −∞ elsewhere. (N, V) → (N, V)."""
    least = largest(logits, min(k, logits.shape[1]))[0][:, -1:]
    return logits.masked_fill(logits < least, -math.inf)


def keep_nucleus(logits: Tensor, p: float) -> Tensor:
    """The fewest most probable tokens that together have at least probability p, −∞ elsewhere. (N, V) → (N, V)."""
    least = _least_of_nucleus(logits, logits.logsumexp(-1, keepdim=True), p, width=_FIRST_GUESS)
    return logits.masked_fill(logits < least, -math.inf)


def _least_of_nucleus(logits: Tensor, normaliser: Tensor, p: float, *, width: int) -> Tensor:
    """The smallest logit in the nucleus, (N, 1): the last whose larger ones together have less than probability p.

    The `width` largest are sorted, and more only in the rows where that was not enough.
    """
    values = largest(logits, min(width, logits.shape[1]))[0]
    mass = (values - normaliser).exp()
    inside = mass.cumsum(1) - mass < p
    least = values.gather(1, inside.sum(1, keepdim=True) - 1)
    wider = inside[:, -1].nonzero().squeeze(1)
    if width < logits.shape[1] and len(wider):
        least[wider] = _least_of_nucleus(logits[wider], normaliser[wider], p, width=4 * width)
    return least


def draw(logits: Tensor, uniform: Tensor) -> Tensor:
    """The token at which the cumulative probability passes `uniform`. (N, V), (N,) in [0, 1) → (N,)."""
    cumulative = logits.softmax(-1).cumsum(-1)
    total = cumulative[:, -1:]
    target = torch.minimum(uniform.unsqueeze(1) * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target, right=True).squeeze(1).clamp(max=logits.shape[1] - 1)
