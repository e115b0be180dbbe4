"""What was found: how often, examples by file and line, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

EXAMPLES = 3  # kept of each defect
SHOWN = 80  # characters of an example

Outcome = Literal["mended", "dropped", "kept"]


@dataclass(frozen=True)
class Example:
    """One place with a defect."""

    file: str
    line: int
    text: str


@dataclass
class Finding:
    """One defect: what it is, how often it was found, and what becomes of the examples that have it."""

    name: str
    about: str
    counts: dict[Outcome, int] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(self.counts.values())


@dataclass
class Report:
    """All that was found in a data set."""

    files: list[str]
    examples: int = 0  # read
    left: int = 0  # after the others were dropped
    findings: dict[str, Finding] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def found(self, name: str, about: str, outcome: Outcome, file: str, line: int, text: str) -> None:
        """Count a defect of one example."""
        finding = self.findings.setdefault(name, Finding(name, about))
        finding.counts[outcome] = finding.counts.get(outcome, 0) + 1
        if len(finding.examples) < EXAMPLES:
            finding.examples.append(Example(file, line, text))

    @property
    def clean(self) -> bool:
        """Whether nothing has to be mended or dropped."""
        return not any(outcome != "kept" for each in self.findings.values() for outcome in each.counts)

    def to_json(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "examples": self.examples,
            "left": self.left,
            "findings": [
                {
                    "name": each.name,
                    "about": each.about,
                    "count": each.count,
                    **{outcome: each.counts.get(outcome, 0) for outcome in ("mended", "dropped", "kept")},
                    "examples": [vars(example) for example in each.examples],
                }
                for each in self._ordered()
            ],
            "notes": self.notes,
        }

    def _ordered(self) -> Iterable[Finding]:
        return sorted(self.findings.values(), key=lambda each: (-each.count, each.name))

    def show(self, console: Console, *, fixed: bool) -> None:
        """Print a table of what was found, and where the first examples are."""
        if not self.findings:
            console.print(f"{self.examples:,} examples: nothing was found")
        else:
            become = ("mended", "dropped", "kept") if fixed else ("can be mended", "to drop", "only reported")
            table = Table("defect", *become, "first", title=f"{self.examples:,} examples, {self.left:,} would be left")
            if fixed:
                table.title = f"{self.examples:,} examples, {self.left:,} are left"
            for each in self._ordered():
                numbers = [
                    f"{each.counts[key]:,}" if key in each.counts else "" for key in ("mended", "dropped", "kept")
                ]
                table.add_row(each.about, *numbers, _where(each.examples[0]))
            console.print(table)
        for note in self.notes:
            console.print(note, markup=False)


def _where(example: Example) -> str:
    text = "".join(character if character.isprintable() else "\N{WHITE SQUARE}" for character in example.text)
    return f"{example.file}:{example.line} {text[:SHOWN]}".replace("[", r"\[")
