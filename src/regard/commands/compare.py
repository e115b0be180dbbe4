"""`regard compare`: train a recipe with several values of some keys, and print one table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from regard.api.comparing import compare
from regard.api.variants import parse


def run(
    recipe: str, *, vary: Sequence[str], out: Path | None, changes: Sequence[str], minutes: float | None, as_json: bool
) -> None:
    """Print what a comparison found."""
    found = compare(recipe, vary=parse(vary), out=out, changes=changes, minutes=minutes, show=True)
    if as_json:
        print(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
        return
    print(found)
    print(f"the models are in {found.path}, the numbers in {found.path / 'compare.json'}, the curves in compare.png")
