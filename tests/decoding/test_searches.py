from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.decoding import DecodingConfig, search
from regard.errors import RegardError
from regard.special import BOS, EOS, PAD

laws = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
seeds = st.integers(0, 10**6)
WAYS = {
    "greedy": {"beam": 1},
    "beam": {"beam": 3, "n_best": 2},
    "patient beam": {"beam": 3, "n_best": 3, "early_stopping": False},
    "covering beam": {"beam": 3, "coverage_penalty": 0.4},
    "sampling": {"sample": True, "n_best": 2},
    "nucleus": {"sample": True, "n_best": 3, "top_k": 9, "top_p": 0.8, "temperature": 1.3},
}
ways = pytest.mark.parametrize("way", WAYS)


def sources(seed, lengths, vocabulary=13):
    generator = torch.Generator().manual_seed(seed)
    source = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in enumerate(lengths):
        source[row, :length] = torch.randint(4, vocabulary, (length,), generator=generator)
    return source


@ways
@laws
@given(seed=seeds, lengths=st.lists(st.integers(1, 7), min_size=1, max_size=5), ngram=st.sampled_from([0, 2]))
def test_a_batch_gives_what_its_rows_give_one_by_one(way, seed, lengths, ngram, attentive):
    model, source = attentive(seed, 13), sources(seed, lengths)
    config = DecodingConfig(max_length=9, no_repeat_ngram=ngram, **WAYS[way])
    together = search(model, source, torch.tensor(lengths), config=config)
    for row, length in enumerate(lengths):
        (alone,) = search(model, source[row : row + 1, :length], config=config)
        assert [h.tokens for h in together[row]] == [h.tokens for h in alone]
        for one, other in zip(together[row], alone, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5)
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


@ways
@laws
@given(seed=seeds, prefixes=st.lists(st.lists(st.integers(4, 12), max_size=4), min_size=3, max_size=3))
def test_an_answer_begins_with_its_prefix_and_depends_on_no_other(way, seed, prefixes, attentive):
    model, source = attentive(seed, 13), sources(seed, [5, 2, 7])
    config = DecodingConfig(max_length=9, no_repeat_ngram=1, **WAYS[way])
    together = search(model, source, config=config, prefix=prefixes)
    for row, prefix in enumerate(prefixes):
        assert together[row]
        (alone,) = search(model, source[row : row + 1], config=config, prefix=[prefix])
        assert [h.tokens for h in together[row]] == [h.tokens for h in alone]
        for hypothesis in together[row]:
            assert hypothesis.tokens[: len(prefix)] == tuple(prefix)


@ways
@laws
@given(seed=seeds, shortest=st.integers(0, 9), longest=st.integers(9, 11))
def test_answers_are_neither_too_short_nor_too_long_and_hold_only_words(way, seed, shortest, longest, attentive):
    model, source = attentive(seed, 13), sources(seed, [5, 2, 7])
    config = DecodingConfig(min_length=shortest, max_length=longest, **WAYS[way])
    for answers in search(model, source, config=config):
        for hypothesis in answers:
            assert shortest <= len(hypothesis.tokens) <= longest
            assert not {PAD, BOS, EOS} & set(hypothesis.tokens)
            ended = len(hypothesis.logprobs) == len(hypothesis.tokens) + 1
            assert ended or len(hypothesis.logprobs) == len(hypothesis.tokens) == longest


@ways
@laws
@given(seed=seeds, n=st.integers(1, 3))
def test_no_ngram_is_said_twice(way, seed, n, attentive):
    model, source = attentive(seed, 13), sources(seed, [5, 2, 7])
    config = DecodingConfig(min_length=7, max_length=29, no_repeat_ngram=n, **WAYS[way])
    for answers in search(model, source, config=config):
        for hypothesis in answers:
            grams = [hypothesis.tokens[i : i + n] for i in range(len(hypothesis.tokens) - n + 1)]
            assert len(grams) == len(set(grams))


def test_where_nothing_may_be_said_the_answer_ends(table):
    config = DecodingConfig(beam=1, min_length=10, max_length=10, no_repeat_ngram=1)
    ((answer,),) = search(table(1, vocabulary=7), torch.tensor([[0]]), config=config)
    assert sorted(answer.tokens) == [1, 4, 5, 6]


def test_finished_rows_are_dropped(table):
    model = table(5, vocabulary=7, sources=5)
    config = DecodingConfig(beam=1, max_length=50)
    answers = search(model, torch.arange(5).unsqueeze(1), config=config)
    lengths = [len(answer.logprobs) for (answer,) in answers]
    assert len(set(lengths)) > 1
    assert model.asked == [sum(length > step for length in lengths) for step in range(max(lengths))]


@ways
def test_the_model_is_left_in_the_mode_it_was_in_and_its_dropout_was_off(way, attentive):
    model, source = attentive(2, 13), sources(3, [5, 2])
    config = DecodingConfig(max_length=9, **WAYS[way])
    model.dropout.eval()
    first = search(model, source, config=config)
    assert [module.training for module in (model, model.look, model.dropout)] == [True, True, False]
    model.dropout.train()
    assert search(model, source, config=config) == first
    assert model.dropout.training


@pytest.mark.parametrize(
    ("prefix", "complaint"),
    [
        ([[4]], r"prefix has 1 entries for 2 rows"),
        ([[4], [5, EOS]], r"prefix\[1\]=\[5, 3\] contains"),
        ([[4] * 8, []], r"prefix\[0\] has 8 tokens and max_length=7"),
        ([[13], []], r"prefix contains token 13 and the vocabulary ends at 12"),
    ],
)
def test_a_wrong_prefix_is_refused(prefix, complaint, attentive):
    with pytest.raises(RegardError, match=complaint):
        search(attentive(0, 13), sources(0, [3, 2]), config=DecodingConfig(max_length=7), prefix=prefix)


def test_coverage_without_attention_is_refused(table):
    with pytest.raises(RegardError, match=r"coverage_penalty=0\.2 needs attention to the source; Table has none"):
        search(table(0, vocabulary=7), torch.tensor([[0]]), config=DecodingConfig(coverage_penalty=0.2))


def test_an_empty_batch_has_no_answers(attentive):
    assert search(attentive(0, 13), torch.empty(0, 5, dtype=torch.int64), config=DecodingConfig()) == []


def test_logits_that_a_model_keeps_are_left_alone(table):
    model = table(0, vocabulary=7)
    kept = model.table[0, 0, 0].clone()
    before = kept.clone()
    for again in (lambda rows: kept.expand(rows, -1), lambda _: kept.unsqueeze(0)):
        model.step = lambda token, state, again=again: (again(len(token)), state)
        search(model, torch.tensor([[0]]), config=DecodingConfig(beam=1, min_length=2, max_length=5))
        assert torch.equal(kept, before)
