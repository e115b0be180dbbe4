from __future__ import annotations

import math

import pytest
import torch

from regard.attention.recorder import recording
from regard.decoding import DecodingConfig, align, search
from regard.decoding.coverage import Coverage
from regard.special import EOS


def test_coverage_is_wus_penalty_worked_out_by_hand():
    looks = [[[[0.5, 0.25, 0.25]], [[0.5, 0.75, 0.25]]], [[[0.0, 1.0, 9.0]], [[0.5, 0.5, 9.0]]]]  # (2, 2 heads, 1, 3)
    record = {"look": torch.tensor(looks)}
    coverage = Coverage(record, alignment="look", lengths=torch.tensor([3, 2]), penalty=0.5)
    coverage.look()
    expected = [math.log(0.5 * 0.5 * 0.25) / 2, math.log(0.25 * 0.75) / 2]
    assert coverage.penalties().tolist() == pytest.approx(expected)
    record["look"] = torch.full((2, 2, 1, 3), 0.5)
    coverage.look()
    coverage.reorder(torch.tensor([1, 0, 1]))
    expected = [math.log(0.75) / 2, math.log(0.75) / 2, math.log(0.75) / 2]
    assert coverage.penalties().tolist() == pytest.approx(expected)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_the_score_of_an_answer_holds_what_it_left_unread(length_penalty, attentive):
    model = attentive(5, 13)
    source = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 0, 0]])
    config = DecodingConfig(beam=3, n_best=3, coverage_penalty=0.3, length_penalty=length_penalty, max_length=7)
    for row, answers in enumerate(search(model, source, config=config)):
        length = int((source[row] != 0).sum())
        assert [h.score for h in answers] == sorted((h.score for h in answers), reverse=True)
        for hypothesis in answers:
            ended = len(hypothesis.logprobs) > len(hypothesis.tokens)
            said = (*hypothesis.tokens, EOS) if ended else hypothesis.tokens
            (weights,) = align(model, source[row : row + 1, :length], [said])
            penalty = 0.3 * float(weights.sum(0).clamp(max=1).log().sum())
            plain = sum(hypothesis.logprobs) / len(said) ** length_penalty
            assert hypothesis.score == pytest.approx(plain + penalty, abs=1e-4)


def test_coverage_can_change_which_answer_wins(attentive):
    source = torch.tensor([[4, 5, 6, 7, 8]])
    changed = 0
    for seed in range(10):
        model = attentive(seed, 13)
        plain, covering = (
            search(model, source, config=DecodingConfig(beam=4, max_length=7, coverage_penalty=weight))
            for weight in (0.0, 5.0)
        )
        changed += plain[0][0].tokens != covering[0][0].tokens
    assert changed


def test_no_recording_is_left_behind(attentive):
    model = attentive(0, 13)
    search(model, torch.tensor([[4, 5]]), config=DecodingConfig(coverage_penalty=0.3, max_length=3))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with recording(model) as record:
        pass
    assert not record
