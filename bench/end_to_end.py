"""`regard run` from text to text beside CTranslate2 driven by hand: whole processes, tokenisation included.

    python -m bench run --data FOLDER [--model DIR] [--shallow DIR]

Lines are both test sets of Multi30k, as its authors tokenised them. CTranslate2 gets the same weights in a model that
is written by hand, and the tokenizer; its best setting is one worker of one thread for each core. --shallow adds a
model with a deep encoder and a shallow decoder, to be compared at equal BLEU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import material, options, trained
from bench.commands import Command, Written, in_turn
from bench.comparison import conclude, named
from bench.results import Table
from bench.worker import scratch
from regard.tasks.scores import bleu

PARTS = (material.TEST, "test_2017_flickr")


def main(arguments: list[str]) -> None:
    parser = options.parser("run", __doc__)
    trained.add_options(parser)
    parser.add_argument("--shallow", type=Path, help="a model with a shallow decoder, trained on the same pairs")
    given = options.read(parser, arguments)
    sources, references = (
        [line for part in PARTS for line in material.lines(given.data, part, language)]
        for language in (material.SOURCE, material.TARGET)
    )
    if given.quick:
        sources, references = sources[:16], references[:16]
    with scratch() as folder:
        written = Written(trained.model_directory(given), Path(folder), threads=given.threads)
        commands = _commands(written, given)
        text = "".join(f"{line}\n" for line in sources)
        ran, notes = in_turn(commands, text, repeats=given.repeats, threads=given.threads)
    table = Table(
        f"{len(sources):,} lines, beam {written.beam}, or the shallow model's own",
        "sentences/s",
        [command.row(len(sources)) for command in ran],
        notes=[_quality(command, ran[0], references) for command in ran],
    )
    about = "Sentences a second from text to text: a new process reads lines, writes lines and ends."
    conclude("run", about, given, [table], versions=written.versions, notes=notes)


def _commands(written: Written, given: argparse.Namespace) -> list[Command]:
    threads = given.threads
    by_thread = partial(written.ctranslate2, workers=threads, threads=1)
    peers: dict[str, Callable[[str], Command]] = {
        "CTranslate2 float32, workers of one thread": by_thread,
        "CTranslate2 float32, one worker": partial(written.ctranslate2, workers=1, threads=threads),
        "CTranslate2 int8, workers of one thread": partial(by_thread, precision="int8"),
        "CTranslate2 int8, one worker": partial(written.ctranslate2, workers=1, threads=threads, precision="int8"),
        **({"transformers": written.transformers} if written.fits_marian else {}),
    }
    return [
        written.regard(),
        *([written.regard("regard run, shallow decoder", given.shallow)] if given.shallow else []),
        *(make(name) for name, make in peers.items() if named(name, given)),
    ]


def _quality(command: Command, first: Command, references: list[str]) -> str:
    same = sum(mine == theirs for mine, theirs in zip(command.answers, first.answers, strict=True))
    score = bleu(command.answers, [[reference] for reference in references])
    return f"{command.system.name}: {score:.2f} BLEU, {same} of {len(references)} answers as regard run's"
