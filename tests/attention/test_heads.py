"""MultiHead: the laws it keeps, the same with a cache as without, and what it refuses."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from regard.attention import Cache, MultiHead, positions
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

BATCH, LENGTH, WIDTH, HEADS = 2, 13, 24, 6
SCHEMES = ["none", "shaw", "rotary", "alibi"]


def multi_head(scheme: str = "none", **options: object) -> MultiHead:
    torch.manual_seed(7)
    position = positions.build(scheme, width=WIDTH, heads=HEADS)
    attention = MultiHead(WIDTH, heads=HEADS, position=position, **options).double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.add_(torch.randn_like(parameter) / 5)  # biases begin at zero, and would hide a mistake
    return attention


def sequence(length: int = LENGTH, width: int = WIDTH) -> Tensor:
    return torch.randn(BATCH, length, width, dtype=torch.float64)


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(LENGTH)), st.sampled_from([1, 2, 3, 6]))
def test_without_positions_permuted_in_is_permuted_out(order: list[int], key_value_heads: int) -> None:
    attention, x = multi_head(key_value_heads=key_value_heads), sequence()
    assert_close(attention(x[:, order]), attention(x)[:, order])


@pytest.mark.parametrize("scheme", ["shaw", "rotary", "alibi"])
def test_with_positions_order_matters(scheme: str) -> None:
    attention, x = multi_head(scheme), sequence()
    assert not torch.allclose(attention(x.roll(3, 1)), attention(x).roll(3, 1))


def test_cross_attention_does_not_see_the_order_of_its_memory() -> None:
    attention, x, memory = multi_head(memory_width=11), sequence(), sequence(17, 11)
    order = torch.randperm(17)
    assert_close(attention(x, memory[:, order]), attention(x, memory))


def in_chunks(attention: MultiHead, x: Tensor, chunks: list[int], cache: Cache, pattern: Pattern | None) -> Tensor:
    return torch.cat([attention(part, pattern=pattern, cache=cache) for part in x.split(chunks, 1)], 1)


@st.composite
def chunkings(draw: st.DrawFn) -> list[int]:
    cuts = sorted({0, LENGTH, *draw(st.lists(st.integers(1, LENGTH - 1), max_size=LENGTH))})
    return [end - start for start, end in pairwise(cuts)]


@pytest.mark.parametrize("key_value_heads", [HEADS, 2])
@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=10, deadline=None)
@given(chunkings(), st.integers(1, LENGTH + 3))
def test_with_a_cache_it_is_the_same_as_without(
    scheme: str, key_value_heads: int, chunks: list[int], capacity: int
) -> None:
    attention, x = multi_head(scheme, key_value_heads=key_value_heads, pattern=Causal()), sequence()
    assert_close(in_chunks(attention, x, chunks, Cache(capacity), None), attention(x))


PATTERNS: list[Pattern] = [
    Padding(torch.tensor([3, 9])),
    Window(4),
    Window(3) | Global(2),
    Window(3, dilation=2),
    Matrix(torch.arange(LENGTH * LENGTH).view(LENGTH, LENGTH) % 3 > 0),
    Edges(torch.tensor([[0, 0], [7, 3], [12, 11], [12, 12]])),
    Blocks(3, Window(3)) | ~Window(8),
    Window(1, shape=(1, LENGTH)),
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("chunks", [[1] * LENGTH, [LENGTH], [5, 1, 7]], ids=str)
def test_with_a_cache_every_pattern_counts_from_the_first_position(pattern: Pattern, chunks: list[int]) -> None:
    attention, x = multi_head("shaw", pattern=Causal()), sequence()
    found = in_chunks(attention, x, chunks, Cache(2), pattern)
    assert_close(found, attention(x, pattern=pattern))


@pytest.mark.parametrize("score", ["cosine", "additive", "general", "dot"])
def test_with_a_cache_every_score_is_the_same_as_without(score: str) -> None:
    attention, x = multi_head(score=score, pattern=Causal()), sequence()
    assert_close(in_chunks(attention, x, [4, 1, 8], Cache(2), None), attention(x))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_reordered_cache_goes_on_from_its_rows(scheme: str) -> None:
    attention, x = multi_head(scheme, pattern=Causal()), sequence()
    rows = torch.tensor([1, 0, 1])
    cache = Cache(4)
    attention(x[:, :7], cache=cache)
    assert_close(attention(x[rows, 7:], cache=cache.reorder(rows)), attention(x[rows])[:, 7:])


def test_a_memory_projected_once_is_the_memory() -> None:
    attention, x, memory = multi_head(key_value_heads=3, memory_width=11), sequence(), sequence(17, 11)
    pattern = Padding(torch.tensor([17, 5]))
    seen = attention.remember(memory)
    assert_close(attention(x, seen, pattern=pattern), attention(x, memory, pattern=pattern))
    rows = torch.tensor([1, 1, 0])
    assert_close(attention(x[rows], seen.reorder(rows)), attention(x, memory)[rows])


def test_the_pattern_of_the_module_and_that_of_the_call_both_hold() -> None:
    x, pattern = sequence(), Padding(torch.tensor([3, 13]))
    assert_close(multi_head(pattern=Causal())(x, pattern=pattern), multi_head()(x, pattern=Causal() & pattern))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("pattern", [Window(3), Random(4), Edges(torch.tensor([[0, 5], [12, 0], [12, 3]]))], ids=str)
def test_positions_are_told_to_every_kernel(scheme: str, pattern: Pattern) -> None:
    """The same pattern as a matrix goes the dense way; a short length as a long one is made to go its own."""
    attention, x = multi_head(scheme), sequence()
    as_matrix = attention(x, pattern=Matrix(pattern.dense(LENGTH, LENGTH)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.attention.formula.FEW_PAIRS", 0)
        patch.setattr("regard.attention.formula.TILE_SIZES", (2,))
        patch.setattr("regard.attention.formula.TILE_OVERHEAD", 0)
        patch.setattr("regard.attention.formula.NEIGHBOUR_COST", 1)
        patch.setattr("regard.attention.exact.dense", None)
        assert_close(attention(x, pattern=pattern), as_matrix)


@pytest.mark.parametrize("length", [0, 1])
@pytest.mark.parametrize("pattern", [All(), Causal(), Padding(torch.tensor([0, 1])), Window(3)], ids=str)
def test_lengths_of_zero_and_one(length: int, pattern: Pattern) -> None:
    out = multi_head("shaw")(sequence(length), pattern=pattern)
    assert out.shape == (BATCH, length, WIDTH)
    assert not out.isnan().any()


def test_every_parameter_gets_a_gradient() -> None:
    attention = multi_head("shaw", score="cosine", key_value_heads=2)
    attention(sequence()).sum().backward()
    assert [name for name, parameter in attention.named_parameters() if parameter.grad is None] == []


REFUSED: dict[str, tuple[str, Callable[[], object]]] = {
    "negative heads": ("heads=-2", lambda: MultiHead(24, heads=-2)),
    "no heads": ("heads=0", lambda: MultiHead(24, heads=0)),
    "no width": ("width=0", lambda: MultiHead(0, heads=1)),
    "no memory": ("memory_width=0", lambda: MultiHead(24, heads=6, memory_width=0)),
    "heads that do not divide": ("heads=7 does not divide width=24; try heads=6", lambda: MultiHead(24, heads=7)),
    "groups that do not divide": (
        "key_value_heads=4 does not divide heads=6",
        lambda: MultiHead(24, heads=6, key_value_heads=4),
    ),
    "negative groups": ("key_value_heads=-1", lambda: MultiHead(24, heads=6, key_value_heads=-1)),
    "an unknown score": ("'scaled'", lambda: MultiHead(24, heads=6, score="scaled")),
    "x of another width": ("x has shape (2, 13, 23)", lambda: multi_head()(sequence(width=23))),
    "x of two axes": ("x has shape (13, 24)", lambda: multi_head()(sequence()[0])),
    "memory of another width": ("memory has shape (2, 13, 11)", lambda: multi_head()(sequence(), sequence(width=11))),
    "memory of another batch": ("batch 2 but key has batch 1", lambda: multi_head()(sequence(), sequence()[:1])),
    "a cache and a memory": ("remember", lambda: multi_head()(sequence(), sequence(), cache=Cache())),
    "a cache and a place": ("location", lambda: multi_head(score="location")(sequence(), cache=Cache())),
    "a cache and chance": ("Random(count=3)", lambda: multi_head(pattern=Random(3))(sequence(), cache=Cache())),
    "a cache beyond the matrix": (
        "shape (13, 13) does not fit",
        lambda: in_chunks(multi_head(), sequence(14), [13, 1], Cache(), Matrix(torch.ones(13, 13))),
    ),
    "a cache beyond the grid": (
        "the grid has 12 queries",
        lambda: in_chunks(multi_head(), sequence(13), [12, 1], Cache(), Window(3, shape=(3, 4))),
    ),
    "lengths of another batch": ("3 lengths", lambda: multi_head()(sequence(), pattern=Padding(torch.ones(3).long()))),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_a_sentence(case: str) -> None:
    part, run = REFUSED[case]
    with pytest.raises(RegardError) as error:
        run()
    assert part in str(error.value)
