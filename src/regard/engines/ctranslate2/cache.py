"""The converted model, kept so that it is made once: in the model directory, or in the user's cache.

    MODEL/runtime/ctranslate2-FINGERPRINT-POSITIONS/

The fingerprint is of the content of the files it was made from and of the makers' versions. made.json says which
fingerprint a converted model has and what the content of its files is. Both are compared each time, so that a model
that was damaged, or that came here under a wrong name, is converted again and never answers. The check sums are against
accidents: whoever can write the converted model can write the weights.

Where nothing can be written, the model is converted each time and loaded from memory.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard import durable
from regard.data.whole import read_bytes
from regard.directory import LABELS
from regard.engines.ctranslate2.plans import NOTE, Plan
from regard.errors import RegardError, cut
from regard.version import __version__

if TYPE_CHECKING:
    from regard.engines.ctranslate2.apart import Apart

FORMAT = 3  # raised whenever the same files are converted to something else
MADE = "made.json"
CHUNK = 1 << 20  # bytes
Stamp = tuple[tuple[str, int, int, int], ...]
Opened = Literal["Translator", "Generator", "Encoder"]
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

    def read(self, name: str) -> bytes:
        """The content of one of its files."""
        return self.files[name] if self.path is None else (self.path / name).read_bytes()

    def open(self, kind: Opened, plan: Plan, apart: Apart | None = None) -> Any:
        """CTranslate2's translator, generator or encoder on it, in this process or in the one that is `apart`."""
        if apart is not None:
            return self._open_apart(kind, plan, apart)
        import ctranslate2

        options: dict[str, Any] = {
            "compute_type": plan.compute_type,
            "inter_threads": plan.workers,
            "intra_threads": plan.threads,
        }
        name, files = str(self.path or "regard"), self.files
        if self.path is not None and not _is_text(name):  # CTranslate2 takes no path that is not UTF-8
            name, files = "regard", {each.name: each.read_bytes() for each in self.path.iterdir()}
        try:
            return getattr(ctranslate2, kind)(name, files=dict(files) or None, **options)
        except (RuntimeError, ValueError) as error:
            raise self._not_opened(error) from None

    def _open_apart(self, kind: Opened, plan: Plan, apart: Apart) -> Any:
        if self.path is None or not _is_text(str(self.path)):
            raise self._not_opened("it is kept in no directory whose name another process can be told")
        try:
            return apart.open(
                kind,
                str(self.path.resolve()),
                workers=plan.workers,
                compute_type=plan.compute_type,
                intra_threads=plan.threads,
            )
        except RuntimeError as error:
            raise self._not_opened(error) from None

    def _not_opened(self, error: object) -> RegardError:
        return RegardError(
            f"CTranslate2 cannot open {self.path or 'the converted model'} ({cut(error)}); "
            "give --runtime torch to answer without it"
        )


def _is_text(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def converted(directory: Path, *, positions: int) -> Converted:
    """The model of a directory, from where it is kept, or made now and kept; its tables reach `positions`."""
    fingerprint = _fingerprint(directory)
    name = f"ctranslate2-{fingerprint}-{positions}"
    places = [directory / "runtime", _user_cache() / blake2b(bytes(directory.resolve()), digest_size=8).hexdigest()]
    for place in places:
        if _is_whole(place / name):
            return Converted(place / name)
    from regard.interchange.ctranslate2 import convert

    files = convert(directory, positions=positions)
    sums = {name: [len(content), zlib.crc32(content)] for name, content in files.items()}
    made = {MADE: json.dumps({"name": name, "files": sums}).encode()}
    for place in places:
        with suppress(RegardError):
            _keep(place / name, files | made)
            _forget_others(place, fingerprint)
            return Converted(place / name)
    return Converted(None, files)


def _is_whole(path: Path) -> bool:
    """Whether a converted model is kept here as it was made under this name; one that is not is removed."""
    if not path.is_dir():
        return False
    with suppress(OSError, ValueError, TypeError, RecursionError):
        if json.loads(read_bytes(path / MADE)) == {"name": path.name, "files": _sums(path)}:
            return True
    warnings.warn(f"{path} is damaged or was made of another model; it is converted again", stacklevel=2)
    with suppress(RegardError):
        durable.remove_directory(path)
    return False


def _sums(path: Path) -> dict[str, list[int]]:
    return {each.name: _sum(each) for each in path.iterdir() if each.name not in (MADE, NOTE)}


def _sum(path: Path) -> list[int]:
    """Length and CRC-32 of a regular file."""
    if not path.is_file():
        raise FileNotFoundError(path)
    length, found = 0, 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            length, found = length + len(chunk), zlib.crc32(chunk, found)
    return [length, found]


def _fingerprint(directory: Path) -> str:
    sums = {name: _sum(directory / name) for name in MADE_FROM if (directory / name).is_file()}
    text = json.dumps([FORMAT, __version__, version("ctranslate2"), sums])
    return blake2b(text.encode(), digest_size=8).hexdigest()


def stamp(directory: Path) -> Stamp:
    """Changes when a file is replaced or rewritten that the model, or its answers, are made from."""
    paths = [directory / name for name in (*MADE_FROM, LABELS)]
    stats = [(path.name, path.stat()) for path in paths if path.is_file()]
    return tuple((name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for name, stat in stats)


def _user_cache() -> Path:
    home = os.path.expanduser("~")  # noqa: PTH111 - which raises nothing where there is no home
    return Path(os.environ.get("XDG_CACHE_HOME") or f"{home}/.cache") / "regard"


def _keep(path: Path, files: dict[str, bytes]) -> None:
    """Write the files to a directory beside it and rename that, unless another process has done so first."""
    mine = path.with_name(f"{path.name}.{os.getpid()}")
    durable.write_directory(mine, files)
    try:
        mine.rename(path)
    except OSError:
        shutil.rmtree(mine, ignore_errors=True)
        if not _is_whole(path):
            raise RegardError(f"{path} cannot be written; check your rights") from None


def _forget_others(place: Path, fingerprint: str) -> None:
    """Remove what was made from files that have changed since."""
    for old in place.glob("ctranslate2-*"):
        if not old.name.startswith(f"ctranslate2-{fingerprint}-"):
            shutil.rmtree(old, ignore_errors=True)
