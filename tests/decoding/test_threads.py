from __future__ import annotations

import threading

import pytest
import torch

from regard import models
from regard.attention.recorder import recording
from regard.decoding import DecodingConfig, search, side_by_side


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return models.build("transformer", layers=2, width=16, heads=2, hidden=32, vocabulary=40)


def some_batches(count: int = 6) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(4, 40, (3, 4 + number), generator=generator) for number in range(count)]


@pytest.mark.parametrize("beam", [1, 3])
def test_answers_side_by_side_are_those_one_after_the_other(model, beam):
    config = DecodingConfig(beam=beam, max_length=12)
    batches = some_batches()
    alone = [search(model, batch, config=config) for batch in batches]
    together = side_by_side(model, lambda batch: search(model, batch, config=config), batches)
    said = [[[found.tokens for found in row] for row in batch] for batch in together]
    assert said == [[[found.tokens for found in row] for row in batch] for batch in alone]


def test_each_thread_computes_alone_and_all_is_as_before(model):
    model.train()
    seen = []

    def work(batch: int) -> int:
        seen.append((threading.get_ident(), torch.get_num_threads(), model.training))
        return -batch

    assert side_by_side(model, work, range(20)) == [-batch for batch in range(20)]
    assert threading.get_ident() not in {ident for ident, _, _ in seen}
    assert {(threads, training) for _, threads, training in seen} == {(1, False)}
    assert torch.get_num_threads() == 2
    assert model.training


def test_what_is_recorded_runs_in_the_thread_that_records(model):
    config = DecodingConfig(beam=1, max_length=5)
    with recording(model) as record:
        side_by_side(model, lambda batch: search(model, batch, config=config), some_batches(2))
    assert len(record)


def test_an_error_in_a_thread_is_that_of_the_call(model):
    def work(batch: int) -> int:
        raise ValueError(f"batch {batch}")

    with pytest.raises(ValueError, match="batch 0"):
        side_by_side(model, work, range(5))
    assert torch.get_num_threads() == 2
