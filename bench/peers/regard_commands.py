"""regard's command line, each command in a process of its own, forked from one that has imported torch already.

A command does what `python -m regard.cli …` does. Importing torch takes longer than a small command, and is done once.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
import tempfile
import traceback
from pathlib import Path
from typing import IO, Any, NoReturn

from answering import Run, Settings, answer

IMPORTED = ("torch._dynamo", "torch.utils.flop_counter", "matplotlib.figure", "ctranslate2", "sacrebleu", "regard.api")


def prepare(settings: Settings) -> Run:
    """Import what the commands need; regard must come from the folder `source`."""
    del sys.path[0]  # the folder of this file, which regard must not import from
    for name in IMPORTED:
        importlib.import_module(name)
    found = sys.modules["regard"].__file__
    if not Path(str(found)).is_relative_to(settings["source"]):
        raise ImportError(f"regard was imported from {found}, not from {settings['source']}")
    return run


def run(asked: Settings) -> dict[str, Any]:
    """Run the command `words` in `folder`, `input` on its standard input: its exit code and what it printed."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        given.write(asked["input"].encode())
        given.seek(0)
        child = os.fork()
        if not child:
            _run_and_exit(asked["words"], asked["folder"], files=(given, printed, errors))
        _, status = os.waitpid(child, 0)
        printed.seek(0)
        errors.seek(0)
        texts = {"printed": printed.read().decode(), "errors": errors.read().decode()}
    return {"code": os.waitstatus_to_exitcode(status), **texts}


def _run_and_exit(words: list[str], folder: str, *, files: tuple[IO[bytes], ...]) -> NoReturn:
    """Run the command in this process, with these files as its standard streams. The exit frees nothing: it is fast."""
    code: object = 1
    try:
        os.chdir(folder)
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - the one of the parent has read ahead
        sys.argv[1:] = words
        runpy.run_module("regard.cli", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    answer(prepare)
