"""The token ids of a text on disk, memory-mapped: the text may be larger than memory.

They are kept as NAME.npy, all ids in one row, and NAME.json, its description (see `regard.data.kept`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy
from numpy.lib import format as npy
from numpy.typing import NDArray

from regard.data.kept import kept
from regard.data.text.text import Text
from regard.data.tokenizers import Tokenizer

VERSION = 1
CHUNK = 1 << 17  # characters tokenised at a time

Ids = NDArray[numpy.integer[Any]]


@dataclass(frozen=True)
class Tokens:
    """The ids of a text, its number of characters, how many ids are unknown tokens, and a checksum of the ids."""

    ids: Ids
    characters: int
    unknown: int
    checksum: str

    def __len__(self) -> int:
        return len(self.ids)

    def __str__(self) -> str:
        unknown = f", {self.unknown:,} of them unknown" if self.unknown else ""
        return f"{len(self):,} tokens{unknown}, {self.characters:,} characters"


def tokenise(
    text: Text, tokenizer: Tokenizer, *, folder: Path, name: str, progress: Callable[[int], None] | None = None
) -> Tokens:
    """The tokens `name` in `folder`; they are made unless they exist and nothing has changed.

    `progress` is called with the number of characters read so far.
    """
    path = folder / f"{name}.npy"
    return kept(
        path,
        made_from=[VERSION, text.fingerprint, tokenizer.json],
        make=lambda beside: _write(beside, text, tokenizer, progress),
        read=lambda stored: Tokens(
            numpy.load(path, mmap_mode="r"), stored["characters"], stored["unknown"], stored["checksum"]
        ),
    )


def encoded(text: Text, tokenizer: Tokenizer, *, longest: int = CHUNK) -> Iterator[tuple[int, Ids]]:
    """The ids of a text in pieces, each with its number of characters; together they are the ids of the whole text.

    Some tokenizers prepend a space to every text. A later piece that starts with a space is passed to them without it,
    so that it is not doubled.
    """
    for number, piece in enumerate(text.cuts(longest)):
        passed = piece[1:] if tokenizer.prepends and number and piece[0] == " " else piece
        yield len(piece), numpy.array(tokenizer.encode([passed])[0], dtype=_width(tokenizer))


def _width(tokenizer: Tokenizer) -> type[numpy.uint16] | type[numpy.int32]:
    return numpy.uint16 if tokenizer.size <= 2**16 else numpy.int32


def _write(path: Path, text: Text, tokenizer: Tokenizer, progress: Callable[[int], None] | None) -> dict[str, object]:
    count = characters = unknown = 0
    with path.open("wb") as file:
        _write_header(file, 0, tokenizer)
        for length, ids in encoded(text, tokenizer):
            file.write(ids.tobytes())
            count, characters = count + len(ids), characters + length
            unknown += int((ids == tokenizer.special.unk).sum()) if tokenizer.special.unk is not None else 0
            if progress:
                progress(characters)
        file.seek(0)
        _write_header(file, count, tokenizer)
    return {"characters": characters, "unknown": unknown}


def _write_header(file: BinaryIO, count: int, tokenizer: Tokenizer) -> None:
    """NumPy pads the header, so that one with another count has the same length and can replace it."""
    kind = npy.dtype_to_descr(numpy.dtype(_width(tokenizer)))
    npy.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": (count,)})
