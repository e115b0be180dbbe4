from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard.attention.recorder import deliver, recording
from regard.decoding import align, hard_alignment, unknown_sources
from regard.errors import RegardError
from regard.special import BOS, OWN

SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 0, 0], [12, 4, 0, 0, 0]])
ANSWERS = [(4, 1, 7), (), (1, 5, 6, 1)]


def test_alignments_are_what_the_model_looked_at_step_by_step(attentive):
    model = attentive(0, 13)
    found = align(model, SOURCE, ANSWERS)
    assert [tuple(weights.shape) for weights in found] == [(3, 5), (0, 3), (4, 2)]
    for row in (0, 2):
        length = int((SOURCE[row] != 0).sum())
        state = model.start(model.encode(SOURCE[row : row + 1, :length]))
        for place, token in enumerate([BOS, *ANSWERS[row]][:-1]):
            with torch.no_grad(), recording(model) as record:
                _, state = model.step(torch.tensor([token]), state)
            assert_close(found[row][place], record["look"][0, 0, 0])
            assert found[row][place].sum() == pytest.approx(1)


class Deliverer(nn.Module):
    """Looks with given weights, all steps at once."""

    special = OWN
    alignment = "inner"

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.inner = nn.Identity()
        self.inner.register_forward_hook(lambda *_: deliver(weights))

    def forward(self, source: Tensor, _lengths: Tensor, _target: Tensor) -> None:
        self.inner(source)


def test_the_mean_over_heads_is_taken_when_all_steps_are_delivered_at_once():
    weights = torch.rand(3, 2, 4, 5)
    found = align(Deliverer(weights), SOURCE, ANSWERS)
    assert_close(found[0], weights[0].mean(0)[:3])
    assert_close(found[2], weights[2].mean(0)[:4, :2])


def test_nothing_said_is_nothing_aligned(attentive):
    found = align(attentive(0, 13), SOURCE, [(), (), ()])
    assert [tuple(weights.shape) for weights in found] == [(0, 5), (0, 3), (0, 2)]
    assert hard_alignment(found[0]) == []


def test_an_unknown_word_comes_from_the_source_word_most_looked_at():
    weights = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    assert hard_alignment(weights) == [1, 0, 2]
    assert unknown_sources((1, 9, 1), weights) == {0: 1, 2: 2}


def test_a_model_that_does_not_look_cannot_be_aligned(attentive):
    model = attentive(0, 13)
    with pytest.raises(RegardError, match="2 answers for 3 rows"):
        align(model, SOURCE, [(), ()])
    model.alignment = ""
    with pytest.raises(RegardError, match="Attentive does not look at its source"):
        align(model, SOURCE, ANSWERS)
