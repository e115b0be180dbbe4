"""The pairs that a recipe's [data] names: to train on, to validate on and to test on."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, PositiveInt, model_validator

from regard.data.kept import kept
from regard.data.mixing import MixedTable, Weighted
from regard.data.pairs import cmudict as lexicon
from regard.data.pairs.filters import Filters
from regard.data.pairs.pair import Columns, Entry, Pair, expanded_entry, read_pairs, stamps
from regard.data.splits import HeldOut, Splits, hold_out
from regard.errors import RegardError

CODE = r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*"  # of a language
Language = Annotated[str, Field(pattern=f"^{CODE}$")]

LARGE = 64 << 20  # bytes of files that are read once more only if they must be


class WeightedPairs(Weighted):
    """A corpus of a mixture of pairs."""

    path: Entry | list[Entry]


class PairsData(MixedTable):
    """[data] of tasks on pairs of text."""

    train: Entry | list[Entry] | None = Field(
        None,
        description='a file, a URL, "parts/*.tsv", { source = "…", target = "…" }, "cmudict:train", or a list of such',
    )
    mix: list[WeightedPairs] | None = Field(
        None, min_length=1, description="instead of train: corpora, each with a path as train and a weight"
    )
    valid: Entry | list[Entry] | None = Field(None, description="as train; without it, pairs are held out of train")
    test: Entry | list[Entry] | None = Field(None, description="as train")
    teacher: str | None = Field(None, description="a model directory whose answers are learned instead of the targets")
    columns: Columns = Field(default_factory=Columns, description="which columns of TSV, CSV, JSONL or Parquet")
    max_length: PositiveInt = Field(256, description="pairs with more tokens on a side are dropped")
    max_ratio: float | None = Field(None, ge=1, description="pairs with one side that many times longer are dropped")
    drop_duplicates: bool = Field(False, description="a pair seen before is dropped")
    languages: list[Language] | None = Field(
        None,
        min_length=2,
        max_length=2,
        description='the codes of source and target, for servers and their clients: ["en", "de"]',
    )
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
class Examples:
    """Pairs from files, read anew by each iteration; never all in memory.

    With `held_out`, only the pairs whose source is held out (`inside`), or only the others. `corpora` has the number of
    entries of each corpus of a mixture.
    """

    entries: tuple[Entry, ...]
    columns: Columns
    held_out: HeldOut | None = None
    inside: bool = False
    corpora: tuple[int, ...] = ()

    @property
    def parts(self) -> list["Examples"]:
        """The corpora of a mixture; what is no mixture has one part."""
        if not self.corpora:
            return [self]
        ends = list(accumulate(self.corpora))
        both = zip([0, *ends], ends, strict=False)
        return [replace(self, entries=self.entries[begin:end], corpora=()) for begin, end in both]

    def __iter__(self) -> Iterator[Pair]:
        for entry in self.entries:
            in_lexicon = isinstance(entry, str) and lexicon.is_lexicon(entry)
            pairs = lexicon.read(str(entry)) if in_lexicon else read_pairs(entry, self.columns)
            if self.held_out is None:
                yield from pairs
            else:
                yield from (pair for pair in pairs if (pair.source in self.held_out) == self.inside)

    @property
    def fingerprint(self) -> str:
        """Changes with the path, size or time of a file, and with the part that is taken from the files."""
        parts: list[object] = [self.columns, self.inside]
        if self.held_out:
            parts += [self.held_out.seed, sorted(self.held_out.hashes)]
        if self.corpora:
            parts.append(self.corpora)
        for entry in self.entries:
            parts += [entry, *_stamps(entry)]
        return sha256(repr(parts).encode()).hexdigest()

    @property
    def stamps(self) -> list[tuple[str, int, int | str]]:
        """Place, size and time of all files."""
        return [stamp for entry in self.entries for stamp in _stamps(entry)]


def _stamps(entry: Entry) -> list[tuple[str, int, int | str]]:
    in_lexicon = isinstance(entry, str) and lexicon.is_lexicon(entry)
    return stamps(str(lexicon.path()) if in_lexicon else entry)


def open_splits(config: PairsData, *, seed: int, folder: Path | None = None) -> Splits[Examples]:
    """The pairs of a [data] table; without `valid`, some of `train` are held out, the same for the same seed.

    Those held out of a large corpus are kept in `folder`, so that it need not be read again to find them.
    """
    train = _train(config)
    test = open_examples(config.test, key="data.test", columns=config.columns) if config.test else None
    if config.valid:
        return Splits(train, open_examples(config.valid, key="data.valid", columns=config.columns), test)

    def choose() -> HeldOut:
        sources = (pair.source for pair in train if not pair.empty)
        return hold_out(sources, amount=config.hold_out, seed=seed)

    if folder is None or sum(size for _, size, _ in train.stamps) < LARGE:
        held_out = choose()
        return Splits(replace(train, held_out=held_out), replace(train, held_out=held_out, inside=True), test)
    path = folder / "held-out.jsonl"
    held_out = kept(
        path,
        made_from=[train.fingerprint, config.hold_out, seed],
        make=lambda beside: _write_held_out(beside, train, choose()),
        read=lambda stored: HeldOut(seed, frozenset(stored["hashes"])),
    )
    return Splits(replace(train, held_out=held_out), Examples((str(path),), Columns()), test)


def _write_held_out(path: Path, train: Examples, held_out: HeldOut) -> dict[str, object]:
    """Write the pairs that are held out as JSONL."""
    with path.open("w", encoding="utf-8") as file:
        for pair in replace(train, held_out=held_out, inside=True):
            file.write(json.dumps({"source": pair.source, "target": pair.target}, ensure_ascii=False) + "\n")
    return {"hashes": sorted(held_out.hashes)}


def open_examples(entries: Entry | list[Entry] | None, *, key: str, columns: Columns | None = None) -> Examples:
    """The examples of one key of [data]."""
    if not entries:
        raise RegardError(f"{key} is missing; name a file of pairs, such as --set {key}=pairs.tsv")
    return Examples(_expanded(entries), columns or Columns())


def _train(config: PairsData) -> Examples:
    """What is learned: the pairs of data.train, or a mixture."""
    if not config.mix:
        return open_examples(config.train, key="data.train", columns=config.columns)
    corpora = [_expanded(corpus.path) for corpus in config.mix]
    entries = tuple(entry for corpus in corpora for entry in corpus)
    return Examples(entries, config.columns, corpora=tuple(map(len, corpora)))


def _expanded(entries: Entry | list[Entry]) -> tuple[Entry, ...]:
    """All files, where a name with * or ? stands for many."""
    every = entries if isinstance(entries, list) else [entries]
    return tuple(each for entry in every for each in expanded_entry(entry))


def references(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    """Each source once, in order, with all its targets: each of them counts as right."""
    answers: dict[str, list[str]] = {}
    for pair in pairs:
        answers.setdefault(pair.source, []).append(pair.target)
    return answers
