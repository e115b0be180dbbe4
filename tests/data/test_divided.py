"""A batch that is divided loses nothing: its parts together are the batch, for the batches of all media."""

from collections.abc import Callable
from dataclasses import fields, replace

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch import Tensor

from regard import models
from regard.data.captions.batches import CaptionStream
from regard.data.graphs.batches import assembled
from regard.data.graphs.graph import Graph
from regard.data.pairs.batches import InMemory, PairBatch, _assemble
from regard.data.pictures.batches import PictureStream
from regard.data.rows.batches import in_order_of_length
from regard.data.rows.framing import IGNORED, Row
from regard.data.series.windows import WindowBatch
from regard.data.sets.batches import FlatSets
from regard.data.streams import TensorBatch
from regard.data.text.blocks import sliding
from regard.special import OWN
from regard.tasks.saying import target_loss

drawn = numpy.random.default_rng(7)


def ids(count: int) -> list[list[int]]:
    return [drawn.integers(4, 11, size=drawn.integers(0, 6)).tolist() for _ in range(count)]


def pairs(count: int) -> PairBatch:
    return _assemble(InMemory(ids(count)), InMemory(ids(count)), numpy.arange(count), OWN)


def rows(count: int) -> TensorBatch:
    wanted = drawn.choice([IGNORED, 1, 2], size=(count, 3)).tolist()
    framed = [Row(ids=(5, 6, 7), segments=(0, 0, 1), wanted=tuple(each), unread=0) for each in wanted]
    (batch,) = in_order_of_length(framed, batch_tokens=10**6, special=OWN)
    return batch


def blocks(count: int) -> TensorBatch:
    text = drawn.integers(4, 11, size=5 * count + 3)
    return next(sliding(text, block=10, rows=count))


def pictures(count: int) -> TensorBatch:
    pixels = drawn.integers(0, 256, size=(count, 4, 5, 3), dtype=numpy.uint8)
    return next(PictureStream(pixels, [1] * count, batch_size=count, seed=1).in_order())


def captions(count: int) -> TensorBatch:
    pixels = drawn.integers(0, 256, size=(count, 4, 5, 3), dtype=numpy.uint8)
    stream = CaptionStream(pixels, ids(count), range(count), batch_size=count, seed=1, special=OWN)
    return next(stream.in_order())


def sets(count: int) -> TensorBatch:
    sizes = drawn.integers(1, 5, size=count)
    elements = drawn.random((sizes.sum(), 2), dtype=numpy.float32)
    return FlatSets(elements, sizes, drawn.random((count, 3), dtype=numpy.float32)).batch(numpy.arange(count))


def windows(count: int) -> TensorBatch:
    values = torch.rand(count, 9)
    values[::2, -1] = torch.nan
    return WindowBatch(values, torch.rand(count, 9, 2), 6, drawn.random(count))


MAKES = [pairs, rows, blocks, pictures, captions, sets, windows]


@settings(max_examples=60, deadline=None)
@given(make=some.sampled_from(MAKES), count=some.integers(2, 12), most=some.integers(1, 15))
def test_the_parts_of_a_batch_are_the_batch(make: Callable[[int], TensorBatch], count: int, most: int) -> None:
    batch = replace(make(count), epoch=3, position=5, idle=True)
    parts = batch.divided(most)
    assert len(parts) == min(most, batch.size)
    assert sum(part.targets for part in parts) == batch.targets
    sizes = [part.size for part in parts]
    assert max(sizes) - min(sizes) <= 1
    for field in fields(batch):
        whole, cut = getattr(batch, field.name), [getattr(part, field.name) for part in parts]
        if isinstance(whole, Tensor):
            torch.testing.assert_close(torch.cat(cut), whole, equal_nan=True)
        elif isinstance(whole, numpy.ndarray | tuple):
            assert [each for part in cut for each in part] == list(whole)
        elif field.name != "targets":
            assert set(cut) == {whole}


def test_batches_whose_rows_belong_together_stay_whole() -> None:
    features, labels = numpy.ones((4, 2), numpy.float32), numpy.zeros(4, numpy.int64)
    graph = Graph("ring", features, numpy.arange(5), numpy.array([1, 2, 3, 0]), labels, ("one",))
    of_graph = assembled(graph, numpy.arange(4), labels)
    continued = replace(blocks(6), fresh=torch.zeros(6, dtype=torch.bool))
    for batch in (of_graph, continued):
        assert batch.divided(2) == [batch]


@pytest.mark.parametrize("most", [2, 3, 9])
def test_the_loss_and_the_gradient_of_a_batch_are_the_sums_over_its_parts(most: int) -> None:
    model = models.build("transformer", layers=1, width=8, heads=2, hidden=16, dropout=0.0, vocabulary=11)
    batch = pairs(9)

    def learned(parts: list[PairBatch]) -> tuple[Tensor, list[Tensor]]:
        model.zero_grad()
        losses = [
            target_loss(model, part.source, part.source_lengths, part.target, pad=OWN.pad, smoothing=0.1)
            for part in parts
        ]
        total = torch.stack(losses).sum()
        total.backward()
        return total.detach(), [parameter.grad.clone() for parameter in model.parameters()]

    torch.testing.assert_close(learned(batch.divided(most)), learned([batch]), rtol=1e-4, atol=1e-5)
