"""A text as whole sentences, by the rules that Wikimedia's `sentencex` has for many languages.

White space between sentences, line breaks included, is kept beside them, so that the answers can be joined as the
sentences were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import sentencex

from regard.data.tokenizers import Tokenizer
from regard.errors import RegardError

EDGES = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)
LINES = re.compile(r"(\s*[\r\n\u2028\u2029]\s*)")


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
    found = EDGES.fullmatch(text)
    assert found is not None
    before, inner, after = found.groups()
    return before, inner, after


def lines(text: str) -> Split:
    """The lines of a text, without the white space around them."""
    before, inner, after = edges(text)
    if not inner:
        return Split([], [before + after])
    pieces, found = LINES.split(inner), Split([], [before])
    for part, follows in zip(pieces[::2], [*pieces[1::2], after], strict=True):
        found.add(part, follows)
    return found


def sentences(text: str, *, language: str = "en") -> Split:
    """The sentences of a text, without the white space around them."""
    before, inner, after = edges(text)
    if not inner:
        return Split([], [before + after])
    found, rest = Split([], [before]), ""
    for each in sentencex.segment(language, inner):
        lead, sentence, trail = edges(each)
        if not sentence:
            rest += each
            continue
        found.between[-1] += rest + lead
        found.add(sentence, trail)
        rest = ""
    found.between[-1] += rest + after
    return found


def split(text: str, *, tokenizer: Tokenizer, longest: int, language: str = "en") -> Split:
    """A text as parts of at most so many tokens, each as many whole sentences as fit."""

    def length(some: str) -> int:
        return len(tokenizer.encode([some])[0])

    return packed(sentences(text, language=language), length=length, longest=longest)


def packed(split: Split, *, length: Callable[[str], int], longest: int) -> Split:
    """The parts of a split put together again as far as they fit; one that does not fit is refused."""
    found = Split([], [split.between[0]])
    sizes = [length(part) for part in split.parts]
    room = 0
    for part, size, after in zip(split.parts, sizes, split.between[1:], strict=True):
        if size > longest:
            raise RegardError(
                f"a sentence of the text has {size:,} tokens, and the model reads {longest:,}; break it into sentences"
            )
        if found.parts and size + 1 <= room and not LINES.search(found.between[-1]):
            found.parts[-1] += found.between[-1] + part
            found.between[-1] = after
            room -= size + 1
        else:
            found.add(part, after)
            room = longest - size
    return found
