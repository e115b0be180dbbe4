"""All rules on one data set: what is found, and what is left after mending and dropping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Literal

import numpy

from regard.data.files import Column
from regard.doctor import languages, pairs, reading
from regard.doctor.block import BEYOND, Block
from regard.doctor.corpus import Compared
from regard.doctor.drift import first_drift
from regard.doctor.pairs import PAIR_RULES
from regard.doctor.report import Report
from regard.doctor.texts import TEXT_RULES

Form = Literal["pairs", "labels", "text"]
Rows = Iterator[list[str]]
FIRST = 1000  # examples that tell the script of each side


@dataclass(frozen=True)
class Wanted:
    """A data set, and what is known about it."""

    form: Form
    files: tuple[str, ...]  # one file, or the sources and the targets
    columns: tuple[Column, ...] | None = None
    languages: tuple[str, ...] = ()  # of each side
    test: tuple[str, ...] = ()  # test data, whose examples must not be learned

    @property
    def texts(self) -> int:
        """How many of the cells of an example are texts."""
        return 2 if self.form == "pairs" else 1

    @property
    def width(self) -> int:
        """How many cells an example has."""
        return 1 if self.form == "text" else 2

    def rows(self, files: Sequence[str], report: Report) -> Iterator[tuple[int, list[str]]]:
        if len(files) == 2:
            return reading.side_by_side(files[0], files[1], report)
        if self.form == "text":
            return reading.plain(files[0], report)
        return reading.tables(files[0], self.width, report, self.columns)


class Examination:
    """Goes over a data set once. `rows` are the examples that are left, mended; after them the report is complete."""

    def __init__(self, wanted: Wanted, *, more: Callable[[int], None] = lambda _: None) -> None:
        self.wanted, self._more = wanted, more
        self.report = Report(list(wanted.files))
        self._scripts: list[str | None] = []
        told = languages.identifier(wanted.languages) if wanted.languages else None
        self._language = told
        self._compared = Compared(list(self._tests()), labelled=wanted.form == "labels")

    def _tests(self) -> Iterator[tuple[str, ...]]:
        if self.wanted.test:
            for _, cells in self.wanted.rows(self.wanted.test, Report([])):
                yield tuple(cells)

    def rows(self) -> Rows:
        """The examples that are left."""
        end = self._drift()
        found = self.wanted.rows(self.wanted.files, self.report)
        if end is not None:
            found = (row for row in found if row[0] < end)
        for block in reading.blocks(found):
            yield from self._block(block)
            self._more(len(block.rows))
        self.report.notes += self._compared.about_labels()

    def _drift(self) -> int | None:
        """The first line at which two files do not belong together any more; the lines after it are not looked at."""
        if len(self.wanted.files) < 2:
            return None
        first, second = (reading.lengths(name) for name in self.wanted.files)
        place = first_drift(first, second)
        if place is not None:
            name, other = self.wanted.files
            self.report.found("drift", "lines that do not belong together", "dropped", name, place, "")
            self.report.notes.append(
                f"{name} has {len(first):,} lines and {other} has {len(second):,}; they seem to belong together up to "
                f"line {place - 1:,}, and a line is missing or was added near line {place:,}. Later lines were not "
                "looked at"
            )
        return place

    def _block(self, block: Block) -> Rows:
        texts = self.wanted.texts
        self.report.examples += len(block.rows)
        dropped = numpy.zeros(len(block.rows), dtype=bool)
        mended = self._mend(block, dropped)
        if mended is not block:  # lengths and flags are those of what is left
            block = mended
        for row, name, about in [*pairs.sizes(block, texts)]:
            self._drop(block, row, name, about, dropped)
        if self.wanted.form == "pairs":
            for row, name, about in pairs.copies(block):
                self._drop(block, row, name, about, dropped)
            for row in pairs.few_letters(block, texts):
                self._drop(block, row, "few letters", "a text of mostly numbers and signs", dropped)
            self._compare_sides(block, dropped)
        if self.wanted.form == "labels":
            for row in numpy.flatnonzero(block.words[:, 1] == 0).tolist():
                self._drop(block, row, "no label", "an example without a label", dropped)
        self._tell_scripts(block, dropped)
        self._tell_languages(block, dropped)
        for row in self._compared.not_new(block.rows, numpy.flatnonzero(~dropped).tolist()):
            cells = block.rows[row]
            for name, about, outcome in self._compared.look(cells):
                if outcome == "dropped":
                    self._drop(block, row, name, about, dropped)
                else:
                    self.report.found(name, about, outcome, *self._place(block, row, 0), cells[0])
        left = list(compress(block.rows, ~dropped))
        self.report.left += len(left)
        yield from left

    def _mend(self, block: Block, dropped: Dropped) -> Block:
        """The block with its texts mended."""
        rows, changed = block.rows, False
        for rule in TEXT_RULES:
            for row, column in block.likely(rule.needs, self.wanted.texts):
                text = rows[row][column]
                if not rule.finds(text):
                    continue
                better = rule.mended(text)
                where = self._place(block, row, column)
                if better is not None:
                    rows[row][column], changed = better, True
                    self.report.found(rule.name, rule.about, "mended", *where, text)
                elif rule.outcome == "kept":
                    self.report.found(rule.name, rule.about, "kept", *where, text)
                else:
                    self._drop(block, row, rule.name, rule.about, dropped, column)
        for row, column in zip(*(places.tolist() for places in numpy.nonzero(block.edges)), strict=True):
            text = rows[row][column]
            if text.strip() != text and text.strip():
                rows[row][column], changed = text.strip(), True
                where = self._place(block, row, column)
                self.report.found("outer spaces", "spaces before or after a text", "mended", *where, text)
        return Block(block.numbers, rows) if changed else block

    def _compare_sides(self, block: Block, dropped: Dropped) -> None:
        flags = block.flags[:, 0] | block.flags[:, 1]
        for rule in PAIR_RULES:
            for row in numpy.flatnonzero((flags & rule.needs != 0) & ~dropped).tolist():
                if rule.finds(*block.rows[row][:2]):
                    self._drop(block, row, rule.name, rule.about, dropped)

    def _tell_scripts(self, block: Block, dropped: Dropped) -> None:
        if not self._scripts:
            first = block.rows[:FIRST]
            self._scripts = [languages.script_of([row[side] for row in first]) for side in range(self.wanted.texts)]
        for side, script in enumerate(self._scripts):
            if script is None:
                continue
            beyond = numpy.flatnonzero(~dropped & _may_differ(block, side, script)).tolist()
            for row in beyond:
                if languages.is_other_script(block.rows[row][side], script):
                    about = "a text in another script than its side"
                    self._drop(block, row, "script", about, dropped, side)

    def _tell_languages(self, block: Block, dropped: Dropped) -> None:
        if self._language is None:
            return
        for row in numpy.flatnonzero(~dropped).tolist():
            told = [self._language(text) for text in block.rows[row][: self.wanted.texts]]
            wrong = [bool(one) and one != wanted for one, wanted in zip(told, self.wanted.languages, strict=False)]
            if told == list(reversed(self.wanted.languages)) and all(wrong) and len(wrong) == 2:
                self._drop(block, row, "sides swapped", "sides in the wrong order", dropped)
            elif any(wrong):
                self._drop(block, row, "language", "a text in another language", dropped, wrong.index(True))

    def _drop(self, block: Block, row: int, name: str, about: str, dropped: Dropped, column: int = 0) -> None:
        text = block.rows[row][column]
        self.report.found(name, about, "dropped", *self._place(block, row, column), text)
        dropped[row] = True

    def _place(self, block: Block, row: int, column: int) -> tuple[str, int]:
        files = self.wanted.files
        return files[column if len(files) > 1 else 0], block.numbers[row]


Dropped = numpy.typing.NDArray[numpy.bool_]


def _may_differ(block: Block, side: int, script: str) -> Dropped:
    """Which texts can have letters of another script than this one."""
    beyond: Dropped = (block.flags[:, side] & BEYOND) != 0
    return beyond if script == "Latin" else block.letters[:, side] > 0


def examine(wanted: Wanted, *, more: Callable[[int], None] = lambda _: None) -> tuple[Report, Iterable[list[str]]]:
    """A report that fills while the examples that are left are taken, and these."""
    examination = Examination(wanted, more=more)
    return examination.report, examination.rows()
