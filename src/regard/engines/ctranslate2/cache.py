"""The converted model, kept so that it is made once: in the model directory, or in the user's cache.

    MODEL/runtime/ctranslate2-FINGERPRINT-POSITIONS/

The fingerprint is of the files it was made from (size and time) and of the makers' versions, so a directory under its
own name is never out of date. Where nothing can be written, the model is converted each time and loaded from memory.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from regard import durable
from regard.errors import RegardError
from regard.version import __version__

FORMAT = 1  # raised whenever the same files are converted to something else
MADE_FROM = (
    "weights.safetensors",
    "recipe.toml",
    "tokenizer.json",
    "source.json",
    "target.json",
    "shortlist.safetensors",
)


@dataclass(frozen=True)
class Converted:
    """A converted model: its directory, or its files where there was no place for one."""

    path: Path | None
    files: Mapping[str, bytes] = field(default_factory=dict)

    def open(self, *, compute_type: str, workers: int, threads: int) -> Any:
        """CTranslate2's translator on it."""
        import ctranslate2

        options: dict[str, Any] = {"compute_type": compute_type, "inter_threads": workers, "intra_threads": threads}
        if self.path is None:
            return ctranslate2.Translator("regard", files=dict(self.files), **options)
        return ctranslate2.Translator(str(self.path), **options)


def converted(directory: Path, *, positions: int) -> Converted:
    """The model of a directory, from where it is kept, or made now and kept; its tables reach `positions`."""
    fingerprint = _fingerprint(directory)
    name = f"ctranslate2-{fingerprint}-{positions}"
    places = [directory / "runtime", _user_cache() / blake2b(bytes(directory.resolve()), digest_size=8).hexdigest()]
    for place in places:
        if (place / name).is_dir():
            return Converted(place / name)
    from regard.interchange.ctranslate2 import convert

    files = convert(directory, positions=positions)
    for place in places:
        with suppress(RegardError):
            _keep(place / name, files)
            _forget_others(place, fingerprint)
            return Converted(place / name)
    return Converted(None, files)


def _fingerprint(directory: Path) -> str:
    import ctranslate2

    stats = {name: (directory / name).stat() for name in MADE_FROM if (directory / name).exists()}
    stamps = {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}
    text = json.dumps([FORMAT, __version__, ctranslate2.__version__, stamps])
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


def _keep(path: Path, files: dict[str, bytes]) -> None:
    """Write the files beside and move them to their place, unless another process was there first."""
    mine = path.with_name(f"{path.name}.{os.getpid()}")
    durable.write_directory(mine, files)
    try:
        mine.rename(path)
    except OSError:
        shutil.rmtree(mine, ignore_errors=True)
        if not path.is_dir():
            raise RegardError(f"{path} cannot be written; check your rights") from None


def _forget_others(place: Path, fingerprint: str) -> None:
    """Remove what was made from files that have changed since."""
    for old in place.glob("ctranslate2-*"):
        if not old.name.startswith(f"ctranslate2-{fingerprint}-"):
            shutil.rmtree(old, ignore_errors=True)
