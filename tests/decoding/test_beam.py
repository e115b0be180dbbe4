from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.decoding import DecodingConfig, Hypothesis, search
from regard.decoding.beam import beam_search
from regard.decoding.constraints import Constraints
from regard.special import BOS, EOS, PAD, UNK

laws = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
seeds = st.integers(0, 10**6)
penalties = st.sampled_from([0.0, 0.3, 1.0, 1.7, 2.0])
FIRST = torch.tensor([[0]])


def logprobs_of(model, tokens, source=0):
    """log p of each token of an answer, by walking through the table."""
    said = (PAD, BOS, *tokens)
    logits = [model.table[source, said[t], said[t + 1]] + model.drift[t] for t in range(len(tokens))]
    return [float(row.double().log_softmax(-1)[token]) for row, token in zip(logits, tokens, strict=True)]


def every_answer(model, max_length, length_penalty):
    """All answers there are, with their scores, best first."""
    words = [UNK, *range(EOS + 1, model.table.shape[-1])]
    answers = [(*body, EOS) for length in range(max_length) for body in product(words, repeat=length)]
    answers += list(product(words, repeat=max_length))
    scored = [(sum(logprobs_of(model, answer)) / len(answer) ** length_penalty, answer) for answer in answers]
    return sorted(scored, reverse=True)


def textbook_beam(model, *, beam, max_length, length_penalty):
    """Beam search in lists, to the very end: no stopping, no batch."""
    alive, finished = [(0.0, ())], []
    for length in range(1, max_length + 1):
        candidates = []
        for total, said in alive:
            before, now = (PAD, BOS, *said)[-2:]
            row = (model.table[0, before, now] + model.drift[length - 1]).double().log_softmax(-1).tolist()
            for token, log_p in enumerate(row):
                if token not in (PAD, BOS):
                    candidates.append((total + log_p, (*said, token)))
        candidates.sort(reverse=True)
        over = [c for c in candidates[:beam] if c[1][-1] == EOS or length == max_length]
        finished += [(total / length**length_penalty, said) for total, said in over]
        alive = [c for c in candidates if c[1][-1] != EOS][:beam]
    return sorted(finished, reverse=True)


def strip(answer):
    return answer[:-1] if answer[-1] == EOS else answer


@laws
@given(seed=seeds, length_penalty=penalties, max_length=st.integers(1, 4), early=st.booleans())
def test_a_beam_that_is_wide_enough_finds_what_exhaustive_search_finds(seed, length_penalty, max_length, early, table):
    model = table(seed, vocabulary=6)
    everything = every_answer(model, max_length, length_penalty)
    beam = 4 * 3 ** (max_length - 1)
    config = DecodingConfig(
        beam=beam, n_best=min(5, beam), length_penalty=length_penalty, max_length=max_length, early_stopping=early
    )
    (found,) = search(model, FIRST, config=config)
    expected = everything[: config.n_best]
    assert [hypothesis.tokens for hypothesis in found] == [strip(answer) for _, answer in expected]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([score for score, _ in expected], abs=1e-5)


@laws
@given(seed=seeds, length_penalty=penalties, beam=st.integers(2, 5), n_best=st.integers(1, 2))
def test_stopping_when_nothing_can_be_better_changes_no_answer(seed, length_penalty, beam, n_best, table):
    model = table(seed, vocabulary=7)
    config = DecodingConfig(
        beam=beam, n_best=n_best, length_penalty=length_penalty, max_length=13, early_stopping=False
    )
    (found,) = search(model, FIRST, config=config)
    expected = textbook_beam(model, beam=beam, max_length=13, length_penalty=length_penalty)[:n_best]
    assert [hypothesis.tokens for hypothesis in found] == [strip(answer) for _, answer in expected]


def test_it_stops_before_the_end_when_nothing_can_be_better(table):
    model = table(3, vocabulary=7)
    search(model, FIRST, config=DecodingConfig(beam=3, length_penalty=0.0, max_length=100, early_stopping=False))
    assert len(model.asked) < 50


