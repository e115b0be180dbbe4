"""Our GPT's workers and those of the reference, on the same files: the models are one and the same."""

import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

from bench import material, peers
from bench.cost import Size
from bench.worker import System, Worker
from bench.writing_speed import PROMPT, Setting, characters, lively, settings_for, write_blocks, write_prompts

LEARNING = {"learning_rate": 0.05, "warmup": 10, "smoothing": 0.0, "clip": 1.0, "precision": "float32", "threads": 1}


@pytest.fixture(scope="module")
def setting() -> Setting:
    size = Size(layers=2, width=24, heads=3, hidden=40, vocabulary=31)
    return Setting(size, context=19 + PROMPT, blocks=5, dropout=0.0, steps=1)


@pytest.fixture(scope="module")
def ids(setting: Setting) -> Any:
    return numpy.random.default_rng(0).integers(4, setting.size.vocabulary, 1000).astype(numpy.uint16)


def asked(script: str, settings: dict[str, Any], **question: Any) -> dict[str, Any]:
    """One answer of a script that runs here instead of in its own environment."""
    command = [sys.executable, str(peers.script(script))]
    with Worker(System(script, script), threads=1, command=command) as worker:
        worker.ask("prepare", **settings)
        return worker.ask("run", **question)


def test_losses_are_those_of_gpt2_with_the_same_weights(setting: Setting, ids: Any, tmp_path: Path):
    paths = {
        "batches": str(write_blocks(tmp_path, setting, ids, count=4)),
        "weights": str(material.write_weights(tmp_path / "weights.npz", setting.build())),
    }
    settings = {**setting.settings(), **LEARNING, **paths}
    ours, theirs = (asked(f"{name}_gpt_train", settings, steps=4) for name in ("regard", "transformers"))
    assert ours["targets"] == theirs["targets"] > 3 * setting.blocks * setting.context
    assert ours["losses"] == pytest.approx(theirs["losses"], abs=1e-4)
    assert ours["losses"][0] != pytest.approx(ours["losses"][-1], abs=1e-2)


def test_texts_are_those_of_gpt2_with_the_same_weights(setting: Setting, ids: Any, tmp_path: Path):
    weights = material.write_weights(tmp_path / "weights.npz", lively(setting.build()))
    settings = {**setting.settings(), "weights": str(weights), "threads": 1, "precision": "float32"}
    question = {"sources": str(write_prompts(tmp_path, ids, count=5)), "together": 2, "length": 19}
    greedy = {**question, "sample": False, "temperature": 0.8}
    ours, theirs = (asked(f"{name}_gpt_generate", settings, **greedy) for name in ("regard", "transformers"))
    assert ours["answers"] == theirs["answers"]
    assert [len(text) for text in ours["answers"]] == [19] * 5
    assert len(set(ours["answers"][0])) > 2  # texts that wander


def test_the_settings_are_those_that_nanogpt_publishes(tmp_path: Path):
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be\n" * 20)
    tokenizer, ids = characters(text, tmp_path)
    assert len(ids) == 20 * 19
    vocabulary = tokenizer.size
    assert vocabulary == 4 + len(set("to be or not to be\n"))
    mini, small = settings_for(vocabulary)
    counts = [sum(p.numel() for p in each.build().body.parameters()) for each in (mini, small)]
    assert counts == pytest.approx([10.6e6, 0.79e6], rel=0.02)
    assert mini.size.vocabulary == vocabulary
