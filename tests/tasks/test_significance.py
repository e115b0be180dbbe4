"""The bootstrap against tests that need none, and parts of scores against the scores."""

from math import comb

import numpy
import pytest
from sacrebleu.significance import PairedTest

from regard.tasks.base import Score
from regard.tasks.parts import counted, means, metrics, perplexities, shares
from regard.tasks.scores import lexicon_scores, text_scores
from regard.tasks.significance import bootstrap, compare


def sign_test(wins: int, losses: int) -> float:
    """How likely so uneven a split of wins and losses is by chance: the binomial distribution, on both sides."""
    trials, more = wins + losses, max(wins, losses)
    return min(1.0, 2 * sum(comb(trials, n) for n in range(more, trials + 1)) / 2**trials)


RIGHT = [f"sentence number {n} is about thing {n * 7} and nothing else" for n in range(60)]
WORSE = [text if n % 3 else text.replace("thing", "stuff").replace("else", "more") for n, text in enumerate(RIGHT)]
REFERENCES = [[text] for text in RIGHT]


def test_it_tells_a_worse_translator_from_an_equal_one() -> None:
    right, worse = (text_scores(side, REFERENCES) for side in (RIGHT, WORSE))
    apart, same = (compare(side, worse, samples=200) for side in (right, worse))
    assert list(apart) == ["bleu", "chrf", "ter", "exact"]
    assert all(row["p"] < 0.05 for row in apart.values())
    assert all(row["p"] == 1 for row in same.values())
    assert all(row["low"] <= row["difference"] <= row["high"] for row in apart.values())
    assert apart["bleu"]["high"] < 0 < apart["ter"]["low"]
    assert apart["exact"]["first"] == 100
    assert apart["exact"]["second"] == pytest.approx(100 * 2 / 3)


def test_scores_of_texts_and_their_intervals_are_those_of_sacrebleu() -> None:
    """sacrebleu gives half the width of the interval of each system: here one of both is always the same."""
    ours = text_scores(WORSE, REFERENCES)
    every = metrics("13a")
    test = PairedTest([("a", RIGHT), ("b", WORSE)], every, references=[RIGHT], test_type="bs", n_samples=1000)
    _, rows = test()
    theirs = [results for name, results in rows.items() if name != "System"]
    perfect = text_scores(RIGHT, REFERENCES)
    for (name, metric), (_, second) in zip(every.items(), theirs, strict=True):
        assert ours[name].value == metric.corpus_score(WORSE, [RIGHT]).score
        best, parts = perfect[name].parts, ours[name].parts
        assert best is not None
        assert parts is not None
        assert parts.score() == pytest.approx(ours[name].value)
        found = bootstrap(best, parts)
        assert (found["high"] - found["low"]) / 2 == pytest.approx(second.ci, rel=0.2)


@pytest.mark.parametrize(("wins", "losses"), [(30, 30), (40, 28), (45, 25), (60, 30)])
def test_p_is_near_that_of_the_sign_test(wins: int, losses: int) -> None:
    references = [["K AE T", "K AA T"]] * 400
    right, wrong = "K AA T", "K AE D"
    first = [right] * wins + [wrong] * losses + [right] * (400 - wins - losses)
    second = [wrong] * wins + [right] * losses + [right] * (400 - wins - losses)
    found = compare(lexicon_scores(first, references), lexicon_scores(second, references), samples=2000)
    assert found["word_error"]["first"] == pytest.approx(100 * losses / 400)
    assert found["word_error"]["second"] == pytest.approx(100 * wins / 400)
    assert found["symbol_error"]["second"] == pytest.approx(100 * wins / 1200)
    assert found["word_error"]["p"] == pytest.approx(sign_test(wins, losses), abs=0.06)


def test_the_interval_is_that_of_the_normal_distribution_for_many_examples() -> None:
    draw = numpy.random.default_rng(3)
    first, second = (draw.random(2000) < rate for rate in (0.5, 0.6))
    found = bootstrap(shares(first), shares(second), samples=2000)
    each = 100 * (second.astype(float) - first)
    assert found["difference"] == pytest.approx(each.mean())
    assert (found["high"] - found["low"]) / 2 == pytest.approx(1.96 * each.std() / 2000**0.5, rel=0.08)


def test_p_is_never_zero() -> None:
    """The data itself counts as one of the samples."""
    found = bootstrap(shares([True] * 50), shares([False] * 50), samples=99)
    assert found == {"difference": -100, "low": -100, "high": -100, "p": 0.01}


def test_parts_of_every_form() -> None:
    assert means([1.0, float("nan"), 2.0]).score() == 1.5
    assert means([4.0, 16.0], form="root").score() == pytest.approx(10**0.5)
    losses = numpy.random.default_rng(1).random(200).tolist()
    assert perplexities(losses).score() == pytest.approx(numpy.exp(numpy.mean(losses)))
    assert len(perplexities(losses)) == 4
    assert counted([(2, 2, 0, 0), (0, 1, 0, 0), (0, 0, 2, 4)], form="mean").score() == pytest.approx(
        100 * (2 / 3 + 0.5) / 2
    )


def test_without_as_many_parts_there_is_no_interval() -> None:
    few, many = Score(2.0, parts=means([2.0])), Score(3.0, parts=means([3.0, 3.0]))
    assert compare({"perplexity": few, "spearman": Score(1.0)}, {"perplexity": many, "spearman": Score(2.0)}) == {
        "perplexity": {"first": 2.0, "second": 3.0},
        "spearman": {"first": 1.0, "second": 2.0},
    }
