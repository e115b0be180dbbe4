"""Models that come in a package installed with pip: found by the list of its files; none of its code is run."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from regard.errors import RegardError


def find_directory(name: str | Path) -> Path:
    """A directory by its path, or the one with config.json and weights inside the installed package of that name."""
    path = Path(name)
    if path.is_dir():
        return path
    try:
        files = metadata.files(str(name)) or []
    except (metadata.PackageNotFoundError, ValueError):
        raise RegardError(f"{name} is neither a directory nor an installed package; check the name") from None
    weights = {file.parent for file in files if file.name.endswith(".safetensors")}
    found = sorted({file.parent for file in files if file.name == "config.json"} & weights)
    if len(found) != 1:
        several = ", ".join(map(str, found)) or "none"
        raise RegardError(
            f"the package {name} must have one directory with config.json and .safetensors, and has: {several}; "
            f"name the directory itself"
        )
    (chosen,) = (file for file in files if file.parent == found[0] and file.name == "config.json")
    return Path(str(chosen.locate())).parent
