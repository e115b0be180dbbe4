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
from pathlib import Path
from typing import Any, Literal

from regard import durable
from regard.data.whole import read_bytes
from regard.engines.ctranslate2.plans import NOTE
from regard.errors import RegardError, cut
from regard.version import __version__

FORMAT = 3  # raised whenever the same files are converted to something else
MADE = "made.json"
CHUNK = 1 << 20  # bytes
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

    def open(self, kind: Opened, *, compute_type: str, workers: int, threads: int) -> Any:
        """CTranslate2's translator, generator or encoder on it."""
        import ctranslate2

        options: dict[str, Any] = {"compute_type": compute_type, "inter_threads": workers, "intra_threads": threads}
        name, files = str(self.path or "regard"), self.files
        if self.path is not None and not _is_text(name):  # CTranslate2 takes no path that is not UTF-8
            name, files = "regard", {each.name: each.read_bytes() for each in self.path.iterdir()}
        try:
            return getattr(ctranslate2, kind)(name, files=dict(files) or None, **options)
        except (RuntimeError, ValueError) as error:
            raise RegardError(
                f"CTranslate2 cannot open {self.path or 'the converted model'} ({cut(error)}); "
                "give --runtime torch to answer without it"
            ) from None


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
    import ctranslate2

    sums = {name: _sum(directory / name) for name in MADE_FROM if (directory / name).is_file()}
    text = json.dumps([FORMAT, __version__, ctranslate2.__version__, sums])
    return blake2b(text.encode(), digest_size=8).hexdigest()


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
