"""What a recipe's [data] names: the examples to train on, to validate on and to test on."""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b, sha256
from typing import Self

import numpy
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from regard.data import lexicon
from regard.data.files import Columns, Entry, Pair, read_pairs, stamps
from regard.data.filters import Filters
from regard.errors import RegardError


class DataConfig(BaseModel):
    """The [data] table of a recipe."""

    model_config = ConfigDict(extra="forbid")

    train: Entry | list[Entry] | None = Field(
        None, description='a file, { source = "…", target = "…" }, "cmudict:train", or a list of such'
    )
    valid: Entry | list[Entry] | None = Field(None, description="as train; without it, pairs are held out of train")
    test: Entry | list[Entry] | None = Field(None, description="as train")
    teacher: str | None = Field(None, description="a model directory whose answers are learned instead of the targets")
    columns: Columns = Field(default_factory=Columns, description="which columns of TSV, CSV, JSONL or Parquet")
    max_length: PositiveInt = Field(256, description="pairs with more tokens on a side are dropped")
    max_ratio: float | None = Field(None, ge=1, description="pairs with one side that many times longer are dropped")
    drop_duplicates: bool = Field(False, description="a pair seen before is dropped")
    hold_out: PositiveInt | float | None = Field(
        None, description="pairs held out for validation: a number, a share below 1, or 2 % but at most 2000"
    )

    @model_validator(mode="after")
    def _share_is_a_share(self) -> Self:
        if isinstance(self.hold_out, float) and not 0 < self.hold_out < 1:
            raise ValueError(f"hold_out={self.hold_out} is neither a whole number of pairs nor a share between 0 and 1")
        return self

    @property
    def filters(self) -> Filters:
        return Filters(self.max_length, self.max_ratio, self.drop_duplicates)


@dataclass(frozen=True)
class HeldOut:
    """A set of sources, by hash, that is kept apart: every pair goes with its source."""

    seed: int
    sources: frozenset[int]

    def __contains__(self, pair: Pair) -> bool:
        return source_hash(pair.source, self.seed) in self.sources


@dataclass(frozen=True)
class Examples:
    """Pairs from files, read again each time one iterates; never all in memory.

    With `held_out`, only the pairs inside it (`inside`) or only those outside.
    """

    entries: tuple[Entry, ...]
    columns: Columns
    held_out: HeldOut | None = None
    inside: bool = False

    def __iter__(self) -> Iterator[Pair]:
        for entry in self.entries:
            in_lexicon = isinstance(entry, str) and lexicon.is_lexicon(entry)
            pairs = lexicon.read(str(entry)) if in_lexicon else read_pairs(entry, self.columns)
            if self.held_out is None:
                yield from pairs
            else:
                yield from (pair for pair in pairs if (pair in self.held_out) == self.inside)

    @property
    def fingerprint(self) -> str:
        """Changes when the files, as told by place, size and time, or what is taken from them change."""
        parts: list[object] = [self.columns, self.inside]
        if self.held_out:
            parts += [self.held_out.seed, sorted(self.held_out.sources)]
        for entry in self.entries:
            in_lexicon = isinstance(entry, str) and lexicon.is_lexicon(entry)
            parts += [entry, *stamps(str(lexicon.path()) if in_lexicon else entry)]
        return sha256(repr(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Splits:
    """The examples of a recipe. There is always something to validate on; a test set only if one was named."""

    train: Examples
    valid: Examples
    test: Examples | None


def open_splits(config: DataConfig, *, seed: int) -> Splits:
    """The examples a [data] table names; without `valid`, some of `train` is held out, the same for the same seed."""
    train = open_examples(config.train, key="data.train", columns=config.columns)
    test = open_examples(config.test, key="data.test", columns=config.columns) if config.test else None
    if config.valid:
        return Splits(train, open_examples(config.valid, key="data.valid", columns=config.columns), test)
    held_out = hold_out(train, amount=config.hold_out, seed=seed)
    return Splits(replace(train, held_out=held_out), replace(train, held_out=held_out, inside=True), test)


def open_examples(entries: Entry | list[Entry] | None, *, key: str, columns: Columns | None = None) -> Examples:
    """The examples of one key of [data]."""
    if not entries:
        raise RegardError(f"{key} is missing; name a file of pairs, such as --set {key}=pairs.tsv")
    return Examples(tuple(entries) if isinstance(entries, list) else (entries,), columns or Columns())


def hold_out(examples: Iterable[Pair], *, amount: int | float | None, seed: int) -> HeldOut:
    """Choose sources at random, by hash, until `amount` pairs (or that share of them) are held out.

    Sources whose pairs would overshoot are passed over, so the amount is met closely but never exceeded, except
    that at least one source is held out.
    """
    hashes = numpy.frombuffer(
        array("Q", (source_hash(pair.source, seed) for pair in examples if not pair.empty)), dtype=numpy.uint64
    )
    sources, pairs = numpy.unique(hashes, return_counts=True)
    wanted = _wanted(len(hashes), amount)
    if len(sources) < 2 or wanted >= len(hashes):
        raise RegardError(
            f"{len(hashes):,} pairs with {len(sources):,} different sources are too few to hold {wanted:,} out for "
            "validation; name a file as data.valid, add pairs, or set data.hold_out lower"
        )
    chosen: list[int] = []
    for source, size in zip(sources.tolist(), pairs.tolist(), strict=True):
        if wanted == 0:
            break
        if size <= wanted:
            chosen.append(source)
            wanted -= size
    return HeldOut(seed, frozenset(chosen or [int(sources[pairs.argmin()])]))


def _wanted(pairs: int, amount: int | float | None) -> int:
    if isinstance(amount, int):
        return amount
    if amount is None:
        return max(1, min(2000, pairs // 50))
    return max(1, round(pairs * amount))


def source_hash(source: str, seed: int) -> int:
    """The same number for the same source whatever its case and outer spaces."""
    digest = blake2b(source.strip().casefold().encode(), digest_size=8, key=str(seed).encode()).digest()
    return int.from_bytes(digest)


def references(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    """Each source once, in order, with all the targets it has: every one of them counts as right."""
    answers: dict[str, list[str]] = {}
    for pair in pairs:
        answers.setdefault(pair.source, []).append(pair.target)
    return answers
