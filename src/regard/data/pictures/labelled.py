"""Pictures with a label each, in files or in memory; their pixels are decoded when they are asked for.

N pictures  H height  W width  C channels
"""

from __future__ import annotations

import math
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from os import cpu_count
from pathlib import Path
from typing import Self, TypeVar

import numpy
from numpy.typing import NDArray

from regard.data.pictures.frames import Frame, Looks
from regard.data.pictures.reading import Pixels, Source, framed, image_of, looks_of, quietly, read_picture
from regard.errors import RegardError

LARGE = 1 << 30  # bytes of pixels that are kept in a file instead of memory
TOGETHER = 4096  # pictures given to the threads at a time

Item = TypeVar("Item")


@dataclass(frozen=True)
class Pictures(ABC):
    """Pictures with a label each. Their pixels are decoded when they are asked for, and kept."""

    labels: tuple[str, ...]  # of each picture
    known: dict[Frame, Pixels] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def place(self, number: int) -> str:
        """Where a picture was read: the line that `regard run` would read it from."""

    @abstractmethod
    def key(self, number: int) -> str:
        """A name that does not change when the data set is moved."""

    @abstractmethod
    def looks(self) -> Iterator[Looks]:
        """What the pictures look like before they are framed."""

    @abstractmethod
    def take(self, numbers: Sequence[int]) -> Self:
        """Some of the pictures."""

    @abstractmethod
    def _decoded(self, frame: Frame, out: Pixels) -> None:
        """Write the pixels into `out` (N, H, W, C)."""

    def pixels(self, frame: Frame, folder: Path | None = None) -> Pixels:
        """All pictures (N, H, W, C) as the frame wants them; if they are large, in a file of `folder`."""
        if frame not in self.known:
            out = _room((len(self), frame.rows, frame.columns, frame.channels), folder)
            with quietly():
                self._decoded(frame, out)
            self.known[frame] = out
        return self.known[frame]


@dataclass(frozen=True)
class Files(Pictures):
    """Pictures in files, or in the bytes of files."""

    sources: tuple[Source, ...]
    places: tuple[str, ...]
    keys: tuple[str, ...]

    def place(self, number: int) -> str:
        return self.places[number]

    def key(self, number: int) -> str:
        return self.keys[number]

    def looks(self) -> Iterator[Looks]:
        with quietly(), _threads() as pool:
            yield from pool.map(looks_of, self.sources, self.places)

    def take(self, numbers: Sequence[int]) -> Self:
        return replace(
            self,
            labels=_some(self.labels, numbers),
            sources=_some(self.sources, numbers),
            places=_some(self.places, numbers),
            keys=_some(self.keys, numbers),
        )

    def _decoded(self, frame: Frame, out: Pixels) -> None:
        def decode(number: int) -> None:
            out[number] = read_picture(self.sources[number], self.places[number], frame)

        with _threads() as pool:
            for begin in range(0, len(self), TOGETHER):  # the first error ends it
                list(pool.map(decode, range(begin, min(begin + TOGETHER, len(self)))))


@dataclass(frozen=True)
class Arrays(Pictures):
    """Pictures of one size in memory: some `numbers` of `stored` (N, H, W, C), which were read from `origin`."""

    stored: Pixels
    numbers: NDArray[numpy.int64]
    origin: str

    def place(self, number: int) -> str:
        return f"{self.origin}#{self.numbers[number]}"

    def key(self, number: int) -> str:
        return f"{Path(self.origin).name}#{self.numbers[number]}"

    def looks(self) -> Iterator[Looks]:
        yield Looks(*self.stored.shape[1:])

    def take(self, numbers: Sequence[int]) -> Self:
        labels = _some(self.labels, numbers)
        return replace(self, labels=labels, numbers=self.numbers[numpy.asarray(numbers, dtype=numpy.int64)])

    def pixels(self, frame: Frame, folder: Path | None = None) -> Pixels:
        whole = len(self) == len(self.stored) and self.stored.shape[1:] == frame[:3]
        return self.stored if whole else super().pixels(frame, folder)

    def _decoded(self, frame: Frame, out: Pixels) -> None:
        if self.stored.shape[1:] == frame[:3]:
            numpy.take(self.stored, self.numbers, axis=0, out=out)
            return

        def resize(number: int) -> None:
            image = image_of(self.stored[self.numbers[number]], self.place(number))
            out[number] = framed(image, self.place(number), frame)

        with _threads() as pool:
            list(pool.map(resize, range(len(self))))


def _some(column: Sequence[Item], numbers: Sequence[int]) -> tuple[Item, ...]:
    return tuple(column[number] for number in numbers)


def joined(parts: Sequence[Pictures]) -> Pictures:
    """The pictures of several entries as one."""
    if len(parts) == 1:
        return parts[0]
    files: list[Files] = []
    for part in parts:
        if not isinstance(part, Files):
            raise RegardError("a list of data can name folders and tables of paths only; name one .npz or IDX file")
        files.append(part)
    names = ("labels", "sources", "places", "keys")
    labels, sources, places, keys = (tuple(x for part in files for x in getattr(part, name)) for name in names)
    return Files(labels, sources, places, keys)


def sorted_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Each label once: whole numbers by value, texts by the alphabet."""
    found = set(labels)
    return tuple(sorted(found, key=int) if all(label.isdecimal() for label in found) else sorted(found))


def _threads() -> ThreadPoolExecutor:
    """Threads for decoding, which Pillow does without holding Python's lock."""
    return ThreadPoolExecutor(cpu_count())


def _room(shape: tuple[int, ...], folder: Path | None) -> Pixels:
    """Room for pixels: memory or, if they are large, a file without a name that goes when the process ends."""
    if math.prod(shape) <= LARGE:
        return numpy.empty(shape, dtype=numpy.uint8)
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            return numpy.memmap(file, dtype=numpy.uint8, shape=shape)
    except OSError as error:
        raise RegardError(
            f"{math.prod(shape) >> 20:,} MB of pixels need a file, which cannot be made ({error.strerror or error}); "
            "make room, or choose a smaller data.size"
        ) from None
