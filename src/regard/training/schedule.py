"""Learning rates: plain functions of the step, which counts updates from 1, so that nothing has to be stored.

    noam          r · M^−½ · min(t^−½, t · w^−3/2)                        Vaswani 2017, equation 3, times r
    inverse_sqrt  r · t/w                 until t = w, then r · √(w/t)
    cosine        r · t/w                 until t = w, then l + (r − l) · (1 + cos π(t − w)/(T − w)) / 2
    linear        r · t/w                 until t = w, then l + (r − l) · (T − t)/(T − w)
    constant      r · t/w                 until t = w, then r

t is the step, r `learning_rate`, l `lowest_rate`, w `warmup`, T `steps`, M the width of the model.

Under a plan for some minutes (`plan.py`) every schedule ends at l. With p the progress of the plan and h the highest
rate, which is the recipe's own even where the plan has a shorter warm-up:

    cosine        l + (h − l) · (1 + cos πp) / 2
    linear        l + (h − l) · (1 − p)
    constant      l + (h − l) · min(1, (1 − p) / F)                       F the share of the last fall
    noam          l + (h √(w/t) − l) · min(1, (1 − p) / F)                and inverse_sqrt
"""

from __future__ import annotations

import math
from collections.abc import Callable

from regard.errors import RegardError
from regard.training.config import TrainingConfig
from regard.training.plan import Plan

Schedule = Callable[[int], float]
LAST_FALL = 0.2  # of a planned run: where constant, noam and inverse_sqrt fall to the lowest rate (Hägele 2024)


def noam(step: int, *, learning_rate: float, warmup: int, width: int) -> float:
    return learning_rate * width**-0.5 * min(step**-0.5, step * warmup**-1.5)


def inverse_sqrt(step: int, *, learning_rate: float, warmup: int) -> float:
    return learning_rate * (step / warmup if step < warmup else math.sqrt(warmup / step))


def cosine(step: int, *, learning_rate: float, warmup: int, steps: int, lowest_rate: float = 0.0) -> float:
    if step < warmup:
        return learning_rate * step / warmup
    left = (1 + math.cos(math.pi * _progress(step, warmup, steps))) / 2
    return lowest_rate + (learning_rate - lowest_rate) * left


def linear(step: int, *, learning_rate: float, warmup: int, steps: int, lowest_rate: float = 0.0) -> float:
    if step < warmup:
        return learning_rate * step / warmup
    return lowest_rate + (learning_rate - lowest_rate) * (1 - _progress(step, warmup, steps))


def constant(step: int, *, learning_rate: float, warmup: int) -> float:
    return learning_rate * (step / warmup if step < warmup else 1.0)


def build(config: TrainingConfig, *, width: int | None = None) -> Schedule:
    """The schedule a recipe asks for, as a function of the step alone. Only noam needs the width of the model."""
    rate, warmup, steps, lowest = config.learning_rate, config.warmup, config.steps, config.lowest_rate
    if config.schedule == "noam":
        if width is None:
            raise RegardError('schedule="noam" scales with the width of the model, which has none; try "inverse_sqrt"')
        return lambda step: noam(step, learning_rate=rate, warmup=warmup, width=width)
    if config.schedule == "inverse_sqrt":
        return lambda step: inverse_sqrt(step, learning_rate=rate, warmup=warmup)
    if config.schedule == "cosine":
        return lambda step: cosine(step, learning_rate=rate, warmup=warmup, steps=steps, lowest_rate=lowest)
    if config.schedule == "linear":
        return lambda step: linear(step, learning_rate=rate, warmup=warmup, steps=steps, lowest_rate=lowest)
    return lambda step: constant(step, learning_rate=rate, warmup=warmup)


def under(plan: Plan, config: TrainingConfig, *, width: int | None = None) -> Schedule:
    """The schedule under a plan; until it was made, that of the recipe. The rate rises to the same height as there."""
    free, lowest = build(config, width=width), config.lowest_rate
    highest = free(config.warmup) if config.warmup else config.learning_rate

    def rate(step: int) -> float:
        if step <= plan.begin:
            return free(step)
        if step < plan.warmup:
            return highest * step / plan.warmup
        progress = plan.progress(step)
        if config.schedule == "cosine":
            return lowest + (highest - lowest) * (1 + math.cos(math.pi * progress)) / 2
        if config.schedule == "linear":
            return lowest + (highest - lowest) * (1 - progress)
        held = highest if config.schedule == "constant" else highest * math.sqrt(plan.warmup / step)
        return lowest + (held - lowest) * min((1 - progress) / LAST_FALL, 1.0)

    return rate


def _progress(step: int, warmup: int, steps: int) -> float:
    """How far the decay has come, from 0 at the end of the warm-up to 1 at the last step and after."""
    return min((step - warmup) / max(steps - warmup, 1), 1.0)
