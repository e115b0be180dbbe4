"""Answering, sentences a second: regard's searches in torch beside what people would use instead.

    python -m bench decode --data FOLDER            greedy and beam 5, 64 sentences at a time
    python -m bench decode-latency --data FOLDER    greedy and beam 5, one sentence at a time

All have the same weights and the same ids of test_2016_flickr, sorted by length. Without --model the weights are the
first, untrained ones and every answer is made to be 20 tokens long; with it they are a trained model's and answers end
where they end. Answers are compared with regard's. CTranslate2 runs with all threads in one worker and with a worker
for each thread, and in int8, which changes some answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from bench import cost, material, options
from bench.alternate import Field, ready
from bench.comparison import Answers, chosen, conclude, limits, rows
from bench.cost import TINY, Size
from bench.results import Table
from bench.trained import sizes
from bench.worker import System, scratch
from regard.api import load
from regard.data.tokenizers import Tokenizer

FORCED, LONGEST = 20, 128
BEAMS = {"greedy": 1, "beam 5": 5}
FULL = {"precision": "float32"}
SYSTEMS = [
    System("regard", "regard_decode"),
    System("transformers generate, float32", "transformers_decode", FULL),
    System("transformers generate, bfloat16", "transformers_decode", {"precision": "bfloat16"}),
    System("JoeyNMT, float32", "joeynmt_decode", FULL),
    System("CTranslate2 float32, one worker", "ctranslate2_decode", {**FULL, "workers": 1}),
    System("CTranslate2 float32, workers of one thread", "ctranslate2_decode", {**FULL, "workers": 64}),
    System("CTranslate2 int8, workers of one thread", "ctranslate2_decode", {"precision": "int8", "workers": 64}),
]


def together(arguments: list[str]) -> None:
    _compare("decode", arguments, at_a_time=64, sentences=512)


def latency(arguments: list[str]) -> None:
    _compare("decode-latency", arguments, at_a_time=1, sentences=30)


def _compare(work: str, arguments: list[str], *, at_a_time: int, sentences: int) -> None:
    made = options.parser(work, __doc__)
    made.add_argument("--model", type=Path, help="a model that regard trained, for real weights")
    given = options.read(made, arguments)
    systems = chosen(SYSTEMS, given)
    if given.quick:
        at_a_time, sentences = min(at_a_time, 8), min(sentences, 16) if at_a_time > 1 else 3
    with scratch() as folder:
        settings, size, sources = prepare(Path(folder), given.data, given.model, sentences)
        asked = {"sources": settings["sources"], "together": at_a_time, **lengths_of(given.model)}
        with ready(systems, settings, threads=given.threads) as field:
            found = {name: _measured(field, given.repeats, {**asked, "beam": beam}) for name, beam in BEAMS.items()}
    tables = [
        _table(f"{name}, {at_a_time} at a time", systems, found[name], size=size, sources=sources, beam=beam)
        for name, beam in BEAMS.items()
    ]
    weights = _weights(given.model)
    about = f"Sentences a second, ids in and ids out, {sentences} sentences, {at_a_time} at a time; {weights}."
    conclude(work, about, given, tables, limits=limits(*found.values()), versions=field.versions, notes=field.notes)


def _measured(field: Field, repeats: int, asked: Mapping[str, Any]) -> Answers:
    field.repeat(1, **asked)
    return field.repeat(repeats, **asked)


def prepare(folder: Path, data: Path, trained: Path | None, sentences: int) -> tuple[dict[str, Any], Size, list[int]]:
    """Weights, names and sources in files, the settings that name them, the model's size and the sources' lengths."""
    model, size, shared = _model(data, trained)
    sources, lengths = material.write_sources(folder / "sources.json", data, shared, sentences)
    paths = {
        "weights": str(material.write_weights(folder / "weights.npz", model)),
        "names": str(material.write_vocabulary(folder / "names.json", shared)),
        "sources": str(sources),
        "folder": str(folder),
    }
    return {**size.settings(), **paths}, size, lengths


def lengths_of(trained: Path | None) -> dict[str, int]:
    """Bounds on the length of answers."""
    return {"least": 0, "most": LONGEST} if trained else {"least": FORCED, "most": FORCED}


def _model(data: Path, trained: Path | None) -> tuple[nn.Module, Size, Tokenizer]:
    if trained is None:
        return material.build(TINY), TINY, material.tokenizer(data, TINY)
    found = load(trained)
    shared = found.task.tokenizers.source
    return found.module, Size(**sizes(found), vocabulary=shared.size), shared


def _table(
    title: str, systems: Sequence[System], answers: Answers, *, size: Size, sources: list[int], beam: int
) -> Table:
    said = {name: found[0]["answers"] for name, found in answers.items() if "answers" in found[0]}
    ours = said["regard"]
    pairs = list(zip(sources, (len(row) for row in ours), strict=True))
    notes = [
        f"{name}: {sum(mine == theirs for mine, theirs in zip(ours, rows_of, strict=True))} of {len(ours)} answers are "
        "the same as regard's"
        for name, rows_of in said.items()
        if name != "regard"
    ]
    return Table(
        title,
        "sentences/s",
        rows(systems, answers, lambda answer: len(sources) / answer["seconds"]),
        flops=cost.answering(size, pairs, beam=beam) / len(pairs),
        notes=notes,
    )


def _weights(trained: Path | None) -> str:
    if trained:
        return f"the trained model {trained.name}"
    return f"4 + 4 layers, width 128, feed-forward 256, answers of {FORCED} tokens"
