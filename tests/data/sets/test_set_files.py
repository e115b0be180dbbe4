"""Sets: what files hold, what is refused with its place, and batches that miss no set and can be gone on with."""

import json
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.parquet
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from regard.data.sets.batches import FlatSets, SetStream
from regard.data.sets.examples import SetExample, elements_of, line_of, names_of, read_sets
from regard.data.sets.scale import Scale
from regard.data.streams import Share
from regard.errors import RegardError

COLUMNS = ("set", "label")
GOOD = [([3, 1.5], "odd"), ([7], "even")]
VECTORS = [([[1, 2], [0.5, 4]], 3), ([[5, 6]], [1, 2.5])]


def write(path: Path, rows: list[tuple[Any, Any]]) -> str:
    if path.suffix == ".parquet":
        table = {"set": [row[0] for row in rows], "label": [row[1] for row in rows]}
        pyarrow.parquet.write_table(pyarrow.table(table), path)
    else:
        path.write_text("\n\n".join(json.dumps({"id": 1, "set": a, "label": b}) for a, b in rows), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_sets_are_read_from_every_form(tmp_path: Path, suffix: str):
    numbers = list(read_sets(write(tmp_path / f"a{suffix}", GOOD), COLUMNS))
    assert [each.elements.tolist() for each in numbers] == [[[3.0], [1.5]], [[7.0]]]  # type: ignore[union-attr]
    assert [each.wanted for each in numbers] == ["odd", "even"]
    vectors = list(read_sets(write(tmp_path / f"b{suffix}", VECTORS[:1]), COLUMNS))
    assert vectors[0].elements.tolist() == [[1, 2], [0.5, 4]]  # type: ignore[union-attr]
    words = list(read_sets(write(tmp_path / f"c{suffix}", [(["a", "b"], 2.0)]), COLUMNS))
    assert (words[0].elements, words[0].wanted) == (("a", "b"), (2.0,))


def test_labels_may_be_texts_truths_numbers_and_lists_of_numbers(tmp_path: Path):
    rows = [([1], label) for label in ("x ", True, 3, [1, 2.5])]
    assert [each.wanted for each in read_sets(write(tmp_path / "a.jsonl", rows), COLUMNS)] == [
        "x",
        "true",
        (3.0,),
        (1.0, 2.5),
    ]


def test_whole_numbers_may_be_names(tmp_path: Path):
    name = write(tmp_path / "a.jsonl", [([12, 7, "x"], 1)])
    assert next(read_sets(name, COLUMNS, words=True)).elements == ("12", "7", "x")
    with pytest.raises(RegardError, match=r"a\.jsonl:1: element 1 of the set is 1\.5; texts and whole numbers"):
        list(read_sets(write(tmp_path / "a.jsonl", [([1.5], 1)]), COLUMNS, words=True))


def test_made_sets_are_what_they_say():
    largest = list(read_sets("largest:test?examples=50", COLUMNS))
    assert [each.wanted for each in largest] == [(each.elements.max(),) for each in largest]  # type: ignore[union-attr]
    assert {len(each.elements) for each in largest} <= set(range(1, 11))
    sums = list(read_sets("digit_sum:test?examples=50&shortest=20&longest=100", COLUMNS))
    assert [each.wanted for each in sums] == [(each.elements.sum(),) for each in sums]  # type: ignore[union-attr]
    with pytest.raises(RegardError, match="listops:test makes no sets"):
        list(read_sets("listops:test", COLUMNS))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"set": [], "label": 1}', "a.jsonl:2: the set is empty"),
        ('{"set": 3, "label": 1}', "a.jsonl:2: 3 is no list"),
        ('{"set": null, "label": 1}', "a.jsonl:2: None is no list"),
        ('{"set": [[1, 2], [3]], "label": 1}', "a.jsonl:2: element 2 of the set has 1 numbers and the first has 2"),
        ('{"set": [[]], "label": 1}', "a.jsonl:2: element 1 of the set has 0 numbers"),
        ('{"set": [1, NaN], "label": 1}', "a.jsonl:2: element 2 of the set holds nan"),
        ('{"set": [[1, 2], [3, -Infinity]], "label": 1}', "a.jsonl:2: element 2 of the set holds -inf"),
        ('{"set": [1, "a"], "label": 1}', "a.jsonl:2: element 2 of the set is 'a' and the first is 1"),
        ('{"set": ["a", 1], "label": 1}', "a.jsonl:2: element 2 of the set is 1 and the first is 'a'"),
        ('{"set": [1, [2]], "label": 1}', "a.jsonl:2: element 2 of the set is [2] and the first is 1"),
        ('{"set": [[1, "a"]], "label": 1}', "a.jsonl:2: element 1 of the set holds 'a', which is no number"),
        ('{"set": [true], "label": 1}', "a.jsonl:2: element 1 of the set is True; a set is a list"),
        (
            '{"set": [[1, 2], [3, -1e31]], "label": 1}',
            "a.jsonl:2: element 2 of the set holds -1e+31; numbers up to 1e+30",
        ),
        ('{"set": [1], "label": 1e200}', "a.jsonl:2: the label is 1e+200; numbers up to 1e+30 are read"),
        ('{"set": [1, null], "label": 1}', "a.jsonl:2: element 2 of the set is None"),
        ('{"set": [1' + 400 * "0" + '], "label": 1}', "a.jsonl:2: the set holds a whole number that is too large"),
        ('{"set": [1], "label": null}', "a.jsonl:2: the label is None"),
        ('{"set": [1], "label": Infinity}', "a.jsonl:2: the label is inf; a text, a finite number"),
        ('{"set": [1], "label": [2, NaN]}', "a.jsonl:2: the label is [2, nan]"),
        ('{"set": [1], "label": " "}', "a.jsonl:2: the label is ' '"),
        ('{"set": [1], "label": []}', "a.jsonl:2: the label is []"),
        ('{"set": [1], "label": ["a"]}', "a.jsonl:2: the label is ['a']"),
        ('{"label": 1}', "a.jsonl:2 has no key 'set'; it has ['label']: choose with data.columns"),
        ("[1, 2]", "a.jsonl:2 is not an object"),
        ("{", "a.jsonl:2 is not JSON"),
    ],
)
def test_what_is_no_set_is_refused_with_its_place(tmp_path: Path, line: str, sentence: str):
    (tmp_path / "a.jsonl").write_text('{"set": [1], "label": 1}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(RegardError) as error:
        list(read_sets(str(tmp_path / "a.jsonl"), COLUMNS))
    assert sentence in str(error.value)


def test_files_of_other_forms_are_refused(tmp_path: Path):
    (tmp_path / "a.csv").write_text("set,label\n1,2\n")
    with pytest.raises(RegardError, match=r"a\.csv can hold no lists; give a \.jsonl or \.parquet file"):
        list(read_sets(str(tmp_path / "a.csv"), COLUMNS))


def test_equal_sets_have_one_key_in_whatever_order():
    def key(elements: Any) -> str:
        return SetExample(elements_of(elements), "x", "").key

    assert key([1, 2, 2]) == key([2, 1, 2])
    assert key([1, 2, 2]) != key([1, 1, 2])
    assert key([[1, 2], [2, 1]]) == key([[2, 1], [1, 2]]) != key([[1, 1], [2, 2]])
    assert key(["a", "bc"]) == key(["bc", "a"]) != key(["ab", "c"])


def test_sets_are_written_as_they_are_read():
    for text in ("[3, 17.5, -2]", "[[1, 2.5], [0, 0]]", '["ä", "b c"]'):
        assert line_of(elements_of(json.loads(text))) == text
    assert names_of(elements_of([[1, 2.5]])) == ("(1, 2.5)",)
    assert names_of(elements_of([17, 0.25])) == ("17", "0.25")


def test_a_scale_is_the_mean_and_the_deviation_of_all_elements():
    rows = [numpy.random.default_rng(size).normal(5, 3, (size, 2)) for size in (1, 4, 9)]
    rows = [numpy.column_stack([row, numpy.full(len(row), 7.0)]) for row in rows]
    scale = Scale.measured(rows)
    every = numpy.concatenate(rows)
    assert numpy.allclose(scale.mean, every.mean(0))
    assert numpy.allclose(scale.spread, [*every[:, :2].std(0), 1.0])
    assert numpy.allclose(Scale.stored(json.loads(json.dumps(scale.to_json()))).numbers(scale.units(every)), every)
    tenths = Scale.measured(10 * [numpy.array([[0.1]])])  # the mean is not 0.1 to the last bit
    assert (tenths.mean != 0.1).all()
    assert tenths.spread.tolist() == [1.0]
    for damaged in (None, [1], [[1, 2], [3]], "x"):
        with pytest.raises(RegardError, match=r"numbers\.json is damaged"):
            Scale.stored(damaged)  # type: ignore[arg-type]


# batches


def flat(sizes: list[int]) -> FlatSets:
    """Sets whose elements are (number of the set, place in it), and whose wanted number is that of the set."""
    elements = numpy.array([[number, place] for number, size in enumerate(sizes) for place in range(size)])
    return FlatSets(elements.astype(numpy.float32), numpy.array(sizes), numpy.arange(len(sizes)))


@given(
    sizes=some.lists(some.integers(1, 9), min_size=1, max_size=40),
    batch_size=some.integers(2, 7),
    world=some.integers(1, 3),
)
def test_every_set_is_in_one_batch_whole_and_padded_with_zeros(sizes: list[int], batch_size: int, world: int):
    if len(sizes) < 3 * world:
        return
    seen: list[int] = []
    counts = set()
    for rank in range(world):
        stream = SetStream(flat(sizes), batch_size=batch_size, cells=20, seed=1, share=Share(rank, world))
        batches = list(stream.epoch(0))
        counts.add(len(batches))
        for batch in (batch for batch in batches if not batch.idle):
            assert len(batch.rows) <= batch_size
            assert batch.targets == len(batch.rows)
            assert batch.elements.shape[1] == batch.lengths.max()
            for row, elements, length, wanted in zip(
                batch.rows, batch.elements, batch.lengths, batch.wanted, strict=True
            ):
                assert (row, sizes[row]) == (wanted, length)
                assert elements[:length].tolist() == [[row, place] for place in range(length)]
                assert not elements[length:].any()
            seen += batch.rows
    assert sorted(seen) == list(range(len(sizes)))
    assert len(counts) == 1


def test_batches_depend_on_seed_and_epoch_and_go_on_from_a_position():
    sizes = numpy.random.default_rng(0).integers(1, 30, 500).tolist()
    stream = SetStream(flat(sizes), batch_size=16, cells=64, seed=3)
    first = list(stream.epoch(2))
    assert [batch.rows for batch in stream.epoch(2, position=20)] == [batch.rows for batch in first[20:]]
    assert [batch.position for batch in first] == list(range(len(first)))
    assert [batch.rows for batch in stream.epoch(3)] != [batch.rows for batch in first]
    assert [batch.rows for batch in SetStream(flat(sizes), batch_size=16, cells=64, seed=4).epoch(2)] != [
        batch.rows for batch in first
    ]
    padding = sum(int((batch.lengths.max() - batch.lengths).sum()) for batch in first) / sum(sizes)
    assert padding < 0.2  # at random it is nearly the whole again


def test_in_order_gives_every_set_once_within_its_bound():
    sizes = [3, 1, 30, 7, 7, 2]
    stream = SetStream(flat(sizes), batch_size=2, cells=15, seed=3)
    batches = list(stream.in_order())
    assert sorted(row for batch in batches for row in batch.rows) == list(range(6))
    assert all(len(batch.rows) == 1 or batch.elements.shape[:2].numel() <= 15 for batch in batches)
    assert batches[0].rows == (2,)
    assert isinstance(batches[0].elements, torch.Tensor)


def test_the_checksum_follows_the_content():
    one, other = flat([2, 3]), flat([3, 2])
    sums = [SetStream(sets, batch_size=2, cells=9, seed=1).checksum for sets in (one, one, other)]
    assert sums[0] == sums[1] != sums[2]
    changed = FlatSets(one.elements + 1, one.sizes, one.wanted)
    assert SetStream(changed, batch_size=2, cells=9, seed=1).checksum != sums[0]
