"""The model of a task that can tell which words of the input the words of an answer looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from torch import Tensor

from regard.api.model import Model
from regard.tasks.base import TOGETHER, Aligns, Refers
from regard.tasks.surfaces import Answer


class Translator(Model):
    """A model that answers texts with texts."""

    def stream(
        self, texts: Iterable[str], *, together: int = TOGETHER, **options: Any
    ) -> Iterator[tuple[str, list[Answer]]]:
        """Texts and their answers, in order, so many `together`: for any number of lines."""
        remaining = iter(texts)
        while chunk := list(islice(remaining, together)):
            yield from zip(chunk, self.answers(chunk, **options), strict=True)

    def references(self, data: object = None) -> Mapping[str, list[str]]:
        """Each source once, with every target that counts as right."""
        assert isinstance(self.task, Refers)
        return self.task.references(self.examples(data))

    def alignment(self, text: str, answer: Answer) -> tuple[list[str], list[str], Tensor]:
        """Pieces of the source and its end, pieces of the answer, and how much these looked at those: (T, S + 1)."""
        return self._aligning.alignment_of(self.module, text, [answer])

    def word_alignment(self, text: str, answer: Answer) -> list[tuple[int, int]]:
        """For each word of the answer, the source word it looked at most: (source, target) by number, from 0."""
        return self._aligning.align_words(self.module, text, [answer]) if answer.tokens else []

    def said(self, text: str, reference: str | None = None) -> Answer:
        """The best answer to `text` by torch, which is looked at; or `reference`, as if it had been the answer."""
        if reference is not None:
            return self._aligning.forced(reference)[0]
        answers: Any = self.task.answer(self.module, [text], self.options())[0]
        best: Answer = answers[0]
        return best

    @property
    def _aligning(self) -> Aligns[str, list[Answer]]:
        assert isinstance(self.task, Aligns)
        return self.task
