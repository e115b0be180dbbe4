"""Each score against its equation, worked out in NumPy one pair at a time."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.testing import assert_close

from regard.attention import scores
from regard.attention.scores import Additive, Cosine, Dot, General, LeakySum, Location, ScaledDot, Score
from regard.errors import RegardError

BATCH, HEADS, QUERIES, KEYS, WIDTH, KEY_WIDTH, HIDDEN, MAXIMUM = 2, 3, 5, 7, 11, 13, 17, 19
Array = NDArray[np.float64]


def numbers(parameter: Tensor) -> Array:
    return parameter.detach().double().numpy()


def dot(_score: Score, q: Array, k: Array, _j: int) -> float:
    return float(sum(a * b for a, b in zip(q, k, strict=True)))


def scaled_dot(_score: Score, q: Array, k: Array, _j: int) -> float:
    return float(q @ k) / len(q) ** 0.5


def general(score: General, q: Array, k: Array, _j: int) -> float:
    return float(k @ (numbers(score.project.weight) @ q))


def cosine(score: Cosine, q: Array, k: Array, _j: int) -> float:
    return float(np.exp(numbers(score.log_sharpness)[0]) * (q @ k) / np.sqrt((q @ q) * (k @ k)))


def additive(score: Additive, q: Array, k: Array, _j: int) -> float:
    w, u, b = (numbers(p) for p in (score.project_query.weight, score.project_key.weight, score.project_key.bias))
    return float(numbers(score.combine.weight)[0] @ np.tanh(w @ q + u @ k + b))


def location(score: Location, q: Array, _k: Array, j: int) -> float:
    return float((numbers(score.project.weight) @ q)[j])


def leaky_sum(score: LeakySum, q: Array, k: Array, _j: int) -> float:
    total = float(numbers(score.left)[:, 0] @ q + numbers(score.right)[:, 0] @ k)
    return total if total > 0 else 0.2 * total


CASES = {
    "dot": (lambda: Dot(), WIDTH, dot),
    "scaled_dot": (lambda: ScaledDot(), WIDTH, scaled_dot),
    "general": (lambda: General(WIDTH, key_width=KEY_WIDTH), KEY_WIDTH, general),
    "cosine": (lambda: Cosine(sharpness=3.0), WIDTH, cosine),
    "additive": (lambda: Additive(WIDTH, key_width=KEY_WIDTH, hidden=HIDDEN), KEY_WIDTH, additive),
    "location": (lambda: Location(WIDTH, maximum=MAXIMUM), KEY_WIDTH, location),
    "leaky_sum": (lambda: LeakySum(WIDTH), WIDTH, leaky_sum),
}
every_score = pytest.mark.parametrize("name", CASES)


def sides(key_width: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(23)
    return torch.randn(BATCH, HEADS, QUERIES, WIDTH), torch.randn(BATCH, HEADS, KEYS, key_width)


@every_score
def test_a_score_equals_its_equation(name):
    make, key_width, equation = CASES[name]
    score = make()
    query, key = sides(key_width)
    expected = np.empty((BATCH, HEADS, QUERIES, KEYS))
    for b, h, i, j in np.ndindex(*expected.shape):
        expected[b, h, i, j] = equation(score, numbers(query)[b, h, i], numbers(key)[b, h, j], j)
    assert_close(score(query, key).double(), torch.from_numpy(expected), rtol=1e-4, atol=1e-5)


@every_score
def test_pairs_on_an_edge_list_are_entries_of_the_matrix(name):
    make, key_width, _ = CASES[name]
    score = make()
    query, key = (side[0, 0] for side in sides(key_width))
    at = torch.tensor([[0, 3], [4, 6], [4, 0], [2, 2]])
    pairs = score.compare(score.queries(query)[at[:, 0]], score.keys(key)[at[:, 1]])
    assert_close(pairs, score(query, key)[at[:, 0], at[:, 1]])


@every_score
def test_a_score_called_a_dot_product_is_one(name):
    make, key_width, _ = CASES[name]
    score = make()
    query, key = sides(key_width)
    query, key = score.queries(query), score.keys(key)
    assert score.dot == (name not in ("additive", "leaky_sum"))
    if score.dot:
        assert_close(score.compare(query.unsqueeze(-2), key.unsqueeze(-3)), query @ key.mT)


@every_score
def test_gradients_reach_every_parameter(name):
    make, key_width, _ = CASES[name]
    score = make()
    query, key = sides(key_width)
    score(query.requires_grad_(), key).square().sum().backward()
    assert query.grad is not None
    assert query.grad.any()
    assert [n for n, p in score.named_parameters() if p.grad is None or not p.grad.any()] == []


@every_score
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_stays_half_and_close(name, dtype):
    make, key_width, _ = CASES[name]
    score = make()
    query, key = sides(key_width)
    expected = score(query, key)
    halved = score.to(dtype)(query.to(dtype), key.to(dtype))
    assert halved.dtype == dtype
    assert_close(halved.float(), expected, rtol=0.05, atol=0.1)


@every_score
def test_no_keys_and_no_queries_are_allowed(name):
    make, key_width, _ = CASES[name]
    query, key = sides(key_width)
    assert make()(query[:, :, :0], key).shape == (BATCH, HEADS, 0, KEYS)
    assert make()(query, key[:, :, :0]).shape == (BATCH, HEADS, QUERIES, 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_the_cosine_of_a_zero_vector_is_zero_with_a_finite_gradient(dtype):
    query, key = torch.zeros(QUERIES, WIDTH, dtype=dtype, requires_grad=True), torch.randn(KEYS, WIDTH, dtype=dtype)
    result = Cosine().to(dtype)(query, key)
    assert_close(result, torch.zeros(QUERIES, KEYS, dtype=dtype))
    result.sum().backward()
    assert query.grad is not None
    assert query.grad.isfinite().all()


def test_the_cosine_of_long_half_precision_vectors_does_not_overflow():
    long = torch.full((1, WIDTH), 30000.0, dtype=torch.float16)
    assert_close(Cosine(sharpness=1.0).half()(long, long).float(), torch.ones(1, 1), rtol=0, atol=1e-2)


def test_location_refuses_more_keys_than_its_maximum():
    with pytest.raises(RegardError, match="maximum=3 cannot look at 7 keys"):
        Location(WIDTH, maximum=3)(*sides(WIDTH))


def test_leaky_sum_has_one_vector_for_each_head():
    score, (query, key) = LeakySum(WIDTH, heads=HEADS), sides(WIDTH)
    for head in range(HEADS):
        alone = LeakySum(WIDTH)
        alone.left, alone.right = nn.Parameter(score.left[head]), nn.Parameter(score.right[head])
        assert_close(score(query, key)[:, head], alone(query[:, head], key[:, head]))


@pytest.mark.parametrize("name", [name for name in CASES if name != "leaky_sum"])
def test_a_score_is_built_by_name(name):
    score = scores.build(name, width=WIDTH, hidden=HIDDEN, maximum=MAXIMUM)
    assert type(score) is type(CASES[name][0]())
    assert score(*sides(WIDTH)).shape == (BATCH, HEADS, QUERIES, KEYS)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(RegardError, match="score 'aditive' is unknown; did you mean 'additive'"):
        scores.build("aditive", width=WIDTH)


@pytest.mark.parametrize("name", ["cosine", "dot", "scaled_dot"])
def test_scores_of_one_width_refuse_two(name):
    with pytest.raises(RegardError, match=f"width={WIDTH} and key_width={KEY_WIDTH}; choose score='general'"):
        scores.build(name, width=WIDTH, key_width=KEY_WIDTH)


def test_sharpness_must_be_positive():
    with pytest.raises(RegardError, match="sharpness=0"):
        Cosine(sharpness=0)
