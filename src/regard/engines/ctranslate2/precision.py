"""Whether int8 is as good as float32 for a model, and faster on this machine: judged once, kept, and read again.

    MODEL/runtime/precision.json        a record for each instruction set that it was judged on

A record counts for the weights, the version of CTranslate2 and the instruction set that it was made with. Without one
that counts, the precision is float32.
"""

from __future__ import annotations

import json
import platform
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from types import MappingProxyType
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from regard import durable
from regard.data.whole import read_bytes
from regard.directory import WEIGHTS, ModelDirectory, read_note, sum_of
from regard.engines.ctranslate2.switches import Switches, said_of_the_cpu
from regard.errors import RegardError
from regard.tasks.base import Judgement

RECORD = "precision.json"
TOLERANCE = 0.1  # of the score, in its own units: what int8 may lose
CHANCE = 0.05  # a loss that is less likely by chance counts as a loss
FLAGS = ("amx_int8", "avx512_vnni", "avx_vnni", "avx512bw", "avx2", "avx", "sse4_1")  # of a CPU, the best first


class Identity(BaseModel):
    """What a record was made with."""

    model_config = ConfigDict(frozen=True)

    weights: tuple[int, int]  # bytes of weights.safetensors, and the CRC-32 of its numbers
    ctranslate2: str  # its version
    instructions: str  # the instruction set of the CPU


class Record(BaseModel):
    """The scores of both precisions on the same examples, how likely their difference is chance, and their speeds."""

    model_config = ConfigDict(frozen=True)

    identity: Identity
    metric: str
    higher: bool  # whether more is better
    examples: int
    float32: float  # score
    int8: float  # score
    p: float
    float32_per_second: float  # inputs
    int8_per_second: float
    switches: dict[str, str] = {}  # what CTranslate2 is to be told, where that is faster than its own choice

    @property
    def verdict(self) -> Literal["int8", "float32"]:
        """The precision to answer with."""
        judged = Judgement(self.metric, self.higher, self.float32, self.int8, self.p)
        speeds = Speeds(self.float32_per_second, self.int8_per_second)
        return "int8" if as_good_and_faster(judged, speeds) else "float32"

    def __str__(self) -> str:
        """As a sentence for people."""
        used = "is used from now on" if self.verdict == "int8" else "is not used"
        told = " ".join(f"{name}={value}" for name, value in self.switches.items())
        faster = f"; {told} is faster, and is set from now on" if told else ""
        return (
            f"int8 {used}: {self.metric} {self.int8:.2f}, and {self.float32:.2f} in float32 "
            f"(p = {self.p:.2f}, {self.examples:,} examples); {self.int8_per_second:,.1f} inputs/s, and "
            f"{self.float32_per_second:,.1f} in float32, with {self.identity.instructions}{faster}"
        )


def not_compared(reason: str) -> str:
    """Why there is no record, as a sentence for people."""
    return f"int8 was not compared with float32: {reason}"


def is_as_good(judged: Judgement) -> bool:
    """Whether the second answers are as good as the first: they lose at most `TOLERANCE`, and what they lose may be
    chance."""
    lost = judged.first - judged.second if judged.higher else judged.second - judged.first
    return lost <= 0 or (lost <= TOLERANCE and judged.p >= CHANCE)


@dataclass(frozen=True)
class Speeds:
    """Inputs answered a second."""

    float32: float
    int8: float


def as_good_and_faster(judged: Judgement, speeds: Speeds) -> bool:
    """Whether int8, the second that was judged, is to answer."""
    return is_as_good(judged) and speeds.int8 > speeds.float32


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
    judged: Judgement,
    speeds: Speeds,
    *,
    examples: int,
    switches: Switches = MappingProxyType({}),
) -> Record:
    """Write what was found; records of other instruction sets stay."""
    record = Record(
        identity=identity_of(directory),
        metric=judged.metric,
        higher=judged.higher,
        examples=examples,
        float32=judged.first,
        int8=judged.second,
        p=judged.p,
        switches=dict(switches),
        **{f"{name}_per_second": value for name, value in asdict(speeds).items()},
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
