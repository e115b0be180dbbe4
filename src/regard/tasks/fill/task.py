"""The input is a text with gaps, the output is the words that fill them: the pretraining of BERT, ELMo and XLNet.

masked     BERT: masked tokens are predicted from both sides at once
two_way    ELMo: each token is predicted from all tokens before it, and from all tokens after it
permuted   XLNet: some tokens are predicted one after the other, in a random order
reading    the surface, and how masks are filled in without torch
documents  documents of sentences, and pairs of their parts
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from torch import nn

from regard import models
from regard.models.facts import ModelConfig
from regard.models.heads import body_of
from regard.tasks.base import Codec, RunOptions, Setting
from regard.tasks.fill.documents import Document, read_documents
from regard.tasks.fill.reading import MASK, FillData, Filled, Gaps
from regard.tasks.rows import Rows, RowsTask, body_config
from regard.tasks.surfaces import Texts


class Fill(RowsTask[FillData, Document, Texts, list[list[Filled]]]):
    """The task. The kind of the model decides whether it is Masked, TwoWay or Permuted."""

    uses = "words"
    data = FillData
    surface = Gaps()

    @classmethod
    def from_setting(cls, setting: Setting[FillData], codec: Codec) -> Fill:
        from regard.tasks.fill.masked import Masked
        from regard.tasks.fill.permuted import Permuted
        from regard.tasks.fill.two_way import TwoWay

        model = body_config(setting.model)
        rows = Rows.of(model, codec, max_length=setting.data.max_length)
        ways: dict[str, type[Fill]] = {"masked": Masked, "two_way": TwoWay, "permuted": Permuted}
        return ways[model.learns_words].made(rows, setting)

    @classmethod
    @abstractmethod
    def made(cls, rows: Rows, setting: Setting[FillData]) -> Fill:
        """The task for one kind of model."""

    @abstractmethod
    def filled(self, model: nn.Module, asked: Texts) -> list[list[Filled]]:
        """The likeliest tokens for each gap."""

    def answer(self, model: nn.Module, asked: Sequence[Texts], options: RunOptions) -> list[list[list[Filled]]]:
        return [self.filled(model, each) for each in asked]

    @classmethod
    def examples(cls, name: str, data: FillData) -> Iterator[Document]:
        return read_documents(name)

    @classmethod
    def lines(cls, examples: list[Document]) -> Iterator[str]:
        """Every sentence with its last word masked."""
        words = (sentence.split() for example in examples for sentence in example.sentences)
        return (" ".join([*known, MASK]) for *known, _ in words)

    @classmethod
    def texts(cls, examples: Sequence[Document]) -> Iterator[str]:
        return (sentence for example in examples for sentence in example.sentences)

    @classmethod
    def fewest(cls, setting: Setting[FillData]) -> int:
        """Two, if a model learns whether a text follows another: one that does not follow is from another document."""
        return 2 if body_config(setting.model).says_what_follows() else 1

    @classmethod
    def learn(cls, setting: Setting[FillData], train: list[Document], body: Codec | None) -> Codec:
        """The tokenizer; for a model that fills in masks, it gets a mask token."""
        codec = super().learn(setting, train, body)
        if body is None and body_config(setting.model).learns_words in ("masked", "permuted"):
            codec.texts().source.inner.add_special_tokens([MASK])
        return codec

    def module(self, model: ModelConfig) -> nn.Module:
        """The body itself, with its own heads, which predict words."""
        module = models.from_config(model, vocabulary=self.rows.tokenizer.size)
        body_of(module).freeze_for_words()
        return module
