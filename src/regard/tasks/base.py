"""What a task is, for everything above it. Torch is not imported here.

Surface   what people and programs see of a task: a line or JSON in, lines or JSON out, and which options mean something
Task      how a task learns, answers, is scored and is looked into
Engine    what answers: a loaded model in torch, or CTranslate2 in a process without torch

Nothing above this room asks a task for its name: it asks these interfaces. What only some tasks can do is a protocol of
its own at the end of this file.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, Protocol, Self, TypeVar, runtime_checkable

from pydantic import JsonValue

from regard.checking import check
from regard.data.splits import DataTable, Splits
from regard.data.streams import Batch, Share, Stream
from regard.data.tokenizers import TokenizerConfig, Tokenizers
from regard.decoding.config import DecodingConfig, changed
from regard.errors import RegardError
from regard.models import Form
from regard.models.facts import ModelConfig, Use

if TYPE_CHECKING:
    from torch import Tensor, nn

    from regard.tasks.parts import Parts

DataT = TypeVar("DataT", bound=DataTable)  # the [data] table of a recipe
SetT = TypeVar("SetT")  # the examples of one key of [data]: a list, or files that are read again each time
AskedT = TypeVar("AskedT")  # one input
AnswerT = TypeVar("AnswerT")  # the answer to one input
BatchT = TypeVar("BatchT", bound=Batch)
AskedIn = TypeVar("AskedIn", contravariant=True)
AnswerIn = TypeVar("AnswerIn", contravariant=True)
AnswerOut = TypeVar("AnswerOut", covariant=True)

TOGETHER = 1024  # lines answered together: enough to batch by length, few enough to begin printing soon

# recipe keys that only some tasks use; a task that does not list one in `honours` refuses it
OPTIONAL_KEYS = (
    "tokenizer.dropout",
    "tokenizer.shared",
    "tokenizer",
    "training.batch_tokens",
    "training.batch_size",
    "training.label_smoothing",
    "training.r_drop",
    "training.freeze",
    "training.layer_decay",
    "training.lora",
    "model.body",
    "decoding",
)
TEXTS = frozenset({"tokenizer", "training.batch_tokens"})  # for tasks whose examples are texts
FINE_TUNING = TEXTS | {"training.freeze", "training.layer_decay", "training.lora", "model.body"}


@dataclass(frozen=True)
class Score:
    """A number, and how it came about: sacrebleu's signature, or what was counted.

    `parts` is what each example adds to it, where that can be told: two models are compared by drawing examples.
    """

    value: float
    signature: str = ""
    parts: Parts | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Objective:
    """Which validation score says that one model is better than another.

    `with_loss` asks two scores at once, as GAT's own code does (Veličković 2018): a validation is the best so far if
    neither the score nor the loss was better at an earlier one, and training.patience counts the validations in a row
    at which both were better before. Of equal validations the later is then the better.
    """

    name: str = "loss"
    higher: bool = False
    with_loss: bool = False

    def rank(self, scores: Mapping[str, float]) -> tuple[float, float]:
        """Less is better. Equal scores (BLEU is 0 at the beginning) are ranked by the loss; NaN is the worst."""
        score, loss = scores[self.name], scores.get("loss", 0.0)
        worst = math.inf
        return worst if math.isnan(score) else -score if self.higher else score, worst if math.isnan(loss) else loss


@dataclass(frozen=True)
class RunOptions:
    """How to answer: the [decoding] in force, how answers begin and end, and what of them will be read."""

    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    prefix: str | None = None  # how every answer must begin
    stop: tuple[str, ...] = ()  # a text that is being written ends before the first of these
    alignment: bool = False  # whether the source word that each word looked at is wanted
    scores: bool = False  # whether scores are wanted; they cost a second pass in CTranslate2
    tokens: bool = False  # whether the tokens are wanted

    @classmethod
    def of(cls, stored: object, given: Mapping[str, JsonValue], *, as_json: bool = False) -> Self:
        """The options of `regard run` that were `given`, over the [decoding] that a recipe has `stored`.

        Keys of [decoding] change it. The options of engines, such as `runtime`, are not options of an answer.
        """
        changes = {name: value for name, value in given.items() if name in DecodingConfig.model_fields}
        settings = changed(stored, changes) if isinstance(stored, Mapping) else stored
        decoding = check(DecodingConfig, settings, where="decoding")
        prefix, stop = given.get("prefix"), given.get("stop") or ()
        return cls(
            decoding=decoding,
            prefix=None if prefix is None else str(prefix),
            stop=tuple(map(str, stop)) if isinstance(stop, list | tuple) else (str(stop),),
            alignment=bool(given.get("alignment")),
            scores=as_json or decoding.n_best > 1,
            tokens=as_json,
        )


@dataclass(frozen=True)
class Looking:
    """How to look: the [decoding] in force, and an answer to be given instead of the model's own.

    `fast` is for statistics over many inputs: no beam, and no answer that has to be written first.
    """

    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    reference: str | None = None
    fast: bool = False


class Surface(ABC, Generic[AskedT, AnswerT]):
    """What people and programs see of a task. A surface never imports torch."""

    answers: ClassVar[str]  # what the answers are, for messages: "labels"
    pipeline: ClassVar[str]  # what Hugging Face's programs call the task, for servers and their clients
    example: ClassVar[str] = '"a text"'  # what to type after `regard run MODEL`
    options: ClassVar[frozenset[str]] = frozenset()  # the run options that change something
    files: ClassVar[bool] = False  # whether a line names a file that is to be read
    two_texts: ClassVar[bool] = False  # whether a line may hold two texts, with a tab between them
    together: ClassVar[int] = TOGETHER  # lines answered together
    splits: ClassVar[bool] = False  # whether a text that is too long is answered in pieces
    streams: ClassVar[bool] = False  # whether an answer can be told while it comes
    between: ClassVar[str | None] = None  # the line printed between two answers that may have several lines each

    @abstractmethod
    def parse(self, line: str) -> AskedT:
        """The input that a line of text holds."""

    @abstractmethod
    def from_json(self, body: object) -> AskedT:
        """The input that a JSON value holds, or a Python value of the same shape; a parsed input is itself."""

    def from_request(self, body: object) -> AskedT:
        """The input that a request from elsewhere holds: as `from_json`, but never the name of a file."""
        if self.files:
            raise RegardError(f"a model that answers with {self.answers} about files does not answer requests")
        return self.from_json(body)

    def to_json(self, answer: AnswerT) -> object:
        """An answer for programs, made of dicts, lists, texts and numbers."""
        return answer

    @abstractmethod
    def lines(self, answer: AnswerT, options: RunOptions) -> list[str]:
        """An answer for people."""

    def brief(self, answer: AnswerT) -> object:
        """What `model(input)` returns in Python: the answer itself, or its first text."""
        return answer

    def tokens(self, answer: AnswerT) -> int:
        """How many tokens an answer has said, for measurements of speed; 0 where it is not made of tokens."""
        return 0

    def accept(self, given: Iterable[str]) -> None:
        """Refuse the first of the given options that has no effect on this task."""
        for name in given:
            if name not in self.options:
                option = "--" + name.replace("_", "-")
                raise RegardError(f"{option} has no effect on a model that answers with {self.answers}; leave it out")


class Engine(Protocol[AskedIn, AnswerOut]):
    """What answers: a loaded model in torch, or CTranslate2 in a process without torch."""

    @property
    def name(self) -> str: ...
    @property
    def why(self) -> str:
        """Why this engine answers, and not another."""
        ...

    def answer_all(self, asked: Iterable[AskedIn], options: RunOptions, *, together: int) -> Iterator[AnswerOut]:
        """The answers in order; `together` inputs may be answered in one batch."""
        ...


@dataclass(frozen=True)
class Codec:
    """What is learned from the data before training and kept beside the weights."""

    tokenizers: Tokenizers | None = None
    labels: tuple[str, ...] = ()
    numbers: Mapping[str, JsonValue] = field(default_factory=dict)  # what was measured, such as the size of pictures

    def texts(self) -> Tokenizers:
        """The tokenizers of a task that reads texts."""
        if self.tokenizers is None:
            raise RegardError("there is no tokenizer; a model directory needs tokenizer.json, so copy it again")
        return self.tokenizers


@dataclass(frozen=True)
class Setting(Generic[DataT]):
    """What of a recipe a task may know."""

    data: DataT
    tokenizer: TokenizerConfig
    model: ModelConfig
    decoding: DecodingConfig
    seed: int
    batch_tokens: int
    batch_size: int  # examples in a batch, where they are no texts
    label_smoothing: float = 0.0
    r_drop: float = 0.0


class Tell(Protocol):
    """Reports progress; a milestone is printed even if there is no terminal."""

    def __call__(self, text: str, *, milestone: bool = False) -> None: ...


class Bar(Protocol):
    """Shows how much of something was read, and which share that is."""

    def __call__(self, what: str, count: int, unit: str, share: float) -> None: ...


@dataclass(frozen=True)
class Work:
    """Where data is prepared, for which process, and what receives reports of progress."""

    folder: Path
    tell: Tell
    share: Share = field(default_factory=Share)
    processes: int = 1  # that prepare data together
    bar: Bar | None = None  # receives counts in place of `tell`

    def advance(self, what: str, count: int, unit: str, share: float) -> None:
        """Report how far the reading of something is: a count, and the share of its files."""
        if self.bar is None:
            self.tell(f"reading {what}: {count:,} {unit}")
        else:
            self.bar(what, count, unit, share)


@dataclass(frozen=True)
class Exam:
    """Examples that were read and checked beforehand, ready to score a model on."""

    about: str  # "1,014 texts"
    scores: Callable[[nn.Module], dict[str, Score]]
    loss: bool = False  # whether the loss is among the scores, so that it need not be computed beside them
    work: float = 1.0  # how much there is to answer, inputs times the width of the search, to foresee the time it takes


@dataclass(frozen=True)
class Side:
    """Things looked from or at: tokens, patches of a picture, nodes of a graph, steps of a recurrent network."""

    items: tuple[str, ...]
    kind: Literal["tokens", "patches", "nodes", "steps"] = "tokens"
    text: str = ""
    rows: int | None = None
    columns: int | None = None
    picture: str | None = None
    edges: tuple[tuple[int, int], ...] | None = None
    border: int | None = None  # the first item of the second text, where the items are a pair of texts
    values: tuple[float, ...] | None = None  # the numbers at the steps of a series
    # intervals around the values: (level such as 0.8, lowest at each step, highest at each step)
    bands: tuple[tuple[float, tuple[float, ...], tuple[float, ...]], ...] | None = None
    labels: tuple[str, ...] | None = None  # the classes of nodes


@dataclass(frozen=True)
class Sight:
    """One input as a model is seen reading it, and what the model chooses: N times one of C. `look.capture` draws it.

    logits(None) → (N, C) in one pass; logits(places), places (n,) → (n, C), each from a row of the batch of its own.
    read(*inputs) runs the model on its `given` inputs, or on those of several sights of the same shape, concatenated.
    """

    title: str  # the input in words
    source: Side
    logits: Callable[[Tensor | None], Tensor]
    given: tuple[Tensor, ...]  # what the model reads, each (1, …)
    read: Callable[..., Tensor]
    sides: Callable[[str], tuple[str, str]]  # path of an attention → the side that looks, the side that is looked at
    embedding: nn.Module | None  # saliency is the gradient of its output times its output; None: too much to compute
    salient: str = "source"  # the side that the embedding reads
    outcome: Callable[[Sequence[int]], tuple[Side, str]] | None = None  # what was chosen → the target side, the answer
    names: Callable[[int, list[int]], Sequence[str]] | None = None  # (n, some of the C choices) → their names
    chosen: Sequence[int] | None = None  # the most probable unless given
    places: Sequence[int] = ()  # the source item that each choice is about, where there is one
    inputs: tuple[str, ...] | None = None  # what stood in the positions of causal maps
    layer_paths: Callable[[int], str] = "*.{}.*".format  # number of a layer → pattern of the paths in it
    reads_backwards: Callable[[str], bool] = lambda _path: False  # whether the module at a path reads from the end
    beam: Mapping[str, JsonValue] | None = None  # the tree of the search
    notes: tuple[str, ...] = ()  # what the viewer must know, such as that a text was cut
    rows: int | None = None  # only so many of the last rows of each map are shown, where others only lead to them
    more: Mapping[str, Side] = field(default_factory=dict)  # further sides by name, such as coarser grids of a picture
    shown: Sequence[int] | None = None  # which of the items that are read the source side has; all of them if None


class Task(ABC, Generic[DataT, SetT, AskedT, AnswerT, BatchT]):
    """A task with what it has learned to name. This class has no logic: every task is read in its own room."""

    forms: ClassVar[tuple[Form, ...]]  # of the models that can do it
    uses: ClassVar[Use] = "whole"  # what it takes of a model
    honours: ClassVar[frozenset[str]] = frozenset()  # the OPTIONAL_KEYS that change something here
    defaults: ClassVar[Mapping[str, JsonValue]] = {}  # of recipe keys, where they differ from every other task's
    searched: ClassVar[bool] = False  # whether its scores are of texts that a search finds, such as a beam
    looked_at: ClassVar[int | None] = None  # tokens of an answer that are looked at, unless max_length is given
    data: type[DataT]  # checks [data]
    surface: Surface[AskedT, AnswerT]

    @classmethod
    @abstractmethod
    def from_setting(cls, setting: Setting[DataT], codec: Codec) -> Task[DataT, SetT, AskedT, AnswerT, BatchT]:
        """The task of a recipe, with what was learned from its data."""

    # what there is to learn from

    @classmethod
    @abstractmethod
    def read(cls, entry: object, data: DataT, *, key: str) -> SetT:
        """The examples of one entry of [data], or of `regard evaluate --data`; `key` names it in errors."""

    @classmethod
    @abstractmethod
    def open(cls, setting: Setting[DataT], work: Work | None) -> Splits[SetT]:
        """All that [data] names; without `valid`, some of `train` is held out. With `work`, to learn from."""

    @classmethod
    @abstractmethod
    def lines(cls, examples: SetT) -> Iterator[str]:
        """The inputs of examples, as lines that the surface parses."""

    @classmethod
    @abstractmethod
    def learn(cls, setting: Setting[DataT], train: SetT, body: Codec | None) -> Codec:
        """The tokenizers and labels of the training data; with a pretrained body, its tokenizer."""

    # learning

    @abstractmethod
    def module(self, model: ModelConfig) -> nn.Module:
        """The model, with this task's head if it has one."""

    @abstractmethod
    def batches(self, examples: SetT, setting: Setting[DataT], work: Work, *, name: str) -> Stream[BatchT]:
        """The examples as batches; those called "train" are learned from."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: BatchT, *, plain: bool = False) -> Tensor:
        """The sum (not the mean) over the targets of a batch; `plain` leaves smoothing out, for validation."""

    # judging

    @abstractmethod
    def objective(self, splits: Splits[SetT]) -> Objective:
        """What checkpoints are ranked by. Data that cannot be judged by it is refused."""

    @abstractmethod
    def quick_exam(self, valid: SetT, batches: Stream[BatchT]) -> Exam:
        """What validation scores beside the loss, quickly enough to be repeated while training."""

    @abstractmethod
    def exam(self, examples: SetT, options: RunOptions, *, tokenize: str = "13a") -> Exam:
        """What a trained model is scored by. `tokenize` is sacrebleu's, for scores on words of text."""

    # answering and looking

    @abstractmethod
    def answer(self, model: nn.Module, asked: Sequence[AskedT], options: RunOptions) -> list[AnswerT]:
        """An answer to each input, in order."""

    @abstractmethod
    def sight(self, model: nn.Module, asked: AskedT, look: Looking) -> Sight:
        """What is to be seen of one input."""


