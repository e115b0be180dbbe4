"""The input is a text with gaps, the output is the words that fill them: the pretraining of BERT, ELMo and XLNet.

masked     BERT: masked tokens are predicted from both sides at once
two_way    ELMo: each token is predicted from all tokens before it, and from all tokens after it
permuted   XLNet: some tokens are predicted one after the other, in a random order
documents  documents of sentences, and pairs of their parts
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypedDict

from pydantic import Field
from torch import Tensor, nn

from regard import models
from regard.data.tokenizers import Tokenizer
from regard.models.facts import ModelConfig
from regard.models.heads import body_of
from regard.tasks.base import Codec, RunOptions, Setting, Surface
from regard.tasks.fill.documents import Document, read_documents
from regard.tasks.rows import Rows, RowsData, RowsTask, body_config
from regard.tasks.surfaces import Texts, one_or_two, texts_of

MASK = "[MASK]"
MOST = 5  # answers to each gap


class FillData(RowsData):
    """[data] of fill."""

    mask: float = Field(0.15, gt=0, lt=1, description="share of the tokens that are masked, or predicted in an order")
    whole_words: bool = Field(False, description="all tokens of a word are masked or predicted, or none")


class Filled(TypedDict):
    """A token for a gap, its probability, and the text with the token in it."""

    score: float
    token: int
    token_str: str
    sequence: str


class Gaps(Surface[Texts, list[list[Filled]]]):
    """The input is a text or a pair with gaps; the output is the likeliest tokens for each gap."""

    answers = "words for gaps"
    pipeline = "fill-mask"
    example = '"a text with a [MASK] in it"'
    two_texts = True

    def parse(self, line: str) -> Texts:
        return one_or_two(line)

    def from_json(self, body: object) -> Texts:
        return texts_of(body, keys=("text", "text_pair"))

    def to_json(self, answer: list[list[Filled]]) -> object:
        return self.brief(answer)

    def lines(self, answer: list[list[Filled]], options: RunOptions) -> list[str]:
        """The text with its gap filled by the likeliest token; for several gaps, those tokens."""
        if len(answer) == 1:
            return [answer[0][0]["sequence"]]
        return [" ".join(gap[0]["token_str"] for gap in answer)]

    def brief(self, answer: list[list[Filled]]) -> object:
        """For one gap its tokens, for several a list of them, as transformers' pipeline has it."""
        return answer[0] if len(answer) == 1 else answer


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


def likeliest(tokenizer: Tokenizer, shares: Tensor, ids: Sequence[int], place: int) -> list[Filled]:
    """The tokens with the largest shares (V,), and the text with each of them at the place."""
    best, tokens = shares.topk(min(MOST, len(shares)))
    rows = tokenizer.decode([[*ids[:place], token, *ids[place + 1 :]] for token in tokens.tolist()])
    words = tokenizer.decode([[token] for token in tokens.tolist()])
    return [
        {"score": score, "token": token, "token_str": word.strip(), "sequence": row}
        for score, token, word, row in zip(best.tolist(), tokens.tolist(), words, rows, strict=True)
    ]
