"""A trained model to run: one that is given, or a tiny one that is trained once and kept in bench/.models."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench import material
from regard.api import Model, train
from regard.errors import RegardError

KEPT = Path(__file__).parent / ".models"
WIRING = "post_norm"  # that of Vaswani 2017, which all peers have


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", type=Path, help="a model that regard trained on Multi30k/tok; without it one is trained"
    )
    parser.add_argument("--minutes", type=float, default=20.0, help="how long to train the model, if none is given")


def model_directory(given: argparse.Namespace) -> Path:
    """4 + 4 layers of width 128 with 8 000 subwords, on the tokenised text."""
    if given.model:
        return Path(given.model)
    out = KEPT / ("quick" if given.quick else f"tiny-{given.minutes:g}-minutes")
    if not (out / "report.json").exists():
        changes = [f"data.{part}={_pair(given.data, name)}" for part, name in PARTS.items()]
        changes += ["tokenizer.vocabulary=8000", "tokenizer.split=spaces", f"training.threads={given.threads}"]
        changes += [f"model.wiring={WIRING}"]
        quick = ["training.steps=20", "training.warmup=10", "training.validate_every=0", "training.average=1"]
        changes += quick if given.quick else [f"training.minutes={given.minutes}"]
        train("multi30k-en-de", out=out, changes=changes, show=True)
    return out


def sizes(model: Model, *, wirings: Sequence[str] = (WIRING,)) -> dict[str, int]:
    """What the peers must know to build the same model, if they can."""
    config = model.recipe.model.model_dump()
    if config["wiring"] not in wirings:
        raise RegardError(f"{model.path} has wiring={config['wiring']!r}, and peers can be given {WIRING!r} alone")
    depths = [config[f"{side}_layers"] or config["layers"] for side in ("encoder", "decoder")]
    if depths != [config["layers"]] * 2:
        raise RegardError(
            f"{model.path} has {depths[0]} + {depths[1]} layers, and peers are given as many on each side"
        )
    return {name: config[name] for name in ("layers", "width", "heads", "hidden")}


PARTS = {"train": "train", "valid": "val", "test": material.TEST}


def _pair(data: Path, name: str) -> str:
    sides = (
        f"{data.resolve()}/tok/{name}.lc.norm.tok.{language}.gz" for language in (material.SOURCE, material.TARGET)
    )
    return '{{source="{}", target="{}"}}'.format(*sides)
