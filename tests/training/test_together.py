"""Two and four processes learn what one process learns from the same examples, whole or divided, for several tasks.

Every run goes the whole way from a recipe to weights, scores and report. Nothing in it may read a pickle.
"""

import json
import pickle
import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest
import safetensors.torch
import torch
from crews import run_together
from torch.testing import assert_close

import regard
from regard import recipes
from regard.training.distribution import Crew

STEPS, BATCHES = 4, 4  # updates, and batches of each update
WORLDS = [(2, "replicated"), (2, "sharded"), (4, "replicated"), (4, "sharded")]
TRAINING = {
    "steps": STEPS,
    "learning_rate": 0.02,
    "warmup": 2,
    "schedule": "constant",
    "clip": 0.5,
    "weight_decay": 0.01,
    "epsilon": 1e-4,  # or Adam makes steps of gradients that are only rounding, such as those of the bias of keys
    "ema": 0.5,
    "average": 2,
    "validate_every": 4,
    "checkpoint_every": 2,
    "record_every": 1,
    "threads": 1,
    "precision": "float32",
    "device": "cpu",
}
BATCH = {
    "translate": {"batch_tokens": 40},
    "write": {"batch_tokens": 40},
    "classify": {"batch_tokens": 40},
    "see": {"batch_size": 4},
}
SMALL = {"layers": 1, "width": 12, "heads": 2, "dropout": 0.0}
TASKS: dict[str, dict[str, Any]] = {
    "translate": {
        "data": {"train": "pairs.tsv", "valid": "some-pairs.tsv"},
        "model": {"kind": "transformer", **SMALL},
        "decoding": {"beam": 1, "max_length": 6},
    },
    "write": {
        "data": {"train": "text.txt", "valid": "some-text.txt", "block": 10},
        "tokenizer": {"kind": "characters"},
        "model": {"kind": "gpt", **SMALL},
    },
    "classify": {
        "data": {"train": "labels.tsv", "valid": "some-labels.tsv"},
        "model": {"kind": "bert", "maximum": 16, **SMALL},
    },
    "see": {
        "data": {"train": "pictures.npz", "valid": "some-pictures.npz"},
        "model": {"kind": "vit", "patch_size": 2, **SMALL},
    },
}


def write_data(folder: Path) -> None:
    draw = random.Random(1)
    texts = [" ".join(draw.choices("abcdefg", k=draw.randint(2, 5))) for _ in range(220)]
    for name, some in (("", texts), ("some-", texts[:23])):
        (folder / f"{name}pairs.tsv").write_text("".join(f"{text}\t{text[::-1].upper()}\n" for text in some))
        (folder / f"{name}labels.tsv").write_text("".join(f"{text}\t{'ab'['a' in text]}\n" for text in some))
        (folder / f"{name}text.txt").write_text("".join(f"{text}.\n" for text in some))
        images = numpy.random.default_rng(1).integers(0, 255, (len(some), 4, 4, 3), dtype=numpy.uint8)
        numpy.savez(folder / f"{name}pictures.npz", images=images, labels=images[:, 0, 0, 0] % 3)


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("a pickle was read")


class Refusing(pickle.Unpickler):
    """Raises where a pickle is read."""

    load = refuse


def train_all(folder: Path, name: str, kind: str, crew: Crew) -> None:
    """Train every task in one of the processes."""
    for task, tables in TASKS.items():
        files = {key: str(folder / file) if isinstance(file, str) else file for key, file in tables["data"].items()}
        training = {**TRAINING, **BATCH[task], "accumulate": BATCHES // crew.world, "distribution": {"kind": kind}}
        recipe = recipes.make({**tables, "task": task, "data": files, "training": training}, where=task)
        regard.train(recipe, out=folder / name / task)


def train_without_pickles(folder: Path, name: str, kind: str, crew: Crew) -> None:
    """The same in a process that was started for it."""
    pickle.load = pickle.loads = torch.load = refuse
    pickle.Unpickler = Refusing
    train_all(folder, name, kind, crew)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models of all tasks, learned by one, two and four processes."""
    folder = tmp_path_factory.mktemp("together")
    write_data(folder)
    train_all(folder, "1-replicated", "replicated", Crew())
    for world, kind in WORLDS:
        run_together(partial(train_without_pickles, folder, f"{world}-{kind}", kind), world=world, folder=folder)
    return folder


def report(folder: Path, task: str) -> dict[str, Any]:
    return json.loads((folder / task / "report.json").read_text())


@pytest.mark.parametrize(("world", "kind"), WORLDS)
@pytest.mark.parametrize("task", TASKS)
def test_processes_learn_what_one_process_learns(folder: Path, task: str, world: int, kind: str) -> None:
    alone, found = (report(folder / name, task) for name in ("1-replicated", f"{world}-{kind}"))
    assert found["tokens"] == alone["tokens"]
    curves = [[point["loss"] for point in each["history"]] for each in (found, alone)]
    assert len(curves[0]) == STEPS
    assert curves[0] == pytest.approx(curves[1], rel=1e-4)
    ours, theirs = (
        safetensors.torch.load_file(folder / name / task / "weights.safetensors")
        for name in (f"{world}-{kind}", "1-replicated")
    )
    assert ours.keys() == theirs.keys()
    for name, weights in theirs.items():
        assert_close(ours[name], weights, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize(("world", "kind"), WORLDS)
@pytest.mark.parametrize("task", TASKS)
def test_processes_find_the_scores_that_one_process_finds(folder: Path, task: str, world: int, kind: str) -> None:
    alone, found = (report(folder / name, task) for name in ("1-replicated", f"{world}-{kind}"))
    assert found["scores"] == pytest.approx(alone["scores"], rel=1e-3)
    for ours, theirs in zip(found["validations"], alone["validations"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("task", TASKS)
def test_each_process_writes_its_own_part_and_no_pickle(folder: Path, task: str) -> None:
    saved = folder / "4-sharded" / task / "checkpoints" / f"step-{STEPS:08d}"
    parts = [f"{name}-0000{part}-of-00004.safetensors" for name in ("training", "weights") for part in (1, 2, 3, 4)]
    assert sorted(path.name for path in saved.iterdir()) == ["state.json", *parts]
    sizes = [sum(tensor.numel() for tensor in safetensors.torch.load_file(saved / name).values()) for name in parts]
    assert max(sizes[4:]) < 0.5 * sum(sizes[4:])
