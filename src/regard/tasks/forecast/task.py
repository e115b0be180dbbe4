"""The task: series in, quantiles of their next numbers out.

A forecast has K steps, data.horizon. Its quantiles are those that the model says, moved away from the median, or
towards it, by one factor: that for which forecasts of `BACK` horizons before, of numbers that are known by now, would
have had the promised share of them inside of the interval (conformal prediction, Vovk 2005).

B batch  T known steps  K steps ahead  Q levels
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy
import torch
from torch import Tensor, nn

from regard import models
from regard.data.series.frequency import Frequency
from regard.data.series.series import Numbers, Series
from regard.data.series.table import read, series_of
from regard.data.series.windows import WindowBatch, Windows, WindowStream
from regard.data.splits import Splits
from regard.decoding.protocol import evaluation
from regard.errors import RegardError, cut, shown
from regard.models.facts import ModelConfig
from regard.tasks.base import Codec, Exam, Looking, Objective, RunOptions, Score, Setting, Side, Sight, Task, Work
from regard.tasks.counting import counter
from regard.tasks.forecast.baselines import naive2, seasonal_naive
from regard.tasks.forecast.measures import coverage, mase, naive_scale, owa, pinball, smape
from regard.tasks.forecast.plan import Plan, SeriesData, grows
from regard.tasks.forecast.surface import HIGH, LEVEL, LOW, Asked, Forecasts
from regard.tasks.forecast.surface import Forecast as Row
from regard.tasks.modules import ContinuesSeries
from regard.tasks.parts import means
from regard.tasks.together import together

CUTS = 4  # points from which a rolling origin forecasts
TOGETHER = 1024  # windows that are continued together
LEAST = 8  # numbers that a factor is measured on
BACK, MOST_BACK = 2, 32  # horizons before a forecast in which others begin, and how many of these
REPORTED = ("pinball", "coverage", "seasonal_naive_mase", "seasonal_naive_smape")


@dataclass(frozen=True)
class Place:
    """A series, and the step from which it is forecast: what stands there or later is not known."""

    series: Series
    origin: int

    @property
    def past(self) -> Numbers:
        return self.series.values[: self.origin]


class Forecast(Task[SeriesData, list[Series], Asked, list[Row], WindowBatch]):
    forms = ("series",)
    honours = frozenset({"training.batch_size"})
    data = SeriesData
    surface = Forecasts()

    def __init__(self, plan: Plan, data: SeriesData) -> None:
        self.plan, self.settings = plan, data
        self.windows = Windows(plan.context, plan.season, plan.log)

    @classmethod
    def from_setting(cls, setting: Setting[SeriesData], codec: Codec) -> Self:
        return cls(Plan.kept(codec.numbers), setting.data)

    # what there is to learn from

    @classmethod
    def read(cls, entry: object, data: SeriesData, *, key: str) -> list[Series]:
        """The series of tables, which are judged on their last data.horizon steps."""
        if not entry:
            raise RegardError(f"{key} is missing; name a table, such as --set {key}=my.csv")
        names = entry if isinstance(entry, list) else [entry]
        found = [series for name in names for series in read(str(name), data.columns, fill=data.fill)]
        plan = Plan.of(data, found[0].frequency)
        for each in found:
            _require_same(each, plan.frequency)
        return [replace(each, judged=max(len(each) - plan.horizon, 0)) for each in found]

    @classmethod
    def open(cls, setting: Setting[SeriesData], work: Work | None) -> Splits[list[Series]]:
        data = setting.data
        known = [replace(each, judged=None) for each in cls.read(data.train, data, key="data.train")]
        plan, test = Plan.of(data, known[0].frequency), None
        if data.test:
            test = cls.read(data.test, data, key="data.test")
            _require_unlearned(known, test)
        if data.valid:
            return Splits(_enough(known, plan), cls.read(data.valid, data, key="data.valid"), test)
        held = data.hold_out or plan.horizon
        apart = [each for each in known if len(each) >= held + plan.season + 2]
        kept = [each.cut(len(each) - held) if each in apart else each for each in known]
        if not apart:
            longest = max(map(len, known))
            raise RegardError(
                f"the longest series has {longest:,} steps to learn from, too few to hold {held} out and keep "
                f"{plan.season + 2}; lower data.hold_out, data.horizon or data.season_length, or name data.valid"
            )
        return Splits(_enough(kept, plan), [replace(each, judged=len(each) - held) for each in apart], test)

    @classmethod
    def lines(cls, examples: list[Series]) -> Iterator[str]:
        return iter(dict.fromkeys(each.place for each in examples))

    @classmethod
    def learn(cls, setting: Setting[SeriesData], train: list[Series], body: Codec | None) -> Codec:
        plan = Plan.of(setting.data, train[0].frequency)
        log = grows(train, plan.season) if setting.data.log is None else setting.data.log
        return Codec(numbers=replace(plan, log=log).numbers())

    # learning

    def module(self, model: ModelConfig) -> nn.Module:
        return models.from_config(model, season=self.plan.season, calendar=2 * len(self.plan.frequency.cycles))

    def batches(self, examples: list[Series], setting: Setting[SeriesData], work: Work, *, name: str) -> WindowStream:
        self._require_positive(examples)
        return WindowStream(
            examples,
            self.windows,
            ahead=self.plan.horizon,
            batch_size=setting.batch_size,
            seed=setting.seed,
            share=work.share,
        )

    def loss(self, model: nn.Module, batch: WindowBatch, *, plain: bool = False) -> Tensor:
        """Twice the pinball loss of each step in units of the window's scale, averaged over levels, summed over steps.

        The medians that are fed back are the model's own, and take no gradient. A window whose scale is 0 has no loss.
        """
        module = _continuing(model)
        known, calendar = batch.values[:, : batch.known], batch.calendar[:, 1:]
        with torch.no_grad():
            said = module.forecast(known, calendar)[:, :-1, len(module.levels) // 2]
        wanted = batch.values[:, batch.known :].unsqueeze(-1)  # (B, K, 1)
        scale = module.scales(known).unsqueeze(-1)
        error = (wanted - module(known, calendar, said)) / torch.where(scale > 0, scale, 1.0)
        error = error.masked_fill(wanted.isnan() | (scale == 0), 0.0)
        levels = error.new_tensor(module.levels)
        return 2 * torch.maximum(levels * error, (levels - 1) * error).mean(-1).sum()

    # judging

    def objective(self, splits: Splits[list[Series]]) -> Objective:
        return Objective("pinball")

    def quick_exam(self, valid: list[Series], batches: object) -> Exam:
        return self._exam(valid, fit=False)

    def exam(self, examples: list[Series], options: RunOptions, *, tokenize: str = "13a") -> Exam:
        return self._exam(examples, fit=True)

    def _exam(self, examples: list[Series], *, fit: bool) -> Exam:
        self._require_positive(examples)
        rolling = [place for each in examples for place in self.places(each)]
        if not rolling:
            raise RegardError("no series has steps to judge and enough before them; give longer series")
        _tell_short([each for each in examples if not self.places(each)], len(examples), "judged")
        if all(numpy.isnan(naive_scale(place.past, self.plan.season)) for place in rolling):
            raise RegardError("every series repeats itself before its last steps, so errors have no scale; give others")
        return Exam(f"{len(rolling):,} forecasts", lambda model: self.scores(model, rolling, fit=fit))

    def places(self, series: Series) -> list[Place]:
        """The cut points of a series: the first step that is judged, and others at equal distances up to the end."""
        begin, count = max(series.begin, self.plan.season + 2), len(series)
        cuts = sorted({begin + number * (count - begin) // CUTS for number in range(CUTS)})
        return [Place(series, at) for at in cuts if at < count]

    def scores(self, model: nn.Module, places: Sequence[Place], *, fit: bool = True) -> dict[str, Score]:
        """Means over the forecasts from all cut points, and over those from the first of each series ("fixed")."""
        levels = _continuing(model).levels

        def part(some: Sequence[Place]) -> list[dict[str, float]]:
            found = self.continued(model, some, fit=fit)
            return [self._judged(place, said, levels) for place, said in zip(some, found, strict=True)]

        judged = together(places, part)
        first = [judged[number] for number, place in enumerate(places) if place == self.places(place.series)[0]]
        rolling, fixed = _means(judged), _means(first)
        reference = rolling["naive2_smape"], rolling["naive2_mase"]
        rolling["owa"] = owa((rolling["smape"], rolling["mase"]), reference)
        several = f"{len(places):,} forecasts, up to {self.plan.horizon} steps from {CUTS} cut points of each series"
        once = f"{len(first):,} of them, from the first cut point of each series"
        names = ("mase", "smape", *REPORTED)
        each, ones = ({name: means(found[name] for found in some) for name in names} for some in (judged, first))
        scores = {name: Score(rolling[name], several, each.get(name)) for name in ("mase", "smape", "owa", *REPORTED)}
        return scores | {f"fixed_{name}": Score(fixed[name], once, ones[name]) for name in names}

    def _judged(self, place: Place, quantiles: Numbers, levels: Sequence[float]) -> dict[str, float]:
        """The scores of one forecast, quantiles (K, Q)."""
        y = place.series.values[place.origin : place.origin + self.plan.horizon]
        quantiles, scale = quantiles[: len(y)], naive_scale(place.past, self.plan.season)
        said = {
            "": quantiles[:, len(levels) // 2],
            "seasonal_naive_": seasonal_naive(place.past, self.plan.season, len(y)),
            "naive2_": naive2(place.past, self.plan.season, len(y)),
        }
        scores = {f"{name}mase": mase(y, f, scale) for name, f in said.items()}
        scores |= {f"{name}smape": smape(y, f) for name, f in said.items()}
        inside = coverage(y, quantiles[:, 0], quantiles[:, -1])
        return {**scores, "pinball": pinball(y, quantiles, levels) / scale, "coverage": 100 * inside}

    # answering and looking

    def continued(self, model: nn.Module, places: Sequence[Place], *, fit: bool = True) -> list[Numbers]:
        """The quantiles (K, Q) of the steps after each place; with `fit`, as wide as the forecasts before it show."""
        back = [self._before(place) if fit else [] for place in places]
        whole = self._quantiles(model, [*places, *(each for group in back for each in group)])
        found, used = [], len(places)
        for place, group, said in zip(places, back, whole[: len(places)], strict=True):
            factor = self._factor(group, whole[used : used + len(group)], place.origin)
            used += len(group)
            median = said[:, said.shape[1] // 2, None]
            found.append(self.windows.outward(median + factor * (said - median)))
        return found

    def _before(self, place: Place) -> list[Place]:
        """Places before one, where the past is long enough."""
        first = max(place.origin - BACK * self.plan.horizon, self.plan.season + 2)
        step = max(-(-(place.origin - first) // MOST_BACK), 1)
        return [Place(place.series, at) for at in range(place.origin - 1, first - 1, -step)]

    def _factor(self, places: Sequence[Place], said: Numbers, end: int) -> float:
        """How much wider intervals must be so that LEVEL percent of the numbers before `end` are inside of them."""
        ratios = [numpy.zeros(0)]
        for place, quantiles in zip(places, said, strict=True):
            y = self.windows.inward(place.series.values[place.origin : min(place.origin + self.plan.horizon, end)])
            low, median, high = quantiles[: len(y), [0, quantiles.shape[1] // 2, -1]].T
            width = numpy.where(y > median, high - median, median - low)
            ratios.append(numpy.abs(y - median)[width > 0] / width[width > 0])
        joined = numpy.concatenate(ratios)
        return float(numpy.quantile(joined, LEVEL / 100)) if len(joined) >= LEAST else 1.0

    def _quantiles(self, model: nn.Module, places: Sequence[Place]) -> Numbers:
        """What the model says of the steps after places, as numbers that it reads: (places, K, Q)"""
        module, device, more = _continuing(model), next(model.parameters()).device, counter(len(places))
        found = []
        for begin in range(0, len(places), TOGETHER):
            group = places[begin : begin + TOGETHER]
            batch = self.windows.cut(
                [each.series for each in group], [each.origin for each in group], ahead=self.plan.horizon
            ).to(device)
            with evaluation(model):
                said = module.forecast(batch.values[:, : batch.known], batch.calendar[:, 1:])
            found.append(said.double().cpu().numpy() + batch.levels[:, None, None])
            more(len(group))
        return numpy.concatenate(found)

    def answer(self, model: nn.Module, asked: Sequence[Asked], options: RunOptions) -> list[list[Row]]:
        tables = [self.series(each) for each in asked]
        found = iter(self.continued(model, [Place(each, len(each)) for table in tables for each in table]))
        return [[row for series in table for row in self._rows(series, next(found))] for table in tables]

    def series(self, asked: Asked) -> list[Series]:
        """The series of a table that is to be continued."""
        data = self.settings
        if asked.table is None:
            found = read(asked.name, data.columns, fill=data.fill)
        else:
            found = series_of(asked.table, fill=data.fill)
        for each in found:
            _require_same(each, self.plan.frequency)
            if len(each) < self.plan.season + 2:
                raise RegardError(
                    f"{each.place}: series {each.name!r} has {len(each)} steps, and {self.plan.season + 2} are "
                    "needed to continue it"
                )
        self._require_positive(found)
        return found

    def _require_positive(self, series: Sequence[Series]) -> None:
        """Refuse numbers that have no logarithm, where these are learned."""
        for each in series if self.plan.log else ():
            if (each.values <= 0).any():
                at = int((each.values <= 0).argmax())
                raise RegardError(
                    f"{each.place}: series {each.name!r} has {each.values[at]:g} at {each.texts(at, at + 1)[0]}, which "
                    "has no logarithm; train with data.log=false"
                )

    def _rows(self, series: Series, quantiles: Numbers) -> list[Row]:
        times = series.texts(len(series), len(series) + len(quantiles))
        middle = quantiles.shape[1] // 2
        return [
            {"unique_id": series.name, "ds": time, "forecast": row[middle], LOW: row[0], HIGH: row[-1]}
            for time, row in zip(times, quantiles.tolist(), strict=True)
        ]

    def sight(self, model: nn.Module, asked: Asked, look: Looking) -> Sight:
        """What the forecast of the first series of a table looks at: the past, and what was said before each step."""
        (series, *others), module = self.series(asked), _continuing(model)
        end, ahead = len(series), self.plan.horizon
        (quantiles,) = self.continued(model, [Place(series, end)])
        batch = self.windows.cut([series], [end], ahead=ahead).to(next(model.parameters()).device)
        known, calendar = batch.values[:, : batch.known], batch.calendar[:, 1:]
        with evaluation(model):
            said = module.forecast(known, calendar)[:, :-1, len(module.levels) // 2]
        first = end - self.plan.context + module.lag
        past = self.windows.outward(batch.values[0, module.lag : batch.known].double().cpu().numpy() + batch.levels)
        median, low, high = (tuple(quantiles[:, at].tolist()) for at in (quantiles.shape[1] // 2, 0, -1))
        notes = [f"Only the first of {len(others) + 1:,} series is shown."] if others else []
        return Sight(
            title=f"{series.name}, {ahead} {self.plan.frequency} after {series.texts(end - 1, end)[0]}",
            source=Side(
                tuple(series.texts(first, end + ahead - 1)),
                kind="steps",
                values=(*past.tolist(), *[numpy.nan] * (ahead - 1)),
            ),
            logits=lambda _places: module(known, calendar, said)[0],
            given=(known, calendar, said),
            read=lambda *given: module(*given),
            sides=module.looks,
            embedding=None,
            notes=tuple(notes),
            rows=ahead,
            more={
                "target": Side(
                    tuple(series.texts(end, end + ahead)),
                    kind="steps",
                    values=median,
                    bands=((LEVEL / 100, low, high),),
                )
            },
        )


def _continuing(model: nn.Module) -> ContinuesSeries:
    found: Any = model
    if not isinstance(found, ContinuesSeries):
        raise RegardError(f'{type(model).__name__} does not continue series; take kind = "forecaster"')
    return found


def _require_same(series: Series, frequency: Frequency) -> None:
    if (series.frequency.unit, series.frequency.step) != (frequency.unit, frequency.step):
        raise RegardError(
            f"{series.place}: the steps of series {series.name!r} are {series.frequency}, and the others are "
            f"{frequency}; one model has steps of one length, and needs times where it learned from times"
        )


def _require_unlearned(train: Sequence[Series], test: Sequence[Series]) -> None:
    """Refuse a test on steps that are learned from."""
    ends = {each.name: int(each.positions(len(each) - 1, len(each))[0]) for each in train if len(each)}
    for each in test:
        if each.name in ends and each.positions(each.begin, each.begin + 1)[0] <= ends[each.name]:
            raise RegardError(
                f"data.test judges series {cut(each.name)!r} from {each.texts(each.begin, each.begin + 1)[0]} on, "
                "which data.train learns from; name the last time to learn from, as in data.train=my.csv?until=2020-12"
            )


def _enough(series: list[Series], plan: Plan) -> list[Series]:
    """The series that are long enough to learn from."""
    found = [each for each in series if len(each) >= plan.season + 2]
    if not found:
        raise RegardError(
            f"no series has {plan.season + 2} steps to learn from: one season of {plan.season} and two more; "
            f"set data.season_length lower (it is {shown(plan.season)})"
        )
    _tell_short([each for each in series if len(each) < plan.season + 2], len(series), "learned from")
    if all(numpy.isnan(naive_scale(each.values, plan.season)) for each in found):
        what = "has the same number at every step" if plan.season == 1 else f"repeats itself after {plan.season} steps"
        raise RegardError(f"{found[0].place}: every series {what}, so there is nothing to learn")
    return found


def _tell_short(short: Sequence[Series], count: int, what: str) -> None:
    """A warning of series that are too short."""
    if short:
        warnings.warn(
            f"{short[0].place}: {len(short):,} of {count:,} series are too short to be {what}, among them "
            f"{cut(short[0].name)!r} with {len(short[0]):,} steps",
            stacklevel=2,
        )


def _means(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each score, over those that are numbers."""
    found = {}
    for name in scores[0]:
        known = [each[name] for each in scores if not numpy.isnan(each[name])]
        found[name] = float(numpy.mean(known)) if known else float("nan")
    return found
