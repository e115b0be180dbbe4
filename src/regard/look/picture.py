"""A record as a picture for print: .png, .svg, .pdf."""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, chop_cells

from regard.look.palette import ramp
from regard.look.show import LONGEST, axes, main_map, notes, printable, scale_end

if TYPE_CHECKING:
    from regard.look.record import Map, Record

SUFFIXES = (".png", ".svg", ".pdf")
MOST = 60  # items named on an axis; with more items, only every second, third, … is named
TITLE = 600  # characters of a title
PER_INCH = 15  # characters of a title in an inch
FONT = "DejaVu Sans"  # comes with matplotlib
STYLE = {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "regard", "pdf.fonttype": 42}
MISSING = "\N{WHITE SQUARE}"


def draw(record: Record, suffix: str) -> bytes:
    """One heat map for each head of the record's main map (its alignment, if there is one); a single head is large.

    The heads share one colour scale, which a bar explains. A character that no font of this computer has becomes a
    square, and the caption names it; an .svg keeps all characters, for the fonts of the reader's computer.
    """
    from matplotlib import rc_context
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    chosen = main_map(record)
    heads = len(chosen.heads)
    columns = math.ceil(math.sqrt(heads))
    rows = math.ceil(heads / columns)
    long, wide = chosen.weights.shape[1:]
    cell = 0.3 if heads == 1 else 0.18
    width = min(max(cell * min(wide, MOST) + 1.2, 2.6), 12)
    height = min(max(cell * min(long, MOST) + 1.0, 2.2), 12)
    size = columns * width + 0.8, rows * height
    names = [[printable(item, most=LONGEST) for item in items] for items in axes(record, chosen)]
    title = f"{printable(record.title, most=TITLE)}\n{_about(chosen)}"
    below = [printable(note) for note in notes(record, chosen)]
    families, missing = _fonts("".join([title, *below, *names[0], *names[1]]))
    if missing and suffix != ".svg":
        gaps = str.maketrans(dict.fromkeys(missing, MISSING))
        title, below = title.translate(gaps), [note.translate(gaps) for note in below]
        names = [[name.translate(gaps) for name in side] for side in names]
        points = ", ".join(f"U+{ord(character):04X}" for character in missing[:8]) + " and others" * (len(missing) > 8)
        below.append(f"{MISSING} stands for characters that no font of this computer has: {points}.")
    largest = float(chosen.weights.max()) if chosen.weights.numel() else 0.0
    end = max((scale_end(weights, chosen.kind) for weights in chosen.weights), default=0.0)
    if end < largest:
        below.append(f"Colours end at {end:.2f}; larger weights, up to {largest:.2f}, have the last colour.")
    with rc_context({**STYLE, "font.family": families}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)  # an .svg keeps such characters
        figure = Figure(figsize=size, layout="constrained")
        axis_of = figure.subplots(rows, columns, squeeze=False).flatten()
        colours = ListedColormap(ramp().tolist())
        for place, axis in enumerate(axis_of):
            if place < heads:
                image = axis.imshow(
                    chosen.weights[place].numpy(),
                    cmap=colours,
                    vmin=0,
                    vmax=end or 1,
                    aspect="auto",
                    interpolation="nearest",
                )
                _name(axis, names, f"head {chosen.heads[place]}" if heads > 1 else "")
            else:
                axis.set_axis_off()
        bar = figure.colorbar(image, ax=list(axis_of), extend="max" if end < largest else "neither", shrink=0.8)
        bar.set_label("weight")
        figure.suptitle(_wrapped(title, size[0]), fontsize=10, parse_math=False)
        if below:
            figure.supxlabel(_wrapped("\n".join(below), size[0]), fontsize=8, parse_math=False)
        written = io.BytesIO()
        metadata = {"Date": None} if suffix == ".svg" else None
        figure.savefig(written, format=suffix.lstrip("."), dpi=200, metadata=metadata)
    return written.getvalue()


def _about(chosen: Map) -> str:
    layer = "" if chosen.layer is None else f", layer {chosen.layer}"
    return f"{printable(chosen.name, most=LONGEST * 2)}{layer}"


def _name(axis: Any, names: list[list[str]], below: str) -> None:
    """The names of rows and columns, as many as can be read."""
    for items, set_ticks in zip(names, (axis.set_yticks, axis.set_xticks), strict=True):
        step = max(math.ceil(len(items) / MOST), 1)
        set_ticks(range(0, len(items), step), items[::step], parse_math=False)  # "$5 and $6" is no formula
    axis.xaxis.tick_top()
    axis.tick_params(axis="x", rotation=90, length=0)
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel(below)


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
