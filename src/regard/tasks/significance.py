"""Which of two models is better: paired bootstrap (Koehn 2004).

Test sets are drawn from the one there is, with repetition, the same for both. p is how often their difference strays
from its mean at least as far as the difference seen does from zero: how likely it is by chance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from regard.tasks.scores import References, check, metrics, nearest, streams

Comparison = dict[str, dict[str, float]]  # name of a score → {"first": …, "second": …, "p": …}

Counts = NDArray[numpy.float64]


def compare_texts(
    first: Sequence[str], second: Sequence[str], references: References, *, samples: int = 1000, tokenize: str = "13a"
) -> Comparison:
    """BLEU, chrF and TER as sacrebleu has them and compares them, and the percentage that is exactly right."""
    from sacrebleu.significance import PairedTest

    check(first, references)
    check(second, references)
    compared = metrics(tokenize)
    systems = [("first", list(first)), ("second", list(second))]
    test = PairedTest(systems, compared, references=streams(references), test_type="bs", n_samples=samples)
    _, rows = test()
    results = [result for name, result in rows.items() if name != "System"]  # in the order of the metrics
    same = list(first) == list(second)  # sacrebleu counts only larger differences, and finds none among zeros
    found = {
        name: {"first": float(ours.score), "second": float(theirs.score), "p": 1.0 if same else float(theirs.p_value)}
        for name, (ours, theirs) in zip(compared, results, strict=True)
    }
    return {**found, "exact": bootstrap(_right(first, references), _right(second, references), samples=samples)}


def compare_lexicons(
    first: Sequence[str], second: Sequence[str], references: References, *, samples: int = 1000
) -> Comparison:
    """Word error and symbol error."""
    check(first, references)
    check(second, references)
    words = [numpy.abs([1, 0] - _right(side, references)) for side in (first, second)]
    symbols = [numpy.array([*map(nearest, side, references)], dtype=numpy.float64) for side in (first, second)]
    return {
        "word_error": bootstrap(*words, samples=samples),
        "symbol_error": bootstrap(*symbols, samples=samples),
    }


def bootstrap(first: Counts, second: Counts, *, samples: int = 1000) -> dict[str, float]:
    """Counts (N, 2) of both, whose score is 100 Σ count / Σ total."""
    generator = numpy.random.default_rng(0)
    drawn = generator.integers(len(first), size=(samples, len(first)))
    differences = numpy.array([_percent(second[rows]) - _percent(first[rows]) for rows in drawn])
    seen = _percent(second) - _percent(first)
    strayed = numpy.abs(differences - differences.mean()) >= abs(seen)
    return {"first": _percent(first), "second": _percent(second), "p": float((strayed.sum() + 1) / (samples + 1))}


def _right(answers: Sequence[str], references: References) -> Counts:
    """(N, 2): 1 for an answer that is exactly right, else 0; of 1"""
    return numpy.array([(answer in listed, 1) for answer, listed in zip(answers, references, strict=True)], float)


def _percent(counts: Counts) -> float:
    count, total = counts.sum(0)
    return float(100 * count / max(total, 1))
