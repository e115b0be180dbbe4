"""Documents in another language, by a model behind a server. Marks, line breaks and white space stay in place."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from regard.serve.registry import Entry
from regard.serve.server import Server
from regard.serve.texts.documents import Document
from regard.serve.texts.marked import Marked


@dataclass(frozen=True)
class Translated:
    """A document in another language: texts, best first, and whether a part of the best was cut at `max_length`."""

    texts: list[str]
    truncated: bool = False


@dataclass
class _Part:
    """A part of a document: what the model is asked, and what it has answered to each piece, best first."""

    marked: Marked
    pieces: list[Marked] = field(default_factory=list)
    answers: list[list[str]] = field(default_factory=list)
    truncated: bool = False

    def __post_init__(self) -> None:
        if self.marked.has_letters:  # otherwise there is nothing to ask
            self.pieces, self.answers = [self.marked], [[]]

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
) -> list[Translated]:
    """Each document in the language of the model's answers, and up to so many alternatives."""
    parts = [[_Part(part.with_terms(glossary or {})) for part in document.parts] for document in documents]
    asked = [part for several in parts for part in several if part.pieces]
    await _all([_split(server, entry, part) for part in asked if not server.is_short(entry, part.marked.text)])
    wanted = [(part, place) for part in asked for place in range(len(part.pieces)) if not part.answers[place]]
    plain = [each for each in wanted if not _piece(*each).marks]
    marked = [each for each in wanted if _piece(*each).marks]  # for these the alignment is needed
    aligned: dict[str, JsonValue] = {"alignment": True} if "alignment" in entry.facts.options else {}
    options: dict[str, JsonValue] = {"n_best": alternatives + 1} if alternatives else {}
    asking = ((plain, options), (marked, {**options, **aligned}))
    await _all([_answer(server, entry, some, given) for some, given in asking if some])
    return [
        _translated(document, several, alternatives=alternatives)
        for document, several in zip(documents, parts, strict=True)
    ]


def _translated(document: Document, parts: Sequence[_Part], *, alternatives: int) -> Translated:
    ranked = [document.joined([part.said(place) for part in parts]) for place in range(alternatives + 1)]
    return Translated(list(dict.fromkeys(ranked)), truncated=any(part.truncated for part in parts))


async def _all(several: Sequence[Coroutine[None, None, None]]) -> None:
    """Do several things at once. A single one, such as the sentence of most requests, needs no task of its own."""
    if len(several) == 1:
        await several[0]
    else:
        await asyncio.gather(*several)


def _piece(part: _Part, place: int) -> Marked:
    return part.pieces[place]


async def _split(server: Server, entry: Entry, part: _Part) -> None:
    """Divide a part that the model does not read in one piece. A fixed mark stays in one piece."""
    split = await server.parts(entry, part.marked.text)
    at, starts = 0, [0]
    for number, text in enumerate(split.parts):
        at += len(split.between[number])
        if number and not part.marked.cuts(at):
            starts.append(at)
        at += len(text)
    ends = [*starts[1:], len(part.marked.text)]
    part.pieces = [part.marked.part(start, end) for start, end in zip(starts, ends, strict=True)]
    part.answers = [[] if piece.has_letters else [piece.unchanged()] for piece in part.pieces]


async def _answer(
    server: Server, entry: Entry, wanted: Sequence[tuple[_Part, int]], options: Mapping[str, JsonValue]
) -> None:
    """Ask for pieces of parts."""
    for start in range(0, len(wanted), server.limits.batch):
        some = wanted[start : start + server.limits.batch]
        texts = [_piece(*each).text.strip() for each in some]
        found = await server.ask(entry.name, texts, options, split=False)
        for (part, place), answered in zip(some, found, strict=True):
            rows = _rows(answered.answer)
            part.answers[place] = [_rendered(part.pieces[place], each) for each in rows]
            part.truncated |= "truncated" in rows[0]


def _rendered(piece: Marked, answer: Mapping[str, JsonValue]) -> str:
    given = answer.get("alignment")
    links = None
    if isinstance(given, list):
        links = [[int(str(number)) for number in pair] for pair in given if isinstance(pair, list)]
    return piece.rendered(str(answer["text"]), links)


def _rows(answer: JsonValue) -> list[dict[str, JsonValue]]:
    """The texts of an answer, best first."""
    return [each for each in answer if isinstance(each, dict)] if isinstance(answer, list) else []
