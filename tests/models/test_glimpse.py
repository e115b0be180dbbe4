"""The network of glimpses: what it sees, where it learns to look, and the gradient of what it draws."""

from dataclasses import replace

import numpy
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard.attention.recorder import recording
from regard.layers.glimpse import covered, levels, patches
from regard.layers.places import Learned
from regard.models.glimpse import Drawn, Glimpse, GlimpseConfig

SIDE = 6


def network(*, seed: int = 0, **settings: object) -> Glimpse:
    torch.manual_seed(seed)
    config = GlimpseConfig(
        **{"width": 6, "glimpses": 2, "patch": 2, "scales": 2, "deviation": 0.4, "paths": 1, **settings}
    )
    return Glimpse(config, channels=1, rows=SIDE, columns=SIDE, outputs=3)


# what a glimpse sees


def test_a_patch_between_whole_pixels_is_cut_out() -> None:
    """The first patch is a part of the picture and the second of its 2 × 2 means, where both end between pixels."""
    picture = torch.randn(1, 3, 8, 12, dtype=torch.float64)
    centre = torch.tensor([[4.0, 8.0]], dtype=torch.float64)  # row and column, in pixels
    place = 2 * centre / torch.tensor([8.0, 12.0]) - 1
    found = patches(levels(picture, 2), place, size=2)
    assert found.shape == (1, 2, 3, 2, 2)
    assert_close(found[0, 0], picture[0, :, 3:5, 7:9])
    assert_close(found[0, 1], F.avg_pool2d(picture[:, :, 2:6, 6:10], 2)[0])


def test_outside_of_the_picture_is_zero() -> None:
    found = patches(levels(torch.ones(1, 1, 4, 4), 1), torch.tensor([[-1.0, -1.0]]), size=2)
    assert_close(found[0, 0, 0], torch.tensor([[0.0, 0.0], [0.0, 1.0]]))


def test_what_is_covered_is_what_is_seen() -> None:
    """The share of a cell is how much the mean of all numbers in the glimpse changes with the pixels of the cell."""
    picture = torch.zeros(1, 1, 8, 12, dtype=torch.float64, requires_grad=True)
    centre = torch.tensor([[2.0, 8.0]], dtype=torch.float64)
    place = 2 * centre / torch.tensor([8.0, 12.0]) - 1
    (gradient,) = torch.autograd.grad(patches(levels(picture, 2), place, size=4).mean(), picture)
    shares = covered(place, pixels=(8, 12), cells=(4, 3), size=4, scales=2)
    assert_close(shares, F.avg_pool2d(gradient, (2, 4)).mul(8).flatten(1))
    assert 0 < float(shares.sum()) < 1  # the second patch reaches beyond the upper edge


def test_the_path_is_recorded() -> None:
    model, pictures = network().eval(), torch.randn(2, 1, SIDE, SIDE)
    with recording(model) as seen:
        watched = model(pictures)
    assert_close(watched, model(pictures))
    assert list(seen) == ["glimpses"]
    assert seen["glimpses"].shape == (2, 1, 2, SIDE * SIDE)
    assert model.looks("glimpses") == ("glimpses", "source")
    assert model.grids()["glimpses"].extra == ("glimpse 1", "glimpse 2")


def test_the_mean_place_is_looked_at_once_it_has_learned() -> None:
    model, pictures = network(), torch.randn(2, 1, SIDE, SIDE)
    assert not torch.equal(model(pictures), model(pictures))
    model.eval()
    assert torch.equal(model(pictures), model(pictures))


@pytest.mark.parametrize("places", ["random", "centre"])
def test_places_that_are_not_learned_are_there_to_compare_with(places: str) -> None:
    model, pictures = network(places=places, paths=2).eval(), torch.randn(3, 1, SIDE, SIDE)
    assert torch.equal(model(pictures), model(pictures)) == (places == "centre")
    drawn = model.drawn(pictures)
    assert not drawn.draw.any()
    assert drawn.surrogate(torch.rand(6)).item() == 0.0
    found = torch.cat([model.places(torch.zeros(500, 6))[0] for _ in range(8)])
    assert found.abs().max() <= 1
    assert_close(found.square().mean().item(), 1 / 3 if places == "random" else 0.0, atol=0.03, rtol=0)