@laws
@given(seed=seeds, length_penalty=penalties, beam=st.integers(2, 5))
def test_early_stopping_ends_at_the_step_that_finishes_as_many_as_the_beam(seed, length_penalty, beam, table):
    model = table(seed, vocabulary=7)
    config = DecodingConfig(beam=beam, n_best=beam, length_penalty=length_penalty, max_length=13)
    (found,) = search(model, FIRST, config=config)
    finished = textbook_beam(model, beam=beam, max_length=13, length_penalty=length_penalty)
    last = sorted(len(answer) for _, answer in finished)[beam - 1]
    assert len(model.asked) == last
    expected = [strip(answer) for _, answer in finished if len(answer) <= last]
    assert [hypothesis.tokens for hypothesis in found] == expected[:beam]


@laws
@given(seed=seeds, length_penalty=penalties)
def test_a_beam_of_one_is_greedy(seed, length_penalty, table):
    model = table(seed, vocabulary=11, sources=3)
    source, rows = torch.tensor([[0], [1], [2]]), torch.arange(3)
    config = DecodingConfig(beam=1, length_penalty=length_penalty, max_length=17)
    state, first = model.start(model.encode(source)), torch.full((3,), BOS)
    finished = beam_search(model, state, rows, first, config=config, constraints=Constraints())
    for (one,), (other,) in zip(finished.best(3, 1), search(model, source, config=config), strict=True):
        assert one.tokens == other.tokens
        assert one.logprobs == other.logprobs
        assert one.score == pytest.approx(other.score, abs=1e-5)


@laws
@given(seed=seeds, length_penalty=penalties, beam=st.integers(2, 6))
def test_the_best_are_distinct_and_sorted_and_scored_by_their_own_log_probabilities(seed, length_penalty, beam, table):
    model = table(seed, vocabulary=7, sources=2)
    config = DecodingConfig(beam=beam, n_best=beam, length_penalty=length_penalty, max_length=11)
    answers = search(model, torch.tensor([[0], [1]]), config=config)
    for source, found in enumerate(answers):
        assert len(found) == beam
        assert len({hypothesis.tokens for hypothesis in found}) == beam
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        for hypothesis in found:
            said = (
                hypothesis.tokens if len(hypothesis.tokens) == len(hypothesis.logprobs) else (*hypothesis.tokens, EOS)
            )
            assert len(said) == len(hypothesis.logprobs) <= 11
            assert hypothesis.logprobs == pytest.approx(logprobs_of(model, said, source), abs=1e-5)
            assert hypothesis.score == pytest.approx(sum(hypothesis.logprobs) / len(said) ** length_penalty, abs=1e-5)


def test_rows_that_are_done_are_dropped_at_once(table):
    model = table(0, vocabulary=7, sources=2)
    ends_soon = torch.full((7,), -9.0)
    ends_soon[EOS] = 9.0
    model.table[1] = ends_soon  # the second source says nothing but EOS
    model.table[0, ..., EOS] = -50.0  # the first never ends
    config = DecodingConfig(beam=3, length_penalty=0.0, max_length=5)
    found = search(model, torch.tensor([[0], [1]]), config=config)
    assert model.asked == [2, 3, 3, 3, 3]
    assert found[1][0].tokens == ()
    assert len(found[0][0].tokens) == 5


def test_no_work_is_done_on_hypotheses_that_do_not_exist(table):
    model = table(0, vocabulary=6)
    model.table[..., EOS] = -math.inf
    model.table[..., UNK] = -math.inf
    config = DecodingConfig(beam=7, n_best=7, max_length=4)
    (found,) = search(model, FIRST, config=config)
    assert model.asked == [1, 2, 4, 7]  # two words: 2, 4, 8 answers begun
    assert len(found) == 7


def test_there_are_fewer_answers_when_there_are_no_more(table):
    model = table(0, vocabulary=6)
    (found,) = search(model, FIRST, config=DecodingConfig(beam=9, n_best=9, max_length=1))
    assert sorted(hypothesis.tokens for hypothesis in found) == [(), (1,), (4,), (5,)]


def test_a_model_gone_wrong_gives_an_empty_answer_of_no_worth(table):
    model = table(0, vocabulary=6, sources=2)
    model.table[1] = math.nan
    for beam in (1, 3):
        found = search(model, torch.tensor([[0], [1]]), config=DecodingConfig(beam=beam, max_length=7))
        assert found[0][0].score > -math.inf
        assert found[1] == [Hypothesis(tokens=(), score=-math.inf, logprobs=())]
