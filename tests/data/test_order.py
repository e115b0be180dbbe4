"""The order of batches, for all media: the one that was recorded, and every example once over all processes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from hashlib import sha256
from itertools import islice
from types import SimpleNamespace

import numpy
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from torch import Tensor

from regard.data.pairs import batches as pairs_module
from regard.data.pairs.batches import PairStream
from regard.data.pairs.corpus import Column
from regard.data.rows.batches import RowStream
from regard.data.rows.framing import Row
from regard.data.streams import WHOLE, Batch, Share, Stream
from regard.data.text.blocks import BlockStream, sliding
from regard.data.text.tokens import Tokens
from regard.special import OWN


def ids_of(number: int, *, longest: int, step: int) -> list[int]:
    """The ids of one row: its length and its ids depend on its number alone."""
    length = 1 + number * number * step % longest
    return [5 + (number * 7 + place * step) % 89 for place in range(length)]


def pairs(rows: int = 173) -> SimpleNamespace:
    """A corpus that was never on disk."""
    sides = [
        [ids_of(number, longest=longest, step=step) for number in range(rows)] for longest, step in ((23, 31), (19, 37))
    ]
    source, target = (Column([pyarrow.array(side, pyarrow.list_(pyarrow.uint16()))], rows=len(side)) for side in sides)

    class Pairs(SimpleNamespace):
        def __len__(self) -> int:
            return rows

    return Pairs(source=source, target=target, release=lambda: None)


def rows(count: int = 173) -> list[Row]:
    every = [tuple(ids_of(number, longest=23, step=31)) for number in range(count)]
    return [Row(ids, tuple(place % 2 for place in range(len(ids))), (n % 3,)) for n, ids in enumerate(every)]


def text(ids: list[int]) -> Tokens:
    return Tokens(numpy.array(ids, dtype=numpy.uint16), len(ids), 0, "")


TEXT = text([token for number in range(50) for token in ids_of(number, longest=23, step=31)])


class Redrawing:
    """Another segmentation of a pair, in place of dropout."""

    def redraw(self, source: list[int], target: list[int], *, epoch: int, row: int) -> tuple[list[int], list[int]]:
        return (source[::-1] if (epoch + row) % 3 else source[:-1] or source), target[: 1 + row % 5]


def draw(row: Row, generator: numpy.random.Generator) -> Row:
    return Row(row.ids, row.segments, tuple(generator.integers(0, 9, 1 + len(row.ids) % 4).tolist()))


LATER = ("order", "fresh", "idle")  # of permuted rows, of rows that continue, and of several processes


def checksum_of(batches: Iterable[object]) -> str:
    """Of every field of every batch, in order; fields that came later are empty in these streams."""
    digest = sha256()
    for batch in batches:
        for name in sorted(field.name for field in fields(batch)):
            value = getattr(batch, name)
            if name in LATER:
                assert value is None or value is False or not value.numel()
                continue
            digest.update(repr((name, value.tolist() if isinstance(value, Tensor) else value)).encode())
    return digest.hexdigest()[:16]


# the order of one process, recorded before the streams had a common base


@pytest.mark.parametrize(
    ("window", "dropout", "recorded"),
    [
        (2**18, None, ["84c43f21a976e305", "ccfd24e0da6b992a"]),
        (2**18, Redrawing(), ["073b80788dea9d22", "149ec94d6fdf7c1b"]),
        (29, None, ["2c08f0a87dfbe465", "ac63a057317d5587"]),
        (29, Redrawing(), ["a9270fa29edaddb2", "07f974b575a4480a"]),
    ],
)
def test_the_order_of_pairs_is_the_recorded_one(
    window: int, dropout: Redrawing | None, recorded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs_module, "WINDOW", window)
    monkeypatch.setattr(pairs_module, "DRAWN_WINDOW", window)
    stream = PairStream(pairs(), batch_tokens=211, seed=5, dropout=dropout)
    assert [checksum_of(stream.epoch(epoch)) for epoch in (0, 1)] == recorded
    assert checksum_of(stream.in_order()) == "863ae9be1139d53f"
    if (window, dropout is not None) == (29, True):
        assert checksum_of(islice(stream.stream(epoch=1, position=3), 40)) == "25a44c80f2e10ef6"


@pytest.mark.parametrize(
    ("budget", "drawing", "recorded"),
    [
        (211, None, ["961bd5ce72ff215b", "4155522fe1dff43e", "c0c5fbe215046d5c"]),
        (211, draw, ["5acc90536c65d20e", "86d0d32b42a29b24", "8c76ff7558b2fb11"]),
        (13, None, ["e144b0f7d478b748", "67383a98b5903d7c", "395a337f7296cca2"]),
        (13, draw, ["830d11fa2c446b81", "a3a1633d785b8e2f", "34a70a16585f41f1"]),
    ],
)
def test_the_order_of_rows_is_the_recorded_one(
    budget: int, drawing: Callable[[Row, numpy.random.Generator], Row] | None, recorded: list[str]
) -> None:
    stream = RowStream(rows(), batch_tokens=budget, seed=5, special=OWN, draw=drawing)
    assert [checksum_of(stream.epoch(0)), checksum_of(stream.epoch(1)), checksum_of(stream.in_order())] == recorded
    assert stream.checksum == "44c34662d191a15c42d18df2a795cb9c77bc4c0d25d2f600ea01ac7834ac5bb3"


@pytest.mark.parametrize(
    ("carry", "recorded"),
    [
        (0, ["a49f185c8bde7a89", "7f2c12b4661d9153", "a3e20a74bfab3351"]),
        (5, ["5cdcbddf6b4b66b6", "79b4dff06c1f1101", "2aaa59eea785df92"]),
    ],
)
def test_the_order_of_blocks_is_the_recorded_one(carry: int, recorded: list[str]) -> None:
    stream = BlockStream(TEXT, block=7, rows=4, seed=5, carry=carry)
    assert [checksum_of(stream.epoch(0)), checksum_of(stream.epoch(1)), checksum_of(stream.in_order())] == recorded
    assert checksum_of(sliding(TEXT.ids, block=7, rows=4)) == "9bdcf5ecd7ec3e60"


# several processes


def pair_stream(size: int, budget: int, seed: int, share: Share) -> Stream[Batch]:
    return PairStream(pairs(size), batch_tokens=25 + budget, seed=seed, share=share)


def row_stream(size: int, budget: int, seed: int, share: Share) -> Stream[Batch]:
    return RowStream(rows(size), batch_tokens=25 + budget, seed=seed, special=OWN, share=share)


def block_stream(size: int, budget: int, seed: int, share: Share) -> Stream[Batch]:
    """Of a text in which each token tells its place."""
    return BlockStream(text(list(range(10, 17 + size))), block=7, rows=1 + budget // 7, seed=seed, share=share)


def examples_of(batch: Batch) -> Iterator[tuple[object, ...]]:
    """The examples of a batch, each with its number first: rows without their padding, or the tokens that count."""
    if hasattr(batch, "counted"):
        yield from ((token,) for token in batch.wanted[batch.counted].tolist())
        return
    tokens, lengths = (getattr(batch, name, None) for name in ("tokens", "lengths"))
    if tokens is None:
        tokens, lengths = batch.source, batch.source_lengths
    for number, ids, length in zip(batch.rows, tokens.tolist(), lengths.tolist(), strict=True):
        yield number, *ids[:length]


STREAMS = pytest.mark.parametrize("made", [pair_stream, row_stream, block_stream])
Made = Callable[[int, int, int, Share], Stream[Batch]]


@STREAMS
@given(
    size=some.integers(1, 61),
    budget=some.integers(0, 97),
    seed=some.integers(0, 5),
    epoch=some.integers(0, 3),
    world=some.integers(1, 7),
)
@settings(max_examples=60)
def test_processes_get_equally_many_batches_and_together_every_example_once(
    made: Made, size: int, budget: int, seed: int, epoch: int, world: int
) -> None:
    alone = list(made(size, budget, seed, WHOLE).epoch(epoch))
    streams = [made(size, budget, seed, Share(rank, world)) for rank in range(world)]
    shares = [list(stream.epoch(epoch)) for stream in streams]
    places = [(batch.epoch, batch.position) for batch in shares[0]]
    assert places == sorted(set(places))
    assert places[-1] == (epoch, len(alone) - 1)
    for share in shares:
        assert [(batch.epoch, batch.position) for batch in share] == places
        assert all(batch.targets for batch in share)
    together = [example for share in shares for batch in share if not batch.idle for example in examples_of(batch)]
    assert len(together) == len(set(together))
    assert set(together) == {example for batch in alone for example in examples_of(batch)}
    assert sum(batch.targets for share in shares for batch in share if not batch.idle) == sum(
        batch.targets for batch in alone
    )
    if world == 1:
        assert checksum_of(shares[0]) == checksum_of(alone)


@STREAMS
@given(position=some.integers(0, 15), rank=some.integers(0, 2))
@settings(max_examples=10)
def test_a_resumed_stream_is_the_one_that_was_never_stopped(made: Made, position: int, rank: int) -> None:
    def batches(epoch: int, position: int) -> list[Batch]:
        return list(islice(made(61, 31, 5, Share(rank, 3)).stream(epoch=epoch, position=position), 20))

    through = batches(0, 0)
    assert through[-1].epoch >= 1
    stopped = through[position]
    after = batches(stopped.epoch, stopped.position + 1)
    rest = through[position + 1 :]
    assert checksum_of(rest) == checksum_of(after[: len(rest)])


@STREAMS
def test_validation_sees_every_example_whatever_the_share(made: Made) -> None:
    alone, one_of_three = made(61, 31, 5, WHOLE), made(61, 31, 6, Share(1, 3))
    assert checksum_of(alone.in_order()) == checksum_of(one_of_three.in_order())
    seen = [example for batch in alone.in_order() for example in examples_of(batch)]
    assert sorted(seen) == sorted(example for batch in alone.epoch(0) for example in examples_of(batch))
