"""One sentence at a time from text to text in a warm process: regard beside CTranslate2 driven by hand.

    python -m bench one-by-one --data FOLDER [--model DIR] [--shallow DIR] [--lines 200]

Lines are those of test_2016_flickr, in their order, tokenised as its authors did. CTranslate2 has the same weights as
the first model, in float32 and in int8, with one thread and with all. --shallow adds a model with a deep encoder and a
shallow decoder. The figure of a repeat is the median of its lines.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import Any

from bench import material, options, trained
from bench.alternate import ready
from bench.commands import Written
from bench.comparison import chosen, conclude, rows
from bench.results import Table
from bench.worker import System, scratch
from regard.tasks.scores import bleu

LINES, QUICK = 200, 4


def main(arguments: list[str]) -> None:
    parser = options.parser("one-by-one", __doc__)
    trained.add_options(parser)
    parser.add_argument("--shallow", type=Path, help="a model with a shallow decoder, trained on the same pairs")
    parser.add_argument("--lines", type=int, default=LINES)
    given = options.read(parser, arguments)
    count = QUICK if given.quick else given.lines
    lines, references = (
        material.lines(given.data, material.TEST, language)[:count] for language in (material.SOURCE, material.TARGET)
    )
    with scratch() as folder:
        written = Written(trained.model_directory(given), Path(folder), threads=given.threads)
        systems = chosen(_systems(written, given), given)
        with ready(systems, {}, threads=given.threads, limit=False) as field:
            field.repeat(1, lines=lines)
            answers = field.repeat(given.repeats, lines=lines)
    table = Table(
        f"one sentence at a time, beam {written.beam}, median",
        "ms",
        rows(systems, answers, lambda answer: 1000 * median(answer["seconds"])),
        higher=False,
        notes=[_quality(name, found[0]["answers"], references) for name, found in answers.items()],
    )
    about = f"Milliseconds from a text to its answer in a warm process, {count} lines in turn; less is better."
    conclude("one-by-one", about, given, [table], versions=field.versions, notes=field.notes)


def _systems(written: Written, given: argparse.Namespace) -> list[System]:
    ours = {"regard": written.path, **({"regard, shallow decoder": given.shallow} if given.shallow else {})}
    forms = [(precision, threads) for precision in ("float32", "int8") for threads in sorted({1, given.threads})]
    return [
        *(System(name, "regard_one", {"path": str(path)}) for name, path in ours.items()),
        *(
            System(
                f"CTranslate2 {precision}, {threads} thread{'s' * (threads > 1)}",
                "ctranslate2_one",
                _settings(written, precision, threads),
            )
            for precision, threads in forms
        ),
    ]


def _settings(written: Written, precision: str, threads: int) -> dict[str, Any]:
    same = {"folder": written.for_ctranslate2(), "tokenizer": str(written.path / "tokenizer.json")}
    return {**same, "beam": written.beam, "precision": precision, "intra": threads}


def _quality(name: str, answers: list[str], references: list[str]) -> str:
    return f"{name}: {bleu(answers, [[reference] for reference in references]):.2f} BLEU on these lines"