# the gradient of the expected loss


class Fixed(Learned):
    """Looks where it is told to: `nodes` (B, T, 2) are added to the means, in deviations, one after the other."""

    nodes: list[Tensor]

    def draw(self, mean: Tensor) -> Tensor:
        return mean + self.deviation * self.nodes.pop(0)


def exact_gradient(model: Glimpse, picture: Tensor, wanted: Tensor) -> list[Tensor]:
    """∇ ∫ p(l₁, l₂) L(l₁, l₂) dl by quadrature: each draw on a grid of nodes, weighted by the normal density.

    The density of the nodes depends on the parameters, and so does the loss; places themselves are constants.
    """
    axis = numpy.linspace(-4, 4, 33)
    density = numpy.exp(-(axis**2) / 2) / numpy.exp(-(axis**2) / 2).sum()
    nodes = torch.tensor(numpy.stack(numpy.meshgrid(*[axis] * 4, indexing="ij"), -1).reshape(-1, 2, 2))
    shares = torch.tensor(numpy.einsum("a,b,c,d->abcd", *[density] * 4).reshape(-1))
    model.places.__class__, model.places.nodes = Fixed, list(nodes.unbind(1))
    drawn = model.drawn(picture.expand(len(nodes), -1, -1, -1))
    model.places.__class__ = Learned
    losses = F.cross_entropy(drawn.logits, wanted.expand(len(nodes)), reduction="none")
    log_probability = drawn.draw[..., 0].sum(1)
    total = (shares * (losses + losses.detach() * log_probability)).sum()  # ∇ p L = p (∇ L + L ∇ log p)
    return list(torch.autograd.grad(total, learned(model)))


def learned(model: Glimpse) -> list[nn.Parameter]:
    return [value for name, value in model.named_parameters() if "baseline" not in name]


