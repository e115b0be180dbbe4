"""What all systems get alike: Multi30k as ids of one shared BPE, batches, sources to answer, and first weights."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy
import torch

from bench.cost import Size
from regard import models
from regard.data.pairs.batches import InMemory, PairBatch, PairStream
from regard.data.tokenizers import Tokenizer
from regard.errors import RegardError
from regard.special import EOS

SOURCE, TARGET = "en", "de"
TEST = "test_2016_flickr"


@dataclass(frozen=True)
class Pairs:
    """Both sides of a corpus in memory, as `PairStream` wants them."""

    source: InMemory
    target: InMemory

    def __len__(self) -> int:
        return len(self.source.lengths)

    def release(self) -> None:
        """Let pages of files go; there are none."""


def lines(data: Path, part: str, language: str, *, tokenised: bool = True) -> list[str]:
    """The lines of one file of Multi30k, as its authors tokenised them or raw."""
    name = f"tok/{part}.lc.norm.tok.{language}.gz" if tokenised else f"{part}.{language}.gz"
    try:
        with gzip.open(data / name, "rt", encoding="utf-8") as file:
            return [line.rstrip("\n") for line in file]
    except FileNotFoundError:
        raise RegardError(f"{data / name} does not exist; give --data the folder of Multi30k") from None


def tokenizer(data: Path, size: Size) -> Tokenizer:
    texts = lines(data, "train", SOURCE) + lines(data, "train", TARGET)
    return Tokenizer.train(texts, kind="bpe", vocabulary=size.vocabulary, split="spaces")


def batches(data: Path, shared: Tokenizer, *, tokens: int, count: int) -> list[PairBatch]:
    """The first batches of an epoch: rows of like length, at most so many tokens on either side."""
    sides = (InMemory(shared.encode(lines(data, "train", language))) for language in (SOURCE, TARGET))
    stream = PairStream(Pairs(*sides), batch_tokens=tokens, seed=1)  # type: ignore[arg-type]
    return list(islice(_endless(stream), count))


def _endless(stream: PairStream) -> Iterator[PairBatch]:
    for epoch in range(1000):
        yield from stream.epoch(epoch)


def write_batches(path: Path, made: list[PairBatch]) -> Path:
    """source_N, source_lengths_N and target_N, as the fields of a PairBatch."""
    names = ("source", "source_lengths", "target")
    arrays = {f"{name}_{number}": getattr(batch, name).numpy() for number, batch in enumerate(made) for name in names}
    numpy.savez(path, **arrays)
    return path


def write_sources(path: Path, data: Path, shared: Tokenizer, count: int) -> tuple[Path, list[int]]:
    """The first sentences of the test set as ids with EOS, sorted by length as every system would sort them."""
    ids = sorted(([*row, EOS] for row in shared.encode(lines(data, TEST, SOURCE)[:count])), key=len)
    path.write_text(json.dumps(ids), encoding="utf-8")
    return path, [len(row) for row in ids]


def write_vocabulary(path: Path, shared: Tokenizer) -> Path:
    """The name of each id."""
    names = sorted(shared.vocabulary, key=lambda name: shared.vocabulary[name])
    path.write_text(json.dumps(names, ensure_ascii=False), encoding="utf-8")
    return path


def build(size: Size, *, dropout: float = 0.0) -> torch.nn.Module:
    """The model with its first weights, the same each time."""
    torch.manual_seed(0)
    settings = size.settings()
    return models.build("transformer", vocabulary=settings.pop("vocabulary"), dropout=dropout, **settings)


def write_weights(path: Path, model: torch.nn.Module) -> Path:
    """By the names of regard's own modules."""
    numpy.savez(path, **{name: value.numpy() for name, value in model.state_dict().items()})
    return path
