"""R-Drop against torch's cross-entropy and Kullback–Leibler divergence."""

from itertools import product

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from regard.kernels import r_drop as subject
from regard.kernels.linear import Linear
from regard.kernels.r_drop import r_drop_loss
from regard.models.choice import Rollout

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
    apart = sum(F.kl_div(*pair, log_target=True, reduction="none").sum(1) for pair in ((p, q), (q, p)))
    expected = (each[0] + each[1]).sum() / 2 + 2.5 * apart.sum() / 2
    total, losses = r_drop_loss(first, second, output, target, weight=2.5, smoothing=smoothing)
    assert_close(total, expected)
    assert_close(losses, torch.cat([loss + 2.5 * apart for loss in each]).detach(), atol=1e-5, rtol=1e-5)
    assert not losses.requires_grad
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


PLACES, TARGETS, WIDTH, VOCABULARY = 3, 2, 5, 7


class Choosing:
    """Two targets, each made from one of three places that is drawn; where draws last, from the earlier ones too.

    Two passes draw on their own and see different noise, as if it were dropout.
    """

    def __init__(self, *, lasting: bool) -> None:
        torch.manual_seed(2)
        self.lasting = lasting
        self.logits = torch.randn(TARGETS, PLACES, dtype=torch.float64, requires_grad=True)
        self.places = torch.randn(PLACES, WIDTH, dtype=torch.float64, requires_grad=True)
        self.output = Linear(WIDTH, VOCABULARY).double()
        self.output.products = torch.float64
        self.noise = torch.randn(2, TARGETS, WIDTH, dtype=torch.float64)
        self.baseline = torch.randn(2, TARGETS, dtype=torch.float64)
        self.target = torch.tensor([3, 1])
        self.learned = [self.logits, self.places, *self.output.parameters()]

    def hidden(self, draws: torch.Tensor) -> torch.Tensor:
        """draws (2, T) → (2, T, M)"""
        found = self.places[draws]
        return (found.cumsum(1) if self.lasting else found).tanh() + self.noise

    def log_probability(self, draws: torch.Tensor) -> torch.Tensor:
        """draws (2, T) → (2, T)"""
        return self.logits.log_softmax(-1).expand(2, -1, -1).gather(2, draws.unsqueeze(2)).squeeze(2)


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_with_random_draws_the_losses_of_rows_make_an_unbiased_gradient(lasting: bool, smoothing: float):
    """All 81 ways to draw: the mean of the estimates is the gradient of the mean loss, of which torch knows nothing."""
    model, weight = Choosing(lasting=lasting), 2.5
    expected_loss: torch.Tensor | float = 0.0
    mean = [torch.zeros_like(parameter) for parameter in model.learned]
    counted = torch.ones(2, TARGETS, dtype=torch.bool)
    for places in product(range(PLACES), repeat=2 * TARGETS):
        draws = torch.tensor(places).view(2, TARGETS)
        hidden, log_probability = model.hidden(draws), model.log_probability(draws)
        probability = log_probability.sum().exp()
        p, q = model.output(hidden).log_softmax(-1)
        losses = [F.cross_entropy(x, model.target, label_smoothing=smoothing, reduction="sum") for x in (p, q)]
        apart = sum(F.kl_div(*pair, log_target=True, reduction="sum") for pair in ((p, q), (q, p)))
        expected_loss = expected_loss + probability * (sum(losses) + weight * apart) / 2

        total, rows = r_drop_loss(*hidden, model.output, model.target, weight=weight, smoothing=smoothing)
        rollout = Rollout(hidden, torch.stack((log_probability, model.baseline), -1), lasting=lasting)
        estimate = total + rollout.surrogate(rows.view(2, TARGETS), counted) / 2
        for gradient, found in zip(mean, torch.autograd.grad(estimate, model.learned, retain_graph=True), strict=True):
            gradient += probability.detach() * found
    assert isinstance(expected_loss, torch.Tensor)
    assert_close(mean, list(torch.autograd.grad(expected_loss, model.learned)))
