"""Files of other programs: their size is limited, and so is what errors quote of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.data.whole import SETTINGS, VOCABULARY, read_bytes, read_json, read_text
from regard.errors import LONGEST, RegardError, cut, shown

__all__ = [
    "LONGEST",
    "SETTINGS",
    "VOCABULARY",
    "cut",
    "optional_json",
    "read_bytes",
    "read_json",
    "read_text",
    "require_new",
    "shown",
]


def optional_json(path: Path, *, most: int = SETTINGS) -> dict[str, Any]:
    """The object in a JSON file; an empty one if there is no such file."""
    try:
        return read_json(path, most=most)
    except FileNotFoundError:
        return {}


def require_new(out: Path) -> Path:
    """The absolute path of a directory to be written, which must not exist yet, or be empty."""
    try:
        taken = out.exists() and (not out.is_dir() or any(out.iterdir()))
    except OSError as error:
        raise RegardError(f"{out} cannot be used ({cut(error.strerror)}); choose another directory") from None
    if taken:
        raise RegardError(f"{out} exists and is not empty; name a directory that does not exist yet")
    return out.resolve()
