"""The kernel estimate and the attention of positive random features, against their equations in NumPy."""

import math

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.attention import favor
from regard.attention.favor import Directions, gather, implied, look_back, read
from regard.attention.features import draw
from regard.errors import RegardError

CAUSAL = [True, False]


def numbers(*shape, seed=0, size=1.0, dtype=torch.float64):
    return size * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def inputs(batch=2, heads=2, length=9, width=4, seed=0, dtype=torch.float64):
    return [numbers(batch, heads, length, width, seed=3 * seed + n, dtype=dtype) for n in range(3)]


def attended(query, key, value, w, *, causal, hidden=None):
    """`look_back`, or `gather` and `read`, for queries that are not scaled yet."""
    scaled = query / query.shape[-1] ** 0.5
    if causal:
        return look_back(scaled, key, value, w, hidden=hidden)[0]
    return read(scaled, gather(key, value, w, hidden=hidden), w)


def features_of(x, w):
    """φ(x) = exp(w·x − ‖x‖²/2) / √m, for x / D^¼"""
    x = x / x.shape[-1] ** 0.25
    return numpy.exp(x @ w.T - (x**2).sum(-1, keepdims=True) / 2) / math.sqrt(len(w))


def equation(query, key, value, w, allowed):
    """out_i = Σ_j φ(q_i)·φ(k_j) v_j / Σ_j φ(q_i)·φ(k_j), pair by pair; zeros where nothing is allowed"""
    weights = features_of(query, w) @ features_of(key, w).swapaxes(-1, -2) * allowed
    total = weights.sum(-1, keepdims=True)
    return weights / numpy.where(total == 0, 1, total) @ value


def error(query, key, value, w):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    exact = scores.softmax(-1) @ value
    return float((attended(query, key, value, Directions.balanced(w), causal=False) - exact).square().mean().sqrt())


def test_directions_are_orthogonal_in_blocks_and_normal():
    w = draw(40, 16, seed=3)
    products = w[:16] @ w[:16].T
    assert_close(products, products.diagonal().diag(), atol=1e-12, rtol=0)
    assert (w[:16] @ w[16:32].T).abs().min() > 0
    many = torch.cat([draw(8, 8, seed=seed) for seed in range(2000)])
    assert float(many.mean()) == pytest.approx(0, abs=0.02)
    assert_close(many.T @ many / len(many), torch.eye(8, dtype=many.dtype), atol=0.05, rtol=0)
    assert float((many**4).mean()) == pytest.approx(3, abs=0.1)  # as of a normal number


def test_hyperbolic_directions_are_pairs_of_opposites():
    w = draw(12, 8, hyperbolic=True, seed=1)
    assert torch.equal(w[:6], -w[6:])
    with pytest.raises(RegardError, match="even number"):
        draw(11, 8, hyperbolic=True)


def estimates(query, key, *, features, draws, kind):
    """Many estimates of exp(q·k / √D) by `features` directions."""
    found = []
    for seed in range(draws):
        generator = torch.Generator().manual_seed(seed)
        if kind == "independent":
            w = torch.randn(features, len(query), generator=generator, dtype=torch.float64)
        else:
            w = draw(features, len(query), hyperbolic=kind == "hyperbolic", seed=seed)
        found.append(float(features_of(query.numpy(), w.numpy()) @ features_of(key.numpy(), w.numpy())))
    return numpy.array(found)


@pytest.mark.parametrize("kind", ["orthogonal", "hyperbolic"])
@pytest.mark.parametrize("seed", range(3))
def test_the_estimate_of_the_kernel_is_unbiased(kind, seed):
    query, key = (x / x.norm() * 8**0.25 for x in (numbers(8, seed=seed), numbers(8, seed=seed + 50)))
    found = estimates(query, key, features=16, draws=3000, kind=kind)
    standard_error = found.std() / math.sqrt(len(found))
    assert abs(found.mean() - math.exp(float(query @ key) / 8**0.5)) < 4 * standard_error
    assert standard_error < 0.03


def test_orthogonal_features_vary_less_than_independent_ones_and_hyperbolic_ones_least():
    query = numbers(8, seed=5)
    query = key = query / query.norm() * 8**0.25 / 2
    kinds = ("independent", "orthogonal", "hyperbolic")
    spread = {kind: estimates(query, key, features=16, draws=2000, kind=kind).var() for kind in kinds}
    assert spread["hyperbolic"] < 0.9 * spread["orthogonal"]
    assert spread["orthogonal"] < 0.95 * spread["independent"]


def test_the_error_of_attention_falls_with_the_root_of_the_number_of_features():
    query, key, value = (0.5 * x for x in inputs(1, 2, 32, 8, seed=1))
    counts = [16, 32, 64, 128, 256, 512, 1024]
    errors = [numpy.mean([error(query, key, value, draw(m, 8, seed=seed)) for seed in range(12)]) for m in counts]
    slope = numpy.polyfit(numpy.log(counts), numpy.log(errors), 1)[0]
    assert -0.65 < slope < -0.35


