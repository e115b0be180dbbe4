"""Answers that have ended."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor

from regard.decoding.protocol import Hypothesis
from regard.special import EOS


@dataclass
class Finished:
    """Finished answers, kept as they come in blocks of equal length and made into hypotheses at the very end."""

    eos: int = EOS
    blocks: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    entries: list[tuple[int, float, int, int]] = field(default_factory=list)  # source, score, block, row in the block

    def add(self, source: Tensor, score: Tensor, said: Tensor, logprobs: Tensor) -> None:
        """F answers of t tokens, EOS included if reached: source (F,), score (F,), said (F, t), logprobs (F, t)."""
        block = len(self.blocks)
        self.blocks.append((said, logprobs))
        for row, (owner, value) in enumerate(zip(source.tolist(), score.tolist(), strict=True)):
            self.entries.append((owner, value, block, row))

    def best(self, sources: int, n_best: int) -> list[list[Hypothesis]]:
        """At most n_best hypotheses for each source, best first.

        A source without any (its model gave NaN, or forbade everything) has one, empty, of score −∞.
        """
        answers: list[list[tuple[int, float, int, int]]] = [[] for _ in range(sources)]
        for entry in sorted(self.entries, key=lambda entry: -entry[1]):
            if len(answers[entry[0]]) < n_best:
                answers[entry[0]].append(entry)
        nothing = Hypothesis(tokens=(), score=-math.inf, logprobs=())
        return [[self._hypothesis(entry) for entry in chosen] or [nothing] for chosen in answers]

    def _hypothesis(self, entry: tuple[int, float, int, int]) -> Hypothesis:
        _, score, block, row = entry
        said, logprobs = self.blocks[block]
        tokens = said[row].tolist()
        if tokens[-1] == self.eos:
            tokens.pop()
        return Hypothesis(tokens=tuple(tokens), score=score, logprobs=tuple(logprobs[row].tolist()))