def estimates(model: Glimpse, picture: Tensor, wanted: Tensor, *, repeats: int, at_once: int) -> Tensor:
    """Estimates of the gradient, each the mean of `at_once` drawn paths: (repeats, parameters)"""
    found = []
    for _ in range(repeats):
        drawn = replace(model.drawn(picture.expand(at_once // model.paths, -1, -1, -1)), weight=1.0)
        losses = F.cross_entropy(drawn.logits, wanted.expand(at_once), reduction="none")
        gradients = torch.autograd.grad((losses.sum() + drawn.surrogate(losses)) / at_once, learned(model))
        found.append(torch.cat([each.flatten() for each in gradients]))
    return torch.stack(found)


@pytest.fixture(scope="module")
def case() -> tuple[Glimpse, Tensor, Tensor, Tensor]:
    model = network(seed=10, exploring=0.0).double().train()  # where it looks matters for its loss
    with torch.no_grad():
        for linear in (model.output, model.places.where):
            linear.weight.mul_(4)  # so that it matters where it looks
    picture, wanted = 2 * torch.randn(1, 1, SIDE, SIDE, dtype=torch.float64), torch.tensor([1])
    exact = torch.cat([each.flatten() for each in exact_gradient(model, picture, wanted)])
    return model, picture, wanted, exact


def with_baseline(model: Glimpse, picture: Tensor, wanted: Tensor, *, good: bool) -> None:
    """A baseline that expects the mean loss, or one that expects nothing."""
    with torch.no_grad():
        model.places.baseline.weight.zero_()
        loss = F.cross_entropy(model(picture.expand(2000, -1, -1, -1)), wanted.expand(2000))
        model.places.baseline.bias.fill_(float(loss) if good else 0.0)


@pytest.mark.parametrize("second", [False, True], ids=["one path", "paths"])
def test_the_mean_of_the_estimates_is_the_gradient_with_and_without_a_baseline(case, second: bool) -> None:
    """The baselines are the learned one, which knows the mean or nothing, and the mean of the other paths."""
    model, picture, wanted, exact = case
    spreads = []
    for good in (False, True):
        with_baseline(model, picture, wanted, good=good and not second)
        model.paths = 4 if good and second else 1
        found = estimates(model, picture, wanted, repeats=60, at_once=2000)
        mean, error = found.mean(0), found.std(0) / len(found) ** 0.5
        assert ((mean - exact).abs() <= 4 * error + 0.01).all()  # 0.01: the quadrature has few nodes
        where = slice(model.places.where.weight.numel() + 2)  # the first ones, which learn by draws alone
        assert (mean - exact)[where].norm() < 0.2 * exact[where].norm()
        spreads.append(float(found.var(0).sum()))
    assert spreads[1] < 0.8 * spreads[0]


def test_the_surrogate_adds_nothing_to_the_loss() -> None:
    drawn = network(paths=3).drawn(torch.randn(5, 1, SIDE, SIDE))
    assert drawn.logits.shape == (15, 3)
    assert drawn.surrogate(torch.rand(15)).item() == 0.0


def test_the_surrogate_equals_its_equation_worked_out_by_hand() -> None:
    draw = torch.tensor([[[-0.5, 2.0]], [[-1.5, 1.0]], [[-0.7, 3.0]]], requires_grad=True)  # three paths of one picture
    Drawn(torch.empty(3, 2), draw, paths=3).surrogate(torch.tensor([4.0, 5.0, 2.0])).backward()
    errors = [4 - 2.0, 5 - 1.0, 2 - 3.0]
    beyond = [2 - (4 - 1) / 2, 4 - (2 - 1) / 2, -1 - (2 + 4) / 2]
    assert_close(draw.grad, torch.tensor([[[gain, -error]] for gain, error in zip(beyond, errors, strict=True)]))


def test_paths_that_explore_look_anywhere_and_their_places_are_not_learned() -> None:
    model, pictures = network(paths=4, exploring=0.5), torch.randn(5, 1, SIDE, SIDE)
    looked: list[Tensor] = []
    model.place.register_forward_pre_hook(lambda _, given: looked.append(given[0]))
    drawn = model.drawn(pictures)
    learned, anywhere = torch.stack(looked).unflatten(1, (2, -1)).unbind(1)  # (T, 2·B, 2) each
    assert anywhere.std() > learned.std()  # of a uniform distribution, and of one around a mean
    draw = drawn.draw.detach().requires_grad_()
    losses = torch.rand(20)
    replace(drawn, draw=draw).surrogate(losses).backward()
    assert draw.grad is not None
    assert draw.grad[:10].all()
    assert not draw.grad[10:].any()
    assert model.eval().drawn(pictures).draw.shape == (20, 2, 2)


def test_the_baseline_learns_the_loss() -> None:
    """A step against its gradient brings the loss that it expects from each draw on nearer to the loss."""
    model, pictures, losses = network(), torch.randn(4, 1, SIDE, SIDE), torch.rand(4) + 3
    torch.manual_seed(1)
    before = model.drawn(pictures)
    before.surrogate(losses).backward()
    with torch.no_grad():
        for weight in model.places.baseline.parameters():
            weight -= 0.01 * weight.grad
        torch.manual_seed(1)
        after = model.drawn(pictures)
    errors = [(each.draw[..., 1] - losses.unsqueeze(1)).square().sum() for each in (before, after)]
    assert errors[1] < errors[0]


# it learns where to look


def spots(number: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A bright spot at the left or the right edge of a dark picture, which a glimpse at the middle does not reach."""
    side = torch.randint(0, 2, (number,), generator=generator)
    pictures = torch.zeros(number, 1, 16, 16)
    pictures[:, 0, 6:10, :4] = (side == 0).float().view(-1, 1, 1)
    pictures[:, 0, 6:10, 12:] = (side == 1).float().view(-1, 1, 1)
    return pictures, side


def test_it_learns_to_look_where_the_spot_may_be() -> None:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    config = GlimpseConfig(width=32, glimpses=2, patch=6, scales=1, deviation=0.2)
    model = Glimpse(config, channels=1, rows=16, columns=16, outputs=2)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(200):
        pictures, wanted = spots(64, generator=generator)
        drawn = model.drawn(pictures)
        losses = F.cross_entropy(drawn.logits, wanted.repeat(model.paths), reduction="none")
        ((losses.sum() + drawn.surrogate(losses)) / len(losses)).backward()
        optimiser.step()
        optimiser.zero_grad()
    pictures, wanted = spots(200, generator=generator)
    with torch.no_grad():
        right = (model.eval()(pictures).argmax(1) == wanted).float().mean()
    assert right == 1.0
