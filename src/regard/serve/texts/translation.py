"""Documents in another language, by a model behind a server. Marks, line breaks and white space stay in place."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from regard.serve.registry import Entry
from regard.serve.server import Server
from regard.serve.texts.documents import Document
from regard.serve.texts.marked import Marked


@dataclass
class _Part:
    """A part of a document: what the model is asked, and what it has answered to each piece, best first."""

    marked: Marked
    pieces: list[Marked] = field(default_factory=list)
    answers: list[list[str]] = field(default_factory=list)

    def said(self, place: int) -> str:
        """The answer at this place of the ranking; the last one where there are not so many."""
        if not self.pieces:
            return self.marked.unchanged()
        return "".join(each[min(place, len(each) - 1)] for each in self.answers)


async def translate(
    server: Server,
    entry: Entry,
    documents: Sequence[Document],
    *,
    glossary: Mapping[str, str] | None = None,
    alternatives: int = 0,
) -> list[list[str]]:
    """Each document in the language of the model's answers, and up to so many alternatives, best first."""
    parts = [[_Part(part.with_terms(glossary or {})) for part in document.parts] for document in documents]
    asked = [part for several in parts for part in several if part.marked.has_letters]
    await asyncio.gather(*(_split(server, entry, part) for part in asked))
    await asyncio.gather(
        *(_answer(server, entry, asked, alternatives=alternatives, marked=marked) for marked in (False, True))
    )
    ranked = [
        [document.joined([part.said(place) for part in several]) for place in range(alternatives + 1)]
        for document, several in zip(documents, parts, strict=True)
    ]
    return [list(dict.fromkeys(texts)) for texts in ranked]


async def _split(server: Server, entry: Entry, part: _Part) -> None:
    """Divide a part that the model does not read in one piece. A fixed mark stays in one piece."""
    split = await server.parts(entry.name, part.marked.text)
    at, starts = 0, [0]
    for number, text in enumerate(split.parts):
        at += len(split.between[number])
        if number and not part.marked.cuts(at):
            starts.append(at)
        at += len(text)
    ends = [*starts[1:], len(part.marked.text)]
    part.pieces = [part.marked.part(start, end) for start, end in zip(starts, ends, strict=True)]
    part.answers = [[] if piece.has_letters else [piece.unchanged()] for piece in part.pieces]


async def _answer(server: Server, entry: Entry, parts: Sequence[_Part], *, alternatives: int, marked: bool) -> None:
    """Ask for the pieces with marks, for which the alignment is needed, or for those without."""
    wanted = [
        (part, place)
        for part in parts
        for place, piece in enumerate(part.pieces)
        if bool(piece.marks) == marked and not part.answers[place]
    ]
    options: dict[str, JsonValue] = {"n_best": alternatives + 1} if alternatives else {}
    if marked and "alignment" in entry.facts.options:
        options["alignment"] = True
    for start in range(0, len(wanted), server.limits.batch):
        some = wanted[start : start + server.limits.batch]
        found = await server.ask(entry.name, [part.pieces[place].text.strip() for part, place in some], options)
        for (part, place), answered in zip(some, found, strict=True):
            part.answers[place] = [_rendered(part.pieces[place], each) for each in _rows(answered.answer)]


def _rendered(piece: Marked, answer: Mapping[str, JsonValue]) -> str:
    given = answer.get("alignment")
    links = None
    if isinstance(given, list):
        links = [[int(str(number)) for number in pair] for pair in given if isinstance(pair, list)]
    return piece.rendered(str(answer["text"]), links)


def _rows(answer: JsonValue) -> list[dict[str, JsonValue]]:
    """The texts of an answer, best first."""
    return [each for each in answer if isinstance(each, dict)] if isinstance(answer, list) else []
