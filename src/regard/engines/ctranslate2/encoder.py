"""Texts in, answers out, in order: CTranslate2 reads rows of tokens, and NumPy computes the head.

    text      y = W pool(h) + b         token     y_t = W h_t + b         vector     pool(h)
    words     y_t = E norm(act(W_t h_t + b_t)) + b

B rows  L length  M width  C outputs of the head  N targets  V vocabulary
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic

import numpy
import safetensors.numpy

from regard.data.rows.framing import Framing, Row
from regard.directory import ModelDirectory
from regard.engines.ctranslate2.cache import Converted, converted
from regard.engines.ctranslate2.plans import ComputeType, Plan, outgrown, plan
from regard.engines.light import LightEngine
from regard.errors import RegardError
from regard.interchange.ctranslate2 import HEAD, UNDER_A_HEAD
from regard.special import OWN, Special
from regard.tasks.base import AnswerT, AskedT, RunOptions
from regard.tasks.reading import Numbers, Output, Reading

BLOCK = 1024  # tables of positions reach a multiple of this
BATCH = 4096  # tokens at a time, at most, padding included
SAMPLE = 64  # rows by which plans are measured

BENT: dict[str, Callable[[Numbers], Numbers]] = {  # the activations of a bert: (…) → (…)
    "relu": lambda x: numpy.maximum(x, 0),
    "silu": lambda x: x * (1 + numpy.tanh(x / 2)) / 2,
    "gelu": lambda x: x * (1 + numpy.vectorize(math.erf, otypes=[numpy.float32])(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
}


def framing_of(model: Mapping[str, Any]) -> Framing:
    """How texts become rows for the [model] of a bert."""
    special = Special.model_validate(model["special"]) if "special" in model else OWN
    return Framing(special, model["maximum"] - model["offset"], segments=1 if model["segments"] == 1 else 2)


@dataclass(frozen=True)
class Head:
    """What stands on a body, in NumPy: the pooler, and the linear map of the task."""

    output: Output
    pooling: str
    pooler_activation: str
    activation: str  # before the map to the vocabulary
    epsilon: float  # of the norm there
    weights: Mapping[str, Numbers]

    @classmethod
    def of(cls, model: Mapping[str, Any], output: Output, weights: Mapping[str, Numbers]) -> Head:
        pooling = model.get("pooling") or ("mean" if output == "vector" else "pooler")
        return cls(output, pooling, model["pooler_activation"], model["activation"], model["epsilon"], weights)

    def __call__(self, hidden: Numbers, row: Row) -> Numbers:
        """h (L, M) of a row → (C,), (L, C), (M,) or (N, V)"""
        if self.output == "words":
            return self._linear("output", self._transformed(hidden[row.targets]))
        if self.output == "tokens":
            return self._linear("output", hidden)
        pooled = self._pooled(hidden)
        return pooled if self.output == "vector" else self._linear("output", pooled)

    def _pooled(self, hidden: Numbers) -> Numbers:
        """One vector for the text: tanh(W_p h_0) or relu, h_0, or the mean.   (L, M) → (M,)"""
        if self.pooling == "mean":
            mean: Numbers = hidden.mean(0)
            return mean
        if self.pooling == "first":
            return hidden[0]
        under = UNDER_A_HEAD if f"{UNDER_A_HEAD}pooler.weight" in self.weights else ""
        mapped = self._linear(f"{under}pooler", hidden[0])
        bent: Numbers = numpy.tanh(mapped) if self.pooler_activation == "tanh" else numpy.maximum(mapped, 0)
        return bent

    def _transformed(self, hidden: Numbers) -> Numbers:
        """norm(act(W_t h + b_t)):   (N, M) → (N, M)"""
        bent = BENT[self.activation](self._linear("transform.linear", hidden))
        centred = bent - bent.mean(-1, keepdims=True)
        scaled = centred / numpy.sqrt(bent.var(-1, keepdims=True) + self.epsilon)
        normed: Numbers = scaled * self._weight("transform.norm.weight") + self._weight("transform.norm.bias")
        return normed

    def _linear(self, name: str, x: Numbers) -> Numbers:
        """W x + b:   (…, M) → (…, C)"""
        mapped: Numbers = x @ self._weight(f"{name}.weight").T + self._weight(f"{name}.bias")
        return mapped

    def _weight(self, name: str) -> Numbers:
        if name not in self.weights:
            raise RegardError(
                f"weights.safetensors has no {name}, so it does not fit recipe.toml; copy the model again"
            )
        return self.weights[name]


class EncoderEngine(LightEngine[AskedT, AnswerT], Generic[AskedT, AnswerT]):
    """A body with the head of a task, which the task's own `reading` makes answers of."""

    name = "ctranslate2"

    def __init__(
        self,
        directory: ModelDirectory,
        model: Mapping[str, Any],
        reading: Reading[AskedT, AnswerT],
        *,
        compute_type: ComputeType = "float32",
        why: str = "it was asked for",
        plan: Plan | None = None,
    ) -> None:
        self.directory, self.model, self.reading = directory.path, model, reading
        self.compute_type, self.why = compute_type, why
        self._given, self._plan = plan, plan
        self._planned = 0  # for how many rows the plan was chosen
        self._encoder: Any = None
        self._head: Head | None = None

    def reason(self, options: RunOptions) -> str | None:  # noqa: ARG002
        return None

    def open(self, options: RunOptions) -> None:  # noqa: ARG002
        self._ready([])

    def answer_all(
        self,
        asked: Iterable[AskedT],
        options: RunOptions,  # noqa: ARG002
        *,
        together: int,
    ) -> Iterator[AnswerT]:
        remaining = iter(asked)
        while chunk := list(islice(remaining, together)):
            yield from self.reading.answers(chunk, self.read)

    def read(self, rows: Sequence[Row]) -> list[Numbers]:
        """The output of the head for each row, in order."""
        encoder, head = self._ready(rows)
        batches = _batches(rows, encoder.num_encoders)
        found: list[Numbers] = [numpy.zeros(0, numpy.float32)] * len(rows)
        with ThreadPoolExecutor(encoder.num_encoders) as pool:
            every = pool.map(lambda batch: self._hidden(encoder, rows, batch), batches)
            for numbers, hidden in zip(batches, every, strict=True):
                for line, number in enumerate(numbers):
                    found[number] = head(hidden[line, : len(rows[number].ids)], rows[number])
        return found

    def _hidden(self, encoder: Any, rows: Sequence[Row], batch: Sequence[int]) -> Numbers:
        """The vectors of the tokens of some rows: (B, L, M)"""
        longest = max(len(rows[number].ids) for number in batch)
        segments = [[*rows[number].segments, *[0] * (longest - len(rows[number].ids))] for number in batch]
        told = {"token_type_ids": segments} if self.model["segments"] else {}
        output = encoder.forward_batch([list(rows[number].ids) for number in batch], **told)
        hidden: Numbers = numpy.array(output.last_hidden_state)
        return hidden

    def _ready(self, rows: Sequence[Row]) -> tuple[Any, Head]:
        """CTranslate2 on the model, opened by the plan that suits the first rows."""
        too_small = self._plan is None or (self._given is None and outgrown(self._plan, self._planned, by=len(rows)))
        if self._encoder is None or self._head is None or too_small:
            self._encoder = None  # its memory is free before another is opened
            positions = -(-self.model["maximum"] // BLOCK) * BLOCK
            model = converted(self.directory, positions=positions)
            weights = safetensors.numpy.load(model.read(HEAD))
            self._head = Head.of(self.model, self.reading.output, weights)
            if self._plan is None or too_small:
                self._plan, self._planned = self._best_plan(model, rows), len(rows)
            self._encoder = self._open(model, self._plan)
        return self._encoder, self._head

    def _open(self, model: Converted, plan: Plan) -> Any:
        return model.open("Encoder", plan, self.apart)

    def _best_plan(self, model: Converted, rows: Sequence[Row]) -> Plan:
        sample = list(rows[:: max(1, len(rows) // SAMPLE)])

        def seconds(candidate: Plan) -> float:
            """The seconds for the sample, if every worker reads all of it."""
            encoder, batches = self._open(model, candidate), _batches(sample, 1) * candidate.workers
            start = time.perf_counter()
            with ThreadPoolExecutor(candidate.workers) as pool:
                list(pool.map(lambda batch: self._hidden(encoder, sample, batch), batches))
            return (time.perf_counter() - start) / candidate.workers

        lines = max(len(rows), 1)
        return plan(lines, compute_type=self.compute_type, beam=1, kept_in=model.path, seconds=seconds)


def _batches(rows: Sequence[Row], workers: int) -> list[list[int]]:
    """The numbers of all rows, the longest first, in batches of at most `BATCH` tokens, and enough for all workers."""
    order = sorted(range(len(rows)), key=lambda number: -len(rows[number].ids))
    share = -(-len(rows) // workers) if rows else 1
    found: list[list[int]] = []
    while order:
        size = max(1, min(share, BATCH // len(rows[order[0]].ids)))
        found.append(order[:size])
        del order[:size]
    return found
