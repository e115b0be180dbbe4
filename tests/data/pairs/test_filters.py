"""What is dropped is counted, with the place of the first."""

from regard.data.pairs.filters import FilterReport, Filters, Sieve
from regard.data.pairs.pair import Pair


def test_each_reason_is_counted_with_its_first_line() -> None:
    sieve = Sieve(Filters(max_length=11, max_ratio=3, drop_duplicates=True))
    rows = [("a", "b", 2, 3), ("", "b", 0, 3), ("a", "b", 2, 3), ("c", "d", 13, 7), ("e", "f", 2, 7), (" ", "b", 1, 3)]
    kept = [sieve.keeps(Pair(*row[:2], "p.tsv", line), *row[2:]) for line, row in enumerate(rows, start=1)]
    assert kept == [True, False, False, False, False, False]
    assert str(sieve.report) == (
        "6 pairs read, 1 kept; dropped 2 with an empty side (first at p.tsv:2), 1 seen before (first at p.tsv:3), "
        "1 longer than 11 tokens (first at p.tsv:4), "
        "1 with one side over 3 times as long as the other (first at p.tsv:5)"
    )
    assert FilterReport.from_json(sieve.report.to_json()) == sieve.report


def test_at_the_limit_a_pair_stays() -> None:
    sieve = Sieve(Filters(max_length=11, max_ratio=3))
    assert all(sieve.keeps(Pair("a", "b", "p.tsv", 1), *lengths) for lengths in [(11, 11), (3, 9), (6, 2), (6, 2)])


def test_texts_that_only_join_to_the_same_are_no_duplicates() -> None:
    sieve = Sieve(Filters(drop_duplicates=True))
    assert sieve.keeps(Pair("ab", "c", "p.tsv", 1), 2, 1)
    assert sieve.keeps(Pair("a", "bc", "p.tsv", 2), 1, 2)
