"""What all pictures for print have in common: a title, notes below, and fonts that have every character."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells

from regard.look.show import LONGEST, notes, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.look.record import Map, Record

TITLE = 600  # characters of a title
PER_INCH = 13  # characters of a title in an inch
FONT = "DejaVu Sans"  # comes with matplotlib
STYLE = {
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "regard",
    "pdf.fonttype": 42,
    "text.parse_math": False,  # "$5 and $6" is no formula
}
MISSING = "\N{WHITE SQUARE}"
INK, SOFT, LINE, ACCENT, DIM = "#1c2027", "#565d69", "#dcdad3", "#2150a8", "#b4bac5"  # as on the page by day

Say = Callable[[str], str]  # a text as the fonts of this computer can write it


@dataclass(frozen=True)
class Sheet:
    """A drawing before it is drawn. `paint` draws into a figure; every text that it writes is one of `texts`."""

    size: tuple[float, float]  # inches
    title: str
    notes: Sequence[str]
    texts: Sequence[str]
    paint: Callable[[Figure, Say], None]


def title_of(record: Record, about: str) -> str:
    """The title of a record, and below it what is drawn of it."""
    return f"{printable(record.title, most=TITLE)}\n{about}"


def notes_of(record: Record, chosen: Map) -> list[str]:
    """The sentences to show below a drawing."""
    return [printable(note) for note in notes(record, chosen)]


def named(chosen: Map) -> str:
    """The name of a map and its layer."""
    layer = "" if chosen.layer is None else f", layer {chosen.layer}"
    return f"{printable(chosen.name, most=LONGEST * 2)}{layer}"


def finished(sheet: Sheet, suffix: str) -> bytes:
    """The file of a sheet.

    A character that no font of this computer has becomes a square, and the notes name it; an .svg keeps all characters,
    for the fonts of the reader's computer.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    families, missing = _fonts("".join([sheet.title, *sheet.notes, *sheet.texts]))
    gaps = {} if suffix == ".svg" else str.maketrans(dict.fromkeys(missing, MISSING))
    below = [note.translate(gaps) for note in sheet.notes]
    if gaps:
        points = ", ".join(f"U+{ord(character):04X}" for character in missing[:8]) + " and others" * (len(missing) > 8)
        below.append(f"{MISSING} stands for characters that no font of this computer has: {points}.")
    with rc_context({**STYLE, "font.family": families}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)  # an .svg keeps such characters
        figure = Figure(figsize=sheet.size, layout="constrained")
        sheet.paint(figure, lambda text: text.translate(gaps))
        figure.suptitle(_wrapped(sheet.title.translate(gaps), sheet.size[0]), fontsize=10)
        if below:
            figure.supxlabel(_wrapped("\n".join(below), sheet.size[0]), fontsize=8)
        written = io.BytesIO()
        metadata = {"Date": None} if suffix == ".svg" else None
        figure.savefig(written, format=suffix.lstrip("."), dpi=200, metadata=metadata)
    return written.getvalue()


def _wrapped(text: str, inches: float) -> str:
    """The text in lines that fit into `inches`; some characters are twice as wide."""
    width = max(int(inches * PER_INCH), 24)
    lines = [line for part in text.split("\n") for line in textwrap.wrap(part, width) or [""]]
    return "\n".join("\n".join(chop_cells(line, width)) if cell_len(line) > width else line for line in lines)


def _fonts(text: str) -> tuple[list[str], str]:
    """Families of fonts that have the characters of `text` together, and the characters that none has."""
    families, left = [FONT], sorted({character for character in text if not character.isspace()})
    left = [character for character in left if ord(character) not in _characters(_file(FONT))]
    if left:
        from matplotlib.font_manager import fontManager

        for path, family in sorted({(entry.fname, entry.name) for entry in fontManager.ttflist}):
            found = _characters(path)
            placeholder = family.startswith("Last Resort")  # a font that draws a box for every character
            if family not in families and not placeholder and any(ord(each) in found for each in left):
                families.append(family)
                left = [character for character in left if ord(character) not in _characters(_file(family))]
    return families, "".join(left)


def _file(family: str) -> str:
    """The file that matplotlib takes for a family."""
    from matplotlib.font_manager import FontProperties, findfont

    return str(findfont(FontProperties(family=[family])))


@cache
def _characters(path: str) -> Iterable[int]:
    """The characters that a font can draw at any size."""
    from matplotlib.ft2font import FT2Font

    with suppress(RuntimeError, OSError):
        font = FT2Font(path)
        if font.scalable:
            return frozenset(font.get_charmap())
    return frozenset()
