"""The formula itself: the equation by hand, the choice of kernel, and what is refused."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_patterns import Scene, scenes
from torch import Tensor
from torch.testing import assert_close

from regard.attention import attend, attend_projected, exact, formula, reference, scores
from regard.attention.patterns import (
    All,
    Blocks,
    Causal,
    Edges,
    Global,
    Matrix,
    Padding,
    Pattern,
    Random,
    Window,
)
from regard.errors import RegardError

BATCH, HEADS, QUERIES, KEYS, WIDTH, VALUE_WIDTH = 2, 3, 5, 7, 11, 13


def tensors() -> tuple[Tensor, Tensor, Tensor]:
    sizes = ((QUERIES, WIDTH), (KEYS, WIDTH), (KEYS, VALUE_WIDTH))
    query, key, value = (torch.randn(BATCH, HEADS, *size, dtype=torch.float64) for size in sizes)
    return query, key, value


def by_hand(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, bias: Tensor) -> Tensor:
    out = np.zeros((BATCH, HEADS, QUERIES, VALUE_WIDTH))
    for b, h, i in np.ndindex(BATCH, HEADS, QUERIES):
        seen = [j for j in range(KEYS) if allowed[i, j]]
        logits = [float(query[b, h, i] @ key[b, h, j]) / WIDTH**0.5 + float(bias[b, h, i, j]) for j in seen]
        total = sum(np.exp(logit) for logit in logits)
        for j, logit in zip(seen, logits, strict=True):
            out[b, h, i] += np.exp(logit) / total * value[b, h, j].numpy()
    return torch.from_numpy(out)


def test_the_reference_is_the_equation_worked_out_by_hand() -> None:
    torch.manual_seed(1)
    query, key, value = tensors()
    allowed = torch.rand(QUERIES, KEYS) < 0.5
    allowed[2] = False
    bias = torch.randn(BATCH, HEADS, QUERIES, KEYS, dtype=torch.float64)
    found = reference(query, key, value, pattern=Matrix(allowed), bias=bias)
    assert_close(found, by_hand(query, key, value, allowed, bias))


BIASES = [(), (KEYS,), (1, KEYS), (QUERIES, 1), (QUERIES, KEYS), (HEADS, 1, 1), (BATCH, 1, QUERIES, KEYS)]


@pytest.mark.parametrize("shape", [*BIASES, (BATCH, HEADS, QUERIES, KEYS)], ids=str)
@pytest.mark.parametrize("pattern", [None, Causal(), Random(3), Edges(torch.tensor([[0, 1], [4, 6]]))], ids=str)
def test_a_bias_is_added_to_the_scores_in_every_shape_that_broadcasts(
    shape: tuple[int, ...], pattern: Pattern | None
) -> None:
    bias = torch.randn(shape, dtype=torch.float64)
    query, key, value = tensors()
    found = attend(query, key, value, pattern=pattern, bias=bias)
    assert_close(found, reference(query, key, value, pattern=pattern, bias=bias))


def test_a_rule_may_add_nothing() -> None:
    query, key, value = tensors()
    assert_close(attend(query, key, value, bias=lambda *_: None), attend(query, key, value))


@pytest.mark.parametrize("name", ["cosine", "dot", "scaled_dot"])
def test_a_score_without_weights_to_learn_goes_by_its_name(name: str) -> None:
    query, key, value = tensors()
    score = scores.build(name, width=WIDTH).double()
    assert_close(attend(query, key, value, score=name), reference(query, key, value, score=score))


@pytest.mark.parametrize("name", ["additive", "location", "general", "scaled_dot"])
def test_keys_can_be_projected_once_and_for_all(name: str) -> None:
    query, key, value = tensors()
    score = scores.build(name, width=WIDTH).double()
    keys = score.keys(key)
    found = attend_projected(score.queries(query), keys, value, score=score, pattern=Causal())
    assert_close(found, attend(query, key, value, score=score, pattern=Causal()))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 999), st.sampled_from([None, Window(3), Random(2), Blocks(2, Causal())]))
def test_what_is_looked_at_lies_between_the_values(seed: int, pattern: Pattern | None) -> None:
    torch.manual_seed(seed)
    query, key, value = tensors()
    value = value.abs()
    out = attend(query, key, value, pattern=pattern)
    assert (out <= value.amax(2, keepdim=True) + 1e-9).all()
    assert (out >= 0).all()


def with_gradients(out: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """The output, and the gradient of a random combination of it with respect to every input."""
    above = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    return [out, *torch.autograd.grad(out, inputs, above, allow_unused=True, materialize_grads=True)]


BIAS_SHAPES = ["none", "scalar", "keys", "queries", "pairs", "all", "learned"]


def bias_of(shape: str, batch: int, queries: int, keys: int) -> Tensor | None:
    sizes = {
        "scalar": (),
        "keys": (keys,),
        "queries": (queries, 1),
        "pairs": (queries, keys),
        "learned": (queries, keys),
    }
    if shape == "none":
        return None
    return torch.randn(sizes.get(shape, (batch, HEADS, queries, keys)), requires_grad=shape == "learned")


@pytest.mark.parametrize("batch", [0, 1, BATCH])
@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from(BIAS_SHAPES), st.booleans(), st.integers(0, 999))
def test_in_single_precision_every_size_and_pattern_gives_the_equation(
    batch: int, data: st.DataObject, shape: str, forbids: bool, seed: int
) -> None:
    """Few keys in float32 take another path than float64: lengths 0 and 1, batch 0, all patterns, all biases."""
    scene: Scene = data.draw(scenes(st.sampled_from([0, 1, 2, 5, 16, 17]), batch))
    queries, keys, pattern = scene.queries, scene.keys, scene.pattern
    torch.manual_seed(seed)
    sizes = ((queries, WIDTH), (keys, WIDTH), (keys, VALUE_WIDTH))
    inputs = [torch.randn(batch, HEADS, *size, requires_grad=True) for size in sizes]
    bias, whole = bias_of(shape, batch, queries, keys), pattern
    added: Tensor | float = 0.0 if bias is None else bias
    if forbids and shape == "pairs":  # a bias of −∞ is one more pattern
        assert bias is not None
        allowed = torch.rand(queries, keys) < 0.5
        bias, whole = bias.masked_fill(~allowed, -torch.inf), pattern & Matrix(allowed)
    found = attend(*inputs, pattern=pattern, bias=bias)
    expected = reference(*inputs, pattern=whole, bias=added)
    learned = [*inputs, bias] if bias is not None and bias.requires_grad else inputs
    assert found.shape == (batch, HEADS, queries, VALUE_WIDTH)
    assert_close(with_gradients(found, learned), with_gradients(expected, learned), atol=1e-5, rtol=1e-4)


# At the lengths that matter; test_exact.py compares what the kernels give.
CHOICES: list[tuple[str, dict[str, int], Pattern, int]] = [
    ("dense", {}, All(), 16384),
    ("dense", {}, Causal(), 16384),
    ("dense", {}, Causal() & Padding(torch.tensor([5000, 8192])), 8192),
    ("dense", {}, Window(9), 100),
    ("dense", {}, Window(7, shape=(14, 14)), 196),
    ("dense", {}, ~Window(256), 16384),
    ("blocks", {"size": 64}, Window(256), 16384),
    ("blocks", {"size": 64}, Window(256), 1024),
    ("blocks", {"size": 128}, Window(1024), 16384),
    ("blocks", {"size": 64}, Window(256) & Causal() & Padding(torch.tensor([16000])), 16384),
    ("blocks", {"size": 64}, Blocks(64, Window(3) | Global(1) | Random(3)), 4096),
    ("blocks", {"size": 128}, Window(7, shape=(64, 64)), 4096),
    ("blocks", {"size": 32}, Window(3), 4096),
    ("neighbours", {}, Window(5, dilation=128), 4096),
    ("neighbours", {}, Random(8), 4096),
    ("edges", {}, Edges(torch.tensor([[0, 1]])), 2),
]


@pytest.mark.parametrize(("kernel", "options", "pattern", "length"), CHOICES, ids=str)
def test_the_kernel_is_chosen_by_what_the_pattern_states(
    kernel: str, options: dict[str, int], pattern: Pattern, length: int
) -> None:
    chosen = formula.choose(pattern, length, length)
    assert getattr(chosen, "func", chosen) is getattr(exact, kernel)
    assert options.items() <= getattr(chosen, "keywords", {}).items()


def test_a_step_of_decoding_is_dense() -> None:
    for pattern in (Causal().shift(5000), (Causal() & Window(256)).shift(5000), Window(3).shift(5000)):
        assert formula.choose(pattern, 1, 5001) is exact.dense


def of(*shape: int) -> Tensor:
    return torch.zeros(shape)


Q, K, V = of(2, 3, 5, 8), of(2, 3, 7, 8), of(2, 3, 7, 8)
REFUSED: dict[str, tuple[str, Callable[[], Tensor]]] = {
    "query of three axes": ("query has shape (3, 5, 8)", lambda: attend(Q[0], K, V)),
    "key of three axes": ("key has shape (3, 7, 8)", lambda: attend(Q, K[0], V)),
    "value of five axes": ("value has shape (1, 2, 3, 7, 8)", lambda: attend(Q, K, V[None])),
    "fewer values than keys": ("value has (2, 3, 6, 8)", lambda: attend(Q, K, V[:, :, :6])),
    "another batch": ("query has batch 2 but key has batch 1", lambda: attend(Q, K[:1], V[:1])),
    "heads that do not divide": ("query has 3 heads but key has 2", lambda: attend(Q, K[:, :2], V[:, :2])),
    "no heads": ("query has 3 heads but key has 0", lambda: attend(Q, K[:, :0], V[:, :0])),
    "another width": ("query has width 8 but key has width 6", lambda: attend(Q, K[..., :6], V)),
    "an unknown score": ("'scale_dot'", lambda: attend(Q, K, V, score="scale_dot")),
    "a score to be learned": ("score='additive'", lambda: attend(Q, K, V, score="additive")),
    "a bias too long": ("bias has shape (5, 8)", lambda: attend(Q, K, V, bias=of(5, 8))),
    "a bias with more batch": ("bias has shape (4, 1, 5, 7)", lambda: attend(Q, K, V, bias=of(4, 1, 5, 7))),
    "a bias of five axes": ("bias has shape (1, 2, 3, 5, 7)", lambda: attend(Q, K, V, bias=of(1, 2, 3, 5, 7))),
    "lengths of another batch": (
        "Padding(lengths): 3 lengths do not fit a batch of 2",
        lambda: attend(Q, K, V, pattern=Padding(torch.tensor([1, 2, 3]))),
    ),
    "one length for two": ("1 lengths do not fit", lambda: attend(Q, K, V, pattern=Padding(torch.tensor([4])))),
    "a matrix too small": ("Matrix(matrix): shape (5, 6)", lambda: attend(Q, K, V, pattern=Matrix(of(5, 6)))),
    "a matrix too large": ("shape (6, 7) does not fit", lambda: attend(Q, K, V, pattern=Matrix(of(6, 7)))),
    "a matrix of one row": ("shape (1, 7) does not fit", lambda: attend(Q, K, V, pattern=Matrix(of(1, 7)))),
    "a matrix for another batch": ("(3, 5, 7) does not", lambda: attend(Q, K, V, pattern=Matrix(of(3, 5, 7)))),
    "a matrix for other heads": ("(2, 2, 5, 7) does", lambda: attend(Q, K, V, pattern=Matrix(of(2, 2, 5, 7)))),
    "a matrix deep inside": (
        "queries 3 and keys 4",
        lambda: attend(Q, K, V, pattern=Causal() | ~Blocks(2, Global(1) & Matrix(of(5, 7)))),
    ),
    "an edge from nowhere": ("the pair (5, 0)", lambda: attend(Q, K, V, pattern=Edges(torch.tensor([[5, 0]])))),
    "an edge to nowhere": (
        "the pair (1, 7) points beyond the 5 queries or the 7 keys",
        lambda: attend(Q, K, V, pattern=Window(3) | Edges(torch.tensor([[1, 7]]))),
    ),
    "a grid of another size": (
        "the grid has 8 queries and 8 keys, but there are 5 and 7",
        lambda: attend(Q, K, V, pattern=Window(3, shape=(2, 4))),
    ),
    "a window of zero": ("Window(width=0)", lambda: attend(Q, K, V, pattern=Window(0))),
    "a reference that does not fit": ("shape (5, 6)", lambda: reference(Q, K, V, pattern=Matrix(of(5, 6)))),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_a_sentence(case: str) -> None:
    part, run = REFUSED[case]
    with pytest.raises(RegardError) as error:
        run()
    assert part in str(error.value)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("pattern", [All(), Causal(), Padding(torch.tensor([1, 1]))], ids=["all", "causal", "padding"])
@pytest.mark.parametrize("part", [0, 1, 2], ids=["query", "key", "value"])
@pytest.mark.parametrize("length", [1, 2, 7, 15, 16, 70])
@pytest.mark.parametrize("one_query", [True, False])
def test_nan_is_never_hidden(dtype: torch.dtype, pattern: Pattern, part: int, length: int, one_query: bool) -> None:
    """A query with a NaN, or one that may look at a key or a value with one, gives NaN."""
    inputs = [torch.randn(2, 2, size, 8).to(dtype) for size in (1 if one_query else length, length, length)]
    inputs[part].fill_(torch.nan)
    if one_query and isinstance(pattern, Causal):
        pattern = pattern.shift(length - 1)
    assert attend(*inputs, pattern=pattern).isnan().all()
