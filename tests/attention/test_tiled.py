"""The kernel of windows and of Big Bird against the equation, and what a window contains."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from regard.attention import attend, exact, formula, recording, reference, tiled
from regard.attention.patterns import All, Blocks, Causal, Delay, Global, Padding, Pattern, Random, Shifted, Window
from regard.attention.scores import Dot

HEADS, WIDTH = 2, 5
widths = st.sampled_from([1, 2, 3, 6, 7, 16, 33, 200])


def tensors(batch: int, queries: int, keys: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    sizes = ((queries, WIDTH), (keys, WIDTH), (keys, WIDTH + 1))
    return [torch.randn(batch, HEADS, *size, dtype=dtype, requires_grad=True) for size in sizes]


def with_gradients(out: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    weight = torch.randn(out.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(out.dtype)
    return [out, *torch.autograd.grad(out, inputs, weight)]


@st.composite
def long_patterns(draw: st.DrawFn, keys: int) -> Pattern:
    """What the key `attention` chooses, with any window, causal or not."""
    width = draw(widths)
    size = draw(st.sampled_from([1, 3, 8]))
    first = Global(draw(st.integers(0, 2)))
    kinds = [
        Window(width),
        Causal() & Window(2 * width - 1),
        Causal() & Blocks(size, Window(3) | first),
        Blocks(size, Window(3) | first | Random(min(2, keys // size), seed=draw(st.integers(0, 9)))),
    ]
    return draw(st.sampled_from(kinds))


@settings(max_examples=120, deadline=None)
@given(st.data(), st.integers(1, 90), st.integers(1, 90), st.sampled_from([4, 8, 32]), st.sampled_from([1, 300, 10**6]))
def test_tiles_are_the_equation_in_batches_of_any_lengths(
    data: st.DataObject, queries: int, keys: int, size: int, scores: int
) -> None:
    torch.manual_seed(data.draw(st.integers(0, 999)))
    pattern = data.draw(long_patterns(keys))
    numbers = st.lists(st.integers(0, keys + 1), min_size=3, max_size=3).map(torch.tensor)
    if data.draw(st.booleans()):
        pattern = pattern & Delay(data.draw(numbers))
    if data.draw(st.booleans()):
        pattern = pattern & Padding(data.draw(numbers))
    inputs = tensors(3, queries, keys)
    whole, chunk = reference(*inputs, score="dot", pattern=pattern), tiled.CHUNK
    try:
        tiled.CHUNK = scores
        found = exact.blocks(*inputs, score=Dot(), pattern=pattern, bias=None, size=size)
    finally:
        tiled.CHUNK = chunk
    assert_close(with_gradients(found, inputs), with_gradients(whole, inputs))


def test_weights_are_recorded_and_give_the_same_output() -> None:
    query, key, value = tensors(2, 600, 600)
    pattern = Causal() & Window(15) & Padding(torch.tensor([600, 120]))
    assert getattr(formula.choose(pattern, 600, 600), "func", None) is exact.blocks
    with recording(torch.nn.Identity()) as record:
        shown = attend(query, key, value, pattern=pattern)
    assert_close(shown, attend(query, key, value, pattern=pattern))
    assert_close(record[""] @ value, shown)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_summed_in_single_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    inputs = tensors(1, 500, 500, dtype)
    found = attend(*inputs, pattern=Window(65))
    assert found.dtype == dtype
    precise = [x.detach().float().requires_grad_() for x in inputs]
    expected = with_gradients(reference(*precise, pattern=Window(65)), precise)
    for mine, other in zip(with_gradients(found, inputs), expected, strict=True):
        assert_close(mine.float(), other, atol=0.02, rtol=0.02)


def test_gradients_are_those_of_finite_differences() -> None:
    query, key, value = tensors(1, 9, 9)
    pattern = Window(4) & Padding(torch.tensor([7]))
    torch.autograd.gradcheck(
        lambda *x: exact.blocks(*x, score=Dot(), pattern=pattern, bias=None, size=4), (query, key, value)
    )


@pytest.mark.parametrize("width", [1, 2, 5, 8, 200])
@pytest.mark.parametrize("length", [1, 7, 40])
def test_a_window_of_w_holds_w_positions(width: int, length: int) -> None:
    """Centred: ⌊w/2⌋ before, ⌊(w−1)/2⌋ after. Causal: the last w with the position itself. Fewer only at the ends."""
    for i in range(length):
        centred = Window(width).dense(length, length)[i].nonzero().squeeze(1).tolist()
        assert centred == list(range(max(0, i - width // 2), min(length, i + (width - 1) // 2 + 1)))
        last = (Causal() & Window(2 * width - 1)).dense(length, length)[i].nonzero().squeeze(1).tolist()
        assert last == list(range(max(0, i - width + 1), i + 1))


def test_big_bird_with_everything_global_is_exact() -> None:
    inputs = tensors(2, 200, 200)
    found = exact.blocks(*inputs, score=Dot(), pattern=Blocks(8, Window(3) | Global(25)), bias=None, size=8)
    assert_close(with_gradients(found, inputs), with_gradients(reference(*inputs, score="dot"), inputs))


CAUSAL = [Causal() & Window(2 * 50 - 1), Causal() & Blocks(16, Window(3) | Global(1))]


@pytest.mark.parametrize("pattern", CAUSAL, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_large_key_of_the_future_changes_no_earlier_output_to_the_bit(pattern: Pattern, dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    query, key, value = (x.detach() for x in tensors(1, 600, 600, dtype))
    before = attend(query, key, value, pattern=pattern)
    for place in (599, 333):
        key[:, :, place], value[:, :, place] = 1e4, 1e4
        after = attend(query, key, value, pattern=pattern)
        assert torch.equal(after[:, :, :place], before[:, :, :place])
        assert not torch.equal(after[:, :, place:], before[:, :, place:])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=4), st.sampled_from([1, 8, 24]), st.integers(0, 4))
def test_random_blocks_are_drawn_for_each_row_by_itself(lengths: list[int], size: int, count: int) -> None:
    pattern, longest = Blocks(size, Window(3) | Random(count, seed=5)), max(*lengths, 1)
    inputs = tensors(len(lengths), longest, longest)
    padded = attend(*inputs, pattern=pattern & Padding(torch.tensor(lengths)))
    for row, length in enumerate(lengths):
        alone = [x[row : row + 1, :, :length] for x in inputs]
        if length:
            assert_close(padded[row : row + 1, :, :length], attend(*alone, pattern=pattern))


def test_a_pattern_comes_apart_into_what_all_rows_share_and_the_keys_of_each() -> None:
    lengths, missing = torch.tensor([5, 3]), torch.tensor([0, 1])
    found = (Causal() & Window(5) & Delay(missing) & Padding(lengths)).spans()
    assert found is not None
    assert found[0] == Causal() & Window(5)
    assert list(found[1].rows(2, 9)) == [(0, 0, 5), (1, 1, 3)]
    assert (Window(3) | Padding(lengths)).spans() is None
    assert (Blocks(2, Window(3)) & Delay(missing)).spans() is None, "blocks are counted from the first key of a row"
    assert Shifted(Window(3), 4).spans() is not None
    assert All().spans() is not None
