"""The vocabulary loss against torch's cross-entropy."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from regard.kernels import vocabulary_loss as subject
from regard.kernels.linear import Linear
from regard.kernels.vocabulary_loss import vocabulary_loss


def problem(bias: bool = True) -> tuple[torch.Tensor, Linear, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(29, 7, requires_grad=True), Linear(7, 13, bias=bias), torch.randint(0, 13, (29,))


@pytest.mark.parametrize("rows", [5, 29, 100])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
def test_loss_and_gradients_equal_torch(rows: int, smoothing: float, bias: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subject, "ROWS", rows)
    hidden, output, target = problem(bias)
    inputs = [hidden, *output.parameters()]
    expected = F.cross_entropy(output(hidden), target, label_smoothing=smoothing, reduction="none")
    total, each = vocabulary_loss(hidden, output, target, smoothing=smoothing)
    assert_close(total, expected.sum())
    assert_close(each, expected.detach())
    found = torch.autograd.grad(3 * total, inputs)
    for mine, theirs in zip(found, torch.autograd.grad(3 * expected.sum(), inputs), strict=True):
        assert_close(mine, theirs)


def test_a_hopeless_target_has_a_finite_loss():
    output = Linear(1, 2, bias=False)
    with torch.no_grad():
        output.weight.copy_(torch.tensor([[500.0], [-500.0]]))
    total, _ = vocabulary_loss(torch.ones(1, 1), output, torch.tensor([1]))
    assert_close(total, torch.tensor(1000.0))


def test_no_gradient_is_prepared_where_none_is_wanted():
    hidden, output, target = problem()
    with torch.no_grad():
        total, _ = vocabulary_loss(hidden, output, target)
    assert not total.requires_grad
    assert_close(total, F.cross_entropy(output(hidden), target, reduction="sum").detach())


@pytest.mark.parametrize("by", ["autocast", "products"])
def test_in_bfloat16_it_stays_close_to_float32(by: str):
    hidden, output, target = problem()
    inputs = [hidden, *output.parameters()]
    exact, _ = vocabulary_loss(hidden, output, target, smoothing=0.1)
    if by == "products":
        output.products = torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16, enabled=by == "autocast"):
        rounded, _ = vocabulary_loss(hidden, output, target, smoothing=0.1)
    assert rounded.dtype == torch.float32
    assert rounded != exact
    assert_close(rounded, exact, atol=0.1, rtol=0.01)
    for mine, theirs in zip(torch.autograd.grad(rounded, inputs), torch.autograd.grad(exact, inputs), strict=True):
        assert_close(mine, theirs, atol=0.05, rtol=0.05)


def test_what_is_only_judged_is_judged_in_full_precision():
    _, output, target = problem()
    output.products = torch.bfloat16
    hidden = torch.randn(29, 7)
    with torch.no_grad():
        _, each = vocabulary_loss(hidden, output, target)
        assert_close(each, F.cross_entropy(F.linear(hidden, output.weight, output.bias), target, reduction="none"))


@pytest.mark.parametrize("products", [torch.float32, torch.bfloat16], ids=str)
def test_pieces_of_the_logits_change_nothing(products: torch.dtype, monkeypatch: pytest.MonkeyPatch):
    hidden, output, target = problem()
    output.products = products
    found = []
    for piece in (1 << 20, 40):
        monkeypatch.setattr(subject, "PIECE", piece)
        total, each = vocabulary_loss(hidden, output, target, smoothing=0.1)
        found.append([each, *torch.autograd.grad(total, [hidden, *output.parameters()])])
    for whole, parts in zip(*found, strict=True):
        assert_close(parts, whole)


def test_a_hopeless_target_among_others_has_the_loss_of_cross_entropy():
    hidden, output, target = problem()
    with torch.no_grad():
        output.bias[3] = -200.0
    target[[4, 17]] = 3
    _, each = vocabulary_loss(hidden, output, target, smoothing=0.1)
    assert_close(each, F.cross_entropy(output(hidden), target, label_smoothing=0.1, reduction="none").detach())
