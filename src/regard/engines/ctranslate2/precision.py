"""Which form of answering is as good as the exact one for a model, and fastest on this machine: judged once, kept, and
read again.

    MODEL/runtime/precision.json        a record for each instruction set that it was judged on

A form is a precision, with or without the shortlist. A record counts for the weights, the version of CTranslate2 and
the instruction set that it was made with. Without one that counts, the form is float32 without the shortlist.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from types import MappingProxyType
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regard import durable
from regard.data.whole import read_bytes
from regard.directory import WEIGHTS, ModelDirectory, read_note, sum_of
from regard.engines.ctranslate2.plans import ComputeType
from regard.engines.ctranslate2.switches import Switches, said_of_the_cpu
from regard.errors import RegardError
from regard.tasks.base import Judgement

RECORD = "precision.json"
TOLERANCE = 0.1  # of the score, in its own units: what a faster form may lose
CHANCE = 0.05  # a loss that is less likely by chance counts as a loss
FLAGS = ("amx_int8", "avx512_vnni", "avx_vnni", "avx512bw", "avx2", "avx", "sse4_1")  # of a CPU, the best first


class Form(NamedTuple):
    """A way to answer."""

    compute_type: ComputeType = "float32"
    shortlist: bool = False  # whether tokens are chosen among those of the shortlist alone

    def __str__(self) -> str:
        return self.compute_type + " with the shortlist" * self.shortlist


EXACT = Form()


class Tried(BaseModel):
    """The answers in one form: their score, how likely its difference from the exact one is chance, and their speed."""

    model_config = ConfigDict(frozen=True)

    form: Form
    score: float
    p: float
    per_second: float  # inputs


class Identity(BaseModel):
    """What a record was made with."""

    model_config = ConfigDict(frozen=True)

    weights: tuple[int, int]  # bytes of weights.safetensors, and the CRC-32 of its numbers
    ctranslate2: str  # its version
    instructions: str  # the instruction set of the CPU


class Record(BaseModel):
    """How each form answered the same examples; the first is the exact one."""

    model_config = ConfigDict(frozen=True)

    identity: Identity
    metric: str
    higher: bool  # whether more is better
    examples: int
    tried: tuple[Tried, ...] = Field(min_length=1)
    switches: dict[str, str] = {}  # what CTranslate2 is to be told, where that is faster than its own choice

    @property
    def verdict(self) -> Form:
        """The form to answer in."""
        return fastest(self.metric, self.tried, higher=self.higher)

    def __str__(self) -> str:
        """As a sentence for people."""
        told = " ".join(f"{name}={value}" for name, value in self.switches.items())
        faster = f"; {told} is faster, and is set from now on" if told else ""
        forms = "; ".join(
            f"{each.form} {each.score:.2f}{f' (p = {each.p:.2f})' if place else ''}, {each.per_second:,.1f} inputs/s"
            for place, each in enumerate(self.tried)
        )
        return (
            f"{self.verdict} is used from now on; {self.metric} of {self.examples:,} examples, "
            f"with {self.identity.instructions}: {forms}{faster}"
        )


def not_compared(reason: str) -> str:
    """Why there is no record, as a sentence for people."""
    return f"faster forms of answering were not compared with float32: {reason}"


def is_as_good(judged: Judgement) -> bool:
    """Whether the second answers are as good as the first: they lose at most `TOLERANCE`, and what they lose may be
    chance."""
    lost = judged.first - judged.second if judged.higher else judged.second - judged.first
    return lost <= 0 or (lost <= TOLERANCE and judged.p >= CHANCE)


def fastest(metric: str, tried: Sequence[Tried], *, higher: bool) -> Form:
    """The fastest form of those whose answers are as good as the first ones."""
    exact = tried[0]
    good = [each for each in tried[1:] if is_as_good(Judgement(metric, higher, exact.score, each.score, each.p))]
    return max([exact, *good], key=lambda each: each.per_second).form


def identity_of(directory: ModelDirectory) -> Identity:
    """What a record of this model is made with, here and now."""
    path = directory.path / WEIGHTS
    written = read_note(path).sum
    number = sum_of(path.read_bytes()) if written is None else written
    weights = (path.stat().st_size, number)
    return Identity(weights=weights, ctranslate2=version("ctranslate2"), instructions=instruction_set())


def instruction_set() -> str:
    """The architecture of the CPU, and the best of the instructions for products of int8 that it has."""
    if said := said_of_the_cpu():
        best = [flag for flag in FLAGS if flag in said]
        return " ".join([platform.machine(), *best[:1]])
    return f"{platform.machine()} {platform.processor()}".strip()


def keep(
    directory: ModelDirectory,
    tried: Sequence[Tried],
    *,
    metric: str,
    higher: bool,
    examples: int,
    switches: Switches = MappingProxyType({}),
) -> Record:
    """Write what was found; records of other instruction sets stay."""
    record = Record(
        identity=identity_of(directory),
        metric=metric,
        higher=higher,
        examples=examples,
        tried=tuple(tried),
        switches=dict(switches),
    )
    others = [each for each in _records(directory) if each.identity.instructions != record.identity.instructions]
    content = json.dumps([each.model_dump() for each in [*others, record]], indent=2)
    folder = directory.path / "runtime"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise RegardError(f"{folder} cannot be made ({error.strerror}); check your rights") from None
    durable.write_file(folder / RECORD, content.encode())
    return record


def kept(directory: ModelDirectory) -> Record | None:
    """The record that counts for this model on this machine."""
    records = _records(directory)
    if not records:
        return None
    now = identity_of(directory)
    return next((record for record in records if record.identity == now), None)


def switches_of(directory: ModelDirectory) -> Switches:
    """What CTranslate2 is to be told for this model on this machine."""
    record = kept(directory)
    return {} if record is None else record.switches


def _records(directory: ModelDirectory) -> list[Record]:
    """All records of a model; none where they cannot be read."""
    with suppress(OSError, ValueError, TypeError, RecursionError, ValidationError):
        return [Record.model_validate(each) for each in json.loads(read_bytes(directory.path / "runtime" / RECORD))]
    return []
