"""Every kernel against the equation, and what it costs."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_patterns import BATCH, HEADS, Scene, scenes
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from regard.attention import attend, exact, formula, recording, reference, scores
from regard.attention.exact import Bias
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
from regard.attention.scores import LeakySum, ScaledDot, Score

WIDTH, VALUE_WIDTH = 5, 7
KERNELS = ["dense", "blocks", "neighbours", "edges"]
SCORES = ["cosine", "additive", "location", "general", "dot", "scaled_dot", "leaky_sum"]
Kernel = Callable[..., Tensor]


def kernel_for(name: str, pattern: Pattern, queries: int, keys: int, size: int = 4) -> Kernel:
    """The kernel, told what the pattern states of itself, or else everything."""
    if name == "dense":
        return exact.dense
    if name == "blocks":
        return lambda *tensors, **parts: exact.blocks(*tensors, **parts, size=size)
    if name == "neighbours":
        table = pattern.neighbours(queries, keys)
        table = torch.arange(keys).expand(queries, -1) if table is None else table
        return lambda *tensors, **parts: exact.neighbours(*tensors, **parts, table=table)
    pairs = pattern.edges()
    pairs = torch.cartesian_prod(torch.arange(queries), torch.arange(keys)) if pairs is None else pairs
    return lambda *tensors, **parts: exact.edges(*tensors, **parts, pairs=pairs)


def build(name: str) -> Score:
    score = LeakySum(WIDTH, heads=HEADS) if name == "leaky_sum" else scores.build(name, width=WIDTH, maximum=125)
    return score.double()


def tensors(queries: int, keys: int, heads: int = HEADS, width: int = VALUE_WIDTH) -> list[Tensor]:
    sizes = ((HEADS, queries, WIDTH), (heads, keys, WIDTH), (heads, keys, width))
    return [torch.randn(BATCH, *size, dtype=torch.float64, requires_grad=True) for size in sizes]


def rule(query: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """A bias that depends on the query and on both positions."""
    return query.sum(-1, keepdim=True) / (1 + (i - 2 * j).abs())


@st.composite
def biases(draw: st.DrawFn, queries: int, keys: int) -> Bias | None:
    if draw(st.booleans()):
        return draw(st.sampled_from([None, rule]))
    sizes = [draw(st.sampled_from([1, size])) for size in (BATCH, HEADS, queries, keys)]
    return torch.randn(*sizes[draw(st.integers(0, 2)) :], dtype=torch.float64, requires_grad=True)


def dense_bias(bias: Bias | None, query: Tensor, keys: int) -> Tensor | float:
    if bias is None:
        return 0.0
    i, j = torch.arange(query.shape[2]).unsqueeze(1), torch.arange(keys).unsqueeze(0)
    return bias if isinstance(bias, Tensor) else bias(query, i, j)


def with_gradients(out: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """What came out, and the gradient of a fixed random combination of it with respect to every input."""
    weight = torch.randn(out.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(out.dtype)
    return [out, *torch.autograd.grad(out, inputs, weight, allow_unused=True, materialize_grads=True)]


@contextmanager
def watched() -> Iterator[None]:
    """Somebody records, so that no kernel may fuse."""
    with recording(nn.Identity()):
        yield


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=50, deadline=None)
@given(scenes(), st.sampled_from(SCORES), st.booleans(), st.sampled_from([3, 4, 8]), st.data())
def test_every_kernel_is_the_equation(
    kernel: str, scene: Scene, score_name: str, explicit: bool, size: int, data: st.DataObject
) -> None:
    queries, keys, pattern = scene.queries, scene.keys, scene.pattern
    if kernel in ("blocks", "neighbours") and queries * keys == 0:
        return  # nothing to cut into tiles or to look up
    torch.manual_seed(data.draw(st.integers(0, 999)))
    score, (query, key, value), bias = build(score_name), tensors(queries, keys), data.draw(biases(queries, keys))
    inputs = [query, key, value, *score.parameters(), *([bias] if isinstance(bias, Tensor) else [])]
    added = dense_bias(bias, score.queries(query), keys)
    expected = reference(query, key, value, score=score, pattern=pattern, bias=added)
    with watched() if explicit else nullcontext():
        run = kernel_for(kernel, pattern, queries, keys, size)
        found = run(score.queries(query), score.keys(key), value, score=score, pattern=pattern, bias=bias)
    assert_close(with_gradients(found, inputs), with_gradients(expected, inputs))


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that ran; the choice is made for short lengths too, with tiles of 8 and 4."""
    names: list[str] = []
    for name in KERNELS:
        kernel = getattr(exact, name)
        monkeypatch.setattr(
            exact, name, lambda *a, _name=name, _kernel=kernel, **b: (names.append(_name), _kernel(*a, **b))[1]
        )
    monkeypatch.setattr(formula, "TILE_SIZES", (8, 4))
    monkeypatch.setattr(formula, "TILE_OVERHEAD", 4)
    monkeypatch.setattr(formula, "FEW_PAIRS", 0)
    monkeypatch.setattr(formula, "NEIGHBOUR_COST", 4)
    return names


