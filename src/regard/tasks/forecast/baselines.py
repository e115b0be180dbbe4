"""Forecasts without learning, to compare with. Each takes the past of a series, its season m, and how many steps."""

from __future__ import annotations

import numpy

from regard.data.series.series import Numbers

CERTAIN = 1.645  # of the test of seasonality: the normal score of 90 %, two-sided


def seasonal_naive(past: Numbers, season: int, steps: int) -> Numbers:
    """The last season again and again; of a past shorter than a season, the last number."""
    last = past[-season:] if len(past) >= season else past[-1:]
    found: Numbers = numpy.resize(last, steps)
    return found


def naive2(past: Numbers, season: int, steps: int) -> Numbers:
    """The last number without its seasonal factor, times the factors of the steps ahead (Makridakis 2020).

    The factors are 1 unless the autocorrelation at a season is significant and all numbers are positive.
    """
    factors = seasonal_factors(past, season)
    ahead = numpy.arange(len(past), len(past) + steps) % season
    return past[-1] / factors[(len(past) - 1) % season] * factors[ahead]


def theta(past: Numbers, season: int, steps: int) -> Numbers:
    """The Theta method: exponential smoothing of the seasonally adjusted series, plus half of its linear trend
    (Assimakopoulos 2000, in the form of Hyndman 2003)."""
    factors = seasonal_factors(past, season)
    adjusted, n = past / factors[numpy.arange(len(past)) % season], len(past)
    slope = float(numpy.polyfit(numpy.arange(n), adjusted, 1)[0]) if n > 1 else 0.0
    alpha, level = min((_smoothed(adjusted, alpha) for alpha in numpy.linspace(0.05, 1, 39)), key=lambda s: s[2])[:2]
    drift = slope / 2 * (numpy.arange(steps) + (1 - (1 - alpha) ** n) / alpha)
    return (level + drift) * factors[numpy.arange(n, n + steps) % season]


def _smoothed(past: Numbers, alpha: float) -> tuple[float, float, float]:
    """Simple exponential smoothing: alpha, the last level, and the sum of squared errors one step ahead."""
    level, errors = float(past[0]), 0.0
    for number in past[1:].tolist():
        errors += (number - level) ** 2
        level += alpha * (number - level)
    return alpha, level, errors


def seasonal_factors(past: Numbers, season: int) -> Numbers:
    """The factor of each step of a season, counted from the first number, by classical multiplicative decomposition."""
    if season == 1 or not is_seasonal(past, season) or past.min() <= 0:
        return numpy.ones(season)
    window = numpy.ones(season) if season % 2 else numpy.r_[0.5, numpy.ones(season - 1), 0.5]
    trend = numpy.convolve(past, window / season, "valid")
    first = len(window) // 2
    ratios = past[first : first + len(trend)] / trend
    at = (numpy.arange(len(trend)) + first) % season
    factors = numpy.array([ratios[at == each].mean() for each in range(season)])
    return factors / factors.mean()


def is_seasonal(past: Numbers, season: int) -> bool:
    """Whether the autocorrelation at lag m exceeds 1.645 √((1 + 2 Σ_{i<m} r_i²) / N), of three seasons or more
    (Makridakis 2020)."""
    if len(past) < 3 * season:
        return False
    centred = past - past.mean()
    power = float(centred @ centred)
    if power == 0:
        return False
    r = numpy.array([centred[lag:] @ centred[:-lag] for lag in range(1, season + 1)]) / power
    return bool(abs(r[-1]) > CERTAIN * numpy.sqrt((1 + 2 * (r[:-1] ** 2).sum()) / len(past)))
