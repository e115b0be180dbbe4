"""Our worker and the reference's, on the same files: the models are one and the same."""

import gzip
import random
import sys
from typing import Any

import pytest
import torch

from bench import material, peers
from bench.cost import Size
from bench.worker import System, Worker
from regard.special import EOS

SIZE = Size(layers=2, width=16, heads=2, hidden=20, vocabulary=60)
LEARNING = {"learning_rate": 0.05, "warmup": 10, "smoothing": 0.1, "clip": 1.0, "dropout": 0.0, "precision": "float32"}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A made-up Multi30k and what the systems get of it."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "tok").mkdir()
    draw = random.Random(0)
    for part in ("train", material.TEST):
        for language in (material.SOURCE, material.TARGET):
            rows = [" ".join(draw.choices(["ab", "cda", "bb", "a"], k=draw.randint(1, 7))) for _ in range(40)]
            with gzip.open(folder / "tok" / f"{part}.lc.norm.tok.{language}.gz", "wt") as file:
                file.writelines(f"{row}\n" for row in rows)
    shared = material.tokenizer(folder, SIZE)
    size = Size(**{**SIZE.settings(), "vocabulary": shared.size})
    made = material.batches(folder, shared, tokens=60, count=4)
    sources, lengths = material.write_sources(folder / "sources.json", folder, shared, 11)
    assert lengths == sorted(lengths)
    model = material.build(size)
    with torch.no_grad():
        model.get_parameter("source.table.weight")[:EOS] = 0.0  # Marian may answer with UNK or BOS, regard never
    return {
        **size.settings(),
        **LEARNING,
        "threads": 1,
        "batches": str(material.write_batches(folder / "batches.npz", made)),
        "weights": str(material.write_weights(folder / "weights.npz", model)),
        "sources": str(sources),
        "targets": sum(batch.targets for batch in made),
    }


def asked(script: str, settings: dict[str, Any], **question: Any) -> dict[str, Any]:
    """One answer of a script that runs here instead of in its own environment."""
    command = [sys.executable, str(peers.script(script))]
    with Worker(System(script, script), threads=1, command=command) as worker:
        worker.ask("prepare", **settings)
        return worker.ask("run", **question)


def test_losses_are_those_of_marian_with_the_same_weights(settings: dict[str, Any]):
    ours, theirs = (asked(f"{name}_train", settings, steps=4) for name in ("regard", "transformers"))
    assert ours["targets"] == theirs["targets"] == settings["targets"]
    assert ours["losses"] == pytest.approx(theirs["losses"], abs=1e-4)
    assert ours["losses"][0] != pytest.approx(ours["losses"][-1], abs=1e-2)


def test_answers_are_those_of_marian_with_the_same_weights(settings: dict[str, Any]):
    question = {"sources": settings["sources"], "together": 4, "beam": 1, "least": 6, "most": 6}
    ours, theirs = (asked(f"{name}_decode", settings, **question) for name in ("regard", "transformers"))
    assert ours["answers"] == theirs["answers"]
    assert {len(answer) for answer in ours["answers"]} == {6}
