"""The command in the process of the tests, which is much quicker than a new one."""

import io
import sys
import warnings
from typing import NamedTuple

import pytest

from regard import cli


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def call(monkeypatch, capsys):
    """Run a command: its exit code and what it printed."""
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("REGARD_DEBUG", "")

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = 0
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code or 0
        return Result(code, *capsys.readouterr())

    return run
