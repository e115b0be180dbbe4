"""Continuing prompts a token at a time, without a limit on length.

A model whose input is bounded (its reach) starts again with the last half of the tokens when the input is full.

N rows alive now  V vocabulary  R reach
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.decoding.config import DecodingConfig
from regard.decoding.constraints import constraints
from regard.decoding.protocol import PromptedModel, evaluation, modules_of
from regard.decoding.sampling import choose_at_random, uniform_numbers
from regard.decoding.vocabulary import largest, own, to_logprobs


class Said(NamedTuple):
    """One token of one row, and its log p."""

    row: int
    token: int
    logprob: float


class Continuation:
    """Rows that continue their prompts in one batch, each as if alone; `n_best` neighbouring rows for each prompt.

    `advance` adds one token to every row alive; a row ends with EOS, at `max_length`, or when it is dropped.
    """

    def __init__(
        self,
        model: PromptedModel[Any, Any],
        prompts: Sequence[Sequence[int]],
        *,
        config: DecodingConfig,
        reach: int | None,
    ) -> None:
        self.model, self.config, self.reach = model, config, reach
        self.special = model.special
        self.device = next(model.parameters()).device
        copies = config.n_best
        self.context = [list(prompt) or [self.special.bos] for prompt in prompts for _ in range(copies)]
        self.said: list[list[int]] = [[] for _ in self.context]
        self.rows = list(range(len(self.context)))  # rows alive
        self.alive = torch.arange(len(self.rows), device=self.device)  # the same (N,)
        self.spoken = torch.empty(len(self.rows), 0, dtype=torch.int64, device=self.device)  # their tokens (N, t)
        self.modules = modules_of(model)
        self.rules = constraints(config, None, rows=len(self.rows), device=self.device, special=self.special)
        self.uniform = self._draws(prompts) if config.sample else torch.empty(0)
        self.state: Any = None
        self.token = torch.empty(0, dtype=torch.int64)

    @property
    def over(self) -> bool:
        return not self.rows

    def advance(self) -> list[Said]:
        """The next token of each row alive; rows end with EOS and at `max_length`."""
        with evaluation(self.model, modules=self.modules):
            said = self._say()
        for each in said:
            self.said[each.row].append(each.token)
            self.context[each.row].append(each.token)
        last = len(self.said[said[0].row]) == self.config.max_length
        self.drop({each.row for each in said if last or each.token == self.special.eos or each.logprob == -math.inf})
        return said

    def drop(self, ended: set[int]) -> None:
        """End these rows."""
        going = [place for place, row in enumerate(self.rows) if row not in ended]
        if len(going) == len(self.rows):
            return
        self.rows = [self.rows[place] for place in going]
        places = torch.tensor(going, dtype=torch.int64, device=self.device)
        with evaluation(self.model, modules=self.modules):
            self.token, self.state = self.token[places], self.state.reorder(places)
            self.alive, self.spoken = self.alive[places], self.spoken[places]

    def _say(self) -> list[Said]:
        if self._at_reach():
            self._read()
        logits, self.state = self.model.step(self.token, self.state)
        scores = to_logprobs(own(logits))
        self.rules.apply(scores, self.spoken, self.alive)
        self.token = self._choose(scores, self.spoken.shape[1])
        self.spoken = torch.cat([self.spoken, self.token.unsqueeze(1)], 1)
        logprobs = scores.gather(1, self.token.unsqueeze(1)).squeeze(1)
        return [Said(*each) for each in zip(self.rows, self.token.tolist(), logprobs.tolist(), strict=True)]

    def _at_reach(self) -> bool:
        """Whether the model must read its input anew: at the beginning, or when a row exceeds the longest input."""
        return self.state is None or any(self.reach and len(self.context[row]) > self.reach for row in self.rows)

    def _read(self) -> None:
        for row in self.rows:
            if self.reach and len(self.context[row]) > self.reach:
                self.context[row] = self.context[row][-max(self.reach // 2, 1) :]
        contexts = [torch.tensor(self.context[row]) for row in self.rows]
        lengths = torch.tensor([len(context) for context in contexts], device=self.device)
        memory = self.model.encode(pad_sequence(contexts, batch_first=True).to(self.device), lengths)
        self.state = self.model.start(memory)
        self.token = self.model.first(memory)

    def _choose(self, logits: Tensor, length: int) -> Tensor:
        if not self.config.sample:
            return largest(logits, 1)[1].squeeze(1)
        return choose_at_random(logits, self.uniform[self.alive, length], config=self.config)

    def _draws(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Random numbers of each row, from the seed and its prompt. (rows, max_length)"""
        alone = (torch.tensor([list(prompt)], dtype=torch.int64) for prompt in prompts)
        numbers = [
            uniform_numbers(row, torch.tensor([row.shape[1]]), config=self.config, special=self.special)
            for row in alone
        ]
        return torch.cat(numbers).to(self.device)
