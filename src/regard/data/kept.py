"""Files that are made once and kept until their source changes.

Two files are kept: one with the content, and NAME.json beside it, which describes it: `made_from`, a digest of the
source; `checksum`, size and CRC-32 of the content; and anything else that its reader needs. Both are written
through `regard.durable`, the description last: content whose checksum is not the described one is made again.
"""

import json
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from regard import durable

Kept = TypeVar("Kept")
DAMAGED = (OSError, ValueError, KeyError, TypeError)  # what reading a damaged file or description raises


def kept(
    path: Path,
    *,
    made_from: Sequence[object],
    make: Callable[[Path], Mapping[str, object]],
    read: Callable[[Mapping[str, Any]], Kept],
) -> Kept:
    """The result of `read` for the description of the file at `path`.

    If the file is missing, damaged, or made from something else, `make` writes it anew, to the path that it is given,
    and returns the description without `made_from` and `checksum`.
    """
    durable.sweep(path.parent)
    digest = digest_of(made_from)
    try:
        if (found := stored(path, digest)) is not None:
            return read(found)
    except DAMAGED as error:
        warnings.warn(f"{path} is damaged ({error}) and is made again", RuntimeWarning, stacklevel=3)
    return read(made(path, digest, make))


def digest_of(made_from: Sequence[object]) -> str:
    return sha256(repr(made_from).encode()).hexdigest()


def stored(path: Path, digest: str) -> dict[str, Any] | None:
    """The stored description; None if there is none, or if the file was made from something else. One of `DAMAGED` is
    raised if the file or its description is not as it was written."""
    description = path.with_suffix(".json")
    if not description.exists():
        return None
    found: dict[str, Any] = json.loads(description.read_text(encoding="utf-8"))
    if found["made_from"] != digest:
        return None
    if found["checksum"] != checksum_of(path):
        raise ValueError("the checksum differs")
    return found


def made(path: Path, digest: str, make: Callable[[Path], Mapping[str, object]]) -> dict[str, Any]:
    """Have `make` write the file, and describe it."""
    with durable.replacing(path) as beside:
        path.parent.mkdir(parents=True, exist_ok=True)
        facts = make(beside)
        described = {"made_from": digest, "checksum": checksum_of(beside), **facts}
    durable.write_file(path.with_suffix(".json"), json.dumps(described).encode())
    return described


def checksum_of(path: Path) -> str:
    """Size and CRC-32 of a file."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return f"{path.stat().st_size}-{checksum:08x}"