PAIRS = torch.tensor([[0, 5], [3, 3], [126, 2], [41, 126], [3, 7]])
LENGTHS = torch.tensor([127, 31])
CHOICES: dict[str, list[Pattern]] = {
    "dense": [
        *(All(), Causal(), Padding(LENGTHS), Window(100), ~Window(5), Random(30), Causal() & Padding(LENGTHS)),
        *(Matrix(torch.arange(127 * 127).view(127, 127) % 3 == 0), Causal() | Padding(LENGTHS)),
    ],
    "blocks": [
        *(Window(9), Window(9) & Padding(LENGTHS), Window(6) | Global(2), Causal() & Window(10)),
        *(Blocks(4, Window(3)), Blocks(8, Window(2) | Global(1) | Random(1, seed=3)), Blocks(6, Window(2))),
        *(Blocks(4, Padding(torch.tensor([3, 1]))), Edges(PAIRS) | Window(5)),
    ],
    "neighbours": [Random(3), Window(3), Window(5, dilation=7), Window(2, stride=2), Window(3) & Padding(LENGTHS)],
    "edges": [
        Edges(PAIRS),
        Edges(PAIRS) & Padding(LENGTHS),
        Edges(PAIRS) | Edges(PAIRS.flip(1)),
        Causal() & Edges(PAIRS),
    ],
}
CASES = [(name, pattern) for name, patterns in CHOICES.items() for pattern in patterns]


@pytest.mark.parametrize(("name", "pattern"), CASES, ids=str)
@pytest.mark.parametrize("key_heads", [HEADS, 1])
def test_attend_takes_the_cheapest_kernel_and_gives_the_same(
    name: str, pattern: Pattern, key_heads: int, taken: list[str]
) -> None:
    torch.manual_seed(3)
    query, key, value = inputs = tensors(127, 127, heads=key_heads)
    found = attend(query, key, value, pattern=pattern, bias=rule)
    assert taken == [name]
    shared = [x.expand(-1, HEADS, -1, -1) for x in (key, value)]
    bias = dense_bias(rule, ScaledDot().queries(query), 127)
    assert_close(
        with_gradients(found, inputs), with_gradients(reference(query, *shared, pattern=pattern, bias=bias), inputs)
    )


def test_a_grid_is_computed_by_neighbours_or_in_blocks(taken: list[str]) -> None:
    for window, shape in ((Window(3, shape=(16, 18)), (16, 18)), (Window((1, 3, 2), shape=(6, 7, 9)), (6, 7, 9))):
        query, key, value = tensors(math.prod(shape), math.prod(shape))
        assert_close(attend(query, key, value, pattern=window), reference(query, key, value, pattern=window))
    assert set(taken) <= {"neighbours", "blocks"}
    assert len(taken) == 2


