"""report.json: what was trained, for how long, and the scores."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any

import torch

from regard.tasks.base import Score
from regard.training.run import Run
from regard.version import __version__

PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "pyarrow", "pydantic", "sacrebleu")
Report = dict[str, Any]  # report.json


def build(
    run: Run, *, task: str, kind: str, kept: Sequence[int], scores: Mapping[str, Score], flops_per_target: float
) -> Report:
    """All of report.json. `kept` are the steps whose mean the weights are, `tokens` the targets learned from;
    `tokens_per_second` leaves validation and saving out."""
    return {
        "task": task,
        "kind": kind,
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "steps": run.step,
        "tokens": run.tokens,
        "seconds": run.seconds,
        "tokens_per_second": run.tokens / run.learning_seconds if run.learning_seconds else 0.0,
        "flops": flops_per_target * run.tokens,
        "scores": {name: score.value for name, score in scores.items()},
        "seed": run.config.seed,
        "versions": versions(),
        "ended": run.ending(),
        "plan": None if run.plan is None else run.plan.model_dump(),
        "kept": list(kept),
        "device": run.device.type,
        "threads": torch.get_num_threads(),
        "skipped": run.skipped,
        "parts": run.parts,
        "history": run.history,
        "validations": run.validations,
        "signatures": {name: score.signature for name, score in scores.items()},
    }


def explain_kept(run: Run, kept: Sequence[int]) -> str:
    """Which steps the weights are from, and why: the best validated ones, or the last."""
    scores = {int(each["step"]): each[run.objective.name] for each in run.validations}
    several = len(kept) > 1
    steps = f"the mean of those of steps {_and(map(str, kept))}" if several else f"those of step {kept[0]}"
    if run.config.average_of == "last" or not all(step in scores for step in kept):
        return f"the weights are {steps}, the last {f'{len(kept)} checkpoints' if several else 'one'}"
    best = f"best {len(kept)}" if several else "best"
    found = _and(f"{scores[step]:.4g}" for step in kept)
    return f"the weights are {steps}, the {best} of {len(scores)} validations by {run.objective.name}: {found}"


def _and(words: Iterable[str]) -> str:
    """Words for a sentence: "a, b and c"."""
    *before, last = words
    return f"{', '.join(before)} and {last}" if before else last


def dump(report: Mapping[str, Any]) -> bytes:
    """As JSON that any parser reads: NaN and infinity become null."""
    return json.dumps(_plain(report), indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def versions() -> dict[str, str]:
    installed = {name: metadata.version(name) for name in PACKAGES}
    return {"regard": __version__, "python": platform.python_version(), **installed}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
