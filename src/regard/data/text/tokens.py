"""The token ids of a text on disk, memory-mapped: the text may be larger than memory.

They are kept as NAME.npy, all ids in one row, and NAME.json, its description (see `regard.data.kept`). While they are
made, NAME-00000.ids and so on have the ids of parts of the text (see `regard.data.shards`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy
import pyarrow
from numpy.lib import format as npy

from regard import durable
from regard.data.kept import kept
from regard.data.shards import shards
from regard.data.text.shard import Ids, TextMaker, content_of, width
from regard.data.text.text import Text
from regard.data.tokenizers import Tokenizer
from regard.data.watching import watching

VERSION = 1
CHUNK = 1 << 17  # characters tokenised at a time
SHARD = 128  # such pieces in a shard
COPIED = 1 << 20  # bytes of shards that are copied at a time

Progress = Callable[[int, float], None]  # how many characters were read, and which share of the files


@dataclass(frozen=True)
class Tokens:
    """The ids of a text, its number of characters, how many ids are unknown tokens, and a checksum of the ids.

    `parts` has the number of ids of each corpus of a mixture.
    """

    ids: Ids
    characters: int
    unknown: int
    checksum: str
    parts: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def __str__(self) -> str:
        unknown = f", {self.unknown:,} of them unknown" if self.unknown else ""
        return f"{len(self):,} tokens{unknown}, {self.characters:,} characters"


def tokenise(
    text: Text,
    tokenizer: Tokenizer,
    *,
    folder: Path,
    name: str,
    processes: int = 1,
    progress: Progress | None = None,
) -> Tokens:
    """The tokens `name` in `folder`; they are made unless they exist and nothing has changed."""
    path = folder / f"{name}.npy"
    tokens = kept(
        path,
        made_from=[VERSION, text.fingerprint, tokenizer.json],
        make=lambda beside: _write(beside, path, text, tokenizer, processes, progress),
        read=lambda stored: Tokens(
            numpy.load(path, mmap_mode="r"),
            stored["characters"],
            stored["unknown"],
            stored["checksum"],
            tuple(stored.get("parts", ())),
        ),
    )
    for shard in path.parent.glob(f"{name}-[0-9]*.ids"):
        durable.remove_file(shard.with_suffix(".json"))
        durable.remove_file(shard)
    return tokens


def pieces(text: Text, tokenizer: Tokenizer, *, longest: int = CHUNK) -> Iterator[tuple[int, str]]:
    """A text in pieces, each with its number of characters; the ids of the pieces are those of the whole text.

    Some tokenizers prepend a space to every text. A later piece that starts with a space is passed to them without it,
    so that it is not doubled.
    """
    for number, piece in enumerate(text.cuts(longest)):
        yield len(piece), piece[1:] if tokenizer.prepends and number and piece[0] == " " else piece


def _write(
    beside: Path, path: Path, text: Text, tokenizer: Tokenizer, processes: int, progress: Progress | None
) -> dict[str, object]:
    """Write the ids of all parts of a text one after the other."""
    characters, tokens = 0, dict[int, int]()
    count = unknown = 0
    with watching() as watch, beside.open("wb") as file:
        _write_header(file, 0, tokenizer)
        size = max(text.size, 1) if progress else 1
        if progress:
            progress(0, 0.0)
        for part, length, shard in _encoded(path, text, tokenizer, processes, file):
            characters, count, unknown = characters + length, count + shard["tokens"], unknown + shard["unknown"]
            tokens[part] = tokens.get(part, 0) + shard["tokens"]
            if progress:
                progress(characters, min(watch.read / size, 1.0))
        file.seek(0)
        _write_header(file, count, tokenizer)
    parts = {"parts": [tokens.get(part, 0) for part in range(len(text.corpora))]} if text.corpora else {}
    return {"characters": characters, "unknown": unknown, **parts}


def _encoded(
    path: Path, text: Text, tokenizer: Tokenizer, processes: int, file: BinaryIO
) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Write ids to a file, shard by shard; of each, the number of its part, its characters and its description."""
    contents, maker = _contents(text, tokenizer), TextMaker(tokenizer)
    few = list(islice(contents, 2))
    if len(few) == 1:  # a small text has no need of shards
        yield *few[0][:2], maker.encode(few[0][2], file)
        return
    known: deque[tuple[int, int]] = deque()

    def noted() -> Iterator[pyarrow.RecordBatch]:
        for part, length, content in chain(few, contents):
            known.append((part, length))
            yield content

    for number, shard in enumerate(shards(noted(), maker, place=partial(_place, path), processes=processes)):
        _copy(_place(path, number), file)
        yield *known.popleft(), shard


def _contents(text: Text, tokenizer: Tokenizer) -> Iterator[tuple[int, int, pyarrow.RecordBatch]]:
    """The contents of all shards, each with the number of its part and its number of characters."""
    for number, part in enumerate(text.parts):
        for some in _grouped(pieces(part, tokenizer)):
            yield number, sum(length for length, _ in some), content_of([piece for _, piece in some])


def _place(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number:05d}.ids")


def _grouped(every: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """`SHARD` pieces at a time."""
    group: list[tuple[int, str]] = []
    for piece in every:
        group.append(piece)
        if len(group) == SHARD:
            yield group
            group = []
    if group:
        yield group


def _copy(path: Path, file: BinaryIO) -> None:
    with path.open("rb") as shard:
        while block := shard.read(COPIED):
            file.write(block)


def _write_header(file: BinaryIO, count: int, tokenizer: Tokenizer) -> None:
    """NumPy pads the header, so that one with another count has the same length and can replace it."""
    kind = npy.dtype_to_descr(numpy.dtype(width(tokenizer)))
    npy.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": (count,)})
