"""Reading whole files that may be damaged or come from others, with a limit on their size."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

from regard.errors import RegardError, cut

SETTINGS = 64 << 20  # bytes that a file of settings may have
VOCABULARY = 512 << 20  # bytes that a vocabulary or a tokenizer may have

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def read_bytes(path: Path, *, most: int = SETTINGS) -> bytes:
    """The content of a regular file of at most `most` bytes. FileNotFoundError is left to the caller."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise RegardError(f"{path} is not a regular file; copy or download it again")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        if isinstance(error, RegardError):
            raise
        raise RegardError(f"{path} cannot be read ({cut(error)}); copy or download it again") from None
    if len(content) > most:
        raise RegardError(f"{path} has more than {most >> 20} MB, so it is not what its name says; download it again")
    return content


def read_text(path: Path, *, most: int = VOCABULARY) -> str:
    """The text of a UTF-8 file."""
    try:
        return read_bytes(path, most=most).decode()
    except UnicodeDecodeError as error:
        raise RegardError(f"{path} is not UTF-8 text ({error.reason}); copy or download it again") from None


def read_json(path: Path, *, most: int = SETTINGS) -> dict[str, Any]:
    """The object in a JSON file. FileNotFoundError is left to the caller."""
    return parse_json(read_text(path, most=most), path)


def parse_json(text: str, path: Path) -> dict[str, Any]:
    """The object in the text of a JSON file."""
    try:
        found = json.loads(text)
        halved = "\\u" in text and _SURROGATE.search(json.dumps(found, ensure_ascii=False))
    except RecursionError:
        raise RegardError(f"{path} is nested too deeply; copy or download it again") from None
    except ValueError as error:
        raise RegardError(f"{path} is damaged ({cut(error)}); copy or download it again") from None
    if not isinstance(found, dict):
        raise RegardError(f"{path} does not contain a JSON object; copy or download it again")
    if halved:
        raise RegardError(f"{path} contains half of a surrogate pair, which is no character; download it again")
    return found
