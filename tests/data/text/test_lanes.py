"""Lanes of a text: each token predicted once an epoch, each row the continuation of the same row before."""

from itertools import islice, pairwise

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from regard.data.streams import Share
from regard.data.text.lanes import LaneStream
from regard.data.text.tokens import Tokens
from regard.errors import RegardError
from regard.special import BOS


def made(tokens=101, *, block=7, rows=3, seed=1, share=None):
    ids = numpy.arange(10, 10 + tokens, dtype=numpy.uint16)  # each token tells its place
    return LaneStream(Tokens(ids, tokens, 0, "sum"), block=block, rows=rows, seed=seed, share=share or Share())


def predicted(batches):
    return [token for batch in batches for token in batch.wanted[batch.counted].tolist()]


@limits(max_examples=40, deadline=None)
@given(st.integers(1, 90), st.integers(1, 9), st.integers(1, 5), st.integers(1, 3), st.integers(0, 20))
def test_processes_predict_each_token_once_in_equally_many_batches(tokens, block, rows, world, epoch):
    if tokens < block * world:
        return
    streams = [made(tokens, block=block, rows=rows, share=Share(rank, world)) for rank in range(world)]
    epochs = [list(stream.epoch(epoch)) for stream in streams]
    assert len({len(batches) for batches in epochs}) == 1
    assert len({batch.tokens.shape for batches in zip(*epochs, strict=True) for batch in batches[:1]}) <= 3
    assert sorted(token for batches in epochs for token in predicted(batches)) == list(range(10, 10 + tokens))
    for batches in epochs:
        for place, batch in enumerate(batches):
            assert (batch.epoch, batch.position) == (epoch, place)
            assert batch.tokens.shape == batch.wanted.shape == batch.counted.shape
            assert batch.tokens.shape[1] <= block
            assert batch.targets == int(batch.counted.sum())
            before = torch.where(batch.wanted == 10, BOS, batch.wanted - 1)
            assert torch.equal(batch.tokens, before)
    for stream in streams:
        assert sorted(predicted(stream.in_order())) == list(range(10, 10 + tokens))


def test_each_row_goes_on_where_it_was_and_begins_anew_with_each_epoch():
    stream = made(tokens=100, block=7, rows=3)
    for epoch in range(3):
        batches = list(stream.epoch(epoch))
        assert [bool(batch.fresh.all()) for batch in batches] == [True] + [False] * (len(batches) - 1)
        assert not any(batch.fresh.any() for batch in batches[1:])
        for before, after in pairwise(batches):
            places = before.counted[:, -1] & after.counted[:, 0]
            assert places[after.counted[:, 0]].all()
            assert torch.equal(after.tokens[places, 0], before.wanted[places, -1])
        first = torch.cat([batch.wanted for batch in batches], 1)
        assert first[:, 0].tolist() == [10, 43, 76]


def test_the_cuts_depend_on_seed_and_epoch():
    def lengths(seed, epoch):
        return [batch.tokens.shape[1] for batch in made(seed=seed).epoch(epoch)]

    every = [lengths(seed, epoch) for seed in range(3) for epoch in range(5)]
    assert lengths(1, 3) == lengths(1, 3)
    assert len({tuple(each) for each in every}) > 3
    assert all(set(each[1:-1]) == {7} for each in every)


def test_the_stream_goes_on_from_any_place_as_if_never_left():
    whole = list(islice(made().stream(), 17))
    assert {batch.epoch for batch in whole} >= {0, 1, 2}
    for number, batch in enumerate(whole[:-1]):
        following = next(made().stream(epoch=batch.epoch, position=batch.position + 1))
        assert (following.epoch, following.position) == (whole[number + 1].epoch, whole[number + 1].position)
        assert torch.equal(following.tokens, whole[number + 1].tokens)
        assert torch.equal(following.counted, whole[number + 1].counted)
        assert torch.equal(following.fresh, whole[number + 1].fresh)


@limits(max_examples=40, deadline=None)
@given(st.integers(30, 90), st.integers(1, 3), st.integers(1, 4), st.integers(1, 7), st.integers(1, 4))
def test_other_processes_read_the_rest_of_an_epoch_in_the_lanes_that_it_was_begun_in(tokens, rows, first, then, place):
    """Each lane goes on, its rows with it; the next epoch has lanes for the processes that there are now."""

    def streams(world):
        return [made(tokens, block=4, rows=rows, share=Share(rank, world)) for rank in range(world)]

    before = [list(islice(stream.epoch(2), place)) for stream in streams(first)]
    rest = [list(stream.epoch(2, position=place)) for stream in streams(first)]
    others = streams(then)
    for stream in others:
        stream.keep_lanes(2, sum(stream.lanes(2).stop - stream.lanes(2).start for stream in streams(first)))
    found = [list(stream.epoch(2, position=place)) for stream in others]
    learned = [batch for batches in found for batch in batches if not batch.idle]
    assert sorted(predicted([*learned, *(batch for batches in before for batch in batches)])) == list(
        range(10, 10 + tokens)
    )
    for number, together in enumerate(zip(*found, strict=True)):
        rows_now = torch.cat([batch.tokens for batch in together if not batch.idle])
        assert torch.equal(rows_now, torch.cat([batches[number].tokens for batches in rest]))
        assert together[0].idle is False
        assert {batch.position for batch in together} == {place + number}
        for stream, batch in zip(others, together, strict=True):
            lanes = stream.lanes(2)
            assert len(batch.tokens) == max(lanes.stop - lanes.start, 1)
            assert batch.idle == (lanes.stop == lanes.start)
    assert sorted(predicted(batch for stream in others for batch in stream.epoch(3))) == list(range(10, 10 + tokens))


def test_a_short_text_has_fewer_lanes_and_a_shorter_one_is_refused():
    assert made(20, block=7, rows=9).rows == 2
    assert made(20, block=7, rows=9).describe() == ["20 tokens, 20 characters, in 2 lanes of 10"]
    assert made(20).checksum == "sum"
    with pytest.raises(RegardError, match=r"train text has 6 tokens, not one block of 7; .* data.block to 3 or less"):
        made(6)
    with pytest.raises(RegardError, match="not one block of 7 for each of 2 processes"):
        made(13, share=Share(0, 2))
