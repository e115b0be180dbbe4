"""Rows in batches: what a batch holds, and what the stream says of itself."""

import torch

from regard.data.rows.batches import RowStream, in_order_of_length
from regard.data.rows.framing import IGNORED, Row
from regard.special import OWN

ROWS = [Row((5, 6, 7), (0, 0, 1), (1,)), Row((8,), (0,), ()), Row((9, 9), (0, 1), (2, 3))]


def test_a_batch_is_padded_at_the_end_only():
    (batch,) = in_order_of_length(ROWS, batch_tokens=99, special=OWN)
    assert batch.rows == (0, 2, 1)
    pad = OWN.pad
    assert batch.tokens.tolist() == [[5, 6, 7], [9, 9, pad], [8, pad, pad]]
    assert batch.segments.tolist() == [[0, 0, 1], [0, 1, 0], [0, 0, 0]]
    assert batch.wanted.tolist() == [[1, IGNORED], [2, 3], [IGNORED, IGNORED]]
    assert (batch.lengths.tolist(), batch.targets) == ([3, 2, 1], 3)
    assert batch.tokens.dtype == batch.lengths.dtype == torch.int64


def test_a_row_longer_than_the_budget_raises_it():
    stream = RowStream(ROWS, batch_tokens=2, seed=1, special=OWN)
    assert sorted(row for batch in stream.epoch(0) for row in batch.rows) == [0, 1, 2]
    assert [batch.rows for batch in stream.in_order()] == [(0,), (2,), (1,)]


def test_the_stream_says_what_it_holds():
    stream = RowStream(ROWS * 400, batch_tokens=99, seed=1, special=OWN)
    assert stream.describe() == ["1,200 examples"]
    assert stream.unit == "targets"
    assert stream.checksum != RowStream(ROWS, batch_tokens=99, seed=1, special=OWN).checksum
