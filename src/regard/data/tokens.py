"""A text as ids on disk, memory-mapped: as large as the disk, as small in memory as what is in use.

Two files: NAME.npy, all ids in one row; and NAME.json, what it was made from, its checksum, and how many characters it
stands for. Both are written beside and renamed, the second last, so that they are there whole or not at all.
"""

import json
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import numpy
from numpy.lib import format as npy
from numpy.typing import NDArray

from regard.data.corpus import Ids, checksum_of
from regard.data.text import Text
from regard.data.tokenizers import Tokenizer
from regard.errors import RegardError

VERSION = 1
CHUNK = 1 << 17  # characters tokenised at a time


@dataclass(frozen=True)
class Tokens:
    """The ids of a text, how many characters they stand for, and how many of them are unknown."""

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
    """The tokens `name` in `folder`: those that are there if nothing changed, else new ones.

    `progress` is called with the number of characters read so far.
    """
    made_from = sha256(repr([VERSION, text.fingerprint, tokenizer.json]).encode()).hexdigest()
    path = folder / f"{name}.npy"
    found = _stored(path, made_from)
    if found is None:
        folder.mkdir(parents=True, exist_ok=True)
        found = _write(path, text, tokenizer, made_from, progress)
    return Tokens(numpy.load(path, mmap_mode="r"), found["characters"], found["unknown"], found["checksum"])


def encoded(
    text: Text, tokenizer: Tokenizer, *, longest: int = CHUNK
) -> Iterator[tuple[int, NDArray[numpy.integer[Any]]]]:
    """The ids of a text, a piece at a time, each with its number of characters: the same as of the text in one piece.

    Some tokenizers begin every text with a space; a piece that does already gives it to them.
    """
    together, first, second = tokenizer.encode(["a b", "a", "b"])
    given = together == first + second
    for number, piece in enumerate(text.cuts(longest)):
        said = piece[1:] if given and number and piece[0] == " " else piece
        yield len(piece), numpy.array(tokenizer.encode([said])[0], dtype=_width(tokenizer))


def _width(tokenizer: Tokenizer) -> type[numpy.uint16] | type[numpy.int32]:
    return numpy.uint16 if tokenizer.size <= 2**16 else numpy.int32


def _stored(path: Path, made_from: str) -> dict[str, Any] | None:
    """The description of tokens that are there, are whole and were made from the same."""
    description = path.with_suffix(".json")
    if not description.exists():
        return None
    try:
        stored: dict[str, Any] = json.loads(description.read_text(encoding="utf-8"))
        if stored["made_from"] != made_from:
            return None
        if stored["checksum"] != checksum_of(path):
            raise ValueError("the checksum differs")
        return stored
    except (OSError, ValueError, KeyError, TypeError) as error:
        warnings.warn(f"{path} is damaged ({error}) and is made again", RuntimeWarning, stacklevel=3)
        return None


def _write(
    path: Path, text: Text, tokenizer: Tokenizer, made_from: str, progress: Callable[[int], None] | None
) -> dict[str, Any]:
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    count = characters = unknown = 0
    try:
        with beside.open("wb") as file:
            _write_header(file, 0, tokenizer)
            for length, ids in encoded(text, tokenizer):
                file.write(ids.tobytes())
                count, characters = count + len(ids), characters + length
                unknown += int((ids == tokenizer.special.unk).sum()) if tokenizer.special.unk is not None else 0
                if progress:
                    progress(characters)
            file.seek(0)
            _write_header(file, count, tokenizer)
            _settle(file)
        sizes = {"characters": characters, "unknown": unknown}
        description = {"made_from": made_from, "checksum": checksum_of(beside), **sizes}
        beside.replace(path)
        with beside.open("wb") as file:
            file.write(json.dumps(description).encode())
            _settle(file)
        beside.replace(path.with_suffix(".json"))
    except OSError as error:
        raise RegardError(f"{path} cannot be written ({error}); make room or choose another folder") from None
    finally:
        beside.unlink(missing_ok=True)
    return description


def _write_header(file: BinaryIO, count: int, tokenizer: Tokenizer) -> None:
    """NumPy leaves room in a header for the number to grow, so that it can be written again in its place."""
    kind = npy.dtype_to_descr(numpy.dtype(_width(tokenizer)))
    npy.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": (count,)})


def _settle(file: BinaryIO) -> None:
    """Wait until a file is on the disk."""
    file.flush()
    os.fsync(file.fileno())
