"""The linear map that rounds while it learns, against torch's own on rounded numbers."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.kernels.linear import Linear, map_together, set_products
from regard.layers.low_rank import LowRank


def rounded(x: torch.Tensor) -> torch.Tensor:
    return x.detach().to(torch.bfloat16).to(torch.float32)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
def test_output_and_gradients_are_those_of_rounded_numbers(bias: bool, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    ours, x, above = Linear(5, 7, bias=bias), torch.randn(shape, requires_grad=True), torch.randn(*shape[:-1], 7)
    set_products(nn.Sequential(ours), torch.bfloat16)
    theirs, again = nn.Linear(5, 7, bias=bias), rounded(x).requires_grad_()
    theirs.load_state_dict({name: rounded(w) if name == "weight" else w for name, w in ours.state_dict().items()})
    out, wanted = ours(x), theirs(again)
    assert out.dtype == torch.float32
    assert_close(out, wanted, rtol=2**-7, atol=2**-7)  # the sum is rounded once more
    found = torch.autograd.grad(out, (x, *ours.parameters()), above)
    expected = torch.autograd.grad(wanted, (again, *theirs.parameters()), rounded(above))
    for mine, reference in zip(found, expected, strict=True):
        assert mine.dtype == torch.float32
        assert_close(mine, reference, rtol=2**-6, atol=2**-5)


def test_evaluation_is_exact() -> None:
    ours = Linear(5, 7)
    ours.products = torch.bfloat16
    x = torch.randn(3, 5)
    exact = x @ ours.weight.T + ours.bias
    assert not torch.equal(ours(x), exact)
    assert_close(ours.eval()(x), exact)


def test_an_output_can_be_changed_in_place() -> None:
    ours = Linear(5, 7)
    ours.products = torch.bfloat16
    ours(torch.randn(3, 5)).relu_().sum().backward()
    assert ours.weight.grad is not None


@pytest.mark.parametrize("bias", [True, False])
def test_several_together_are_one_by_one(bias: bool) -> None:
    """The gradient of x alone may differ, which is rounded once instead of once for each."""
    torch.manual_seed(0)
    linears = nn.ModuleList(Linear(5, width, bias=bias) for width in (7, 3, 11))
    set_products(linears, torch.bfloat16)
    linears[1].weight.requires_grad_(False)
    x, learned = torch.randn(2, 13, 5, requires_grad=True), [p for p in linears.parameters() if p.requires_grad]
    above = [torch.randn(2, 13, width) for width in (7, 3, 11)]
    found, wanted = map_together(x, *linears), [linear(x) for linear in linears]  # type: ignore[arg-type]
    assert [y.shape for y in found] == [y.shape for y in wanted]
    for mine, reference in zip(found, wanted, strict=True):
        assert_close(mine, reference)
    assert not torch.equal(found[0], nn.functional.linear(x, linears[0].weight, linears[0].bias))
    (to_x, *ours), (reference_to_x, *theirs) = (torch.autograd.grad(y, (x, *learned), above) for y in (found, wanted))
    assert_close(to_x, reference_to_x, rtol=2**-6, atol=2**-5)
    for mine, reference in zip(ours, theirs, strict=True):
        assert_close(mine, reference)


def test_a_map_that_learns_otherwise_is_asked_itself() -> None:
    torch.manual_seed(0)
    plain, changed = Linear(5, 7), LowRank(nn.Linear(5, 7), rank=2)
    set_products(nn.ModuleList([plain, changed]), torch.bfloat16)
    nn.init.normal_(changed.up)
    x = torch.randn(3, 5)
    for mine, reference in zip(map_together(x, plain, changed), (plain(x), changed(x)), strict=True):
        assert torch.equal(mine, reference)
