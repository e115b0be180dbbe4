"""DeepSets: the whole model keeps the laws of sets, its sides have names, and its settings are checked."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch.testing import assert_close

from regard.look import recording
from regard.models.deep_sets import DeepSets, DeepSetsConfig
from regard.tasks.modules import ReadsSets

CHOICES = [
    {"encoder": encoder, "pooling": pooling}
    for encoder in ("none", "sab", "isab")
    for pooling in ("sum", "mean", "max", "attention")
]


def made(**settings: Any) -> DeepSets:
    torch.manual_seed(5)
    sizes = {name: settings.pop(name) for name in ("vocabulary", "features", "outputs") if name in settings}
    config = DeepSetsConfig(width=12, heads=3, inducing=5, **settings)
    return DeepSets(config, **{"features": 2, "outputs": 3, **sizes}).double().eval()


@given(
    settings=some.sampled_from(CHOICES),
    seed=some.integers(0, 99),
    sizes=some.lists(some.integers(1, 6), min_size=1, max_size=4),
)
def test_order_and_padding_change_nothing(settings: dict[str, Any], seed: int, sizes: list[int]):
    model, generator = made(**settings), torch.Generator().manual_seed(seed)
    elements = torch.randn(len(sizes), 8, 2, dtype=torch.float64, generator=generator)
    with torch.no_grad():
        together = model(elements, torch.tensor(sizes))
        for row, size, found in zip(elements, sizes, together, strict=True):
            order = torch.randperm(size, generator=generator)
            assert_close(model(row[order].unsqueeze(0), torch.tensor([size]))[0], found)


@pytest.mark.parametrize("settings", CHOICES, ids=str)
def test_every_parameter_learns_and_every_weight_has_its_sides(settings: dict[str, Any]):
    model = made(**settings)
    assert isinstance(model, ReadsSets)
    elements, lengths = torch.randn(2, 4, 2, dtype=torch.float64), torch.tensor([4, 3])
    with recording(model) as seen:
        model(elements, lengths).square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    sizes = {"source": 4, "pooled": 1, "inducing": 5}
    for path in seen:
        query, key = model.looks(path)
        assert seen[path].shape[2:] == (sizes[query], sizes[key]), path
    assert model.alignment in seen
    assert model.looks(model.alignment) == ("pooled", "source")


def test_a_set_transformer_tells_apart_what_a_sum_of_elements_cannot():
    """Pairs of elements meet in an encoder: sets with equal sums of φ = x get different answers."""
    one, other = (torch.tensor([[[a], [b]]], dtype=torch.float64) for a, b in ((0.0, 4.0), (2.0, 2.0)))
    lengths = torch.tensor([2])
    plain = made(pooling="sum", layers=1, features=1)
    encoded = made(pooling="sum", layers=1, features=1, encoder="sab")
    assert_close(plain(one, lengths), plain(other, lengths))
    assert not torch.allclose(encoded(one, lengths), encoded(other, lengths))


def test_ids_are_looked_up_and_unknown_ones_are_zeros():
    model = made(vocabulary=7, pooling="sum", layers=1, output_layers=1)
    table = model.element.table.weight
    found = model(torch.tensor([[3, 0, 5, 0]]), torch.tensor([4]))
    expected = (table[3] + table[5]) * 12**0.5 @ model.rho[0].weight.T + model.rho[0].bias
    assert_close(found[0], expected)


def test_heads_that_do_not_divide_the_width_are_refused_where_there_are_heads():
    DeepSetsConfig(width=10, heads=4)
    with pytest.raises(ValueError, match="heads=4 does not divide width=10"):
        DeepSetsConfig(width=10, heads=4, pooling="attention")
