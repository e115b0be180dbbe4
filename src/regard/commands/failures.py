"""What goes wrong in a command, as one line on standard error and an exit code; and the streams of a command."""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import typer

from regard.errors import RegardError, cut

# what the parser raises; typer gives it no name of its own
UsageError: type[typer.BadParameter] = typer.BadParameter.__bases__[0]

LONGEST = 800  # characters of a message
NO_MEMORY = re.compile(r"allocat|not enough memory|out of memory|bad_alloc|size calculation overflowed", re.IGNORECASE)


def prepare_streams() -> None:
    """Make both streams UTF-8, whatever the locale is; a name that is not UTF-8 is shown with escapes."""
    if sys.stderr is None:  # closed, and print would take standard output for it
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    if sys.stdout is None:
        end("standard output is closed; send it to a file or to another program", code=2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def release_streams() -> None:
    """Detach streams that can no longer be written, so that Python does not write to them when it ends."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def explain(error: BaseException) -> tuple[str, int]:
    """What to say of an error, and the exit code."""
    if isinstance(error, UsageError):
        asked = error.ctx.command_path if error.ctx else "regard"
        return f"{error.format_message().rstrip('.')}; see: {asked} --help", 2
    if isinstance(error, RegardError):
        return str(error), 2
    if isinstance(error, OSError):
        where = error.filename or "standard output or a file"
        return f"{where} cannot be read or written ({error.strerror or error}); correct that and run it again", 2
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and NO_MEMORY.search(str(error))):
        return f"there is not enough memory ({error}); use smaller sizes, such as a lower batch_tokens or beam", 2
    if isinstance(error, RecursionError):
        return "something in the input is nested too deeply; make it simpler", 2
    if isinstance(error, OverflowError):
        return f"a number is too large ({error}); use a smaller one", 2
    if isinstance(error, UnicodeError):
        return f"a name or a text is not UTF-8 ({error}); rename or convert it", 2
    what = f"{type(error).__name__}: {error}"
    return f"an unexpected error: {what}; run again with --debug for the traceback, and report it", 1


def end(message: str, code: int) -> NoReturn:
    print(f"regard: {brief(message)}", file=sys.stderr)
    release_streams()
    sys.exit(code)


def brief(message: str) -> str:
    """A message on one line. Input that it repeats may be of any length, so the middle of a long one is left out."""
    text = " ".join(map(cut, message.split()))
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
