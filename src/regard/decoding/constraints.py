"""Which tokens may come next.

N rows alive now  V vocabulary  t tokens said so far  P longest prefix
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.errors import RegardError
from regard.special import OWN, Special

_FREE = -1  # where a prefix has ended


@dataclass(frozen=True)
class Constraints:
    """Rules on the next token, applied to all rows at once.

    PAD and BOS are forbidden (unless EOS is the same token), and so are EOS before `min_length` tokens and a repeated
    sequence of `no_repeat_ngram` tokens. While a prefix (B, P) lasts, its token is the only one allowed, whatever the
    other rules say. If the rules forbid every token, EOS is allowed.
    """

    min_length: int = 0
    no_repeat_ngram: int = 0
    prefix: Tensor | None = None
    special: Special = OWN

    def apply(self, logits: Tensor, said: Tensor, source: Tensor) -> None:
        """Set forbidden tokens to −∞, in place. logits (N, V), said (N, t), source (N,): which source a row answers."""
        length = said.shape[1]
        forced = self._forced(length, source, vocabulary=logits.shape[1])
        wanted = None if forced is None else logits.gather(1, forced.clamp(min=0).unsqueeze(1))
        eos = self.special.eos
        logits.index_fill_(1, _never_said(self.special, logits.shape[1], logits.device), -math.inf)
        if 0 < self.no_repeat_ngram <= length:
            logits[repetitions(said, self.no_repeat_ngram)] = -math.inf
        if length < self.min_length and eos < logits.shape[1]:
            ending = logits[:, eos].clone()
            logits[:, eos].fill_(-math.inf)
            stuck = _nothing_left(logits)
            if stuck is not None:
                logits[:, eos] = ending.masked_fill(~stuck, -math.inf)
        if forced is not None and wanted is not None:
            free = (forced == _FREE).unsqueeze(1)
            logits.masked_fill_(~free, -math.inf)
            logits.scatter_(1, forced.clamp(min=0).unsqueeze(1), wanted.masked_fill(free, -math.inf))

    def _forced(self, length: int, source: Tensor, *, vocabulary: int) -> Tensor | None:
        """The token each row must say now, or _FREE. (N,), None when no prefix is that long."""
        if self.prefix is None or length >= self.prefix.shape[1]:
            return None
        forced = self.prefix[source, length]
        if int(forced.max()) >= vocabulary:
            raise RegardError(f"prefix contains token {int(forced.max())} and the vocabulary ends at {vocabulary - 1}")
        return forced


def _nothing_left(logits: Tensor) -> Tensor | None:
    """The rows in which every token is forbidden. (N, V) → (N,), or None if there are none, for which testing the last
    few tokens is mostly enough."""
    if bool((logits[:, -64:].amax(1) > -math.inf).all()):
        return None
    return logits.amax(1) == -math.inf


@lru_cache(maxsize=64)
@torch.inference_mode(mode=False)
def _never_said(special: Special, vocabulary: int, device: torch.device) -> Tensor:
    """PAD and BOS, unless the vocabulary has no such tokens or EOS is the same."""
    numbers = sorted(number for number in special.silent - {special.eos} if number < vocabulary)
    return torch.tensor(numbers, dtype=torch.int64, device=device)


def repetitions(said: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Tokens that would complete a sequence of n tokens that was said before. said (N, t) → row and token of each.

    A window of n tokens forbids its last one to the rows whose end equals its first n − 1.
    """
    windows = said.unfold(1, n, 1)  # (N, t − n + 1, n)
    end = said[:, said.shape[1] - n + 1 :].unsqueeze(1)  # (N, 1, n − 1)
    row, window = (windows[..., :-1] == end).all(-1).nonzero(as_tuple=True)
    return row, windows[row, window, -1]


def constraints(
    config: DecodingConfig,
    prefix: Sequence[Sequence[int]] | None,
    *,
    rows: int,
    device: torch.device,
    special: Special = OWN,
) -> Constraints:
    """The rules of `config`, and a prefix for each of the rows (of any lengths, empty ones too)."""
    table = None if prefix is None else _prefix_table(prefix, rows, config.max_length, special.silent).to(device)
    return Constraints(config.min_length, config.no_repeat_ngram, table, special)


def _prefix_table(prefix: Sequence[Sequence[int]], rows: int, max_length: int, silent: frozenset[int]) -> Tensor:
    if len(prefix) != rows:
        raise RegardError(f"prefix has {len(prefix)} entries for {rows} rows of source; give one each, [] for none")
    for row, tokens in enumerate(prefix):
        if len(tokens) > max_length:
            raise RegardError(
                f"prefix[{row}] has {len(tokens)} tokens and max_length={max_length}; shorten it or raise that"
            )
        if any(token < 0 or token in silent for token in tokens):
            raise RegardError(
                f"prefix[{row}]={list(tokens)} contains <pad>, <s>, </s> or a negative id; give words only"
            )
    table = torch.full((rows, max(map(len, prefix), default=0)), _FREE)
    for row, tokens in enumerate(prefix):
        table[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.int64)
    return table
