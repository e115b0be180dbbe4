"""What tasks on rows of text do before and after a model reads: inputs become rows, and numbers become answers.

Torch is not imported here. What reads the rows is a module of torch or CTranslate2; the answers are made by the same
code of the task's own room in either case.

L length  M width  C outputs of the head  N targets  V vocabulary
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, Protocol, runtime_checkable

import numpy
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from regard.data.mixing import MixedTable, WeightedFiles
from regard.data.rows.framing import Framing, Row
from regard.data.tokenizers import Tokenizer
from regard.errors import CutWarning
from regard.tasks.base import AnswerT, AskedT, Codec

Numbers = NDArray[numpy.float32]
SHORTEST = 1e-12  # a vector that is shorter is divided by this
Read = Callable[[Sequence[Row]], Sequence[Numbers]]  # rows → the output of the model for each
Output = Literal["text", "tokens", "vector", "words"]
"""What is read of a row: the head's output for the text (C,), for each token (L, C), the pooled vector (M,), or the
logits of the vocabulary at each of the row's targets (N, V)."""


class RowsData(MixedTable):
    """What the [data] of every task on rows of text has."""

    train: str | list[str] | None = Field(
        None, description='a file or URL, "parts/*.tsv.zst" for several, or a list of such'
    )
    mix: list[WeightedFiles] | None = Field(
        None, min_length=1, description="instead of train: corpora, each with a path as train and a weight"
    )
    valid: str | list[str] | None = Field(None, description="as train; without it, examples are held out of train")
    test: str | list[str] | None = Field(None, description="as train")
    max_length: PositiveInt = Field(128, description="longest input in tokens, special tokens included")
    hold_out: PositiveInt | float | None = Field(
        None, description="examples held out: a number or a share; 2 % if not given"
    )


@dataclass(frozen=True)
class TextRows:
    """How texts become rows that a model reads."""

    tokenizer: Tokenizer
    framing: Framing

    def frame(self, firsts: Sequence[str], seconds: Sequence[str | None]) -> list[Row]:
        """The rows of texts, or of pairs of texts. Texts that are too long are cut, and a warning says how many."""
        whole = self.tokenizer.encode(list(firsts))
        partners = iter(self.tokenizer.encode([text for text in seconds if text is not None]))
        pairs = [next(partners) if text is not None else None for text in seconds]
        framed = [self.framing.frame(*pair) for pair in zip(whole, pairs, strict=True)]
        if cut := sum(row.unread > 0 for row in framed):
            warnings.warn(
                f"{cut:,} of {len(framed):,} texts have more than {self.framing.maximum} tokens, and only their "
                "beginning is read",
                CutWarning,
                stacklevel=2,
            )
        return framed


class Reading(ABC, Generic[AskedT, AnswerT]):
    """How a task answers, given something that reads rows."""

    output: ClassVar[Output]  # what is read of each row

    @abstractmethod
    def answers(self, asked: Sequence[AskedT], read: Read) -> list[AnswerT]:
        """An answer to each input, in order."""


@runtime_checkable
class ReadsRows(Protocol):
    """A surface whose task answers by reading rows."""

    def reading(self, data: Mapping[str, object], codec: Codec, framing: Framing) -> Reading[object, object]:
        """The reading of a [data], for a body that reads rows of this framing."""
        ...


def softmax(logits: Numbers) -> Numbers:
    """exp(y_c) / Σ_c exp(y_c): (…, C) → (…, C)"""
    shares: Numbers = numpy.exp(logits - logits.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def unit(vector: Numbers) -> Numbers:
    """v / |v|: (M,) → (M,)"""
    return vector / max(float(numpy.linalg.norm(vector)), SHORTEST)
