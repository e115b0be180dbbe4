"""From a cold process to one translated sentence: `regard run` beside the same through transformers.

    python -m bench startup --data FOLDER [--model DIR]

The same weights, tokenizer and beam; importing, loading, tokenising, searching and printing are all in the seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import material, options, trained
from bench.commands import Command, Written, in_turn
from bench.comparison import conclude, named
from bench.results import Table
from bench.worker import scratch


def main(arguments: list[str]) -> None:
    parser = options.parser("startup", __doc__)
    trained.add_options(parser)
    given = options.read(parser, arguments)
    sentence = material.lines(given.data, material.TEST, material.SOURCE)[0] + "\n"
    with scratch() as folder:
        written = Written(trained.model_directory(given), Path(folder), threads=given.threads)
        peers: dict[str, Callable[[str], Command]] = {
            **({"transformers": written.transformers} if written.fits_marian else {}),
            "CTranslate2 by hand": partial(written.ctranslate2, workers=1, threads=given.threads, judged=False),
        }
        commands = [written.regard(), *(make(name) for name, make in peers.items() if named(name, given))]
        ran, notes = in_turn(commands, sentence, repeats=given.repeats, threads=given.threads)
    said = [f"{command.system.name} said: {' '.join(command.answers)}" for command in ran]
    table = Table(
        f"one sentence, beam {written.beam}", "s", [command.row() for command in ran], higher=False, notes=said
    )
    about = "Seconds from the start of a new process to the end of it, one sentence translated; less is better."
    conclude("startup", about, given, [table], versions=written.versions, notes=notes)
