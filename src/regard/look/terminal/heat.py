"""Weights in a terminal: a heat map of Unicode blocks, in colour where there is colour."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.color import Color
from rich.style import Style
from rich.text import Text
from torch import Tensor

from regard.look.long import coarse
from regard.look.show import LONGEST, printable

SHADES = " ░▒▓█"
DARK, LIGHT = (24, 26, 38), (255, 205, 86)  # colours of the weights 0 and 1
MOST_CELLS = 100  # rows and columns of a map

Names = tuple[str, ...]


def heat_map(weights: Tensor, rows: Sequence[str], columns: Sequence[str], *, colour: bool = True) -> Text:
    """weights (R, C) in 0 … 1, drawn with the names of rows at the left and of columns on top.

    In colour a cell is a coloured square, otherwise a shade: `░▒▓█` for a quarter, half, three quarters, all.
    """
    above, beside = ([printable(name, most=LONGEST) for name in names] for names in (columns, rows))
    margin = max(map(cell_len, beside), default=0) + 1
    width = max([1, *map(cell_len, above)]) + 1
    text = Text(" " * margin)
    for name in above:
        text.append(centred(name, width), style="dim")
    for name, row in zip(beside, weights.tolist(), strict=True):
        text.append("\n")
        text.append(" " * (margin - 1 - cell_len(name)) + name + " ", style="bold")
        for weight in row:
            text.append(*_cell(min(max(weight, 0.0), 1.0), width, colour))
    return text


def fewer(weights: Tensor, rows: Names, columns: Names) -> tuple[Tensor, Names, Names]:
    """A map (Q, K) with no more rows and columns than can be read, and the names of the first that each stands for."""
    down, across = (-(-count // MOST_CELLS) for count in weights.shape)
    return coarse(weights[None, None], MOST_CELLS)[0, 0], rows[::down], columns[::across]


def _cell(weight: float, width: int, colour: bool) -> tuple[str, Style | str]:
    if not colour:
        return centred(SHADES[round(weight * (len(SHADES) - 1))] * 2, width), ""
    red, green, blue = (round(dark + (light - dark) * weight) for dark, light in zip(DARK, LIGHT, strict=True))
    return " " * width, Style(bgcolor=Color.from_rgb(red, green, blue))


def centred(name: str, width: int) -> str:
    """The name centred in `width` cells of a terminal; some characters take two cells."""
    space = max(width - cell_len(name), 0)
    return " " * (space // 2) + name + " " * (space - space // 2)
