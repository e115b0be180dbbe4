"""Mixtures of labelled texts and of plain text: each corpus has its share of an epoch."""

from collections import Counter
from pathlib import Path

import numpy
import pytest

from regard.checking import check
from regard.data.mixing import Mixing
from regard.data.rows.batches import RowStream
from regard.data.rows.framing import Row
from regard.data.text.blocks import BlockStream
from regard.data.text.tokens import Tokens
from regard.errors import RegardError
from regard.special import OWN
from regard.tasks.classify.reading import LabelledData
from regard.tasks.classify.task import Classify
from regard.tasks.write.data import WriteData


def test_labelled_texts_are_taken_by_corpus(tmp_path: Path) -> None:
    for name, count in (("a-1", 5), ("a-2", 4), ("b", 3)):
        (tmp_path / f"{name}.tsv").write_text(
            "".join(f"text {number} of {name}\t{number % 2}\n" for number in range(count))
        )
    mix = [{"path": str(tmp_path / "a-*.tsv")}, {"path": [str(tmp_path / "b.tsv")], "weight": 3.0}]
    data = check(LabelledData, {"mix": mix, "columns": {"text": 1, "label": 2}}, where="data")
    examples = Classify.read([str(tmp_path / "a-*.tsv"), str(tmp_path / "b.tsv")], data, key="data.train")
    assert [len(corpus) for corpus in Classify.corpora(examples, data)] == [9, 3]
    assert data.mixing == Mixing((1.0, 3.0))


def test_rows_are_learned_by_the_share_of_their_corpus() -> None:
    rows = [Row((5, number), (0, 0), (1,)) for number in range(12)]
    stream = RowStream(rows, batch_tokens=6, seed=3, special=OWN, mixing=Mixing((1.0, 3.0)), parts=[9, 3])
    learned = Counter(row for batch in stream.epoch(0) for row in batch.rows)
    assert sum(learned.values()) == 12
    assert sum(learned[row] for row in range(9, 12)) == 6  # 9 · 1 and 3 · 3 are equal shares
    assert {row for batch in stream.in_order() for row in batch.rows} == set(range(12))


def test_blocks_of_text_are_learned_by_the_share_of_their_corpus() -> None:
    ids = numpy.concatenate([numpy.full(900, 5), numpy.full(100, 6)]).astype(numpy.uint16)
    tokens = Tokens(ids, len(ids), 0, "", parts=(900, 100))
    stream = BlockStream(tokens, block=10, rows=7, seed=1, mixing=Mixing((1.0, 1.0), 1e6))
    wanted = numpy.concatenate([batch.wanted.numpy()[batch.counted.numpy()] for batch in stream.epoch(2)])
    assert abs((wanted == 6).mean() - 0.5) < 0.03


def test_a_mixture_of_text_needs_text_to_validate_on() -> None:
    with pytest.raises(RegardError, match="mix needs valid"):
        check(WriteData, {"mix": [{"path": "a.txt"}]}, where="data")
