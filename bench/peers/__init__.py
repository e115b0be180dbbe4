"""The peers: what each needs, and an environment of its own for it, made on first use under bench/.envs.

A script NAME_WORK.py beside this file runs in the environment NAME, as a process that answers on standard output what
it is asked on standard input (`bench.worker`). It sees the files of this folder and the packages of its environment,
nothing of regard; regard's own scripts run where the benchmark itself runs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

FOLDER = Path(__file__).parent
ENVIRONMENTS = FOLDER.parent / ".envs"
CONSTRAINTS = FOLDER.parent.parent / "constraints.txt"
OURS = "regard"

TORCH = ("torch==2.13.0", "numpy")
PACKAGES = {
    "transformers": (*TORCH, "transformers==5.22.2", "tokenizers==0.23.3", "safetensors"),
    "torch": TORCH,
    "x_transformers": (*TORCH, "x-transformers==2.31.10"),
    "joeynmt": (
        *TORCH,
        "joeynmt==2.3.0",
        "importlib_metadata==8.5.0",
        "sentencepiece==0.2.0",
    ),  # it asks for no versions
    "performer_pytorch": (*TORCH, "performer-pytorch==1.1.4", "setuptools"),  # it imports distutils
    "linformer": (*TORCH, "linformer==0.2.3"),
    "ctranslate2": ("ctranslate2==4.8.4", "numpy", "tokenizers==0.23.3"),
}


def python(name: str) -> Path:
    """The interpreter of a peer's environment, which is made if it is not there; for regard, this one."""
    if name == OURS:
        return Path(sys.executable)
    folder = ENVIRONMENTS / name
    if not (folder / "complete").exists():
        _make(folder, PACKAGES[name])
    return folder / "bin" / "python"


def _make(folder: Path, packages: tuple[str, ...]) -> None:
    """torch first, as the constraints have it, so that the packages that need it take the one that is there."""
    print(f"installing {', '.join(packages)} in {folder}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if packages[0].startswith("torch"):
        subprocess.run([*install, "--constraint", str(CONSTRAINTS), packages[0]], check=True)
    subprocess.run([*install, *packages], check=True)
    (folder / "complete").touch()


def script(name: str) -> Path:
    """The script NAME_WORK.py."""
    return FOLDER / f"{name}.py"


def environment_of(name: str) -> str:
    """The environment that a script runs in: the longest name that its own begins with."""
    known = [environment for environment in (OURS, *PACKAGES) if name.startswith(f"{environment}_")]
    return max(known, key=len)
