"""What each example adds to a score, so that the score of any choice of examples can be told. Torch is not needed.

Parts are numbers c (N, K), one row for an example or for some that lie together. With s the sum over the rows:

    ratio   f · s₁ / s₂                        percentages, means, error rates, F1 as 2 hits / (said + right)
    mean    f · mean over k of s_2k−1 / s_2k   means over labels; those with s_2k = 0 do not count
    macro   the same                           means over labels; those with s_2k = 0 count as 0
    exp     exp(s₁ / s₂)                       perplexity
    root    √(s₁ / s₂)                         root mean squares
    bleu, chrf, ter                            as sacrebleu computes them from its statistics
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy
from numpy.typing import NDArray

Form = Literal["ratio", "mean", "macro", "exp", "root", "bleu", "chrf", "ter"]
TOGETHER = 64  # tokens of a text that are one part: neighbours depend on each other


@dataclass(frozen=True)
class Parts:
    """The parts of a score."""

    counts: NDArray[numpy.float64]  # (N, K)
    form: Form = "ratio"
    factor: float = 1.0

    def __len__(self) -> int:
        return len(self.counts)

    def score(self, rows: NDArray[numpy.int64] | slice = slice(None)) -> float:
        """The score of all examples, or of some."""
        sums = self.counts[rows].sum(0)
        if self.form in ("bleu", "chrf", "ter"):
            return float(metrics("none")[self.form]._aggregate_and_compute([sums.tolist()]).score)
        above, below = sums[0::2], sums[1::2]
        known = below > 0
        if not known.any():
            return math.nan if self.form != "ratio" else 0.0
        value = float((above[known] / below[known]).sum() / (len(known) if self.form == "macro" else known.sum()))
        if self.form == "exp":
            return math.exp(min(value, 700))
        return math.sqrt(value) if self.form == "root" else self.factor * value


def shares(right: Iterable[object]) -> Parts:
    """The percentage of examples that are right, or the mean over what each has of 1, in percent."""
    return means(right, factor=100.0)


def means(values: Iterable[Any], *, form: Form = "ratio", factor: float = 1.0) -> Parts:
    """The mean over examples, of those that are numbers."""
    rows = [(0.0, 0.0) if math.isnan(value) else (value, 1.0) for value in map(float, values)]
    return Parts(numpy.array(rows).reshape(-1, 2), form, factor)


def counted(rows: Sequence[Sequence[float]], *, form: Form = "ratio", factor: float = 100.0) -> Parts:
    """What each example has, and of how much."""
    return Parts(numpy.array(rows, dtype=numpy.float64), form, factor)


def perplexities(losses: Sequence[float]) -> Parts:
    """The perplexity of tokens in their order; `TOGETHER` neighbours are one part."""
    begins = range(0, len(losses), TOGETHER)
    rows = [(math.fsum(some := losses[at : at + TOGETHER]), len(some)) for at in begins]
    return counted(rows, form="exp", factor=1.0)


@cache
def metrics(tokenize: str) -> dict[str, Any]:
    """sacrebleu's, by the names they have here."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    return {"bleu": BLEU(tokenize=tokenize, force=True), "chrf": CHRF(), "ter": TER()}
