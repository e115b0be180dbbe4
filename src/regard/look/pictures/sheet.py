"""What all pictures for print have in common: a title, notes below, and fonts that have every character."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from regard.look.show import LONGEST, notes, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.look.record import Map, Record

TITLE = 600  # characters of a title
TITLE_SIZE, NOTE_SIZE = 10, 8  # points
USUAL, LINE_HEIGHT = 3, 0.17  # breaks of lines that the size of a drawing allows for, and inches for each more
FINE = 100  # points at which widths are measured
FILLED = 0.96  # how much of the width of a drawing a line of the title or of the notes may fill
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
        room = FILLED * 72 * sheet.size[0]  # points
        title = _wrapped(sheet.title.translate(gaps), room, families, TITLE_SIZE)
        beneath = _wrapped("\n".join(below), room, families, NOTE_SIZE)
        more = LINE_HEIGHT * max(title.count("\n") + beneath.count("\n") - USUAL, 0)
        figure = Figure(figsize=(sheet.size[0], sheet.size[1] + more), layout="constrained")
        sheet.paint(figure, lambda text: text.translate(gaps))
        figure.suptitle(title, fontsize=TITLE_SIZE)
        if beneath:
            figure.supxlabel(beneath, fontsize=NOTE_SIZE)
        written = io.BytesIO()
        metadata = {"Date": None} if suffix == ".svg" else None
        figure.savefig(written, format=suffix.lstrip("."), dpi=200, metadata=metadata)
    return written.getvalue()


def _wrapped(text: str, room: float, families: Sequence[str], size: float) -> str:
    """The text in lines that are at most `room` points wide in these fonts; a word that is wider is cut."""
    lines = []
    for part in text.split("\n"):
        line = ""
        for word in part.split(" "):
            longer = f"{line} {word}" if line else word
            if _points(longer, families, size) <= room:
                line = longer
                continue
            *whole, word = _chopped(word, room, families, size)
            lines += [line] * bool(line) + whole
            line = word
        lines.append(line)
    return "\n".join(lines)


def _chopped(word: str, room: float, families: Sequence[str], size: float) -> list[str]:
    """The word in pieces that are at most `room` points wide; one piece, unless it is wider."""
    pieces = [""]
    for character in word:
        if pieces[-1] and _points(pieces[-1] + character, families, size) > room:
            pieces.append("")
        pieces[-1] += character
    return pieces


def _points(text: str, families: Sequence[str], size: float) -> float:
    """The width of a line of text, in points: the sum of its characters, without kerning."""
    return size * sum(_advance(character, tuple(families)) for character in text)


@cache
def _advance(character: str, families: tuple[str, ...]) -> float:
    """The width of a character in the first font that has it, as a share of the size of the font; 1 if none has."""
    from matplotlib.ft2font import FT2Font, LoadFlags

    path = next((path for path in map(_file, families) if ord(character) in _characters(path)), None)
    if path is None:
        return 1.0
    font = FT2Font(path)
    font.set_size(FINE, 72)
    return float(font.load_char(ord(character), LoadFlags.NO_HINTING).linearHoriAdvance) / 65536 / FINE


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
