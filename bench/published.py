"""What works that train a bundled recipe beside a published figure have in common: options, and the report."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from regard.api import Model
from regard.tasks.scores import Score


def parser(work: str, about: str | None) -> argparse.ArgumentParser:
    """For a work; most have `--data` to add."""
    made = argparse.ArgumentParser(
        prog=f"python -m bench {work}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--out", type=Path, help="the model directory; one that exists is resumed")
    made.add_argument("--minutes", type=float, help="learn no longer than this")
    made.add_argument("--steps", type=int, help="updates to make, and where the schedule ends")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    made.add_argument("--json", action="store_true")
    return made


def changes(options: argparse.Namespace) -> list[str]:
    """What the options change in a recipe."""
    limits = {name: getattr(options, name) for name in ("minutes", "steps")}
    return [*(f"training.{name}={value}" for name, value in limits.items() if value is not None), *options.set]


def out(options: argparse.Namespace) -> Path:
    return options.out or Path(tempfile.mkdtemp(prefix="regard-bench-")) / "model"


def report(model: Model, scores: dict[str, Score], published: str, *, as_json: bool) -> None:
    """Ours beside theirs, and what it took."""
    told = model.report
    cost = {name: told[name] for name in ("steps", "tokens", "seconds", "tokens_per_second", "flops", "parameters")}
    if as_json:
        values = {name: {"value": score.value, "signature": score.signature} for name, score in scores.items()}
        print(json.dumps({"scores": values, "published": published, **cost}, indent=2))
        return
    for name, score in scores.items():
        print(f"{name:18} {score.value:8.4g}   {score.signature}")
    if published:
        print(f"{'published':18} {published}")
    print(
        f"{told['seconds'] / 60:.1f} minutes, {told['tokens_per_second']:.0f} target tokens/s, "
        f"{told['flops']:.2e} FLOPs, {told['steps']} steps: {told['ended']}"
    )


def final_scores(model: Model) -> dict[str, Score]:
    """What the run ended with, as its report has it."""
    signatures = model.report.get("signatures", {})
    return {name: Score(value, signatures.get(name, "")) for name, value in model.report["scores"].items()}
