import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.errors import RegardError
from regard.layers import Dropout

SHARES = [0.001, 0.1, 0.3, 0.5, 0.999]


def exact_share(p: float) -> float:
    """The 256th nearest to p, neither none nor all."""
    return min(max(round(p * 256), 1), 255) / 256


def drop(x: Tensor, p: float, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    return Dropout(p)(x)


@pytest.mark.parametrize("p", SHARES)
def test_the_share_of_zeros_is_p_rounded_to_a_256th(p: float) -> None:
    elements = 401 * 997
    zeros = int((drop(torch.ones(401, 997), p) == 0).sum())
    expected = exact_share(p)
    sigma = math.sqrt(elements * expected * (1 - expected))
    assert abs(zeros - elements * expected) < 5 * sigma
    assert abs(expected - p) <= 1 / 256


@pytest.mark.parametrize("p", SHARES)
def test_what_is_kept_is_scaled_so_that_the_expectation_is_exact(p: float) -> None:
    x = torch.randn(31, 37, dtype=torch.float64)
    y = drop(x, p)
    assert_close(y[y != 0], (x / (1 - exact_share(p)))[y != 0])


def test_the_mean_is_preserved() -> None:
    x = torch.rand(499, 503)
    p = exact_share(0.3)
    sigma = math.sqrt(p / (1 - p) * x.square().sum().item()) / x.numel()
    assert abs(drop(x, 0.3).mean() - x.mean()) < 5 * sigma


def test_neighbours_are_dropped_independently() -> None:
    kept = (drop(torch.ones(2**18), 0.25) != 0).double()
    for lag in (1, 2, 4, 7, 8, 64):
        both = (kept[lag:] * kept[:-lag]).mean().item()
        assert abs(both - 0.75**2) < 5 * math.sqrt(0.75**2 * (1 - 0.75**2) / len(kept)) * 2, lag


def test_every_place_in_a_word_is_dropped_alike() -> None:
    zeros = (drop(torch.ones(50_021, 8), 0.5) == 0).sum(0).double()
    assert (zeros - 50_021 / 2).abs().max() < 5 * math.sqrt(50_021 / 4)


def test_the_gradient_is_the_mask_times_the_scale() -> None:
    x = torch.randn(11, 13, 17, requires_grad=True)
    torch.manual_seed(3)
    y = Dropout(0.4)(x)
    upstream = torch.randn_like(y)
    y.backward(upstream)
    mask = (y != 0).float()
    assert 0 < mask.mean() < 1
    assert x.grad is not None
    assert_close(x.grad, upstream * mask / (1 - exact_share(0.4)))


def test_the_seed_decides() -> None:
    x = torch.ones(23, 29)
    assert torch.equal(drop(x, 0.5, seed=7), drop(x, 0.5, seed=7))
    assert not torch.equal(drop(x, 0.5, seed=7), drop(x, 0.5, seed=8))


def test_two_calls_drop_different_elements() -> None:
    dropout, x = Dropout(0.5), torch.ones(23, 29)
    assert not torch.equal(dropout(x), dropout(x))


def test_evaluation_and_zero_change_nothing() -> None:
    x = torch.randn(5, 7)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 5), (7,), (8,), (9,)])
def test_any_shape_goes_through(shape: tuple[int, ...]) -> None:
    assert Dropout(0.5)(torch.ones(shape)).shape == shape


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_precision_is_kept(dtype: torch.dtype) -> None:
    y = drop(torch.ones(101, dtype=dtype), 0.5)
    assert y.dtype == dtype
    assert set(y.tolist()) == {0.0, 2.0}


def test_a_transposed_input_is_dropped_like_any_other() -> None:
    x = torch.randn(13, 7).T
    y = drop(x, 0.5)
    assert_close(y[y != 0], 2 * x[y != 0])


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, math.nan])
def test_a_share_outside_its_range_is_refused(p: float) -> None:
    with pytest.raises(RegardError, match=f"dropout={p}"):
        Dropout(p)
