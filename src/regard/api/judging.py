"""Whether int8, or the shortlist, answers as well as float32, and faster: found out on the validation data, and kept in
`runtime/`.

All forms answer in turn, some inputs each, in a process without torch: a disturbance hits all alike.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from regard import tasks
from regard.api.loading import stored_recipe
from regard.data.pairs.shortlist import NAME as SHORTLIST
from regard.directory import ModelDirectory
from regard.engines.choose import engine_of
from regard.engines.ctranslate2.apart import Apart
from regard.engines.ctranslate2.plans import ROUNDS, ComputeType, Plan, cores
from regard.engines.ctranslate2.precision import EXACT, Form, Record, Tried, fastest, keep
from regard.engines.ctranslate2.switches import Switches, worth_trying
from regard.engines.light import AnyLightEngine
from regard.errors import RegardError
from regard.recipes import Complete, setting
from regard.tasks.base import TOGETHER, AnySurface, Codec, Judges, RunOptions

Make = Callable[[Form], AnyLightEngine]
WARM = 8  # inputs that pay for loading
PROBE = 32  # inputs by which the time for all is estimated
SAMPLE = 64  # inputs by which switches are compared
GAIN = 1.05  # switches are set if they make answers so many times as fast


def judge(
    path: str | Path, *, data: str | None = None, examples: object = None, seconds: float = math.inf
) -> Record | str:
    """Judge the forms of answering for a model, unless it would take longer than some seconds; the record, or why there
    is none.

    `data` is a file of examples, and `examples` are some that were read before; otherwise the recipe's own for
    validation are read.
    """
    stored = ModelDirectory(Path(path))
    recipe = stored_recipe(stored)
    kind = tasks.task(recipe.task)
    try:
        codec = stored.codec(recipe.model.ids())
        task = kind.from_setting(setting(recipe), codec)
        if not isinstance(task, Judges):
            return f"there is no comparison of {kind.surface.answers}"
        examples = _examples(recipe, data) if examples is None else examples
        asked, options = task.inputs(examples), RunOptions(recipe.decoding)

        def make(form: Form) -> AnyLightEngine:
            return _engine(stored, kind.surface, codec, options, form)

        answered = _answered(_forms(stored, options), make, asked, options, seconds)
        exact = answered.found[EXACT]
        judged = {form: task.judged(examples, exact, found) for form, found in answered.found.items()}
        tried = [
            Tried(form=form, score=each.second, p=each.p, per_second=len(asked) / answered.taken[form])
            for form, each in judged.items()
        ]
        metric, higher = judged[EXACT].metric, judged[EXACT].higher
        best = fastest(metric, tried, higher=higher)
        sample = asked[:: -(-len(asked) // SAMPLE)]
        choices: list[Switches] = [{}, *worth_trying()]
        longer = len(choices) * (ROUNDS + 1) * len(sample) / len(asked) * answered.taken[best]
        fits = len(choices) > 1 and answered.seconds + longer < seconds
        switches = _quickest(choices, partial(make, best), sample, options) if fits else {}
        return keep(stored, tried, metric=metric, higher=higher, examples=len(asked), switches=switches)
    except RegardError as error:
        return str(error)


def _forms(stored: ModelDirectory, options: RunOptions) -> list[Form]:
    """The forms to try, the exact one first."""
    listed = options.decoding.shortlist == "measured" and (stored.path / SHORTLIST).is_file()
    precisions: list[ComputeType] = ["float32", "int8"]
    return [Form(each, shortlist) for shortlist in ([False, True] if listed else [False]) for each in precisions]


def _engine(
    stored: ModelDirectory, surface: AnySurface, codec: Codec, options: RunOptions, form: Form
) -> AnyLightEngine:
    engine = engine_of(stored, surface, codec, form, Plan(form.compute_type, workers=cores(), threads=1))
    reason = engine if isinstance(engine, str) else engine.reason(options)
    if isinstance(engine, str) or reason is not None:
        raise RegardError(f"CTranslate2 does not answer, because {reason}")
    return engine


def _examples(recipe: Complete, data: str | None) -> object:
    """Those of a file, or the recipe's own for validation."""
    kind, table = tasks.task(recipe.task), recipe.data
    if data is not None:
        return kind.read(data, table, key="data")
    if table.valid:
        return kind.read(table.valid, table, key="data.valid")
    if not table.train:
        raise RegardError("the model was trained elsewhere and names no data; name a file with regard bench --data")
    return kind.open(setting(recipe), None).valid


@dataclass
class _Answered:
    """The answers in each form, and the seconds that they took."""

    found: dict[Form, list[Any]] = field(default_factory=dict)
    taken: dict[Form, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return sum(self.taken.values())


def _answered(
    forms: Sequence[Form], make: Make, asked: Sequence[Any], options: RunOptions, seconds: float
) -> _Answered:
    """Answers to all inputs in all forms, as many together as `regard run` reads; an error if that takes too long."""
    if not asked:
        raise RegardError("there are no examples")
    apart, answered = Apart(), _Answered({form: [] for form in forms}, dict.fromkeys(forms, 0.0))
    opened = {form: make(form) for form in forms}
    for engine in opened.values():
        engine.apart = apart
        _timed(engine, asked[:WARM], options)
    probe = asked[:: -(-len(asked) // PROBE)]
    _require_time(sum(_timed(engine, probe, options)[1] for engine in opened.values()), len(probe), asked, seconds)
    for begin in range(0, len(asked), TOGETHER):
        some = asked[begin : begin + TOGETHER]
        for form, engine in opened.items():
            found, taken = _timed(engine, some, options)
            answered.found[form] += found
            answered.taken[form] += taken
        _require_time(answered.seconds, begin + len(some), asked, seconds)
    return answered


def _require_time(taken: float, done: int, asked: Sequence[Any], seconds: float) -> None:
    """Refuse if all would take longer than some seconds, where so many inputs have taken so long."""
    whole = taken * len(asked) / done
    if whole > seconds:
        raise RegardError(
            f"{len(asked):,} examples would take {whole:.0f} seconds; regard bench takes the time that it needs"
        )


def _quickest(
    tried: Sequence[Switches], make: Callable[[], AnyLightEngine], asked: Sequence[Any], options: RunOptions
) -> Switches:
    """The switches with which an engine answers fastest; the first, CTranslate2's own choice, unless others gain."""
    opened = [make() for _ in tried]
    for engine, switches in zip(opened, tried, strict=True):
        engine.apart = Apart(switches=switches)
    rounds = [[_timed(engine, asked, options)[1] for engine in opened] for _ in range(ROUNDS + 1)]
    best = [min(taken) for taken in zip(*rounds[1:], strict=True)]  # the first round warms up
    fastest = min(range(len(tried)), key=best.__getitem__)
    return tried[fastest] if best[0] > GAIN * best[fastest] else tried[0]


def _timed(engine: AnyLightEngine, asked: Sequence[Any], options: RunOptions) -> tuple[list[Any], float]:
    start = time.perf_counter()
    found = list(engine.answer_all(asked, options, together=TOGETHER))
    return found, time.perf_counter() - start
