"""One run of a comparison, in a process of its own, so that its peak memory is that of this run alone.

Its arguments are RECIPE.toml MODEL RESULT.json SHOW, where SHOW is "show" or "quiet". The result holds the peak memory
and the scores, with what each example adds to them. An error is written there too.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
from pydantic import BaseModel, JsonValue

from regard import durable
from regard.api.training import train
from regard.errors import RegardError
from regard.tasks.base import Score
from regard.tasks.parts import Form, Parts
from regard.training import machine


class Part(BaseModel):
    """What each example adds to a score."""

    counts: list[list[float]]
    form: Form
    factor: float


class Judged(BaseModel):
    """A score of the model."""

    value: float | None  # null is NaN
    signature: str
    parts: Part | None

    @classmethod
    def of(cls, score: Score) -> Judged:
        parts = score.parts
        kept = None if parts is None else Part(counts=parts.counts.tolist(), form=parts.form, factor=parts.factor)
        return cls(value=score.value if score.value == score.value else None, signature=score.signature, parts=kept)

    def score(self) -> Score:
        kept = self.parts
        parts = None if kept is None else Parts(numpy.array(kept.counts), kept.form, kept.factor)
        return Score(float("nan") if self.value is None else self.value, self.signature, parts)


class Result(BaseModel):
    """What a run was and came to."""

    recipe: str = ""  # as TOML
    report: dict[str, JsonValue] = {}
    peak_memory: int = 0  # bytes
    judged_on: str = ""
    scores: dict[str, Judged] = {}
    error: str = ""

    def write(self, path: Path) -> None:
        durable.write_file(path, self.model_dump_json().encode())


def read(path: Path) -> Result | None:
    """The result of a run; None if there is none, or it is damaged."""
    try:
        return Result.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None


def run(recipe: Path, model: Path, *, show: bool) -> Result:
    """Train, or resume; then score, with what each example adds."""
    trained = train(recipe, out=model, show=show)
    peak = machine.peak_memory(str(trained.report["device"]))
    scores = {name: Judged.of(score) for name, score in trained.evaluate().items()}
    report: Mapping[str, Any] = trained.report
    return Result(
        recipe=recipe.read_text(encoding="utf-8"),
        report=dict(report),
        peak_memory=peak,
        judged_on=trained.judged_on,
        scores=scores,
    )


def main() -> None:
    recipe, model, result, show = sys.argv[1:]
    warnings.formatwarning = lambda message, *_, **__: f"regard: {message}\n"
    try:
        found = run(Path(recipe), Path(model), show=show == "show")
    except KeyboardInterrupt as stopped:
        sys.exit(getattr(stopped, "code", 130))
    except RegardError as error:
        found = Result(error=str(error))
    except Exception as error:
        traceback.print_exc()
        found = Result(error=f"an unexpected error: {type(error).__name__}: {error}; report it")
    found.write(Path(result))
