"""What is dropped is counted, with the place of the first."""

import numpy
from hypothesis import given
from hypothesis import strategies as st

from regard.data.pairs.filters import KINDS, Faults, FilterReport, Filters, Seen

Row = tuple[str, str, int, int]


def faults_of(filters: Filters, rows: list[Row], seen: Seen) -> Faults:
    sources, targets, *lengths = zip(*rows, strict=True)
    empty = numpy.array(
        [not (source.strip() and target.strip()) for source, target in zip(sources, targets, strict=True)]
    )
    source, target = map(numpy.array, lengths)
    return filters.faults(empty, source, target, seen.add(sources, targets))


def test_each_reason_is_counted_with_its_first_line() -> None:
    filters = Filters(max_length=11, max_ratio=3, drop_duplicates=True)
    rows = [("a", "b", 2, 3), ("", "b", 0, 3), ("a", "b", 2, 3), ("c", "d", 13, 7), ("e", "f", 2, 7), (" ", "b", 1, 3)]
    faults = faults_of(filters, rows, Seen())
    assert [KINDS[fault - 1] if fault else "" for fault in faults] == [
        "",
        "empty",
        "duplicate",
        "length",
        "ratio",
        "empty",
    ]
    report, joined = FilterReport(), FilterReport()
    report.add(faults, filters, lambda row: f"p.tsv:{row + 1}")
    assert str(report) == (
        "6 pairs read, 1 kept; dropped 2 with an empty side (first at p.tsv:2), 1 seen before (first at p.tsv:3), "
        "1 longer than 11 tokens (first at p.tsv:4), "
        "1 with one side over 3 times as long as the other (first at p.tsv:5)"
    )
    assert FilterReport.from_json(report.to_json()) == report
    for begin, end in ((0, 2), (2, 6)):
        part = FilterReport()
        part.add(faults[begin:end], filters, lambda row, begin=begin: f"p.tsv:{begin + row + 1}")
        joined.join(part)
    assert joined == report


def test_at_the_limit_a_pair_stays() -> None:
    rows = [("a", "b", *lengths) for lengths in [(11, 11), (3, 9), (6, 2), (6, 2)]]
    assert not faults_of(Filters(max_length=11, max_ratio=3), rows, Seen()).any()


def test_texts_that_only_join_to_the_same_are_no_duplicates() -> None:
    assert not Seen().add(["ab", "a"], ["c", "bc"]).any()


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1), max_size=9))
def test_pairs_seen_before_are_those_of_a_set(blocks: list[list[str]]) -> None:
    seen, known = Seen(), set[str]()
    for block in blocks:
        expected = []
        for text in block:
            expected.append(text in known)
            known.add(text)
        assert seen.add(block, block).tolist() == expected
