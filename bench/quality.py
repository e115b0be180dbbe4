"""How long until a translation is good: seconds of learning to a given BLEU, Multi30k English → German, raw text.

    python -m bench quality --data FOLDER [--bleu 35] [--recipe multi30k-en-de] [--set KEY=VALUE]

regard by its recipe and JoeyNMT by its own defaults, each with its own subwords (8 000, shared) and a model of 4 + 4
layers, width 128, feed-forward 256. Every so many steps greedy translations of test_2016_flickr are scored by sacrebleu
(cased, 13a); the time of that is not counted. One after the other, each with all threads.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import material, options
from bench.alternate import ready
from bench.comparison import chosen, conclude
from bench.cost import TINY
from bench.results import Row, Table
from bench.worker import System, scratch

SYSTEMS = [System("regard", "regard_quality"), System("JoeyNMT", "joeynmt_quality")]
QUICK = ["training.steps=20", "training.warmup=10", "training.average=1", "training.checkpoint_every=10"]
Curve = Sequence[tuple[float, float]]


def main(arguments: list[str]) -> None:
    parser = options.parser("quality", __doc__)
    parser.set_defaults(repeats=1)
    parser.add_argument("--bleu", type=float, default=35.0, help="what is to be reached")
    parser.add_argument("--recipe", default="multi30k-en-de", help="of regard")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of the recipe")
    parser.add_argument("--validate-every", type=int, default=500, help="steps between scores")
    parser.add_argument("--hours", type=float, default=6.0, help="when to give up on a system")
    given = options.read(parser, arguments)
    if given.quick:
        given.validate_every, given.bleu, given.hours = 10, 0.0, 0.05
    systems = chosen(SYSTEMS, given)
    curves: dict[str, list[Curve]] = {system.name: [] for system in systems}
    notes: list[str] = []
    versions: dict[str, dict[str, str]] = {}
    for _ in range(given.repeats):
        for system in systems:
            curves[system.name] += _curves(system, given, notes, versions)
    tables = _tables(systems, curves, given, notes)
    about = (
        f"Seconds of learning until greedy translations of test_2016_flickr reach {given.bleu:g} BLEU (sacrebleu, "
        "cased), Multi30k en-de, 4 + 4 layers, width 128; less is better."
    )
    conclude("quality", about, given, tables, versions=versions, notes=notes)


def _curves(
    system: System, given: argparse.Namespace, notes: list[str], versions: dict[str, dict[str, str]]
) -> list[Curve]:
    """One training run; nothing if it failed, and the notes say why."""
    with scratch() as folder:
        settings = _settings(Path(folder), given)
        with ready([system], settings, threads=given.threads, limit=False) as field:
            answers = field.repeat(1, bleu=given.bleu, hours=given.hours).get(system.name, [])
    notes += [*field.notes, *(_told(system.name, answer) for answer in answers)]
    versions |= field.versions
    return [answer["curve"] for answer in answers]


def reached(curve: Curve, bleu: float) -> float | None:
    """The seconds after which a score of at least `bleu` was first seen."""
    return next((seconds for seconds, score in curve if score >= bleu), None)


def _settings(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Plain text in files, and sizes."""
    most = {"train": 2000, "test": 10} if given.quick else {"train": None, "test": None}
    for part, name in (("train", "train"), ("test", material.TEST)):
        for language in (material.SOURCE, material.TARGET):
            lines = material.lines(given.data, name, language, tokenised=False)[: most[part]]
            (folder / f"{part}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    size = {**TINY.settings(), "vocabulary": 2000} if given.quick else TINY.settings()
    return {
        **size,
        "folder": str(folder),
        "languages": [material.SOURCE, material.TARGET],
        "recipe": given.recipe,
        "changes": [*given.set, *(QUICK if given.quick else [])],
        "validate_every": given.validate_every,
        "batch_tokens": 4096,
    }


def _told(name: str, answer: dict[str, Any]) -> str:
    seconds, bleu = max(answer["curve"], key=lambda point: point[1], default=(0.0, 0.0))
    final = f"; its final weights, by its own search: {answer['final']:.2f}" if "final" in answer else ""
    return f"{name}: best {bleu:.2f} BLEU after {seconds:,.0f} s, {len(answer['curve'])} scores{final}"


def _tables(
    systems: Sequence[System], curves: dict[str, list[Curve]], given: argparse.Namespace, notes: list[str]
) -> list[Table]:
    rows = []
    for system in systems:
        times = [reached(curve, given.bleu) for curve in curves[system.name]]
        figures = [seconds for seconds in times if seconds is not None]
        if figures and len(figures) == given.repeats:
            rows.append(Row(system.name, figures, ours=system.ours))
        else:
            notes.append(f"{system.name} did not reach {given.bleu:g} BLEU in every repeat")
    return [Table(f"seconds to {given.bleu:g} BLEU", "s", rows, higher=False)] if rows else []
