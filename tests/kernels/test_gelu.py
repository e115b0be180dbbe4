"""The GELU that learns, against torch's own."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from regard.kernels.gelu import PIECE, gelu_tanh, rounded_gelu_tanh, rounded_gelu_tanh_backward


@pytest.mark.parametrize("shape", [(7,), (2, 3, 5), (PIECE + 11,), (0, 3)])
def test_output_and_gradient_are_torchs(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = (3 * torch.randn(shape)).requires_grad_()
    above = torch.randn(shape)
    ours, theirs = gelu_tanh(x), F.gelu(x, approximate="tanh")
    assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
    (found,), (wanted,) = (torch.autograd.grad(y, x, above) for y in (ours, theirs))
    assert_close(found, wanted, atol=3e-6, rtol=1e-5)


@pytest.mark.parametrize("end", [-1e4, -30.0, 30.0, 1e4])
def test_far_from_zero_it_is_the_number_itself_or_nothing(end: float) -> None:
    x = torch.tensor([end], requires_grad=True)
    y = gelu_tanh(x)
    y.backward()
    assert y.item() == max(end, 0.0)
    assert x.grad is not None
    assert x.grad.item() == float(end > 0)


def test_a_transposed_tensor_is_bent_like_any_other() -> None:
    x = torch.randn(5, 7).T.requires_grad_()
    assert_close(gelu_tanh(x), F.gelu(x, approximate="tanh"))


def test_where_nothing_is_learned_it_is_torchs_own_and_nothing_is_kept() -> None:
    x = torch.randn(5)
    assert torch.equal(gelu_tanh(x), F.gelu(x, approximate="tanh"))
    with torch.no_grad():
        assert gelu_tanh(x.requires_grad_()).grad_fn is None


@pytest.mark.parametrize("shape", [(7,), (2, 3, 5), (PIECE + 11,)])
def test_of_rounded_numbers_it_is_torchs_rounded_once(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, above = (3 * torch.randn(shape)).bfloat16(), torch.randn(shape).bfloat16()
    exact = x.float().requires_grad_()
    wanted = F.gelu(exact, approximate="tanh")
    (slope,) = torch.autograd.grad(wanted, exact, above.float())
    assert_close(rounded_gelu_tanh(x), wanted.detach().bfloat16(), atol=1e-6, rtol=2**-7)
    assert_close(rounded_gelu_tanh_backward(above, x), slope.bfloat16(), atol=1e-5, rtol=2**-7)
