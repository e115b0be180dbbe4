from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.decoding import DecodingConfig, search
from regard.decoding.sampling import draw, keep_nucleus, keep_top_k
from regard.special import BOS, PAD

laws = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 10**6)


def logits_of(seed, rows, vocabulary, spread):
    return spread * torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed))


@laws
@given(seed=seeds, k=st.integers(1, 31), spread=st.sampled_from([0.1, 1.0, 5.0]))
def test_top_k_keeps_the_k_most_probable(seed, k, spread):
    logits = logits_of(seed, 3, 29, spread)
    kept = keep_top_k(logits, k)
    for row, result in zip(logits.numpy(), kept.numpy(), strict=True):
        expected = np.full_like(row, -np.inf)
        best = np.argsort(-row)[:k]
        expected[best] = row[best]
        np.testing.assert_array_equal(result, expected)


@laws
@given(seed=seeds, p=st.floats(0.01, 0.999), spread=st.sampled_from([0.01, 1.0, 5.0]), wide=st.booleans())
@example(seed=73689, p=0.20625944087164183, spread=0.01, wide=True)  # two logits whose log p round to one
def test_the_nucleus_is_the_smallest_set_that_holds_p(seed, p, spread, wide):
    logits = logits_of(seed, 3, 1009 if wide else 29, spread)
    kept = keep_nucleus(logits, p)
    for row, result in zip(logits.double().numpy(), kept.numpy(), strict=True):
        mass = np.exp(row - row.max())
        mass /= mass.sum()
        order = np.argsort(-mass)
        size = int(np.searchsorted(np.cumsum(mass[order]), p)) + 1
        assert abs(np.isfinite(result).sum() - size) <= (abs(np.cumsum(mass[order]) - p).min() < 1e-5)
        assert np.isfinite(result[order[: size - 1]]).all()


def test_a_nucleus_keeps_equals_together():
    assert_close(keep_nucleus(torch.tensor([[1.0, 2.0, 2.0, 0.0]]), 0.1), torch.tensor([[-math.inf, 2, 2, -math.inf]]))


def test_a_draw_inverts_the_cumulative_distribution():
    logits = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0]).log()
    uniform = torch.tensor([0.0, 0.2499, 0.2501, 0.7499, 0.7501, math.nextafter(1, 0)])
    assert draw(logits.expand(6, -1), uniform).tolist() == [1, 1, 3, 3, 4, 4]


def chi_square(counts, probabilities, draws):
    expected = np.asarray(probabilities) * draws
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.7}, {"temperature": 1.6, "top_k": 5}, {"top_p": 0.8}, {"top_k": 6, "top_p": 0.7}]
)
def test_samples_are_distributed_as_the_model_says(options, table):
    model, draws = table(0, vocabulary=13), 4000
    config = DecodingConfig(sample=True, n_best=draws, max_length=1, seed=7, **options)
    (found,) = search(model, torch.tensor([[0]]), config=config)
    counts = Counter(hypothesis.tokens or (3,) for hypothesis in found)
    logits = (model.table[0, PAD, BOS] + model.drift[0]).double().numpy().copy()
    logits[[PAD, BOS]] = -np.inf
    mass = np.exp(logits / options.get("temperature", 1.0))
    mass[np.argsort(-mass)[options.get("top_k", 13) :]] = 0
    mass /= mass.sum()
    order = np.argsort(-mass)
    mass[order[int(np.searchsorted(np.cumsum(mass[order]), options.get("top_p", 1.0 - 1e-9))) + 1 :]] = 0
    mass /= mass.sum()
    possible = mass.nonzero()[0]
    assert set(counts) <= {(token,) for token in possible.tolist()}
    observed = np.array([counts[(token,)] for token in possible.tolist()])
    freedom = len(possible) - 1
    assert chi_square(observed, mass[possible], draws) < freedom + 4 * math.sqrt(2 * freedom) + 4


def test_second_tokens_are_as_free_as_first_ones(table):
    model, draws = table(4, vocabulary=7), 3000
    config = DecodingConfig(sample=True, n_best=draws, max_length=2, min_length=2)
    (found,) = search(model, torch.tensor([[0]]), config=config)
    words = [1, 4, 5, 6]
    first = (model.table[0, PAD, BOS] + model.drift[0])[words].double().softmax(0)
    joint = {}
    for i, word in enumerate(words):
        second = (model.table[0, BOS, word] + model.drift[1])[words].double().softmax(0)
        joint |= {(word, words[j]): float(first[i] * second[j]) for j in range(4)}
    counts = Counter(hypothesis.tokens for hypothesis in found)
    assert set(counts) <= set(joint)
    statistic = chi_square(np.array([counts[pair] for pair in joint]), list(joint.values()), draws)
    assert statistic < 15 + 5 * math.sqrt(30)


def test_a_seed_repeats_its_samples_and_another_one_does_not(table):
    model, source = table(0, vocabulary=31, sources=2), torch.tensor([[0], [1]])
    config = DecodingConfig(sample=True, n_best=3, max_length=19, seed=1)
    first = search(model, source, config=config)
    assert search(model, source, config=config) == first
    assert search(model, source, config=config.model_copy(update={"seed": 2})) != first
    assert len({hypothesis.tokens for answers in first for hypothesis in answers}) == 6


def test_samples_come_best_first_with_the_log_probabilities_of_the_model(table):
    model = table(0, vocabulary=13)
    config = DecodingConfig(sample=True, n_best=7, max_length=5, temperature=2.0, top_k=4)
    (found,) = search(model, torch.tensor([[0]]), config=config)
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    for hypothesis in found:
        token = hypothesis.tokens[0] if hypothesis.tokens else 3
        expected = (model.table[0, PAD, BOS] + model.drift[0]).log_softmax(0)[token]
        assert hypothesis.logprobs[0] == pytest.approx(float(expected), abs=1e-5)
        assert hypothesis.score == pytest.approx(sum(hypothesis.logprobs) / len(hypothesis.logprobs), abs=1e-5)
