"""The options that every comparison takes."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path, PurePath


def parser(
    work: str, about: str | None, *, data: str | None = "folder of Multi30k, with tok/ inside"
) -> argparse.ArgumentParser:
    """For a work; some have options of their own to add."""
    made = argparse.ArgumentParser(
        prog=f"python -m bench {work}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if data is not None:
        made.add_argument("--data", type=Path, required=True, help=data)
    made.add_argument("--repeats", type=int, default=5, help="how often each system is measured, in turn")
    made.add_argument("--threads", type=int, default=2, help="that each system may use")
    made.add_argument("--only", action="append", default=[], metavar="TEXT", help="peers whose name holds this; repeat")
    made.add_argument("--json", action="store_true", help="print what is written to bench/results instead of a table")
    made.add_argument("--quick", action="store_true", help="a few seconds a system, nothing kept: to see that it works")
    return made


def read(made: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """What was given, and as `command` how to ask for the same, without the folders that files lie in."""
    given = made.parse_args(arguments)
    words = [_without_folder(word) for word in arguments if word != "--json"]
    given.command = shlex.join([*made.prog.split(), *words])
    return given


def _without_folder(word: str) -> str:
    name, equals, value = word.rpartition("=")
    return f"{name}{equals}{PurePath(value).name}" if "/" in value else word