@runtime_checkable
class Extends(Protocol):
    """A task that keeps more files beside its weights, made from the training data when training ends."""

    def files(self, batches: Stream[Batch], decoding: DecodingConfig) -> dict[str, bytes]: ...


@runtime_checkable
class Refers(Protocol):
    """A task whose inputs have several right answers."""

    def references(self, examples: object) -> Mapping[str, list[str]]:
        """Each input once, with every answer that counts as right."""
        ...


@dataclass(frozen=True)
class Judgement:
    """The scores of two lists of answers to the same examples, and how likely their difference is by chance."""

    metric: str
    higher: bool  # whether more is better
    first: float
    second: float
    p: float


@runtime_checkable
class Judges(Protocol[AskedT, AnswerIn]):
    """A task that can judge answers by whatever engine, by the score that its models are ranked by."""

    def inputs(self, examples: object) -> list[AskedT]:
        """What is asked of examples."""
        ...

    def judged(self, examples: object, first: Sequence[AnswerIn], second: Sequence[AnswerIn]) -> Judgement:
        """Two answers to each input."""
        ...


@runtime_checkable
class Aligns(Protocol[AskedIn, AnswerT]):
    """A task that can tell which word of the input each word of an answer looked at."""

    def forced(self, answer: str) -> AnswerT:
        """A given text as an answer."""
        ...

    def alignment_of(self, model: nn.Module, asked: AskedIn, answer: AnswerT) -> tuple[list[str], list[str], Tensor]:
        """Names of the input's items, names of the answer's, and how much these looked at those."""
        ...

    def align_words(self, model: nn.Module, asked: AskedIn, answer: AnswerT) -> list[tuple[int, int]]: ...


