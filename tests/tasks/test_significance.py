"""The bootstrap against tests that need none."""

from math import comb

import pytest

from regard.tasks.significance import compare_lexicons, compare_texts


def sign_test(wins: int, losses: int) -> float:
    """How likely so uneven a split of wins and losses is by chance: the binomial distribution, on both sides."""
    trials, more = wins + losses, max(wins, losses)
    return min(1.0, 2 * sum(comb(trials, n) for n in range(more, trials + 1)) / 2**trials)


def test_it_tells_a_worse_translator_from_an_equal_one() -> None:
    right = [f"sentence number {n} is about thing {n * 7} and nothing else" for n in range(60)]
    worse = [text if n % 3 else text.replace("thing", "stuff").replace("else", "more") for n, text in enumerate(right)]
    references = [[text] for text in right]
    apart, same = (compare_texts(side, worse, references, samples=200) for side in (right, worse))
    assert list(apart) == ["bleu", "chrf", "ter", "exact"]
    assert all(row["p"] < 0.05 for row in apart.values())
    assert all(row["p"] > 0.5 for row in same.values())
    assert apart["exact"]["first"] == 100
    assert apart["exact"]["second"] == pytest.approx(100 * 2 / 3)


@pytest.mark.parametrize(("wins", "losses"), [(30, 30), (40, 28), (45, 25), (60, 30)])
def test_p_is_near_that_of_the_sign_test(wins: int, losses: int) -> None:
    references = [["K AE T", "K AA T"]] * 400
    right, wrong = "K AA T", "K AE D"
    first = [right] * wins + [wrong] * losses + [right] * (400 - wins - losses)
    second = [wrong] * wins + [right] * losses + [right] * (400 - wins - losses)
    found = compare_lexicons(first, second, references, samples=2000)
    assert found["word_error"]["first"] == pytest.approx(100 * losses / 400)
    assert found["word_error"]["second"] == pytest.approx(100 * wins / 400)
    assert found["symbol_error"]["second"] == pytest.approx(100 * wins / 1200)
    assert found["word_error"]["p"] == pytest.approx(sign_test(wins, losses), abs=0.06)


def test_a_lexicon_is_compared_by_its_own_scores() -> None:
    same = compare_lexicons(["A B"], ["A B"], [["A C"]])
    assert same == {
        "word_error": {"first": 100, "second": 100, "p": 1},
        "symbol_error": {"first": 50, "second": 50, "p": 1},
    }


def test_p_is_never_zero() -> None:
    """The data itself counts as one of the samples."""
    found = compare_lexicons(["A"] * 50, ["B"] * 50, [["A"]] * 50, samples=99)
    assert found["word_error"] == {"first": 0, "second": 100, "p": 0.01}
