"""How good answers are: sacrebleu's scores for text, error rates for lexicons.

Every function takes answers and, for each answer, all references that count as right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from regard.errors import RegardError
from regard.tasks.base import Score
from regard.tasks.parts import Form, Parts, counted, metrics, shares

References = Sequence[Sequence[str]]  # for each answer, everything that counts as right
FORMS: dict[str, Form] = {"bleu": "bleu", "chrf": "chrf", "ter": "ter"}


def text_scores(answers: Sequence[str], references: References, *, tokenize: str = "13a") -> dict[str, Score]:
    """BLEU, chrF and TER on whole text, as sacrebleu has them, and the share of answers that are exactly right.

    `tokenize="none"` scores text that is tokenised already, as it stands.
    """
    check(answers, references)
    found = {}
    for name, metric in metrics(tokenize).items():
        counts = metric._extract_corpus_statistics(list(answers), streams(references))  # what corpus_score begins with
        value = float(metric._aggregate_and_compute(counts).score)
        found[name] = Score(value, str(metric.get_signature()), Parts(numpy.array(counts, dtype=float), FORMS[name]))
    right = _right(answers, references)
    exact = Score(100 * sum(right) / len(right), "percent of answers equal to a reference", shares(right))
    return {**found, "exact": exact}


def bleu(answers: Sequence[str], references: References, *, tokenize: str = "13a") -> float:
    """BLEU alone, for validation while training."""
    check(answers, references)
    return float(metrics(tokenize)["bleu"].corpus_score(list(answers), streams(references)).score)


def lexicon_scores(answers: Sequence[str], references: References) -> dict[str, Score]:
    """Word error (no reference is met) and symbol error (edits to the nearest one, over its length), in percent."""
    check(answers, references)
    right, near = _right(answers, references), list(map(nearest, answers, references))
    edits, symbols = map(sum, zip(*near, strict=True))
    words, signs = shares(not each for each in right), counted(near)
    how = "edits per 100 symbols, to the nearest reference"
    return {
        "word_error": Score(
            100 * (1 - sum(right) / len(right)), "percent of words that meet no listed reference", words
        ),
        "symbol_error": Score(100 * edits / max(symbols, 1), how, signs),
    }


def nearest(answer: str, listed: Sequence[str]) -> tuple[int, int]:
    """Edits from an answer to the reference it is nearest to for its length, and the symbols of that reference."""
    said = answer.split()
    distances = [(edit_distance(said, right.split()), len(right.split())) for right in listed]
    return min(distances, key=lambda pair: pair[0] / max(pair[1], 1))


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """Fewest insertions, deletions and replacements that turn one into the other (Levenshtein 1966)."""
    before = list(range(len(right) + 1))
    for row, symbol in enumerate(left, start=1):
        here = [row]
        for column, other in enumerate(right, start=1):
            here.append(min(before[column] + 1, here[-1] + 1, before[column - 1] + (symbol != other)))
        before = here
    return before[-1]


def streams(references: References) -> list[list[str | None]]:
    """sacrebleu's form: the first reference of every answer, then the second, …, None where there are fewer."""
    most = max(len(listed) for listed in references)
    return [[listed[number] if number < len(listed) else None for listed in references] for number in range(most)]


def _right(answers: Sequence[str], references: References) -> list[bool]:
    """Whether each answer is a reference."""
    return [answer in listed for answer, listed in zip(answers, references, strict=True)]


def check(answers: Sequence[str], references: References) -> None:
    """Refuse what cannot be scored."""
    if not answers:
        raise RegardError("there is nothing to score: the test set has no pairs")
    if len(answers) != len(references):
        raise RegardError(f"there are {len(answers)} answers but {len(references)} references; they must go in pairs")
    for number, listed in enumerate(references, start=1):
        if not listed:
            raise RegardError(f"answer {number} has no reference to be compared with")
