"""A picture in a terminal: half blocks in colour, shades without; beside it what was looked at, panel by panel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray
from PIL import Image
from rich.cells import set_cell_size
from rich.color import Color
from rich.style import Style
from rich.text import Text

from regard.look.panels import HIDDEN, Panel, Pixels, panels, pixels
from regard.look.show import LONGEST, printable
from regard.look.terminal.heat import SHADES, centred

if TYPE_CHECKING:
    from regard.look.record import Map, Record

WIDEST, HIGHEST = 28, 28  # columns of a panel, and rows of pixels: two in a row of text
GAP = 2
DIM = (70, 77, 91)  # what covers that which was not looked at


def drawn(record: Record, chosen: Map, *, width: int, colour: bool) -> Text:
    """The picture and its panels, as many beside each other as fit into `width`."""
    shown, _ = panels(record)
    picture = pixels(record, record.sides[chosen.key])
    blocks = [_panel(panel, picture, colour=colour) for panel in shown]
    if picture is not None:
        blocks.insert(0, _titled("", _whole(picture, colour=colour)))
    across = max((width + GAP) // (blocks[0][0].cell_len + GAP), 1)
    text = Text()
    for begin in range(0, len(blocks), across):
        text.append("\n" if begin else "")
        for line in zip(*blocks[begin : begin + across], strict=True):
            text.append_text(Text(" " * GAP).join(line)).append("\n")
    text.right_crop(1)
    return text


def _size(high: int, wide: int) -> tuple[int, int]:
    """Rows and columns of pixels of a panel, in the proportions of the picture; the rows are even."""
    share = min(WIDEST / wide, HIGHEST / high)
    return max(round(high * share / 2), 1) * 2, max(round(wide * share), 4)


def _panel(panel: Panel, picture: Pixels | None, *, colour: bool) -> list[Text]:
    cover = panel.cover()
    high, wide = _size(*(picture.shape[:2] if picture is not None else cover.shape))
    if not colour:
        return _titled(panel.name, _shades(_resized(1 - cover / HIDDEN, high // 2, wide)))
    base = numpy.full((high, wide, 3), 255.0) if picture is None else _shrunk(picture, high, wide)
    covered = _resized(cover, high, wide)[..., None]
    return _titled(panel.name, _half_blocks(base * (1 - covered) + numpy.array(DIM) * covered))


def _whole(picture: Pixels, *, colour: bool) -> list[Text]:
    """The picture as it is."""
    high, wide = _size(*picture.shape[:2])
    if colour:
        return _half_blocks(_shrunk(picture, high, wide))
    light = _shrunk(picture, high // 2, wide).mean(-1)
    return _shades((light - light.min()) / max(float(light.max() - light.min()), 1.0))


def _titled(name: str, lines: Sequence[Text]) -> list[Text]:
    width = lines[0].cell_len
    cut = set_cell_size(printable(name, most=LONGEST), width).rstrip()
    return [Text(centred(cut, width), style="bold"), *lines]


def _half_blocks(image: NDArray[numpy.float64]) -> list[Text]:
    """Two rows of pixels (h, w, 3) in each row of text: the upper one in the colour of the ink, the lower behind it."""
    rows = image.round().clip(0, 255).astype(int).tolist()
    return [
        Text.assemble(*(("▀", _style(above, below)) for above, below in zip(upper, lower, strict=True)))
        for upper, lower in zip(rows[::2], rows[1::2], strict=True)
    ]


def _style(above: Sequence[int], below: Sequence[int]) -> Style:
    return Style(color=Color.from_rgb(*above), bgcolor=Color.from_rgb(*below))


def _shades(share: NDArray[numpy.float64]) -> list[Text]:
    steps = (share.clip(0, 1) * (len(SHADES) - 1)).round().astype(int)
    return [Text("".join(SHADES[step] for step in row)) for row in steps.tolist()]


def _shrunk(picture: Pixels, high: int, wide: int) -> NDArray[numpy.float64]:
    return numpy.asarray(Image.fromarray(picture).resize((wide, high), Image.Resampling.BOX)).astype(float)


def _resized(grid: NDArray[numpy.float64], high: int, wide: int) -> NDArray[numpy.float64]:
    """The nearest cell of a grid (r, c) at each pixel."""
    rows, columns = grid.shape
    down = ((numpy.arange(high) + 0.5) * rows / high).astype(int)
    across = ((numpy.arange(wide) + 0.5) * columns / wide).astype(int)
    return grid[down][:, across]
