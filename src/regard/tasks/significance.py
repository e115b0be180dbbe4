"""Which of two models is better: paired bootstrap (Koehn 2004).

Test sets are drawn from the one there is, with repetition, the same for both. `low` and `high` are the differences
between which 95 of 100 lie. p is how often their difference strays from its mean at least as far as the difference seen
does from zero: how likely it is by chance.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy

from regard.errors import RegardError
from regard.tasks.base import Judgement, Objective, Score
from regard.tasks.parts import Parts

# name of a score → {"first": …, "second": …}, and "difference", "low", "high" and "p" where examples can be drawn
Comparison = dict[str, dict[str, float]]

SAMPLES = 1000
INTERVAL = (2.5, 97.5)  # percent


def compare(first: Mapping[str, Score], second: Mapping[str, Score], *, samples: int = SAMPLES) -> Comparison:
    """The scores that two models have, on the same examples. A score has no interval where it is not made of parts, or
    of as many for both models: tokens, if their vocabularies differ."""
    found: Comparison = {}
    for name, ours in first.items():
        if (theirs := second.get(name)) is None:
            continue
        found[name] = {"first": ours.value, "second": theirs.value}
        if ours.parts is not None and theirs.parts is not None and comparable(ours.parts, theirs.parts):
            found[name] |= bootstrap(ours.parts, theirs.parts, samples=samples)
    if not found:
        raise RegardError(f"the models have no score in common: {', '.join(first)} and {', '.join(second)}")
    return found


def comparable(first: Parts | None, second: Parts | None) -> bool:
    """Whether the same examples can be drawn for both."""
    return first is not None and second is not None and len(first) == len(second) > 0 and first.form == second.form


def judgement(best: Objective, first: Score, second: Score) -> Judgement:
    """Two scores of the kind that models are ranked by."""
    (row,) = compare({best.name: first}, {best.name: second}).values()
    return Judgement(best.name, best.higher, row["first"], row["second"], row.get("p", 1.0))


def bootstrap(first: Parts, second: Parts, *, samples: int = SAMPLES) -> dict[str, float]:
    """How much larger the second score is than the first, between which limits, and how likely that is by chance."""
    generator = numpy.random.default_rng(0)
    differences = numpy.empty(samples)
    for number in range(samples):
        rows = generator.integers(len(first), size=len(first))
        differences[number] = second.score(rows) - first.score(rows)
    seen = second.score() - first.score()
    low, high = numpy.nanpercentile(differences, INTERVAL)
    strayed = numpy.abs(differences - numpy.nanmean(differences)) >= abs(seen)
    p = float((strayed.sum() + 1) / (samples + 1))
    return {"difference": seen, "low": float(low), "high": float(high), "p": p}
