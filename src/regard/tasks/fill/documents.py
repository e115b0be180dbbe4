"""Documents with a sentence on each line and a blank line between documents, and pairs of their parts for next-sentence
prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy

from regard.data.files import read_lines
from regard.data.rows.framing import Framing, Row
from regard.errors import RegardError

FOLLOWS, OTHER = 0, 1  # what the head for the next sentence says of a pair


@dataclass(frozen=True)
class Document:
    """The sentences of a text, in order."""

    sentences: tuple[str, ...]
    place: str

    @property
    def key(self) -> str:
        return "\n".join(self.sentences)


def read_documents(name: str) -> Iterator[Document]:
    """The documents of a text file."""
    sentences: list[str] = []
    first = 1
    for number, line in read_lines(name):
        if line.strip():
            sentences.append(line.strip())
            continue
        if sentences:
            yield Document(tuple(sentences), f"{name}:{first}")
        sentences, first = [], number + 1
    if sentences:
        yield Document(tuple(sentences), f"{name}:{first}")


def pack(documents: Sequence[Sequence[Sequence[int]]], *, framing: Framing) -> list[Row]:
    """Documents of tokenised sentences as rows of one segment, each as full as it can be."""
    room = framing.maximum - framing.room_taken(pair=False)
    return [
        framing.frame(ids[begin : begin + room])
        for document in documents
        for ids in [[number for sentence in document for number in sentence]]
        for begin in range(0, len(ids), room)
    ]


def pair_up(documents: Sequence[Sequence[Sequence[int]]], *, framing: Framing, seed: int) -> list[Row]:
    """Rows of two segments. In half of them the second segment follows the first, in the others it is from another
    document. `wanted` is FOLLOWS or OTHER.                                                Devlin 2019, appendix A.2"""
    if len(documents) < 2:
        raise RegardError(
            "one document has no other to take a next sentence from; separate documents by blank lines, or add some"
        )
    generator = numpy.random.default_rng(seed)
    room = framing.maximum - framing.room_taken(pair=True)
    found = []
    for number, document in enumerate(documents):
        for chunk in _chunks(document, room):
            cut = int(generator.integers(1, len(chunk)))
            first = [token for sentence in chunk[:cut] for token in sentence]
            second = [token for sentence in chunk[cut:] for token in sentence]
            follows = generator.random() < 0.5
            if not follows:
                other = int(generator.integers(len(documents) - 1))
                second = _from_anywhere(documents[other + (other >= number)], generator, room - len(first))
            row = framing.frame(first, second)
            found.append(Row(row.ids, row.segments, (FOLLOWS if follows else OTHER,)))
    return found


def _chunks(document: Sequence[Sequence[int]], room: int) -> Iterator[list[Sequence[int]]]:
    """Runs of sentences, as many as there is room for, and two at least; a document of one sentence is cut in two."""
    whole = [sentence for sentence in document if len(sentence)]
    if len(whole) == 1 and len(whole[0]) > 1:
        half = len(whole[0]) // 2
        whole = [whole[0][:half], whole[0][half:]]
    chunk: list[Sequence[int]] = []
    for place, sentence in enumerate(whole):
        last = place == len(whole) - 1  # the last sentence joins the run before it
        if len(chunk) > 1 and not last and sum(map(len, chunk)) + len(sentence) > room:
            yield chunk
            chunk = []
        chunk.append(sentence)
    if len(chunk) > 1:
        yield chunk


def _from_anywhere(document: Sequence[Sequence[int]], generator: numpy.random.Generator, room: int) -> list[int]:
    begin = int(generator.integers(len(document)))
    return [token for sentence in document[begin:] for token in sentence][: max(room, 1)]