@pytest.mark.parametrize("causal", CAUSAL)
@pytest.mark.parametrize("hyperbolic", [True, False])
@settings(max_examples=8, deadline=None)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    length=st.sampled_from([1, 2, 7, 31, 32, 33, 64, 65, 130, 260, 300]),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_attention_is_its_equation(causal, hyperbolic, batch, heads, length, seed, data):
    query, key, value = inputs(batch, heads, length, 4, seed)
    w = draw(6, 4, hyperbolic=hyperbolic, seed=seed)
    first = torch.tensor([data.draw(st.integers(0, length)) for _ in range(batch)])
    end = torch.tensor([data.draw(st.integers(0, length)) for _ in range(batch)])
    at = torch.arange(length)
    hidden = (at < first.unsqueeze(1)) | (at >= end.unsqueeze(1))
    allowed = (~hidden)[:, None, None].expand(batch, 1, length, length)
    allowed = allowed & (at <= at.unsqueeze(1)) if causal else allowed
    expected = torch.from_numpy(equation(*(x.numpy() for x in (query, key, value, w, allowed))))
    balanced = Directions.balanced(w)
    assert_close(attended(query, key, value, balanced, causal=causal, hidden=hidden), expected)
    weights = implied(query / 2, key, balanced, allowed=allowed)
    assert_close(weights @ value, expected)
    assert_close(weights.sum(-1), allowed.any(-1).to(weights.dtype).expand(weights.shape[:-1]))


@pytest.mark.parametrize("causal", CAUSAL)
def test_gradients_are_those_of_finite_differences(causal, monkeypatch):
    monkeypatch.setattr(favor, "CHUNK", 2)
    monkeypatch.setattr(favor, "CHUNKS", 2)
    monkeypatch.setattr(favor, "ROWS", 4)
    parts = [x.requires_grad_() for x in inputs(2, 1, 7, 3)]
    w = Directions.balanced(draw(5, 3))
    hidden = torch.tensor([[False] * 7, [True, True, False, False, False, False, True]])

    def run(query, key, value):
        first = look_back(query[:, :, :3], key[:, :, :3], value[:, :, :3], w, hidden=hidden[:, :3])
        rest = query[:, :, 3:], key[:, :, 3:], value[:, :, 3:]
        if causal:
            return look_back(*rest, w, hidden=hidden[:, 3:], before=first[1])[0], first[0]
        return read(rest[0], gather(rest[1], rest[2], w, hidden=hidden[:, 3:], before=first[1]), w), first[0]

    assert torch.autograd.gradcheck(run, parts)


@pytest.mark.parametrize("size", [4.0, 100.0, 1e4])
@pytest.mark.parametrize("place", [5, 40, 199])
def test_a_large_key_changes_no_earlier_output_and_no_gradient_of_one(size, place):
    query, key, value = inputs(2, 2, 200, 8, dtype=torch.float32)
    w = Directions.balanced(draw(24, 8).float())

    def run(key):
        parts = [x.clone().requires_grad_() for x in (query, key, value)]
        out = attended(*parts, w, causal=True)
        gradients = torch.autograd.grad(out[:, :, :place].square().sum(), parts)
        return [x.detach()[:, :, :place] for x in (out, *gradients)]

    larger = key.clone()
    larger[:, :, place] *= size
    for before, after in zip(run(key), run(larger), strict=True):
        assert torch.equal(before, after)
        assert after.isfinite().all()


@pytest.mark.parametrize("causal", CAUSAL)
@pytest.mark.parametrize("size", [1e-3, 10.0, 30.0, 1e3])
def test_inputs_of_any_moderate_size_give_finite_numbers(causal, size):
    parts = [(x * size).requires_grad_() for x in inputs(1, 2, 150, 16, dtype=torch.float32)]
    out = attended(*parts, Directions.balanced(draw(40, 16).float()), causal=causal)
    gradients = torch.autograd.grad(out.sum(), parts)
    assert all(x.isfinite().all() for x in (out, *gradients))


@pytest.mark.parametrize("causal", CAUSAL)
@pytest.mark.parametrize("size", [1.0, 3.0])
def test_large_inputs_lose_no_weights_in_single_precision(causal, size):
    parts = [x * size for x in inputs(1, 2, 100, 64)]
    w = draw(64, 64)
    precise = attended(*parts, Directions.balanced(w), causal=causal)
    found = attended(*(x.float() for x in parts), Directions.balanced(w.float()), causal=causal)
    assert_close(found.double(), precise, atol=2e-3, rtol=2e-3)


def test_half_precision_is_computed_in_single():
    parts = [x.bfloat16() for x in inputs(1, 2, 40, 8)]
    w = Directions.balanced(draw(16, 8).float())
    found = attended(*parts, w, causal=True)
    assert found.dtype == torch.bfloat16
    assert_close(found.float(), attended(*(x.float() for x in parts), w, causal=True), atol=0.02, rtol=0.02)
