"""A list of weights in a terminal, each with a bar: the largest first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

MOST = 12  # lines
LONG = 24  # columns of the longest bar


def bars(lines: Sequence[tuple[float, Text]]) -> Text:
    """The first of some weights with their names, and how many more there are; "nothing" if there is none."""
    if not lines:
        return Text("  nothing", style="dim")
    most = max(weight for weight, _ in lines)
    rows = []
    for weight, name in lines[:MOST]:
        length = max(round(LONG * weight / most), 1)
        rows.append(Text(f"  {weight:.3f}  {'━' * length:<{LONG}}  ").append_text(name))
    if len(lines) > MOST:
        rows.append(Text(f"  and {len(lines) - MOST} more", style="dim"))
    return Text("\n").join(rows)
