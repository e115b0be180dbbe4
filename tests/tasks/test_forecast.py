"""Forecasts: measures against their definitions, baselines worked by hand, and one tiny run from table to picture."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard import recipes
from regard.commands.run import run
from regard.data.series.frequency import Frequency
from regard.data.series.series import Numbers, Series
from regard.data.series.windows import Windows, WindowStream
from regard.errors import RegardError
from regard.models.forecaster import LEVELS, Forecaster, ForecasterConfig
from regard.tasks.base import RunOptions
from regard.tasks.forecast.baselines import is_seasonal, naive2, seasonal_factors, seasonal_naive, theta
from regard.tasks.forecast.measures import coverage, mase, naive_scale, owa, pinball, smape
from regard.tasks.forecast.plan import Plan, SeriesData, grows
from regard.tasks.forecast.surface import Asked, Forecasts
from regard.tasks.forecast.task import Forecast, Place

MONTHS = Frequency("month", 1)
Y, F = numpy.array([2.0, 4.0, 0.0]), numpy.array([1.0, 5.0, 0.0])


def wave(length: int, *, name: str = "a", season: int = 4, seed: int = 0) -> Series:
    noise = numpy.random.default_rng(seed).normal(0, 0.3, length)
    values = 50 + 0.5 * numpy.arange(length) + 6 * numpy.sin(2 * numpy.pi * numpy.arange(length) / season) + noise
    return Series(name, 0, values, Frequency("step", 1))


# measures and baselines


def test_measures_worked_by_hand() -> None:
    assert smape(Y, F) == pytest.approx(200 / 3 * (1 / 3 + 1 / 9 + 0))
    assert naive_scale(numpy.array([1.0, 5.0, 2.0, 9.0, 3.0]), 2) == pytest.approx((1 + 4 + 1) / 3)
    assert naive_scale(numpy.array([1.0, 5.0, 2.0]), 4) == pytest.approx((4 + 3) / 2)
    assert math.isnan(naive_scale(numpy.ones(9), 2))
    assert mase(Y, F, 2.0) == pytest.approx((1 + 1 + 0) / 3 / 2)
    assert owa((10.0, 1.0), (20.0, 4.0)) == pytest.approx((0.5 + 0.25) / 2)
    assert coverage(Y, numpy.array([2.0, 4.5, -1.0]), numpy.array([3.0, 5.0, 0.0])) == pytest.approx(2 / 3)


def test_the_pinball_loss_is_its_definition() -> None:
    generator = numpy.random.default_rng(1)
    y, q, levels = generator.normal(size=7), generator.normal(size=(7, 3)), (0.1, 0.5, 0.8)
    total = 0.0
    for k in range(7):
        for at, p in enumerate(levels):
            total += p * (y[k] - q[k, at]) if y[k] >= q[k, at] else (1 - p) * (q[k, at] - y[k])
    assert pinball(y, q, levels) == pytest.approx(2 * total / 21)
    assert pinball(y, q[:, :1], (0.5,)) == pytest.approx(numpy.abs(y - q[:, 0]).mean())


def test_baselines_worked_by_hand() -> None:
    past = numpy.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert seasonal_naive(past, 3, 5).tolist() == [3, 4, 5, 3, 4]
    assert seasonal_naive(past, 8, 2).tolist() == [5, 5]
    assert naive2(past, 1, 2).tolist() == [5, 5]
    pattern = numpy.tile([8.0, 10.0, 12.0, 10.0], 6)
    assert is_seasonal(pattern, 4)
    assert seasonal_factors(pattern, 4) == pytest.approx([0.8, 1, 1.2, 1])
    assert naive2(pattern, 4, 5) == pytest.approx([8, 10, 12, 10, 8])
    assert theta(pattern, 4, 4) == pytest.approx([8, 10, 12, 10], abs=0.2)
    assert not is_seasonal(numpy.arange(3.0), 4)
    assert not is_seasonal(numpy.ones(40), 4)


def test_theta_of_a_line_goes_on_with_half_of_its_slope() -> None:
    found = theta(numpy.arange(1.0, 31.0), 1, 3)  # smoothing follows the line, with alpha 1
    assert found == pytest.approx([30.5, 31, 31.5], abs=1e-6)


# windows


def test_windows_hold_the_known_numbers_and_those_after_them() -> None:
    series = Series("a", 0, numpy.arange(1.0, 11.0), MONTHS)
    batch = Windows(4, 3).cut([series, series], [4, 8], ahead=3)
    assert (batch.values + torch.from_numpy(batch.levels)[:, None])[0].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert batch.values[1].tolist()[:6] == [-3, -2, -1, 0, 1, 2]
    assert batch.values[1].isnan().tolist() == [False] * 6 + [True]
    assert (batch.known, batch.targets) == (4, 5)
    assert batch.calendar[0, :, 0] == pytest.approx([math.sin(2 * math.pi * at / 12) for at in range(7)], abs=1e-6)
    short = Windows(8, 3, log=True).cut([series], [4], ahead=1)
    known = (short.values + torch.from_numpy(short.levels)[:, None]).exp()[0]
    assert known.tolist() == pytest.approx(
        [3, 1, 2, 3, 1, 2, 3, 4, 5], rel=1e-5
    )  # the first season goes on to the left


def test_large_numbers_keep_their_small_changes() -> None:
    series = Series("a", 0, 1e9 + numpy.arange(20) / 10, Frequency("step", 1))
    assert Windows(4, 1).cut([series], [10], ahead=1).values[0] == pytest.approx([-0.3, -0.2, -0.1, 0, 0.1], abs=1e-6)


def test_every_origin_is_in_one_batch_and_order_depends_on_seed_and_epoch() -> None:
    series = [wave(30), wave(9, name="b")]
    stream = WindowStream(series, Windows(8, 4), ahead=5, batch_size=4, seed=1)
    assert stream.places.tolist() == [[0, at] for at in range(8, 30)] + [[1, at] for at in range(5, 9)]
    first, again, other = (list(stream.epoch(number)) for number in (0, 0, 1))
    assert sum(len(batch.values) for batch in first) == len(stream.places)
    assert all(a.values.equal(b.values) or a.values.isnan().any() for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0].values, other[0].values)
    (later,) = list(stream.epoch(0, position=len(first) - 1))
    assert torch.equal(later.values.nan_to_num(), first[-1].values.nan_to_num())
    judged = WindowStream([replace(wave(30), judged=27)], Windows(8, 4), ahead=5, batch_size=4, seed=1)
    assert judged.places[:, 1].tolist() == [27, 28, 29]
    assert judged.checksum != stream.checksum


# the task


def task_and_model(*, log: bool = False, cell: str = "gru") -> tuple[Forecast, Forecaster]:
    data = SeriesData(season_length=4, horizon=6, context=10, log=log)
    task = Forecast(Plan.of(data, Frequency("step", 1)), data)
    torch.manual_seed(2)
    model = task.module(ForecasterConfig(width=6, heads=2, cell=cell))  # type: ignore[arg-type]
    assert isinstance(model, Forecaster)
    return task, model.eval()


def test_the_loss_is_the_pinball_loss_of_free_forecasts() -> None:
    task, model = task_and_model()
    series = wave(40)
    batch = task.windows.cut([series, series], [20, 38], ahead=6)
    expected = 0.0
    for row, origin in enumerate((20, 38)):
        said = task.continued(model, [Place(series, origin)], fit=False)[0]
        y = series.values[origin : origin + 6]
        scale = float(model.scales(batch.values[row : row + 1, : batch.known]))
        expected += pinball(y, said[: len(y)], LEVELS) * len(y) / scale
    assert batch.targets == 8
    assert task.loss(model, batch).item() == pytest.approx(expected, rel=1e-4)


def test_scores_are_those_of_their_definitions() -> None:
    task, model = task_and_model()
    series = replace(wave(60), judged=50)
    places = task.places(series)
    assert [place.origin for place in places] == [50, 52, 55, 57]
    found = task.scores(model, places)
    said = task.continued(model, places)
    errors, inside = [], []
    for place, quantiles in zip(places, said, strict=True):
        y = series.values[place.origin : place.origin + 6]
        scale = numpy.abs(series.values[4 : place.origin] - series.values[: place.origin - 4]).mean()
        errors.append(numpy.abs(y - quantiles[: len(y), 4]).mean() / scale)
        inside.append(numpy.mean((quantiles[: len(y), 0] <= y) & (y <= quantiles[: len(y), -1])))
    assert found["mase"].value == pytest.approx(numpy.mean(errors))
    assert found["fixed_mase"].value == pytest.approx(errors[0])
    assert found["coverage"].value == pytest.approx(100 * numpy.mean(inside))
    assert found["seasonal_naive_mase"].value > 0


@settings(max_examples=10, deadline=None)
@given(a=st.floats(0.1, 50), b=st.floats(-1000, 1000))
def test_forecasts_and_intervals_move_and_stretch_with_the_series(a: float, b: float) -> None:
    task, model = task_and_model()
    series = wave(60)
    (found,) = task.continued(model, [Place(series, 60)])
    (other,) = task.continued(model, [Place(replace(series, values=a * series.values + b), 60)])
    assert other == pytest.approx(a * found + b, rel=1e-3, abs=1e-3 * a)


def test_logarithms_make_forecasts_proportional_and_positive() -> None:
    task, model = task_and_model(log=True)
    series = wave(60)
    (found,) = task.continued(model, [Place(series, 60)])
    (other,) = task.continued(model, [Place(replace(series, values=7 * series.values), 60)])
    assert other == pytest.approx(7 * found, rel=1e-4)
    assert (found > 0).all()


def test_intervals_are_as_wide_as_earlier_forecasts_show() -> None:
    """Of the numbers that were known when a forecast began, 80 % are inside of the intervals of earlier forecasts, if
    these are changed by the same factor."""
    task, model = task_and_model()
    series = wave(80)
    place = Place(series, 70)
    (fitted,), (plain,) = (task.continued(model, [place], fit=fit) for fit in (True, False))
    factor = (fitted[0, -1] - fitted[0, 4]) / (plain[0, -1] - plain[0, 4])
    assert fitted[:, 4] == pytest.approx(plain[:, 4])
    inside, count = 0, 0
    for origin in range(70 - 12, 70):
        (said,) = task.continued(model, [Place(series, origin)], fit=False)
        y = series.values[origin : min(origin + 6, 70)]
        wide = said[: len(y), 4:5] + factor * (said[: len(y)] - said[: len(y), 4:5])
        inside += int(((wide[:, 0] <= y + 1e-6) & (y - 1e-6 <= wide[:, -1])).sum())
        count += len(y)
    assert inside / count == pytest.approx(0.8, abs=1.5 / count)


def test_a_series_without_changes_goes_on_without_them_and_teaches_nothing() -> None:
    task, model = task_and_model()
    still, moving = Series("still", 0, numpy.full(40, 7.0), Frequency("step", 1)), wave(40)
    (found,) = task.continued(model, [Place(still, 40)])
    assert found.tolist() == [[7.0] * 9] * 6
    alone, both = (
        task.loss(model, task.windows.cut(series, [20] * len(series), ahead=6))
        for series in ([moving], [moving, replace(still, values=numpy.r_[still.values[:20], numpy.arange(20.0)])])
    )
    assert torch.allclose(both, alone, rtol=1e-5)


def test_a_forecast_does_not_see_what_comes_after_it() -> None:
    task, model = task_and_model()
    series = wave(80)
    changed = series.values.copy()
    changed[60:] = -1000
    both = [task.continued(model, [Place(each, 60)])[0] for each in (series, replace(series, values=changed))]
    assert both[0].tolist() == both[1].tolist()


def test_answers_together_are_those_one_by_one() -> None:
    task, model = task_and_model()
    places = [Place(wave(60, seed=seed), 60 - seed) for seed in range(4)]
    together = task.continued(model, places)
    for place, found in zip(places, together, strict=True):
        assert found == pytest.approx(task.continued(model, [place])[0], rel=1e-4)


def test_logarithms_are_learned_where_changes_grow_with_the_numbers() -> None:
    def grown(values: Numbers) -> Series:
        return Series("a", 0, values, MONTHS)

    steps = numpy.arange(80)
    seasonal = numpy.sin(steps / 2)
    assert grows([grown(numpy.exp(0.03 * steps + 0.2 * seasonal))], 12)
    assert not grows([grown(100 + steps + 5 * seasonal)], 12)
    assert not grows([grown(numpy.exp(0.03 * steps) - 5)], 12)
    assert not grows([grown(numpy.ones(5))], 12)


# files, settings and errors


def table(path: Path, rows: int = 60, names: tuple[str, ...] = ("a", "b")) -> str:
    lines = ["unique_id,ds,y"]
    for number, name in enumerate(names):
        series = wave(rows, season=12, seed=number)
        months = numpy.datetime_as_string(numpy.arange("2000-01", 1000, dtype="datetime64[M]")[:rows]).tolist()
        lines += [f"{name},{month},{value:.3f}" for month, value in zip(months, series.values, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def opened(**data: object) -> list[Series]:
    wish = recipes.load("series", [f"data.{key}={json.dumps(value)}" for key, value in data.items()])
    assert recipes.is_complete(wish)
    splits = Forecast.open(recipes.setting(wish), None)  # type: ignore[arg-type]
    return [*splits.train, *splits.valid, *(splits.test or [])]


def test_the_bundled_recipe_learns_nothing_of_the_last_two_years() -> None:
    train, valid, test = opened()
    assert train.texts(len(train) - 1, len(train)) == ["1956-12-01"]
    assert (valid.texts(valid.begin, valid.begin + 1), len(valid)) == (["1957-01-01"], 120)
    assert (test.texts(test.begin, test.begin + 1), len(test)) == (["1959-01-01"], 144)


def test_a_test_on_what_is_learned_is_refused(tmp_path: Path) -> None:
    name = table(tmp_path / "a.csv")
    with pytest.raises(RegardError, match=r"data\.test judges series 'a' from 2003-01-01 on, which data\.train learns"):
        Forecast.open(_setting(train=name, test=name), None)
    splits = Forecast.open(_setting(train=f"{name}?until=2002-12", test=name, hold_out=6), None)
    assert [len(each) for each in (*splits.train, *splits.valid)] == [30, 30, 36, 36]
    assert splits.test is not None


def _setting(**data: object):
    wish = recipes.make({"task": "forecast", "data": data, "model": {"kind": "forecaster"}}, where="test")
    assert recipes.is_complete(wish)
    return recipes.setting(wish)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"context": 12}, r"data\.context = 12 is too short for a season of 12; give 14 or more"),
        ({"hold_out": 50}, r"too few to hold 50 out and keep 14"),
        ({"fill": "magic"}, r"data\.fill"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, data: dict[str, object], sentence: str) -> None:
    with pytest.raises(RegardError, match=sentence):
        Forecast.open(_setting(train=table(tmp_path / "a.csv"), **data), None)


def test_series_that_are_too_short_are_told(tmp_path: Path) -> None:
    name = table(tmp_path / "a.csv")
    with Path(name).open("a") as file:
        file.write("c,2000-01,1\n")
    with pytest.warns(
        UserWarning, match=r"1 of 3 series are too short to be learned from, among them 'c' with 1 steps"
    ):
        splits = Forecast.open(_setting(train=name), None)
    assert [each.name for each in splits.train] == ["a", "b"]
    task = Forecast(Plan(MONTHS, 12, 24, 24), SeriesData())
    with pytest.warns(UserWarning, match="1 of 3 series are too short to be judged, among them 'c'"):
        task.exam(Forecast.read(name, SeriesData(), key="data"), RunOptions())


def test_series_without_changes_are_no_lesson_and_no_test(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ds,y\n" + "".join(f"{at},{at % 4}\n" for at in range(60)))
    with pytest.raises(RegardError, match=r"a\.csv: every series repeats itself after 4 steps, so there is nothing"):
        regard.train("series", out=tmp_path / "model", changes=[f"data.train={tmp_path}/a.csv", "data.season_length=4"])
    task, _ = task_and_model()
    with pytest.raises(RegardError, match="errors have no scale"):
        task.exam([replace(wave(40), values=numpy.ones(40), judged=34)], RunOptions())


def test_numbers_without_a_logarithm_are_refused(tmp_path: Path) -> None:
    task, _ = task_and_model(log=True)
    (tmp_path / "a.csv").write_text("ds,y\n" + "".join(f"{at},{at - 3}\n" for at in range(20)))
    with pytest.raises(RegardError, match=r"a\.csv: series 'y' has -3 at 0, which has no logarithm"):
        task.series(Asked(str(tmp_path / "a.csv")))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (3.5, "are expected, and not 3.5"),
        ([], "are expected"),
        (["a"], "are expected"),
        ({"y": [1, True]}, "are expected"),
        ({"y": [1, 2], "ds": ["2020-01"]}, "must have the same length"),
        ({"y": [1, 2], "unique_id": ["a"]}, "must have the same length"),
        ({"y": [1, 2], "ds": ["2020-01", "soon"]}, "row 2 has the time 'soon'"),
    ],
)
def test_what_is_asked_in_json_is_checked(body: object, sentence: str) -> None:
    with pytest.raises(RegardError, match=sentence):
        Forecasts().from_json(body)


def test_a_list_of_numbers_and_a_table_are_continued() -> None:
    task, _ = task_and_model()
    numbers = wave(60).values.tolist()
    surface = Forecasts()
    plain, named = (task.series(surface.from_json(body)) for body in (numbers, {"unique_id": "x", "y": numbers}))
    assert (plain[0].name, named[0].name, plain[0].values.tolist()) == ("y", "x", numbers)
    assert surface.from_json(surface.parse("my.csv")) == Asked("my.csv")
    with pytest.raises(RegardError, match="has 3 steps, and 6 are needed to continue it"):
        task.series(surface.from_json([1, 2, 3]))
    with pytest.raises(RegardError, match="the steps of series 'y' are months, and the others are steps"):
        task.series(surface.from_json({"ds": ["2020-01", "2020-02"], "y": [1, 2]}))


def test_one_tiny_run_from_table_to_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = table(tmp_path / "my.csv")
    settings = ["training.steps=6", "training.validate_every=3", "training.checkpoint_every=3", "data.horizon=7"]
    model = regard.train(name, out=tmp_path / "model", changes=settings)
    assert model.recipe.task == "forecast"
    assert {"mase", "smape", "owa", "pinball", "coverage", "fixed_mase"} <= model.evaluate().keys()
    stopped = regard.train(name, out=tmp_path / "two", changes=[*settings, "training.minutes=1e-9"])
    assert stopped.report["steps"] < 6
    again = regard.train(name, out=tmp_path / "two", changes=settings)
    for one, other in zip(model.module.parameters(), again.module.parameters(), strict=True):
        assert torch.equal(one, other)

    loaded = regard.load(tmp_path / "model")
    rows = loaded(name)
    assert [row["ds"] for row in rows[:2]] == ["2005-01-01", "2005-02-01"]
    assert len(rows) == 2 * 7
    assert all(row["forecast-lo-80"] <= row["forecast"] <= row["forecast-hi-80"] for row in rows)
    run(tmp_path / "model", [[name]], {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "unique_id,ds,forecast,lo-80,hi-80"
    assert lines[8].startswith("b,2005-01-01,")
    record = loaded.look(name)
    assert record.sides["target"].items[0] == "2005-01-01"
    assert record.sides["target"].values == pytest.approx([row["forecast"] for row in rows[:7]])
    assert record.sides["source"].items[-1] == record.sides["target"].items[-2]
    (gates,) = record.maps
    assert (gates.query, gates.key, gates.kind) == ("target", "source", "gates")
    assert gates.weights.shape == (1, 7, len(record.sides["source"].items))
    assert record.notes == ("Only the first of 2 series is shown.",)
    record.save(tmp_path / "look.png")
    assert (tmp_path / "look.png").stat().st_size > 1000


@pytest.mark.parametrize("cell", ["lstm", "rnn", "transformer"])
def test_every_cell_learns_and_is_looked_into(tmp_path: Path, cell: str) -> None:
    settings = ["training.steps=2", "training.validate_every=2", "training.checkpoint_every=2", "model.heads=2"]
    model = regard.train(table(tmp_path / "a.csv"), out=tmp_path / "model", changes=[*settings, f"model.cell={cell}"])
    if cell == "rnn":
        with pytest.raises(RegardError, match="nothing to show"):
            model.look(str(tmp_path / "a.csv"))
        return
    record = model.look(str(tmp_path / "a.csv"))
    assert {each.kind for each in record.maps} == {"cross" if cell == "transformer" else "gates"}
    assert all(each.weights.shape[1] == len(record.sides["target"].items) for each in record.maps)
