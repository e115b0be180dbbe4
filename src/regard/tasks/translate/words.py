"""Which words of the source the words of an answer attended to. Torch is not imported here.

Words are separated by white space.

T tokens of an answer  S tokens of the source, without its end
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.special import NAMES, UNK


def worth_asking(texts: Sequence[str], sources: Sequence[Sequence[int]]) -> list[int]:
    """The numbers of the texts that are not empty; the answer to an empty text is empty."""
    return [row for row, text in enumerate(texts) if text.strip() and sources[row]]


def word_alignment(
    weights: Sequence[Sequence[float]], source: str, tokens: Sequence[int], *, tokenizers: Tokenizers
) -> list[tuple[int, int]]:
    """For each word of the answer, the source word it looked at most: (source, target) by number, from 0.

    weights (T, S): how much each of the `tokens` of the answer looked at each token of the source.
    """
    from_word = _words_of(source, tokenizers.source.offsets(source))
    begun = tokenizers.target.decode([list(tokens[: end + 1]) for end in range(len(tokens))])
    to_word = [max(len(text.split()) - 1, 0) for text in begun]
    looked = [[0.0] * (max(from_word, default=-1) + 1) for _ in range(max(to_word, default=-1) + 1)]
    for word, row in zip(to_word, weights, strict=True):
        for source_word, weight in zip(from_word, row, strict=True):
            looked[word][source_word] += weight
    return [(row.index(max(row)), word) for word, row in enumerate(looked) if row]


def source_words(text: str, positions: Iterable[int], *, tokenizer: Tokenizer) -> list[str]:
    """The words of a text that the tokens at these positions belong to."""
    offsets = tokenizer.offsets(text)
    return [_word_at(text, *offsets[position]) for position in positions]


def fill_in(text: str, words: Sequence[str], *, unknown: str = NAMES[UNK]) -> str:
    """`text` with the first <unk> replaced by the first word, the second by the second, and so on."""
    for word in words:
        before, _, after = text.partition(unknown)
        text = before + word + after
    return text


def _words_of(text: str, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """The number of the word that each token belongs to."""
    return [max(len(text[:end].split()) - 1, 0) for _, end in offsets]


def _word_at(text: str, begin: int, end: int) -> str:
    """The word that holds the characters from begin to end, without the white space before them."""
    while begin < end and text[begin].isspace():
        begin += 1
    return re.split(r"\s", text[:begin])[-1] + re.split(r"\s", text[begin:], maxsplit=1)[0]
