"""The memory of a Transformer-XL in checkpoints of several processes: others continue the same lanes of the text."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from crews import run_together

import regard
from regard.training.distribution import Crew
from written_models import written_recipe

FIRST, LAST = 3, 9  # steps: the first run ends in the middle of the first epoch, and so do those that resume it
KINDS = ("replicated", "sharded")
OTHERS = [(1, "replicated"), (3, "sharded"), (4, "replicated")]
CHANGES = [
    *("training.batch_tokens=72", "training.schedule=constant", "training.record_every=1", "training.epsilon=1e-4"),
    *("model.layers=1", "model.width=8", "model.heads=1", "training.precision=float32"),
]


def learn(folder: Path, name: str, steps: int, kind: str, _: Crew) -> None:
    changes = [*CHANGES, f"training.steps={steps}", f"training.distribution.kind={kind}"]
    regard.train(folder / "transformer_xl-characters.toml", out=folder / name, changes=changes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two processes, and those that they and others resumed."""
    folder = tmp_path_factory.mktemp("memory")
    written_recipe(folder, kind="transformer_xl")
    for kind in KINDS:
        for name, steps in ((f"whole-{kind}", LAST), (f"two-{kind}", FIRST)):
            run_together(partial(learn, folder, name, steps, kind), world=2, folder=folder)
    for world, kind in OTHERS:
        shutil.copytree(folder / "two-replicated", folder / f"other-{world}")
        run_together(partial(learn, folder, f"other-{world}", LAST, kind), world=world, folder=folder)
    for kind in KINDS:
        run_together(partial(learn, folder, f"two-{kind}", LAST, kind), world=2, folder=folder)
    return folder


def losses(folder: Path, name: str) -> list[float]:
    return [point["loss"] for point in json.loads((folder / name / "report.json").read_text())["history"]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_has_the_weights_of_one_that_was_not_interrupted(folder: Path, kind: str) -> None:
    whole, resumed = ((folder / f"{name}-{kind}" / "weights.safetensors").read_bytes() for name in ("whole", "two"))
    assert resumed == whole


@pytest.mark.parametrize("world", [world for world, _ in OTHERS])
def test_other_processes_continue_the_same_lanes_with_their_memory(folder: Path, world: int) -> None:
    assert len(losses(folder, f"other-{world}")) == LAST
    assert losses(folder, f"other-{world}") == pytest.approx(losses(folder, "whole-replicated"), rel=1e-4)
