"""How many examples `regard check` looks at in a second of one core, and what it finds.

    python -m bench check --data train.tsv.gz [--target FILE] [--repeats 3]

The language of texts is not told, which takes far longer. Time is that of the processor, reading included.
"""

from __future__ import annotations

import argparse
import statistics
import time

from rich.console import Console

from regard.doctor.examine import Wanted, examine
from regard.doctor.report import Report


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="pairs of texts, with a tab between them, or the sources")
    parser.add_argument("--target", help="the targets, if --data holds the sources")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args(arguments)
    files = tuple(name for name in (given.data, given.target) if name is not None)
    rates = []
    for _ in range(given.repeats):
        report, seconds = _examined(files)
        rates.append(report.examples / seconds)
    report.show(Console(), fixed=False)
    print(f"{statistics.median(rates):,.0f} pairs a second of one core, the median of {given.repeats}")


def _examined(files: tuple[str, ...]) -> tuple[Report, float]:
    began = time.process_time()
    report, rows = examine(Wanted("pairs", files))
    for _ in rows:
        pass
    return report, time.process_time() - began
