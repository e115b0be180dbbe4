"""Words in, a tag for each out. A word's tag is asked of the first of its tokens.

    loss    Σ over words of −log P(tag | sentence)        scores   precision, recall and F1 of what is named

A sentence too long for the model is read in several parts; a word too long for it loses its end.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from regard.data.framing import IGNORED, Framed
from regard.data.labelled import label_numbers
from regard.data.tagged import Tagged
from regard.data.text_batches import TextBatch
from regard.errors import RegardError
from regard.tasks.reading import Reading, Sight
from regard.tasks.scores import Score

WORD = re.compile(r"\w+|[^\w\s]")
OUTSIDE = "O"
Part = tuple[Framed, list[tuple[int, int]]]  # tokens, and which word (by number) begins at which of them


class Tag:
    """The task, with the tags it knows."""

    best = "f1"

    def __init__(self, reading: Reading, labels: Sequence[str], *, smoothing: float = 0.0) -> None:
        self.reading, self.labels, self.smoothing = reading, list(labels), smoothing

    @staticmethod
    def labels_of(examples: Sequence[Tagged]) -> list[str]:
        found = sorted({tag for example in examples for tag in example.tags})
        if len(found) < 2:
            raise RegardError(f"data.train has the tag {found[0]!r} alone; a tagger needs two or more")
        return found

    @staticmethod
    def texts(examples: Sequence[Tagged]) -> Iterator[str]:
        return (" ".join(example.words) for example in examples)

    def encode(self, examples: Sequence[Tagged]) -> list[Framed]:
        found = []
        for example in examples:
            numbers = label_numbers(self.labels, example.tags, example.place)
            for row, begins in self._parts(example.words):
                wanted = [IGNORED] * len(row.ids)
                for word, place in begins:
                    wanted[place] = numbers[word]
                found.append(Framed(row.ids, row.segments, tuple(wanted)))
        return [row for row in found if any(each != IGNORED for each in row.wanted)]

    def loss(self, model: Any, batch: TextBatch) -> Tensor:
        """Summed over the words."""
        real = batch.wanted != IGNORED
        logits = model(batch.tokens, batch.lengths, batch.segments)[real]
        return F.cross_entropy(logits, batch.wanted[real], label_smoothing=self.smoothing, reduction="sum")

    def answer(self, model: Any, asked: Sequence[str | Sequence[str]]) -> list[list[dict[str, Any]]]:
        """What is named in each text, word by word. A text is cut into words, punctuation apart; words given as they
        are have offsets as if a space stood between them."""
        cut = [_words(each) for each in asked]
        tagged = self.tag(model, [[word for word, _ in words] for words in cut])
        return [
            [
                {"entity": tag, "score": score, "index": number, "word": word, "start": at, "end": at + len(word)}
                for number, ((word, at), (tag, score)) in enumerate(zip(words, tags, strict=True), start=1)
                if tag != OUTSIDE
            ]
            for words, tags in zip(cut, tagged, strict=True)
        ]

    def tag(self, model: Any, sentences: Sequence[Sequence[str]]) -> list[list[tuple[str, float]]]:
        """The tag of every word and its probability; of a word that has no tokens, outside."""
        found = [[(OUTSIDE, 1.0)] * len(words) for words in sentences]
        parts = [(number, *part) for number, words in enumerate(sentences) for part in self._parts(words)]
        for batch, logits in self.reading.passes(model, [row for _, row, _ in parts]):
            scores, tags = (each.tolist() for each in logits.softmax(-1).max(-1))
            for line, row in enumerate(batch.rows):
                sentence, _, begins = parts[row]
                for word, place in begins:
                    found[sentence][word] = (self.labels[tags[line][place]], scores[line][place])
        return found

    def sight(self, model: Any, asked: str | Sequence[str]) -> Sight:
        """What the model reads of a sentence, of a long one its first part, and which tag it chooses for each word."""
        words = [word for word, _ in _words(asked)]
        parts = list(self._parts(words)) or [(self.reading.framing.frame([]), [])]
        if len(parts) > 1:
            warnings.warn(f"the text is read in {len(parts)} parts, and the first is looked at", stacklevel=2)
        row, begins = parts[0]
        places = [place for _, place in begins]
        names = [[f"{words[number]}/{tag}" for tag in self.labels] for number, _ in begins]

        def said(chosen: Sequence[int]) -> str:
            named = zip(names, chosen, strict=True)
            return " ".join(every[tag] for every, tag in named if self.labels[tag] != OUTSIDE)

        return Sight(
            row,
            asked if isinstance(asked, str) else " ".join(asked),
            lambda batch: model(batch.tokens, batch.lengths, batch.segments)[:, places],
            names=names,
            places=places,
            said=said,
        )

    def scores(self, model: Any, examples: Sequence[Tagged]) -> dict[str, Score]:
        for example in examples:
            label_numbers(self.labels, example.tags, example.place)
        said = [[tag for tag, _ in tags] for tags in self.tag(model, [example.words for example in examples])]
        return entity_scores(said, [example.tags for example in examples])

    def shown(self, answer: Sequence[Mapping[str, Any]]) -> list[str]:
        return [" ".join(f"{each['word']}/{each['entity']}" for each in answer)]

    def _parts(self, words: Sequence[str]) -> Iterator[Part]:
        """The sentence in as many parts as it needs, each of whole words."""
        room = self.reading.framing.maximum - self.reading.framing.room_taken(pair=False)
        ids: list[int] = []
        begins: list[tuple[int, int]] = []
        for number, tokens in enumerate(self.reading.tokenizer.encode_words(words)):
            tokens = tokens[:room]
            if len(ids) + len(tokens) > room:
                yield self.reading.framing.frame(ids), begins
                ids, begins = [], []
            if tokens:
                begins.append((number, len(ids) + 1))
                ids += tokens
        if ids:
            yield self.reading.framing.frame(ids), begins


def entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """What is named: type, first word and the one after the last. I- after another type, or after nothing, begins."""
    found: set[tuple[str, int, int]] = set()
    begin, before = 0, OUTSIDE
    for place, tag in enumerate([*tags, OUTSIDE]):
        goes_on = tag.startswith("I-") and before != OUTSIDE and before[2:] == tag[2:]
        if before != OUTSIDE and not goes_on:
            found.add((before[2:], begin, place))
        if not goes_on:
            begin = place
        before = tag
    return found


def entity_scores(said: Sequence[Sequence[str]], right: Sequence[Sequence[str]]) -> dict[str, Score]:
    """Precision, recall and F1 over all that is named, as CoNLL counts: type and both ends must agree."""
    pairs = [(entities(a), entities(b)) for a, b in zip(said, right, strict=True)]
    hits = sum(len(a & b) for a, b in pairs)
    named, wanted = sum(len(a) for a, _ in pairs), sum(len(b) for _, b in pairs)
    f1 = 2 * hits / (named + wanted) if named + wanted else 0.0
    return {
        "f1": Score(100 * f1, f"of {wanted} entities, type and both ends right, in percent"),
        "precision": Score(100 * hits / named if named else 0.0, f"{hits} of {named} found are right"),
        "recall": Score(100 * hits / wanted if wanted else 0.0, f"{hits} of {wanted} are found"),
    }


def _words(asked: str | Sequence[str]) -> list[tuple[str, int]]:
    """Words, and where each begins in the text."""
    if isinstance(asked, str):
        return [(found[0], found.start()) for found in WORD.finditer(asked)]
    begins = [sum(len(word) + 1 for word in asked[:number]) for number in range(len(asked))]
    return list(zip(asked, begins, strict=True))
