"""The sets for training, validation and test, and examples held out of training for validation."""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

import numpy
from numpy.typing import NDArray

from regard.checking import Settings
from regard.errors import RegardError

SetT = TypeVar("SetT")
BLOCK = 1 << 16  # hashes that are counted at a time


class DataTable(Settings):
    """The keys that the [data] of every task has; each task defines the entries and adds keys of its own."""

    train: object = None
    valid: object = None
    test: object = None


@dataclass(frozen=True)
class Splits(Generic[SetT]):
    """The examples of a recipe. There is always something to validate on; a test set only if one was named."""

    train: SetT
    valid: SetT
    test: SetT | None

    @property
    def judged(self) -> SetT:
        """The set that a trained model is scored on: the test set, or without one the validation set."""
        return self.valid if self.test is None else self.test


@dataclass(frozen=True)
class HeldOut:
    """Keys that are held out, by hash. Examples with the same key stay together."""

    seed: int
    hashes: frozenset[int]

    def __contains__(self, key: str) -> bool:
        return key_hash(key, self.seed) in self.hashes


def hold_out(keys: Iterable[str], *, amount: int | float | None, seed: int, least: int = 1) -> HeldOut:
    """Choose keys at random, by hash, until `amount` examples (or that share of them) are held out.

    `keys` has one key for each example. A key with more examples than are still wanted is skipped: the amount is met
    closely and never exceeded, except that at least `least` keys are held out, and at least as many are left.
    """
    hashes = numpy.frombuffer(array("Q", (key_hash(key, seed) for key in keys)), dtype=numpy.uint64)
    hashes.sort()  # in place: there may be many
    different = int(numpy.count_nonzero(hashes[1:] != hashes[:-1])) + bool(len(hashes))
    wanted = max(_wanted(len(hashes), amount), least)
    if different < 2 * least or wanted > len(hashes) - least:
        raise RegardError(
            f"{len(hashes):,} examples with {different:,} different texts are too few to hold {wanted:,} out for "
            f"validation and keep at least {least}; name a file as data.valid, add examples, or set data.hold_out lower"
        )
    chosen: set[int] = set()
    for key, size in _runs(hashes):
        if wanted == 0 or len(chosen) == different - least:
            break
        if size <= wanted:
            chosen.add(key)
            wanted -= size
    if len(chosen) < least:
        rest = sorted((size, key) for key, size in _runs(hashes) if key not in chosen)
        chosen.update(key for _, key in rest[: least - len(chosen)])
    return HeldOut(seed, frozenset(chosen))


def _runs(ordered: NDArray[numpy.uint64]) -> Iterator[tuple[int, int]]:
    """Each value of a sorted array once, with how often it is there."""
    begin = 0
    while begin < len(ordered):
        block = ordered[begin : begin + BLOCK]
        ends = numpy.flatnonzero(block[1:] != block[:-1]) + 1
        if begin + len(block) < len(ordered) and len(ends):
            block = block[: ends[-1]]  # the last run may go on
        elif begin + len(block) < len(ordered):
            block = ordered[begin : int(numpy.searchsorted(ordered, block[0], side="right"))]
        values, sizes = numpy.unique(block, return_counts=True)
        yield from zip(values.tolist(), sizes.tolist(), strict=True)
        begin += len(block)


class Keyed(Protocol):
    """An example that knows by which text it is held out."""

    @property
    def key(self) -> str: ...


KeyedT = TypeVar("KeyedT", bound=Keyed)


def divide(
    examples: Iterable[KeyedT], *, amount: int | float | None, seed: int, least: int = 1
) -> tuple[list[KeyedT], list[KeyedT]]:
    """The examples that stay for training, and those that are held out for validation, as `hold_out` chooses them."""
    examples = list(examples)
    apart = hold_out((example.key for example in examples), amount=amount, seed=seed, least=least)
    both: tuple[list[KeyedT], list[KeyedT]] = ([], [])
    for example in examples:
        both[example.key in apart].append(example)
    return both


def _wanted(examples: int, amount: int | float | None) -> int:
    if isinstance(amount, int):
        return amount
    if amount is None:
        return max(1, min(2000, examples // 50))
    return max(1, round(examples * amount))


def key_hash(key: str, seed: int) -> int:
    """The same number for the same key whatever its case and outer spaces."""
    digest = blake2b(key.strip().casefold().encode(), digest_size=8, key=str(seed).encode()).digest()
    return int.from_bytes(digest)
