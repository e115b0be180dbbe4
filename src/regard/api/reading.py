"""What a recipe's data becomes before training: a vocabulary, and batches of examples."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from regard import durable, tasks
from regard.api.body import codec_of
from regard.data.kept import digest_of
from regard.data.splits import Splits
from regard.data.streams import Batch, Stream
from regard.directory import ModelDirectory, codec_files
from regard.errors import RegardError
from regard.interchange.huggingface import Imported
from regard.recipes import Complete, setting
from regard.tasks.base import AnyTask, Codec, Objective, Work
from regard.training.distribution import Crew

VERSION = 1  # of how a vocabulary is learned
NOTE = "vocabulary.json"  # in the work folder: what the vocabulary was learned from


@dataclass(frozen=True)
class Data:
    """The examples of a recipe as batches, and what was learned to name in them."""

    splits: Splits[object]
    codec: Codec
    task: AnyTask
    objective: Objective
    train: Stream[Batch]
    valid: Stream[Batch]

    def describe(self) -> list[str]:
        """What was read and learned, as lines for people."""
        lines = [f"train: {self.train.describe()[0]}", *self.train.describe()[1:]]
        lines += [f"valid: {self.valid.describe()[0]}", *self.valid.describe()[1:]]
        if self.codec.tokenizers is not None:
            lines.append(f"vocabulary: {' and '.join(f'{size:,}' for size in self.vocabularies)} tokens")
        if self.codec.labels:
            lines.append(f"outputs of the head: {len(self.codec.labels):,}")
        return lines

    @property
    def vocabularies(self) -> list[int]:
        """How many entries the vocabularies have, one if both sides share it."""
        if (both := self.codec.tokenizers) is None:
            return []
        return [both.source.size] if both.shared else [both.source.size, both.target.size]


@runtime_checkable
class Fingerprinted(Protocol):
    """Examples that stay in their files."""

    @property
    def fingerprint(self) -> str:
        """Changes when the files change."""
        ...


def read_data(
    recipe: Complete, body: Imported | None, directory: ModelDirectory, crew: Crew, work: Work, *, begun: bool
) -> Data:
    """Read the data in a directory where a run was `begun` before or not. What was prepared there is not read again."""
    kind, chosen = tasks.task(recipe.task), setting(recipe)
    work.tell("reading the examples")
    splits = crew.in_turn(lambda: kind.open(chosen, work))
    if not begun:
        work.tell("learning a vocabulary")
        crew.first(lambda: _learn(recipe, body, directory, splits.train))
    codec = directory.codec(recipe.model.ids())
    task = kind.from_setting(chosen, codec)
    objective = task.objective(splits)
    train = crew.in_turn(lambda: task.batches(splits.train, chosen, work, name="train"))
    valid = crew.in_turn(lambda: task.batches(splits.valid, chosen, work, name="valid"))
    return Data(splits, codec, task, objective, train, valid)


def _learn(recipe: Complete, body: Imported | None, directory: ModelDirectory, train: object) -> None:
    """Learn the vocabulary and the labels of the training data, unless this was done before from the same files."""
    note, made_from = directory.work / NOTE, None
    if body is None and isinstance(train, Fingerprinted):
        made_from = digest_of([VERSION, recipe.task, train.fingerprint, recipe.tokenizer.model_dump()])
    if made_from is not None and note.exists() and _noted(note) == [made_from, _digest(directory, recipe)]:
        return
    durable.remove_file(note)
    kind = tasks.task(recipe.task)
    directory.write(kind.learn(setting(recipe), train, codec_of(body) if body else None))
    if made_from is not None:
        durable.make_directory(note.parent)
        durable.write_file(note, json.dumps([made_from, _digest(directory, recipe)]).encode())


def _noted(note: Path) -> object:
    """What a note says; None if it is damaged."""
    try:
        return json.loads(note.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _digest(directory: ModelDirectory, recipe: Complete) -> str | None:
    """A digest of the vocabulary and the labels in a directory; None if they are missing or damaged."""
    try:
        return digest_of(sorted(codec_files(directory.codec(recipe.model.ids())).items()))
    except RegardError:
        return None
