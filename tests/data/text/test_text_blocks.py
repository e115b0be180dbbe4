"""Blocks of a text: each token predicted once an epoch, after what stood before it; the same from any place on."""

from itertools import islice

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from regard.data.text.blocks import BlockStream
from regard.data.text.tokens import Tokens
from regard.errors import RegardError
from regard.special import BOS


def made(tokens=101, *, block=7, rows=3, seed=1, carry=0):
    ids = numpy.arange(10, 10 + tokens, dtype=numpy.uint16)  # each token tells its place
    return BlockStream(Tokens(ids, tokens, 0, "sum"), block=block, rows=rows, seed=seed, carry=carry)


@limits(max_examples=30)
@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 5), st.integers(0, 9), st.integers(0, 20))
def test_an_epoch_predicts_each_token_once_after_the_one_before_it(tokens, block, rows, carry, epoch):
    if tokens < block:
        return
    blocks = made(tokens, block=block, rows=rows, carry=carry)
    predicted = []
    for batch in blocks.epoch(epoch):
        assert batch.tokens.shape == batch.wanted.shape == batch.counted.shape
        assert len(batch.tokens) <= rows
        assert batch.targets == int(batch.counted.sum())
        before = torch.where(batch.wanted == 10, BOS, batch.wanted - 1)
        assert torch.equal(batch.tokens, before)
        predicted += batch.wanted[batch.counted].tolist()
    assert sorted(predicted) == list(range(10, 10 + tokens))
    assert sorted(token for batch in blocks.in_order() for token in batch.wanted[batch.counted].tolist()) == sorted(
        predicted
    )


def test_batches_of_an_epoch_are_of_nearly_equal_size():
    sizes = [len(batch.tokens) for batch in made(rows=4).epoch(0)]
    assert max(sizes) - min(sizes) <= 1


def test_what_is_carried_stands_before_the_block():
    for batch in made(carry=5).epoch(3):
        for carried, tokens in zip(batch.carried.tolist(), batch.tokens.tolist(), strict=True):
            if tokens[0] > 15:
                assert carried == list(range(tokens[0] - 5, tokens[0]))


def test_the_stream_goes_on_from_any_place_as_if_never_left():
    whole = list(islice(made(carry=2).stream(), 12))
    assert {batch.epoch for batch in whole} == {0, 1, 2}
    for number, batch in enumerate(whole[:-1]):
        following = next(made(carry=2).stream(epoch=batch.epoch, position=batch.position + 1))
        assert (following.epoch, following.position) == (whole[number + 1].epoch, whole[number + 1].position)
        assert torch.equal(following.tokens, whole[number + 1].tokens)
        assert torch.equal(following.carried, whole[number + 1].carried)
        assert torch.equal(following.counted, whole[number + 1].counted)


def test_order_and_borders_depend_on_seed_and_epoch():
    def starts(seed, epoch):
        return [row[0] for batch in made(seed=seed).epoch(epoch) for row in batch.tokens.tolist()]

    assert starts(1, 0) == starts(1, 0)
    assert starts(1, 0) != starts(1, 1)
    assert starts(1, 0) != starts(2, 0)


def test_the_stream_says_what_it_holds():
    assert made().checksum == "sum"
    assert made().describe() == ["101 tokens, 101 characters"]


def test_a_text_shorter_than_a_block_is_refused():
    with pytest.raises(RegardError, match=r"train text has 6 tokens, not one block of 7; .* data.block to 3 or less"):
        made(6)
