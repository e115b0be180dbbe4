"""Learning, target tokens a second: regard beside what people would use instead.

    python -m bench train-tiny --data FOLDER        4 + 4 layers, width 128, feed-forward 256, 4 heads
    python -m bench train-base --data FOLDER        6 + 6 layers, width 512, feed-forward 2048, 8 heads

All learn from the same batches (4096 tokens on either side at most, rows of like length) with one embedding for source,
target and output, label smoothing 0.1, dropout 0.1, gradients clipped at 1 and fused Adam. Peers run in float32 and
under bfloat16 autocast, and the fastest of them once more with the memory allocator tuned as regard tunes its own.
Dropout stands around the sublayers and on the embeddings; JoeyNMT also drops inside attention and feed-forward, and
x-transformers inside feed-forward instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import cost, material, options
from bench.alternate import ready
from bench.comparison import chosen, conclude, limits, rows
from bench.cost import BASE, TINY, Size
from bench.results import Table
from bench.worker import TUNED_ALLOCATOR, System, scratch
from regard.data.pairs.batches import PairBatch

LEARNING = {"learning_rate": 0.005, "warmup": 1000, "smoothing": 0.1, "clip": 1.0, "dropout": 0.1}
OURS = [
    System("regard", "regard_train", {"precision": "auto"}),
    System("regard, float32", "regard_train", {"precision": "float32"}),
]
FIRST_STEPS = 50


def peer(name: str, script: str) -> list[System]:
    """A peer in both precisions."""
    return [System(f"{name}, {half}", script, {"precision": half}) for half in ("float32", "bfloat16")]


def tuned(name: str, script: str) -> list[System]:
    """A peer as a user who knows of glibc's settings has it."""
    return [
        System(f"{each.name}, allocator tuned", script, each.settings, TUNED_ALLOCATOR) for each in peer(name, script)
    ]


MARIAN, TORCH = ("Marian (transformers)", "transformers_train"), ("nn.Transformer", "torch_train")
TINY_PEERS = [
    *peer(*MARIAN),
    *peer(*TORCH),
    *peer("x-transformers", "x_transformers_train"),
    *peer("JoeyNMT", "joeynmt_train"),
    *tuned(*MARIAN),
    *tuned(*TORCH),
]
BASE_PEERS = [*peer(*MARIAN), *peer(*TORCH), *tuned(*MARIAN), *tuned(*TORCH)]


def tiny(arguments: list[str]) -> None:
    given = options.read(options.parser("train-tiny", __doc__), arguments)
    _compare("train-tiny", TINY, [*OURS, *TINY_PEERS], given, steps=8)


def base(arguments: list[str]) -> None:
    given = options.read(options.parser("train-base", __doc__), arguments)
    _compare("train-base", BASE, [*OURS, *BASE_PEERS], given, steps=2)


def _compare(work: str, size: Size, systems: list[System], given: argparse.Namespace, *, steps: int) -> None:
    systems = chosen(systems, given)
    first = FIRST_STEPS if size == TINY else 0
    if given.quick:
        steps, first = 2, min(first, 5)
    with scratch() as folder:
        settings, batches = prepare(Path(folder), given, size, count=max(steps, first))
        with ready(systems, settings, threads=given.threads) as field:
            field.repeat(1, steps=1)  # a first step builds what later ones use again
            answers = field.repeat(given.repeats, steps=steps)
        table = Table(
            f"learning, {size.layers} + {size.layers} layers, width {size.width}",
            "target tokens/s",
            rows(systems, answers, lambda answer: answer["targets"] / answer["seconds"]),
            flops=_flops_per_target(size, batches[:steps]),
            notes=_first_losses(settings, first, given.threads) if first else [],
        )
    notes = field.notes
    conclude(work, _about(size), given, [table], limits=limits(answers), versions=field.versions, notes=notes)


def prepare(
    folder: Path, given: argparse.Namespace, size: Size, *, count: int
) -> tuple[dict[str, Any], list[PairBatch]]:
    """Batches and first weights in files, and the settings that name them."""
    shared = material.tokenizer(given.data, size)
    batches = material.batches(given.data, shared, tokens=512 if given.quick else 4096, count=count)
    paths = {
        "batches": str(material.write_batches(folder / "batches.npz", batches)),
        "weights": str(material.write_weights(folder / "weights.npz", material.build(size))),
    }
    return {**size.settings(), **LEARNING, **paths}, batches


def _flops_per_target(size: Size, batches: list[PairBatch]) -> float:
    pairs: list[tuple[int, int]] = [
        pair
        for batch in batches
        for pair in zip(batch.source_lengths.tolist(), batch.target_lengths.tolist(), strict=True)
    ]
    return cost.learning(size, pairs) / sum(target for _, target in pairs)


def _first_losses(settings: dict[str, Any], steps: int, threads: int) -> list[str]:
    """How far the losses of the first steps are from the reference's, dropout off, the same first weights."""
    marian = System("Marian in float32", "transformers_train", {"precision": "float32"})
    return differences([*OURS, marian], {**settings, "dropout": 0.0}, steps=steps, threads=threads)


def differences(systems: list[System], settings: Mapping[str, Any], *, steps: int, threads: int) -> list[str]:
    """The losses of the first steps against those of the last system, or of the last that ran."""
    with ready(systems, settings, threads=threads, limit=False) as field:
        losses = {name: answer[0]["losses"] for name, answer in field.repeat(1, steps=steps).items()}
    against = [system.name for system in systems if system.name in losses][-1]
    wanted = losses.pop(against)
    return [
        f"{name}: losses of the first {steps} steps, dropout off, differ from {against} by at most "
        f"{max(abs(mine - theirs) for mine, theirs in zip(found, wanted, strict=True)):.1e} "
        f"(the last is {found[-1]:.4f})"
        for name, found in losses.items()
    ]


def _about(size: Size) -> str:
    return (
        f"Target tokens a second while learning: {size.layers} + {size.layers} layers, width {size.width}, "
        f"feed-forward {size.hidden}, {size.heads} heads, 8 000 shared subwords, batches of 4096 tokens of Multi30k "
        "en-de, label smoothing 0.1, dropout 0.1, fused Adam; forward, backward and update."
    )
