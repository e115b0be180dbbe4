"""Greedy decoding: at each step the most probable token.

    y_t = argmax_v p(v | y_<t, x)

N rows alive now  V vocabulary  t tokens said so far
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.constraints import Constraints
from regard.decoding.finished import Finished
from regard.decoding.protocol import Model, StateT
from regard.decoding.vocabulary import largest, own, to_logprobs

Choice = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]
"""(log p (N, V), rows (N,), t) → the next token of each row, and its log p, (N, 1) each; `rows`: which rows of the
first step these are."""


def greedy(
    model: Model[Any, StateT],
    state: StateT,
    source: Tensor,
    first: Tensor,
    *,
    config: DecodingConfig,
    constraints: Constraints,
) -> Finished:
    """The most probable token at each step. source (B,): which source each row of the state answers; first (B,): the
    token that the first step reads."""
    return follow(model, state, source, first, config=config, constraints=constraints, choose=_most_probable)


def _most_probable(scores: Tensor, _rows: Tensor, _length: int) -> tuple[Tensor, Tensor]:
    logprob, token = largest(scores, 1)
    return token, logprob


def follow(
    model: Model[Any, StateT],
    state: StateT,
    source: Tensor,
    first: Tensor,
    *,
    config: DecodingConfig,
    constraints: Constraints,
    choose: Choice,
) -> Finished:
    """Extend each row by the token that `choose` returns until EOS; rows that have ended are dropped at once."""
    eos = constraints.special.eos
    finished = Finished(eos)
    rows = torch.arange(source.shape[0], device=source.device)
    token = first
    said = token.new_empty(source.shape[0], 0)  # (N, t)
    logprobs = torch.empty(source.shape[0], 0, device=source.device)  # (N, t)
    for length in range(1, config.max_length + 1):
        logits, state = model.step(token, state)
        scores = to_logprobs(own(logits))
        constraints.apply(scores, said, source)
        column, logprob = choose(scores, rows, length - 1)
        said, logprobs = torch.cat([said, column], 1), torch.cat([logprobs, logprob], 1)
        token, possible = column.squeeze(1), (logprob > -math.inf).squeeze(1)
        ended = (token == eos) | ~possible
        if length == config.max_length:
            ended = torch.ones_like(ended)
        if not ended.any():
            continue
        proper = ended & possible
        score = logprobs[proper].sum(1) / length**config.length_penalty
        finished.add(source[proper], score, said[proper], logprobs[proper])
        going = (~ended).nonzero().squeeze(1)
        if not len(going):
            break
        rows, source, token, said, logprobs = (x[going] for x in (rows, source, token, said, logprobs))
        state = state.reorder(going)
    return finished
