"""Models that come in a package installed with pip: found by the list of its files; none of its code is run."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from regard.errors import RegardError, listed
from regard.interchange.files import cut


def find_directory(name: str | Path) -> Path:
    """A directory by its path, or the one with config.json and weights inside the installed package of that name.

    Of a package with several such directories, `package/directory` names one, by the end of its path in the package.
    """
    path = Path(name)
    if path.is_dir():
        return path
    package, _, inside = str(name).strip("/").partition("/")
    try:
        files = metadata.files(package) or []
    except (metadata.PackageNotFoundError, ValueError):
        raise RegardError(
            f"{cut(name)} is neither a directory nor an installed package; check the name, or install it with pip"
        ) from None
    weights = {file.parent for file in files if file.name.endswith(".safetensors")}
    there = sorted({file.parent for file in files if file.name == "config.json"} & weights)
    if not there:
        raise RegardError(f"the package {package} has no directory with config.json and .safetensors; name another")
    found = [each for each in there if not inside or f"/{each.as_posix()}".endswith(f"/{inside}")]
    if len(found) != 1:
        choices = listed(f"{package}/{each.as_posix()}" for each in found or there)
        what = "several models" if not inside else f"{'several models' if found else 'no model'} at {cut(inside)}"
        raise RegardError(f"the package {package} has {what}; name one of: {choices}")
    (chosen,) = (file for file in files if file.parent == found[0] and file.name == "config.json")
    return Path(str(chosen.locate())).parent
