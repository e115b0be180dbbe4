"""`python -m bench report`: docs/speed.md from bench/results, and from nothing else."""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.results import FOLDER, Result, load_all
from bench.tables import markdown

PAGE = Path(__file__).parent.parent / "docs" / "speed.md"
OPENING = """# Speed

Every figure on this page was written by `python -m bench report` from a file in `bench/results`, which the command
above its table wrote. Systems were measured in turn, in one run, each with the same data, batches, model size and
number of threads. A figure is the median of the repeats, with the lowest and the highest; a ratio is taken repeat by
repeat. "of the limit" is how much of the machine's own rate of large matrix products, measured in the same run, the
useful products of the work make up.
"""


def page(results: list[Result]) -> str:
    """The whole page."""
    return "\n".join([OPENING, *(markdown(result) for result in results)])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench report", description=__doc__)
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder of result files")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write")
    options = parser.parse_args(arguments)
    results = load_all(options.results)
    if not results:
        parser.error(f"{options.results} holds no results; measure first: python -m bench WORK --data FOLDER")
    options.out.write_text(page(results), encoding="utf-8")
    print(f"wrote {options.out} from {len(results)} results")
