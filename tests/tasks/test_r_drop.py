"""R-Drop against torch's cross-entropy and Kullback–Leibler divergence."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from regard.linear import Linear
from regard.tasks import r_drop as subject
from regard.tasks.r_drop import r_drop_loss

Problem = tuple[torch.Tensor, torch.Tensor, Linear, torch.Tensor]


def problem(bias: bool = True) -> Problem:
    torch.manual_seed(0)
    first, second = torch.randn(2, 29, 7).unbind()
    return first.requires_grad_(), second.requires_grad_(), Linear(7, 13, bias=bias), torch.randint(0, 13, (29,))


@pytest.mark.parametrize("rows", [5, 29, 100])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
def test_loss_and_gradients_equal_torch(rows: int, smoothing: float, bias: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subject, "ROWS", rows)
    first, second, output, target = problem(bias)
    p, q = output(first).log_softmax(-1), output(second).log_softmax(-1)
    each = [F.cross_entropy(x, target, label_smoothing=smoothing, reduction="none") for x in (p, q)]
    apart = F.kl_div(p, q, log_target=True, reduction="sum") + F.kl_div(q, p, log_target=True, reduction="sum")
    expected = (each[0] + each[1]).sum() / 2 + 2.5 * apart / 2
    total, losses = r_drop_loss(first, second, output, target, weight=2.5, smoothing=smoothing)
    assert_close(total, expected)
    assert_close(losses, torch.cat(each).detach())
    inputs = [first, second, *output.parameters()]
    found = torch.autograd.grad(3 * total, inputs)
    for mine, theirs in zip(found, torch.autograd.grad(3 * expected, inputs), strict=True):
        assert_close(mine, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("by", ["autocast", "products"])
def test_in_bfloat16_it_stays_close_to_float32(by: str):
    first, second, output, target = problem()
    inputs = [first, second, *output.parameters()]
    exact, _ = r_drop_loss(first, second, output, target, weight=1.0)
    if by == "products":
        output.products = torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16, enabled=by == "autocast"):
        rounded, _ = r_drop_loss(first, second, output, target, weight=1.0)
    assert rounded.dtype == torch.float32
    assert rounded != exact
    assert_close(rounded, exact, atol=0.1, rtol=0.02)
    for mine, theirs in zip(torch.autograd.grad(rounded, inputs), torch.autograd.grad(exact, inputs), strict=True):
        assert_close(mine, theirs, atol=0.1, rtol=0.1)
