"""A text as whole sentences, by the rules that Wikimedia's `sentencex` has for many languages.

White space between sentences, line breaks included, is kept beside them, so that the answers can be joined as the
sentences were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sentencex

from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.data.tokenizers import Tokenizer


@dataclass(frozen=True)
class Split:
    """Parts of a text, and what stands before, between and after them: one more than there are parts."""

    parts: list[str] = field(default_factory=list)
    between: list[str] = field(default_factory=lambda: [""])

    def add(self, part: str, after: str) -> None:
        self.parts.append(part)
        self.between.append(after)

    def joined(self, answers: Sequence[str]) -> str:
        """The answers to the parts, with what stood around them."""
        pairs = zip(answers, self.between[1:], strict=True)
        return self.between[0] + "".join(answer + after for answer, after in pairs)


def edges(text: str) -> tuple[str, str, str]:
    """White space before a text, the text, and white space after it."""
    inner = text.strip()
    begin = len(text) - len(text.lstrip())
    return text[:begin], inner, text[begin + len(inner) :]


def lines(text: str) -> Split:
    """The lines of a text, without the white space around them."""
    return _collected(text.splitlines(keepends=True))


def sentences(text: str, *, language: str = "en") -> Split:
    """The sentences of a text, without the white space around them."""
    return _collected(_pieces(text, language))


def _pieces(text: str, language: str) -> Iterator[str]:
    """The text as sentences and what is between them; `sentencex` leaves some line breaks out (1.0.32)."""
    end = 0
    for segment in sentencex.segment(language, text) if text.strip() else ():
        begin = text.find(segment.strip(), end)
        if segment.strip() and begin >= 0:
            yield text[end:begin]
            end = begin + len(segment.strip())
            yield text[begin:end]
    yield text[end:]


def _collected(pieces: Iterable[str]) -> Split:
    """Pieces of a text as parts; one of white space alone belongs to what stands around them."""
    found = Split()
    for piece in pieces:
        before, inner, after = edges(piece)
        found.between[-1] += before
        if inner:
            found.add(inner, after)
        else:
            found.between[-1] += after
    return found


def breaks(white: str) -> bool:
    """Whether white space ends a line."""
    return white.splitlines() not in ([], [white])


def split(text: str, *, tokenizer: Tokenizer, together: int, longest: int, language: str = "en") -> Split:
    """A text as parts of whole sentences: several of at most `together` tokens, or one of at most `longest`."""

    def length(some: str) -> int:
        return len(tokenizer.encode([some])[0])

    return packed(sentences(text, language=language), length=length, together=together, longest=longest)


def packed(split: Split, *, length: Callable[[str], int], together: int, longest: int) -> Split:
    """The parts of a split put together again, up to a length of `together`; one beyond `longest` is refused."""
    found = Split([], [split.between[0]])
    sizes = [length(part) for part in split.parts]
    room = 0
    for part, size, after in zip(split.parts, sizes, split.between[1:], strict=True):
        if size > longest:
            raise RegardError(
                f"a sentence of the text has {size:,} tokens, and the model reads {longest:,}; break it into sentences"
            )
        if found.parts and size + 1 <= room and not breaks(found.between[-1]):
            found.parts[-1] += found.between[-1] + part
            found.between[-1] = after
            room -= size + 1
        else:
            found.add(part, after)
            room = together - size
    return found
