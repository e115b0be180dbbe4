"""The forecaster: cells against torch, rollouts against the equation step by step, and the laws of its scaling."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from regard.attention.recorder import recording
from regard.models.forecaster import LEVELS, MEDIAN, Forecaster, ForecasterConfig

CELLS = ("rnn", "lstm", "gru", "transformer")
BATCH, KNOWN, STEPS, SEASON, CALENDAR = 3, 17, 11, 5, 2


def made(cell: str, *, difference: str = "season", layers: int = 2) -> Forecaster:
    torch.manual_seed(3)
    config = ForecasterConfig(cell=cell, layers=layers, width=12, heads=3, difference=difference)  # type: ignore[arg-type]
    model = Forecaster(config, season=SEASON, calendar=CALENDAR).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def series(rows: int = BATCH) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    values = torch.randn(rows, KNOWN, generator=generator).cumsum(1) + 20
    return values, torch.randn(rows, KNOWN + STEPS - 1, CALENDAR, generator=generator)


def by_hand(model: Forecaster, values: Tensor, calendar: Tensor, said: Tensor) -> Tensor:
    """The quantiles of the step after all numbers of one series, by the equations of the module and torch's layers."""
    lag, known = model.lag, len(values)
    y = torch.cat([values, said])
    scale = sum(abs(float(values[t] - values[t - lag])) for t in range(lag, known)) / (known - lag)
    rows = []
    for t in range(lag, len(y)):
        numbers = [y[t] - values[-1], y[t] - y[t - lag], y[t + 1 - lag] - values[-1]]
        ahead = math.log(max(t + 2 - known, 1))
        rows.append(torch.cat([torch.stack(numbers) / scale, torch.tensor([ahead]), calendar[t]]))
    x = torch.stack(rows).unsqueeze(0)
    cell = type(model.body.layers[0])  # type: ignore[union-attr, index]
    theirs = cell(x.shape[2], 12, num_layers=2, batch_first=True)
    with torch.no_grad():
        for number, layer in enumerate(model.body.layers):  # type: ignore[union-attr, arg-type]
            for name, parameter in layer.named_parameters():
                getattr(theirs, name.replace("l0", f"l{number}")).copy_(parameter)
        hidden = theirs(x)[0][0, -1]
    found = hidden @ model.output.weight.T + model.output.bias
    median = found[MEDIAN] + x[0, -1] @ model.direct.weight[0]
    apart = F.softplus(found)
    below = [median - apart[at:MEDIAN].sum() for at in range(MEDIAN)]
    above = [median + apart[MEDIAN + 1 : at + 1].sum() for at in range(MEDIAN + 1, len(LEVELS))]
    return y[len(y) - lag] + scale * torch.stack([*below, median, *above])


@pytest.mark.parametrize("difference", ["season", "last"])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_recurrent_quantiles_are_those_of_torch_and_the_equations(cell: str, difference: str) -> None:
    model, (values, calendar) = made(cell, difference=difference), series()
    with torch.no_grad():
        found = model.forecast(values, calendar)
        for row in range(BATCH):
            for step in (0, 1, SEASON, STEPS - 1):
                expected = by_hand(model, values[row], calendar[row], found[row, :step, MEDIAN])
                assert found[row, step] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("cell", CELLS)
def test_steps_with_a_state_are_those_of_one_pass(cell: str) -> None:
    model, (values, calendar) = made(cell), series()
    with torch.no_grad():
        found = model.forecast(values, calendar)
        again = model(values, calendar, found[:, :-1, MEDIAN])
    assert found.shape == (BATCH, STEPS, len(LEVELS))
    assert torch.allclose(found, again, atol=1e-3)


@pytest.mark.parametrize("cell", CELLS)
def test_a_batch_is_its_rows(cell: str) -> None:
    model, (values, calendar) = made(cell), series()
    with torch.no_grad():
        together = model.forecast(values, calendar)
        alone = torch.cat([model.forecast(values[[row]], calendar[[row]]) for row in range(BATCH)])
    assert torch.allclose(together, alone, atol=1e-3)


@pytest.mark.parametrize("cell", CELLS)
def test_a_forecast_knows_nothing_of_what_comes_after_it(cell: str) -> None:
    model, (values, calendar) = made(cell), series()
    said = torch.randn(BATCH, STEPS - 1) + 20
    changed, other = said.clone(), calendar.clone()
    changed[:, 6:] += 3
    other[:, KNOWN + 6 :] += 1
    with torch.no_grad():
        before, after = model(values, calendar, said), model(values, other, changed)
    assert torch.allclose(before[:, :7], after[:, :7], atol=1e-4)
    assert not torch.allclose(before[:, 7:], after[:, 7:], atol=1e-2)


@pytest.mark.parametrize("cell", CELLS)
@settings(max_examples=15, deadline=None)
@given(a=st.floats(0.01, 100), b=st.floats(-100, 100))
def test_forecasts_move_and_stretch_with_the_series(cell: str, a: float, b: float) -> None:
    model, (values, calendar) = made(cell).double(), series()
    values, calendar = values.double(), calendar.double()
    with torch.no_grad():
        found, other = model.forecast(values, calendar), model.forecast(a * values + b, calendar)
    assert torch.allclose(other, a * found + b, rtol=1e-6, atol=1e-6 * (a + abs(b)))


@pytest.mark.parametrize("cell", CELLS)
def test_quantiles_are_in_order_and_all_weights_learn(cell: str) -> None:
    model, (values, calendar) = made(cell).train(), series()
    found = model(values, calendar, torch.randn(BATCH, STEPS - 1) + 20)
    assert (found.diff(dim=-1) > 0).all()
    found.square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())


def test_numbers_that_repeat_each_season_go_on_in_the_same_way() -> None:
    model, (_, calendar) = made("gru"), series()
    values = torch.arange(SEASON).float().repeat(4)[:KNOWN].expand(BATCH, -1)
    with torch.no_grad():
        found = model.forecast(values, calendar)
    expected = (KNOWN + torch.arange(STEPS)) % SEASON
    assert torch.equal(found, expected[None, :, None].expand_as(found).float())


@pytest.mark.parametrize(("cell", "paths"), [("gru", 2), ("lstm", 2), ("transformer", 2), ("rnn", 0)])
def test_weights_over_the_past_are_delivered(cell: str, paths: int) -> None:
    model, (values, calendar) = made(cell), series()
    with torch.no_grad(), recording(model) as seen:
        model(values, calendar, torch.zeros(BATCH, STEPS - 1) + 20)
    assert len(seen) == paths
    for path in seen:
        weights, count = seen[path], KNOWN - SEASON + STEPS - 1
        assert weights.shape == (BATCH, 3 if cell == "transformer" else 1, count, count)
        assert (weights.triu(1) == 0).all()
        if cell == "transformer":
            assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5)
        assert model.looks(path) == ("target", "source")
