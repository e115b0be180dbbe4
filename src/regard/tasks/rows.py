"""What tasks on rows of text share with torch: batches, passes over many texts, and what is seen of one."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy
import torch
from torch import Tensor, nn

from regard.data.files import expanded
from regard.data.rows.batches import Draw, RowBatch, RowStream, in_order_of_length
from regard.data.rows.framing import Framing, Row
from regard.data.splits import Splits, divide
from regard.data.streams import Batch
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.errors import RegardError, listed
from regard.models import Form
from regard.models.facts import BodyConfig, ModelConfig
from regard.models.heads import body_of, headed, pooling_of
from regard.tasks.base import (
    FINE_TUNING,
    AnswerT,
    AskedT,
    Codec,
    Exam,
    Objective,
    RunOptions,
    Score,
    Setting,
    Side,
    Sight,
    Task,
    Work,
)
from regard.tasks.counting import counter
from regard.tasks.reading import Numbers, RowsData, TextRows

BATCH_TOKENS = 4096  # of texts that are answered together
ANY_LENGTH = 1 << 20  # tokens, for a model without a longest input
NOTHING = numpy.zeros(0, numpy.float32)
QUICK = 2000  # examples that validation answers: enough to rank checkpoints by


class Example(Protocol):
    """An example to learn from. `place` says where it was read; `key` is equal for examples that belong together."""

    @property
    def key(self) -> str: ...
    @property
    def place(self) -> str: ...


RowsDataT = TypeVar("RowsDataT", bound=RowsData)
ExampleT = TypeVar("ExampleT", bound=Example)


class Rows(TextRows):
    """How texts become rows that a module reads, and the passes over them."""

    @classmethod
    def of(cls, model: ModelConfig, codec: Codec, *, max_length: int | None = None) -> Rows:
        """Rows for a model, no longer than the model reads."""
        body = body_config(model)
        segments = 1 if body.segments_told_apart() == 1 else 2
        framing = Framing(body.special, body.reads() or ANY_LENGTH, segments=segments, bos_last=body.ends_with_bos)
        return cls(codec.texts().source, framing.at_most(max_length))

    def outputs(self, model: nn.Module, rows: Sequence[Row]) -> list[Numbers]:
        """The output of the model for each row, in order: (C,) of a text, or (L, C) of its tokens."""
        found: list[Numbers] = [NOTHING] * len(rows)
        for batch, outputs in self.passes(model, rows):
            numbers = outputs.float().cpu().numpy()
            for line, row in enumerate(batch.rows):
                found[row] = numbers[line] if numbers.ndim == 2 else numbers[line, : len(rows[row].ids)]
        return found

    def passes(
        self, model: nn.Module, rows: Sequence[Row], *, batch_tokens: int = BATCH_TOKENS
    ) -> Iterator[tuple[RowBatch, Tensor]]:
        """Every row once, in batches by length, with the output of the model, without gradients."""
        return self.applied(model, rows, lambda b: model(b.tokens, b.lengths, b.segments), batch_tokens=batch_tokens)

    def applied(
        self,
        model: nn.Module,
        rows: Sequence[Row],
        function: Callable[[RowBatch], Tensor],
        *,
        batch_tokens: int = BATCH_TOKENS,
    ) -> Iterator[tuple[RowBatch, Tensor]]:
        """Every row once, in batches by length, with the value of a function of the batch."""
        device = next(model.parameters()).device
        more = counter(len(rows))
        for batch in in_order_of_length(rows, batch_tokens=batch_tokens, special=self.framing.special):
            there = batch.to(device)
            with torch.no_grad():
                found = function(there)
            more(len(batch.rows))
            yield there, found

    def sight(
        self,
        model: nn.Module,
        row: Row,
        text: str,
        logits: Callable[[RowBatch], Tensor],
        *,
        choices: Choices | None = None,
        notes: tuple[str, ...] = (),
    ) -> Sight:
        """One row as a model reads it; `logits` of a batch of copies of the row are (B, N, C)."""
        body, device = body_of(model), next(model.parameters()).device
        (batch,) = in_order_of_length([row], batch_tokens=1, special=self.framing.special)
        batch = batch.to(device)

        def chosen_by(places: Tensor | None) -> Tensor:
            if places is None:
                return logits(batch)[0]
            rows = torch.arange(len(places), device=device)
            return logits(_copies(batch, len(places)))[rows, places]

        sight = Sight(
            title=text,
            source=Side(tuple(self.tokenizer.pieces(list(row.ids))), text=text, border=_border(row)),
            logits=chosen_by,
            given=(batch.tokens, batch.lengths, batch.segments, batch.order),
            read=lambda *given: logits(_batch_of(batch, *given)),
            sides=lambda _path: ("source", "source"),
            embedding=body.embedding,
            layer_paths=body.layer_paths,
            reads_backwards=body.reads_backwards,
            notes=(*self._cut(row), *notes),
        )
        return sight if choices is None else choices.put_into(sight)

    def _cut(self, row: Row) -> tuple[str, ...]:
        """What the viewer must know of a row whose texts were cut."""
        if not row.unread:
            return ()
        read = sum(token not in self.framing.special.silent for token in row.ids)
        which = f"the first {read} of" if _border(row) is None else f"{read}, the first of each text, of"
        return (f"only {which} {read + row.unread} tokens are read",)


@dataclass(frozen=True)
class Choices:
    """What a model chooses in a row: N times one of C, by name."""

    names: Sequence[Sequence[str]]  # what may be chosen (N, C)
    said: Callable[[Sequence[int]], str]  # from what was chosen to the answer
    chosen: Sequence[int] | None = None  # the most probable unless given
    places: Sequence[int] = ()  # the token that each choice is about, if not the whole row (N,)

    def forced(self, reference: str | None) -> Choices:
        """The same choices, with `reference` as the one that was chosen."""
        if reference is None:
            return self
        if len(self.names) != 1:
            raise RegardError(
                f"reference={reference!r} is for one choice, and there are {len(self.names)} here; leave it out"
            )
        if reference not in self.names[0]:
            raise RegardError(f"reference={reference!r} cannot be chosen here; there are {listed(self.names[0])}")
        return replace(self, chosen=[self.names[0].index(reference)])

    def put_into(self, sight: Sight) -> Sight:
        def outcome(chosen: Sequence[int]) -> tuple[Side, str]:
            text = self.said(chosen)
            items = tuple(names[each] for names, each in zip(self.names, chosen, strict=True))
            return Side(items, text=text), text

        return replace(
            sight,
            outcome=outcome,
            names=lambda at, numbers: [self.names[at][number] for number in numbers],
            chosen=self.chosen,
            places=self.places,
        )


class RowsTask(
    Task[RowsDataT, list[ExampleT], AskedT, AnswerT, RowBatch], Generic[RowsDataT, ExampleT, AskedT, AnswerT]
):
    """A task whose examples fit in memory and become rows of text."""

    forms: ClassVar[tuple[Form, ...]] = ("encoder",)
    honours = FINE_TUNING
    best: ClassVar[str]  # the score that checkpoints are ranked by; "loss", or one of which more is better
    rows: Rows
    labels: tuple[str, ...] = ()

    @classmethod
    @abstractmethod
    def examples(cls, name: str, data: RowsDataT) -> Iterator[ExampleT]:
        """The examples of one file."""

    @classmethod
    @abstractmethod
    def texts(cls, examples: Sequence[ExampleT]) -> Iterator[str]:
        """All texts, to learn a vocabulary from."""

    @abstractmethod
    def encode(self, examples: Sequence[ExampleT]) -> list[Row]:
        """The rows to learn from, with what is to be predicted."""

    @abstractmethod
    def scores(self, model: nn.Module, examples: Sequence[ExampleT]) -> dict[str, Score]:
        """What the task is judged by."""

    @classmethod
    def labels_of(cls, examples: Sequence[ExampleT]) -> tuple[str, ...]:
        """What the head tells apart, in its order."""
        return ()

    @classmethod
    def read(cls, entry: object, data: RowsDataT, *, key: str) -> list[ExampleT]:
        if not entry:
            raise RegardError(f"{key} is missing; name a file, such as --set {key}=my.tsv")
        found = [example for name in _files(entry) for example in cls.examples(name, data)]
        if not found:
            raise RegardError(f"{key} = {entry!r} has no examples; name another file")
        return found

    @classmethod
    def open(cls, setting: Setting[RowsDataT], work: Work | None) -> Splits[list[ExampleT]]:
        data = setting.data
        if data.mix:
            train = cls.read([name for corpus in data.mix for name in _files(corpus.path)], data, key="data.mix")
        else:
            train = cls.read(data.train, data, key="data.train")
        test = cls.read(data.test, data, key="data.test") if data.test else None
        if data.valid:
            return Splits(train, cls.read(data.valid, data, key="data.valid"), test)
        both = divide(train, amount=data.hold_out, seed=setting.seed, least=cls.fewest(setting))
        return Splits(*both, test)

    @classmethod
    def fewest(cls, setting: Setting[RowsDataT]) -> int:
        """How many examples both training and validation need at least."""
        return 1

    @classmethod
    def learn(cls, setting: Setting[RowsDataT], train: list[ExampleT], body: Codec | None) -> Codec:
        labels = cls.labels_of(train)
        if body is not None:
            return Codec(body.texts(), labels)
        tokenizer = Tokenizer.learn(cls.texts(train), setting.tokenizer)
        return Codec(Tokenizers(tokenizer), labels)

    def module(self, model: ModelConfig) -> nn.Module:
        """The body with a head on it, for the whole text or for each token."""
        pooled = self.uses == "text"
        size = self.rows.tokenizer.size
        return headed(body_config(model), classes=len(self.labels), pooled=pooled, vocabulary=size)

    def batches(self, examples: list[ExampleT], setting: Setting[RowsDataT], work: Work, *, name: str) -> RowStream:
        mixing = setting.data.mixing if name == "train" else None
        parts = [examples] if mixing is None else self.corpora(examples, setting.data)
        rows = [self.encode(part) for part in parts]
        return RowStream(
            [row for part in rows for row in part],
            mixing=mixing,
            parts=[len(part) for part in rows],
            batch_tokens=setting.batch_tokens,
            seed=setting.seed,
            special=self.rows.framing.special,
            share=work.share,
            draw=self.drawing(),
        )

    def quoted(self, batch: Batch) -> list[dict[str, str]]:
        assert isinstance(batch, RowBatch)
        rows = [row[:length] for row, length in zip(batch.tokens.tolist(), batch.lengths.tolist(), strict=True)]
        return [{"text": text} for text in self.rows.tokenizer.decode(rows)]

    @staticmethod
    def corpora(examples: Sequence[ExampleT], data: RowsData) -> list[list[ExampleT]]:
        """The examples of each corpus of a mixture, by the files that they were read from."""
        owner = {name: number for number, corpus in enumerate(data.mix or ()) for name in _files(corpus.path)}
        found: list[list[ExampleT]] = [[] for _ in data.mix or ()]
        for example in examples:
            found[owner[example.place.rpartition(":")[0]]].append(example)
        return found

    def drawing(self) -> Draw | None:
        """What changes each row at random, anew in each epoch, and once for validation."""
        return None

    def objective(self, splits: Splits[list[ExampleT]]) -> Objective:
        return Objective(self.best, higher=self.best != "loss")

    def quick_exam(self, valid: list[ExampleT], batches: object) -> Exam:
        some = self.some(valid, QUICK)
        return Exam(f"{len(some):,} examples", lambda model: self.scores(model, some), work=len(some))

    def some(self, examples: list[ExampleT], count: int) -> list[ExampleT]:
        """A random sample of `count` examples or fewer, the same one in each call."""
        return examples if len(examples) <= count else random.Random(0).sample(examples, count)

    def exam(self, examples: list[ExampleT], options: RunOptions, *, tokenize: str = "13a") -> Exam:
        return Exam(f"{len(examples):,} examples", lambda model: self.scores(model, examples), work=len(examples))


def _files(entry: object) -> list[str]:
    """All files of an entry of [data], where a name with * or ? stands for many."""
    return [each for name in (entry if isinstance(entry, list) else [entry]) for each in expanded(str(name))]


def body_config(model: ModelConfig) -> BodyConfig:
    """The config of a model that can be the body of a head."""
    if not isinstance(model, BodyConfig):
        raise RegardError(f'model.kind = "{model.kind}" does not read rows of text; take one that does, such as "bert"')
    return model


def label_numbers(labels: Sequence[str], wanted: Sequence[str], place: str) -> list[int]:
    """The number of each label. A label that is not in the training data is an error."""
    known = {label: number for number, label in enumerate(labels)}
    for label in wanted:
        if label not in known:
            shown = ", ".join(labels[:20]) + (", …" if len(labels) > 20 else "")
            raise RegardError(f"{place} has the label {label!r}, which is not in data.train; it has {shown}")
    return [known[label] for label in wanted]


def pooled_places(model: nn.Module, row: Row) -> tuple[int, ...]:
    """The place of the token that a pooling head reads; no place if the head reads the mean of all tokens."""
    if pooling_of(model) == "pooler":
        return (row.ids.index(body_of(model).special.bos),)
    return {"mean": (), "last": (len(row.ids) - 1,)}.get(pooling_of(model), (0,))


def halves(batch: RowBatch) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Both texts of rows that hold two, one after the other, as segments 0 and 1: tokens (B, L′) and lengths (B,)."""
    second = batch.segments.sum(1)
    first = batch.lengths - second
    return (_part(batch.tokens, torch.zeros_like(first), first), first), (_part(batch.tokens, first, second), second)


