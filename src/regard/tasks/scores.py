"""How good answers are: sacrebleu's scores for text, error rates for lexicons.

Every function takes answers and, for each answer, all references that count as right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.errors import RegardError
from regard.tasks.base import Score

References = Sequence[Sequence[str]]  # for each answer, everything that counts as right


def text_scores(answers: Sequence[str], references: References, *, tokenize: str = "13a") -> dict[str, Score]:
    """BLEU, chrF and TER on whole text, as sacrebleu has them, and the share of answers that are exactly right.

    `tokenize="none"` scores text that is tokenised already, as it stands.
    """
    check(answers, references)
    found = {}
    for name, metric in metrics(tokenize).items():
        result = metric.corpus_score(list(answers), streams(references))
        found[name] = Score(float(result.score), str(metric.get_signature()))
    return {**found, "exact": Score(100 * _right(answers, references), "percent of answers equal to a reference")}


def bleu(answers: Sequence[str], references: References, *, tokenize: str = "13a") -> float:
    """BLEU alone, for validation while training."""
    check(answers, references)
    return float(metrics(tokenize)["bleu"].corpus_score(list(answers), streams(references)).score)


def lexicon_scores(answers: Sequence[str], references: References) -> dict[str, Score]:
    """Word error (no reference is met) and symbol error (edits to the nearest one, over its length), in percent."""
    check(answers, references)
    edits, symbols = map(sum, zip(*map(nearest, answers, references), strict=True))
    return {
        "word_error": Score(100 * (1 - _right(answers, references)), "percent of words that meet no listed reference"),
        "symbol_error": Score(100 * edits / max(symbols, 1), "edits per 100 symbols, to the nearest reference"),
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


def metrics(tokenize: str) -> dict[str, Any]:
    """sacrebleu's, by the names they have here."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    return {"bleu": BLEU(tokenize=tokenize, force=True), "chrf": CHRF(), "ter": TER()}


def streams(references: References) -> list[list[str | None]]:
    """sacrebleu's form: the first reference of every answer, then the second, …, None where there are fewer."""
    most = max(len(listed) for listed in references)
    return [[listed[number] if number < len(listed) else None for listed in references] for number in range(most)]


def _right(answers: Sequence[str], references: References) -> float:
    return sum(answer in listed for answer, listed in zip(answers, references, strict=True)) / len(answers)


def check(answers: Sequence[str], references: References) -> None:
    """Refuse what cannot be scored."""
    if not answers:
        raise RegardError("there is nothing to score: the test set has no pairs")
    if len(answers) != len(references):
        raise RegardError(f"there are {len(answers)} answers but {len(references)} references; they must go in pairs")
    for number, listed in enumerate(references, start=1):
        if not listed:
            raise RegardError(f"answer {number} has no reference to be compared with")