@runtime_checkable
class SeesMany(Protocol[AskedIn]):
    """A task that finds the answers to many inputs together before they are looked at."""

    def sights(self, model: nn.Module, asked: Sequence[AskedIn], look: Looking) -> list[Sight]:
        """`Task.sight` of each input, in order, for a `look` that is fast."""
        ...


@runtime_checkable
class Remembers(Protocol):
    """A task that keeps tensors from one batch to the next while a model learns. A checkpoint holds them.

    The first dimension of each is that of the rows of a batch, which are lanes of the data (`Laned`).
    """

    def remembered(self) -> Mapping[str, Tensor]:
        """What is kept now, by name; empty before the first batch."""
        ...

    def remind(self, tensors: Mapping[str, Tensor]) -> None:
        """Keep these tensors, as `remembered` gave them."""
        ...


@runtime_checkable
class Quotes(Protocol):
    """A task whose batches hold texts. They are shown to people if a batch cannot be learned from."""

    def quoted(self, batch: Batch) -> Sequence[Mapping[str, str]]:
        """The texts of each row, by what they are."""
        ...


@runtime_checkable
class Streams(Protocol[AskedIn]):
    """A task that can tell an answer while it comes."""

    def pieces(self, model: nn.Module, asked: AskedIn, options: RunOptions) -> Iterator[str]: ...


AnyTask = Task[DataTable, object, object, object, Batch]
AnySurface = Surface[object, object]