# Rows 0 and 2 may look at nothing, row 1 at one key, the others at several.
LONELY = torch.ones(11, 13, dtype=torch.bool).tril(5)
LONELY[[0, 2]] = False
LONELY[1] = torch.arange(13) == 3
NOTHING = torch.zeros(11, 13, dtype=torch.bool)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("matrix", [LONELY, NOTHING], ids=["some rows", "all rows"])
@pytest.mark.parametrize("explicit", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("bias", [None, rule, torch.zeros(11, 13)], ids=["no bias", "rule", "tensor"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_row_that_may_look_at_nothing_gives_zeros(
    kernel: str, bias: Bias | None, explicit: bool, matrix: Tensor, dtype: torch.dtype
) -> None:
    torch.manual_seed(5)
    pattern = Matrix(matrix)
    precise = tensors(11, 13)
    rounded = [x.detach().to(dtype).requires_grad_() for x in precise]
    bias = bias.to(dtype) if isinstance(bias, Tensor) else bias
    with watched() if explicit else nullcontext():
        run = kernel_for(kernel, pattern, 11, 13)
        out = run(*rounded, score=ScaledDot(), pattern=pattern, bias=bias)
    assert out.dtype == dtype
    gradients = torch.autograd.grad(out, rounded, torch.full_like(out, 100.0))
    assert not any(x.isnan().any() or x.isinf().any() for x in (out, *gradients))
    alone = ~matrix.any(1)
    assert not out[:, :, alone].any()
    assert not gradients[0][:, :, alone].any()
    if matrix is LONELY:
        expected = reference(*precise, score="dot", pattern=pattern, bias=dense_bias(bias, precise[0], 13))
        tolerance = {torch.float16: 2e-2, torch.bfloat16: 1e-1}.get(dtype, 1e-5)
        assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("explicit", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_bias_of_minus_infinity_forbids(kernel: str, explicit: bool) -> None:
    query, key, value = inputs = tensors(11, 13)
    forbidden = torch.zeros(11, 13, dtype=torch.float64).masked_fill(~LONELY, -torch.inf)
    with watched() if explicit else nullcontext():
        run = kernel_for(kernel, All(), 11, 13)
        found = run(query, key, value, score=ScaledDot(), pattern=All(), bias=forbidden)
    expected = reference(query, key, value, score="dot", pattern=Matrix(LONELY))
    assert_close(with_gradients(found, inputs), with_gradients(expected, inputs))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("key_heads", [HEADS, 1])
@pytest.mark.parametrize(("queries", "keys"), [(0, 0), (0, 5), (5, 0), (1, 1), (1, 5), (5, 1)])
def test_lengths_of_zero_and_one(name: str, key_heads: int, queries: int, keys: int, taken: list[str]) -> None:
    pattern = {
        "dense": Causal(),
        "blocks": Blocks(3, Window(3)),
        "neighbours": Window(3, dilation=2),
        "edges": Edges(torch.zeros(min(queries, keys, 1), 2).long()),
    }[name]
    query, key, value = inputs = tensors(queries, keys, heads=key_heads)
    found = attend(query, key, value, pattern=pattern)
    assert len(taken) == 1
    shared = [x.expand(-1, HEADS, -1, -1) for x in (key, value)]
    assert_close(with_gradients(found, inputs), with_gradients(reference(query, *shared, pattern=pattern), inputs))


def test_many_edges_at_one_node_do_not_lose_half_precision() -> None:
    pairs = torch.stack([torch.zeros(5000), torch.arange(5000)], 1).long()
    query, key = torch.zeros(1, 1, 1, WIDTH).half(), torch.zeros(1, 1, 5000, WIDTH).half()
    assert_close(attend(query, key, torch.ones_like(key), pattern=Edges(pairs)), torch.ones(1, 1, 1, WIDTH).half())


def test_what_was_remembered_without_gradients_serves_training(taken: list[str]) -> None:
    pattern = Window(11) | Global(1)
    with torch.inference_mode():
        attend(*tensors(131, 131), pattern=pattern)
    query, key, value = inputs = tensors(131, 131)
    found, expected = attend(query, key, value, pattern=pattern), reference(query, key, value, pattern=pattern)
    assert taken == ["blocks", "blocks"]
    assert_close(with_gradients(found, inputs), with_gradients(expected, inputs))


@pytest.mark.parametrize(("name", "pattern"), [(name, patterns[0]) for name, patterns in CHOICES.items()], ids=str)
def test_mixed_precision_serves_every_kernel(name: str, pattern: Pattern, taken: list[str]) -> None:
    query, key, value = (x.detach().float() for x in tensors(127, 127))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = attend(query, key, value, pattern=pattern)
    assert taken == [name]
    assert_close(found.float(), reference(query, key, value, pattern=pattern), rtol=0.1, atol=0.1)


class Elements(TorchDispatchMode):
    """Counts the elements of every tensor that is made, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        made = [
            x
            for x in (out if isinstance(out, tuple | list) else [out])
            if isinstance(x, Tensor) and x.layout is torch.strided
        ]
        given = {x.untyped_storage().data_ptr() for x in args if isinstance(x, Tensor) and x.layout is torch.strided}
        self.count += sum(x.numel() for x in made if x.untyped_storage().data_ptr() not in given)
        return out


def elements(pattern: Pattern | None, length: int, explicit: bool) -> int:
    query, key, value = (torch.randn(1, 2, length, 8, requires_grad=True) for _ in range(3))
    with watched() if explicit else nullcontext(), Elements() as counter:
        attend(query, key, value, pattern=pattern).sum().backward()
    return counter.count


def ring(length: int) -> Edges:
    here = torch.arange(length)
    return Edges(torch.cat([torch.stack([here, (here + step) % length], 1) for step in (1, 7, 30)]))


LINEAR: dict[str, tuple[str, Callable[[int], Pattern]]] = {
    "a window": ("blocks", lambda _: Window(64)),
    "a causal window": ("blocks", lambda _: Causal() & Window(64)),
    "blocks with a window and random ones": ("blocks", lambda _: Blocks(32, Window(3) | Random(2))),
    "big bird": ("blocks", lambda _: Blocks(32, Window(3) | Random(2) | Global(1))),
    "a window in the plane": ("blocks", lambda length: Window(3, shape=(length // 16, 16))),
    "a dilated window": ("neighbours", lambda length: Window(5, dilation=length // 8)),
    "random keys": ("neighbours", lambda _: Random(5)),
    "a graph": ("edges", ring),
}


@pytest.mark.parametrize("explicit", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("case", LINEAR)
def test_cost_grows_with_the_length_and_not_with_its_square(case: str, explicit: bool) -> None:
    name, make = LINEAR[case]
    small, large = (elements(make(length), length, explicit) for length in (2048, 4096))
    for length in (2048, 4096):
        kernel = formula.choose(make(length), length, length)
        assert getattr(kernel, "func", kernel) is getattr(exact, name)
    assert large / small < 2.2


def test_the_dense_explicit_path_grows_with_the_square() -> None:
    assert 3.8 < elements(Causal(), 1024, explicit=True) / elements(Causal(), 512, explicit=True) < 4.2