def equal_rows(tokens: Tensor) -> Tensor:
    """Which rows are the same: (B, L) → (B, B)"""
    return (tokens.unsqueeze(1) == tokens.unsqueeze(0)).all(-1)


def _part(tokens: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    """The `size` (B,) tokens of each row that start at `begin` (B,), then padding: (B, L) → (B, longest)"""
    at = torch.arange(int(size.max()), device=tokens.device)
    found = tokens.gather(1, (begin.unsqueeze(1) + at).clamp(max=tokens.shape[1] - 1))
    return found.masked_fill(at >= size.unsqueeze(1), 0)


def _border(row: Row) -> int | None:
    """Where the second text of a row begins."""
    return row.segments.index(1) if 1 in row.segments else None


def _copies(batch: RowBatch, count: int) -> RowBatch:
    """The only row of a batch, `count` times."""
    return _batch_of(
        batch,
        batch.tokens.expand(count, -1),
        batch.lengths.expand(count),
        batch.segments.expand(count, -1),
        batch.order.expand(count, -1),
    )


def _batch_of(batch: RowBatch, tokens: Tensor, lengths: Tensor, segments: Tensor, order: Tensor) -> RowBatch:
    """The batch with other rows."""
    return replace(batch, tokens=tokens, lengths=lengths, segments=segments, order=order)
