"""How good forecasts are. y are K numbers that came, f those that were forecast, m the steps in a season."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from regard.data.series.series import Numbers


def smape(y: Numbers, f: Numbers) -> float:
    """200 / K · Σ |y − f| / (|y| + |f|), in percent; a step where both are 0 counts 0 (Makridakis 2020)."""
    size = numpy.abs(y) + numpy.abs(f)
    return float(200 * numpy.mean(numpy.abs(y - f) / numpy.where(size > 0, size, 1)))


def naive_scale(past: Numbers, season: int) -> float:
    """The mean of |y_t − y_{t−m}| over the past; that of |y_t − y_{t−1}| for a past of less than a season, NaN for one
    without changes."""
    lag = season if len(past) > season else 1
    found = float(numpy.abs(past[lag:] - past[:-lag]).mean()) if len(past) > lag else 0.0
    return found if found > 0 else numpy.nan


def mase(y: Numbers, f: Numbers, scale: float) -> float:
    """Σ |y − f| / (K · scale), where the scale is `naive_scale` of the past (Hyndman 2006)."""
    return float(numpy.abs(y - f).mean() / scale)


def owa(scores: tuple[float, float], reference: tuple[float, float]) -> float:
    """½ (sMAPE / that of Naive2 + MASE / that of Naive2), of means over all series (Makridakis 2020)."""
    return sum(own / other if other else numpy.nan for own, other in zip(scores, reference, strict=True)) / 2


def pinball(y: Numbers, quantiles: Numbers, levels: Sequence[float]) -> float:
    """2 / (K Q) · Σ max(p (y − q_p), (p − 1) (y − q_p)), quantiles (K, Q). For the median alone it is |y − q|."""
    error, level = y[:, None] - quantiles, numpy.array(levels)
    return float(2 * numpy.maximum(level * error, (level - 1) * error).mean())


def coverage(y: Numbers, low: Numbers, high: Numbers) -> float:
    """The share of numbers inside of an interval, its ends included."""
    return float(((low <= y) & (y <= high)).mean())
