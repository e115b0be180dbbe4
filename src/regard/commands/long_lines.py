"""A line that is too long to be answered in one piece: the memory for attention grows with the square of its length.

It is split where sentences end, each piece is answered, and the answers are joined with a space.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from regard.data.tokenizers import Tokenizer
from regard.tasks.surfaces import Answer

LONGEST = 1024  # tokens of a text that are answered in one piece; fewer where the model has fewer learned positions
ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*")


def pieces(text: str, *, tokenizer: Tokenizer, longest: int) -> list[str]:
    """A text as pieces of at most so many tokens, each as many whole sentences as fit; none if a sentence is longer."""
    ends = [0, *(match.end() for match in ENDS.finditer(text)), len(text)]
    sentences = [text[begin:end] for begin, end in pairwise(ends)]
    found, room = [""], longest
    for sentence, tokens in zip(sentences, tokenizer.encode(sentences), strict=True):
        if len(tokens) > room:
            found.append("")
            room = longest
        found[-1] += sentence
        room -= len(tokens)
    found = [piece for piece in found if piece.strip()]
    return found if all(len(tokens) <= longest for tokens in tokenizer.encode(found)) else []


def joined(parts: Sequence[str], answers: Sequence[list[Answer]]) -> list[Answer]:
    """The best answers to the pieces of a text as one; words are counted from the beginning of the text."""
    best = [answer[0] for answer in answers]
    alignment = None
    if best[0].alignment is not None:
        before = [len(text.split()) - len(part.split()) for text, part in zip(accumulate(parts), parts, strict=True)]
        said = [0, *accumulate(len(each.text.split()) for each in best)]
        shifted = zip(best, before, said, strict=False)
        alignment = tuple((s + b, t + a) for each, b, a in shifted for s, t in each.alignment or ())
    return [
        replace(
            best[0],
            text=" ".join(each.text for each in best if each.text),
            score=sum(each.score for each in best),
            tokens=tuple(token for each in best for token in each.tokens),
            logprobs=tuple(logprob for each in best for logprob in each.logprobs),
            alignment=alignment,
        )
    ]
