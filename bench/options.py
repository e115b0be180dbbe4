"""The options that every comparison takes."""

from __future__ import annotations

import argparse
from pathlib import Path


def parser(work: str, about: str | None) -> argparse.ArgumentParser:
    """For a work; some have options of their own to add."""
    made = argparse.ArgumentParser(
        prog=f"python -m bench {work}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--data", type=Path, required=True, help="folder of Multi30k, with tok/ inside")
    made.add_argument("--repeats", type=int, default=5, help="how often each system is measured, in turn")
    made.add_argument("--threads", type=int, default=2, help="that each system may use")
    made.add_argument("--only", action="append", default=[], metavar="TEXT", help="peers whose name holds this; repeat")
    made.add_argument("--json", action="store_true", help="print what is written to bench/results instead of a table")
    made.add_argument("--quick", action="store_true", help="a few seconds a system, nothing kept: to see that it works")
    return made


def given(work: str, options: argparse.Namespace) -> str:
    """The command that asks for the same, but for where the data lie."""
    plain = {"repeats": 5, "threads": 2, "data": None, "only": [], "json": False, "quick": False}
    words = [
        f"--{name.replace('_', '-')}" for name, value in plain.items() if value is False and getattr(options, name)
    ]
    for name, value in vars(options).items():
        if name not in plain and value not in (None, False, []):
            words.append(f"--{name.replace('_', '-')} {Path(value).name if isinstance(value, Path) else value}")
        elif name in ("repeats", "threads") and value != plain[name]:
            words.append(f"--{name} {value}")
    return " ".join([f"python -m bench {work} --data multi30k", *(word for word in words if word != "--json")])
