"""The baselines of `python -m bench listops`."""

from itertools import product

from bench.listops import by_counts, by_root


def test_the_most_frequent_value_of_a_root() -> None:
    learned = [("[MAX 1 9 ]", "9"), ("[MAX 8 9 ]", "9"), ("[MAX 1 2 ]", "2"), ("[MIN 1 2 ]", "1")]
    tested = [("[MAX 3 9 ]", "9"), ("[MAX 3 4 ]", "4"), ("[MIN 1 7 ]", "1"), ("[MIN 2 7 ]", "2")]
    assert by_root(learned, tested) == 50


def test_a_bag_of_words_learns_what_depends_on_counts_alone_and_not_what_depends_on_order() -> None:
    digits = list(product("0123", repeat=4))
    counted = [(" ".join(each), str(each.count("3"))) for each in digits]
    ordered = [(" ".join(each), each[0]) for each in digits]
    assert by_counts(counted, counted) > 85
    assert by_counts(ordered, ordered) < 60
