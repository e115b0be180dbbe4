"""Rules that compare examples with each other: duplicates, many targets, leakage, and labels.

Texts are kept as 64-bit hashes, and not as texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from regard.doctor.report import Outcome

RARE = 2  # a label that fewer examples have is rare
UNEVEN = 100  # times as many examples of one label as of another
BOILERPLATE = 10  # sources that have the same target

Found = tuple[str, str, Outcome]  # name, sentence, what becomes of the example

_SIGNS = re.compile(r"[\W\d_]+")


def plain(text: str) -> str:
    """A text without case, punctuation and digits: nearly equal texts are equal."""
    return _SIGNS.sub(" ", text.casefold()).strip()


@dataclass
class Compared:
    """What was seen before, to compare the next example with."""

    tests: Iterable[tuple[str, ...]] = ()  # the examples of the test data
    labelled: bool = False
    _pairs: set[int] = field(default_factory=set)  # but not those of a source and its first target
    _targets: dict[int, int] = field(default_factory=dict)  # source → its first target
    _sources: Counter[int] = field(default_factory=Counter)  # how many sources a target has
    _test_pairs: set[int] = field(default_factory=set)
    _test_sources: set[int] = field(default_factory=set)
    labels: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for cells in self.tests:
            self._test_pairs.add(_key("\t".join(cells)))
            self._test_sources.add(_key(plain(cells[0])))

    def not_new(self, rows: Sequence[list[str]], numbers: Iterable[int]) -> Iterator[int]:
        """The numbers of those rows that have something in common with rows before them: `look` says what, and must
        be asked before the next number is taken. The other rows are remembered."""
        if self._test_sources or self.labelled or (rows and len(rows[0]) == 1):
            yield from numbers
            return
        targets, sources = self._targets, self._sources
        for number in numbers:
            cells = rows[number]
            source, target = hash(cells[0]), hash(cells[1])
            others = sources.get(target, 0)
            if source in targets or others >= BOILERPLATE - 1:
                yield number
                continue
            targets[source] = target
            sources[target] = others + 1

    def look(self, cells: list[str]) -> Iterator[Found]:
        """The defects that an example has beside those before it. An example that is dropped is not remembered."""
        source, target = hash(cells[0]), hash(cells[-1])
        whole = hash((source, target))
        if self._test_pairs and _key("\t".join(cells)) in self._test_pairs:
            yield "leakage", "an example of the test data", "dropped"
            return
        if self._test_sources and _key(plain(cells[0])) in self._test_sources:
            yield "leaked source", "a text of the test data, with another answer", "dropped"
            return
        if whole in self._pairs or (len(cells) > 1 and not self.labelled and self._targets.get(source) == target):
            yield "duplicate", "an example that was there before", "dropped"
            return
        self._pairs.add(whole)
        if len(cells) == 1:
            return
        if self._targets.setdefault(source, target) != target:
            if self.labelled:
                yield "contradiction", "a text that has another label elsewhere", "kept"
            else:
                yield "many targets", "a source that has another target elsewhere", "kept"
        if self.labelled:
            self.labels[cells[1]] += 1
            return
        self._sources[target] += 1
        if self._sources[target] == BOILERPLATE:
            yield "many sources", f"a target of {BOILERPLATE} sources or more", "kept"

    def about_labels(self) -> Iterator[str]:
        """Sentences about labels, after all examples."""
        if len(self.labels) == 1:
            yield f"all examples have the label {next(iter(self.labels))!r}: there is nothing to learn"
        spelt: dict[str, list[str]] = {}
        for label in self.labels:
            spelt.setdefault(" ".join(label.casefold().split()), []).append(label)
        for names in spelt.values():
            if len(names) > 1:
                yield f"labels that differ only in case or spaces: {', '.join(map(repr, names))}"
        rare = [label for label, count in self.labels.items() if count < RARE]
        if rare and len(self.labels) > 1:
            yield f"labels of a single example: {', '.join(map(repr, rare[:5]))}{' …' if len(rare) > 5 else ''}"
        if self.labels and len(self.labels) > 1:
            (most, many), (least, few) = self.labels.most_common()[0], self.labels.most_common()[-1]
            if many >= UNEVEN * few:
                yield f"{many:,} examples have the label {most!r} and {few:,} the label {least!r}"


def _key(text: str) -> int:
    """The same number for the same text in every process."""
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest())
