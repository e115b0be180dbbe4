"""The house keeps its order: imports point only to rooms further up."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard

SOURCE = Path(regard.__file__).parent
ROOMS = [
    *("errors", "version", "special", "checking", "durable", "kernels", "attention", "layers", "models", "decoding"),
    *("data", "tasks", "directory", "training", "interchange", "engines", "look", "serve", "recipes", "api"),
    *("commands", "cli"),
]
STRANGERS = {"decoding": {"models"}, "data": {"models", "decoding"}}  # what a room does not know, though it is above
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> Iterator[str]:
    """The rooms that a file imports from, wherever in the file it does so."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports by dots; the full name says which room it is"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name.split(".")[1] for name in names if name.startswith("regard."))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_only_upward(path: Path) -> None:
    room = room_of(path)
    assert room in ROOMS, f"{room} has no place in the order of rooms yet"
    above = set(ROOMS[: ROOMS.index(room) + 1]) - STRANGERS.get(room, set())
    assert set(imported_rooms(path)) <= above


def test_the_files_were_found() -> None:
    assert len(FILES) > 50
    assert sum(len(list(imported_rooms(path))) for path in FILES) > 100


def test_importing_regard_does_not_import_torch() -> None:
    code = "import sys, regard; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_reads_a_pickle() -> None:
    for path in FILES:
        text = path.read_text(encoding="utf-8").replace("safetensors.torch.load(", "")
        assert "pickle" not in text, path
        assert "torch.load(" not in text, path
