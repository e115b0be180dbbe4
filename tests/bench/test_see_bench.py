"""The bench of pictures: both systems compute the same, and folders find their recipes."""

import sys
from pathlib import Path
from typing import Any

import pytest

from bench import peers, see
from bench.worker import System, Worker
from regard.errors import RegardError


def asked(script: str, settings: dict[str, Any], **question: Any) -> dict[str, Any]:
    """One answer of a script that runs here instead of in its own environment."""
    with Worker(System(script, script), threads=1, command=[sys.executable, str(peers.script(script))]) as worker:
        worker.ask("prepare", **settings)
        return worker.ask("run", **question)


def test_losses_are_those_of_transformers_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(see, "SIZE", {"layers": 2, "width": 12, "heads": 2, "hidden": 20, "patch_size": 8})
    settings = {**see.prepare(tmp_path, count=3, size=5), "dropout": 0.0, "precision": "float32", "threads": 1}
    ours, theirs = (asked(f"{name}_vit_train", settings, steps=3) for name in ("regard", "transformers"))
    assert ours["targets"] == theirs["targets"] == 15
    assert ours["losses"] == pytest.approx(theirs["losses"], abs=1e-4)
    assert ours["losses"][0] != pytest.approx(ours["losses"][-1], abs=1e-3)


def test_the_recipe_of_a_folder_is_found(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="neither"):
        see.recipe_for(tmp_path)
    for part in ("train", "test"):
        (tmp_path / f"{part}_5k.npz").touch()
    assert see.recipe_for(tmp_path) == (
        "cifar10",
        {"train": tmp_path / "train_5k.npz", "test": tmp_path / "test_5k.npz"},
    )
    (tmp_path / "train-images-idx3-ubyte.gz").touch()
    assert see.recipe_for(tmp_path)[0] == "fashion-mnist"
