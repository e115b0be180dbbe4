"""Pictures: what the bundled recipes reach, and how fast a ViT learns.

    python -m bench see --data FOLDER [--minutes 60]      FOLDER of Fashion-MNIST's four files, or of CIFAR-10 as .npz
    python -m bench train-vit                             learning, pictures a second, beside Hugging Face's ViT

`see` trains the recipe `fashion-mnist` if FOLDER has train-images-idx3-ubyte.gz, and `cifar10` if it has train*.npz and
test*.npz. Checkpoints are ranked on pictures held out of the training part; the test part is read once, at the end.

`train-vit` learns from pictures of random bytes: the time of a step does not depend on what they show. Both systems
have the same first weights, batches, fused Adam and clipped gradients; dropout stands on the embeddings and around the
sublayers, and not in attention, so that torch's fused attention serves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import torch

from bench import material, options, published
from bench.alternate import ready
from bench.comparison import chosen, conclude, limits, rows
from bench.results import Table
from bench.training_speed import differences, peer, tuned
from bench.worker import System, scratch
from regard import models
from regard.api import train
from regard.errors import RegardError

PUBLISHED = {
    "fashion-mnist": "0.897, the best of scikit-learn's classifiers in the sweep of Xiao 2017",
    "cifar10": "89.17 after 200 epochs of all 50,000 pictures (Hassani 2021, CCT-2/3×2): another protocol than here",
}
SIZE = {"layers": 6, "width": 192, "heads": 3, "hidden": 768, "patch_size": 4}
PICTURES = {"channels": 3, "rows": 32, "columns": 32, "outputs": 10}
LEARNING = {"learning_rate": 0.001, "warmup": 100, "smoothing": 0.1, "clip": 1.0, "dropout": 0.1}
BATCH, STEPS, FIRST_STEPS = 64, 4, 20
OURS = [
    System("regard", "regard_vit_train", {"precision": "auto"}),
    System("regard, float32", "regard_vit_train", {"precision": "float32"}),
]
VIT = ("transformers ViT", "transformers_vit_train")


def marks(arguments: list[str]) -> None:
    parser = published.parser("see", __doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of Fashion-MNIST, or of CIFAR-10 as .npz")
    options = parser.parse_args(arguments)
    recipe, entries = recipe_for(options.data)
    changes = [f"data.{part}={entry}" for part, entry in entries.items()]
    model = train(recipe, out=published.out(options), changes=[*changes, *published.changes(options)], show=True)
    published.report(model, published.final_scores(model), PUBLISHED[recipe], as_json=options.json)


def recipe_for(folder: Path) -> tuple[str, dict[str, Path]]:
    """The recipe that a folder is for, and its entries of [data]."""
    if (folder / "train-images-idx3-ubyte.gz").is_file():
        return "fashion-mnist", {"train": folder, "test": folder}
    found = {part: sorted(folder.glob(f"{part}*.npz")) for part in ("train", "test")}
    if not all(found.values()):
        raise RegardError(f"{folder} has neither train-images-idx3-ubyte.gz nor train*.npz and test*.npz")
    return "cifar10", {part: files[0] for part, files in found.items()}


def speed(arguments: list[str]) -> None:
    given = options.read(options.parser("train-vit", __doc__, data=None), arguments)
    systems = chosen([*OURS, *peer(*VIT), *tuned(*VIT)], given)
    steps, first = (1, 2) if given.quick else (STEPS, FIRST_STEPS)
    with scratch() as folder:
        settings = prepare(Path(folder), count=max(steps, first), size=8 if given.quick else BATCH)
        with ready(systems, settings, threads=given.threads) as field:
            field.repeat(1, steps=1)  # a first step builds what later ones use again
            answers = field.repeat(given.repeats, steps=steps)
        reference = System("ViT in float32", VIT[1], {"precision": "float32"})
        notes = differences([*OURS, reference], {**settings, "dropout": 0.0}, steps=first, threads=given.threads)
    table = Table(
        f"learning, ViT of {SIZE['layers']} layers, width {SIZE['width']}, {BATCH} pictures of 32 × 32 a step",
        "pictures/s",
        rows(systems, answers, lambda answer: answer["targets"] / answer["seconds"]),
        notes=notes,
    )
    about = "A Vision Transformer learns: patches of 4 × 4 pixels, so 65 tokens a picture."
    conclude("train-vit", about, given, [table], limits=limits(answers), versions=field.versions, notes=field.notes)


class Drawn:
    """Pictures as the loops of all systems read them: labels count from 1, since 0 is padding there."""

    def __init__(self, generator: numpy.random.Generator, size: int) -> None:
        shape = (size, PICTURES["channels"], PICTURES["rows"], PICTURES["columns"])
        self.source = torch.from_numpy(generator.integers(0, 256, size=shape, dtype=numpy.uint8))
        self.source_lengths = torch.zeros(size, dtype=torch.int64)
        labels = torch.from_numpy(generator.integers(1, PICTURES["outputs"] + 1, size=(size, 1)))
        self.target = torch.cat([torch.zeros_like(labels), labels], 1)


def prepare(folder: Path, *, count: int, size: int) -> dict[str, Any]:
    """Batches and first weights in files, and the settings that name them."""
    generator = numpy.random.default_rng(1)
    torch.manual_seed(0)
    model = models.build("vit", **SIZE, **PICTURES)
    paths = {
        "batches": str(material.write_batches(folder / "batches.npz", [Drawn(generator, size) for _ in range(count)])),
        "weights": str(material.write_weights(folder / "weights.npz", model)),
    }
    return {**SIZE, **PICTURES, **LEARNING, **paths}
