"""A text with gaps to the words in them: the [data], the surface, and how masks are filled in. Torch is not imported
here.

N masks  V vocabulary
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy
from pydantic import Field

from regard.checking import check
from regard.data.rows.framing import IGNORED, Framing, Row
from regard.data.tokenizers import Tokenizer
from regard.errors import RegardError
from regard.tasks.base import Codec, RunOptions, Surface
from regard.tasks.reading import Numbers, Read, Reading, RowsData, TextRows, softmax
from regard.tasks.surfaces import RUNTIME, Texts, one_or_two, texts_of

MASK = "[MASK]"
MOST = 5  # answers to each gap


class FillData(RowsData):
    """[data] of fill."""

    mask: float = Field(0.15, gt=0, lt=1, description="share of the tokens that are masked, or predicted in an order")
    whole_words: bool = Field(False, description="all tokens of a word are masked or predicted, or none")


class Filled(TypedDict):
    """A token for a gap, its probability, and the text with the token in it."""

    score: float
    token: int
    token_str: str
    sequence: str


@dataclass(frozen=True)
class GapReading(Reading[Texts, list[list[Filled]]]):
    """The likeliest tokens for each mask, by softmax(y) at its place. `mask` is the id of the mask."""

    rows: TextRows
    mask: int

    output = "words"

    def answers(self, asked: Sequence[Texts], read: Read) -> list[list[list[Filled]]]:
        rows = [self.with_gaps(each, self.row(each)) for each in asked]
        return [self.filled(row, logits) for row, logits in zip(rows, read(rows), strict=True)]

    def row(self, asked: Texts) -> Row:
        """The row of a text or a pair."""
        framing, ids = self.rows.framing, self.ids(asked)
        size = sum(map(len, ids))
        if size > framing.maximum - framing.room_taken(pair=len(ids) > 1):
            raise RegardError(f"{asked.first[:40]!r}… has {size} tokens, more than the model reads; shorten it")
        return framing.frame(*ids)

    def ids(self, asked: Texts) -> list[list[int]]:
        """The ids of one text or two. [MASK] in a text stands for the mask, and so does the mask's own name."""
        tokenizer = self.rows.tokenizer
        name = tokenizer.inner.id_to_token(self.mask) or MASK
        parts = [tokenizer.encode_around(text.replace(MASK, name), name) for text in asked if text is not None]
        return [[token for piece in pieces for token in (self.mask, *piece)][1:] for pieces in parts]

    def with_gaps(self, asked: Texts, row: Row) -> Row:
        """The row of an input, with a target at each mask. A row without a mask is an error."""
        if self.mask not in row.ids:
            name = self.rows.tokenizer.inner.id_to_token(self.mask)
            raise RegardError(f"{asked.title!r} has no {name}; put it where a word is to be filled in")
        return replace(row, wanted=tuple(token if token == self.mask else IGNORED for token in row.ids))

    def filled(self, row: Row, logits: Numbers) -> list[list[Filled]]:
        """The likeliest tokens for each of N masks. logits: (N, V)"""
        every = zip(softmax(logits), row.targets, strict=True)
        return [likeliest(self.rows.tokenizer, shares, row.ids, place) for shares, place in every]


class Gaps(Surface[Texts, list[list[Filled]]]):
    """The input is a text or a pair with gaps; the output is the likeliest tokens for each gap."""

    answers = "words for gaps"
    pipeline = "fill-mask"
    example = '"a text with a [MASK] in it"'
    two_texts = True
    options = RUNTIME

    def parse(self, line: str) -> Texts:
        return one_or_two(line)

    def from_json(self, body: object) -> Texts:
        return texts_of(body, keys=("text", "text_pair"))

    def to_json(self, answer: list[list[Filled]]) -> object:
        return self.brief(answer)

    def lines(self, answer: list[list[Filled]], options: RunOptions) -> list[str]:
        """The text with its gap filled by the likeliest token; for several gaps, those tokens."""
        if len(answer) == 1:
            return [answer[0][0]["sequence"]]
        return [" ".join(gap[0]["token_str"] for gap in answer)]

    def brief(self, answer: list[list[Filled]]) -> object:
        """For one gap its tokens, for several a list of them, as transformers' pipeline has it."""
        return answer[0] if len(answer) == 1 else answer

    def reading(self, data: Mapping[str, object], codec: Codec, framing: Framing) -> GapReading:
        table = check(FillData, data, where="data")
        rows = TextRows(codec.texts().source, framing.at_most(table.max_length))
        return GapReading(rows, mask_of(rows))


def mask_of(rows: TextRows) -> int:
    """The id of the mask."""
    special = rows.framing.special
    found = special.mask if special.mask is not None else rows.tokenizer.inner.token_to_id(MASK)
    if found is None:
        raise RegardError(f"the tokenizer has no {MASK}, so nothing can be masked; take a body that has one")
    return int(found)


def likeliest(tokenizer: Tokenizer, shares: Numbers, ids: Sequence[int], place: int) -> list[Filled]:
    """The tokens with the largest shares (V,), and the text with each of them at the place."""
    tokens = numpy.argsort(-shares, kind="stable")[:MOST].tolist()
    rows = tokenizer.decode([[*ids[:place], token, *ids[place + 1 :]] for token in tokens])
    words = tokenizer.decode([[token] for token in tokens])
    return [
        {"score": score, "token": token, "token_str": word.strip(), "sequence": row}
        for score, token, word, row in zip(shares[tokens].tolist(), tokens, words, rows, strict=True)
    ]
