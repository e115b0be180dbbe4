"""A shard of a text: pieces of text become a file of ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy
import pyarrow
from numpy.typing import NDArray
from pydantic import JsonValue

from regard.data.tokenizers import Tokenizer, Tokenizers

Ids = NDArray[numpy.integer[Any]]


def content_of(pieces: list[str]) -> pyarrow.RecordBatch:
    """Pieces of a text as the content of a shard."""
    return pyarrow.record_batch([pyarrow.array(pieces, pyarrow.large_string())], names=["piece"])


def width(tokenizer: Tokenizer) -> type[numpy.uint16] | type[numpy.int32]:
    """The type of an id on disk."""
    return numpy.uint16 if tokenizer.size <= 2**16 else numpy.int32


@dataclass(frozen=True)
class TextMaker:
    """Tokenises pieces of text. The file has nothing but ids."""

    tokenizer: Tokenizer

    def settings(self) -> dict[str, JsonValue]:
        return {"medium": "text", **Tokenizers(self.tokenizer).settings()}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Self:
        return cls(Tokenizers.from_settings(settings).source)

    def make(self, content: pyarrow.RecordBatch, path: Path) -> dict[str, object]:
        with path.open("wb") as file:
            return self.encode(content, file)

    def encode(self, content: pyarrow.RecordBatch, file: BinaryIO) -> dict[str, object]:
        """Write the ids of all pieces, and return how many there are, and how many of them are unknown."""
        count, unknown, unk = 0, 0, self.tokenizer.special.unk
        for piece in content["piece"].to_pylist():
            ids = numpy.array(self.tokenizer.encode([piece])[0], dtype=width(self.tokenizer))
            file.write(ids.tobytes())
            count += len(ids)
            unknown += int((ids == unk).sum()) if unk is not None else 0
        return {"tokens": count, "unknown": unknown}
