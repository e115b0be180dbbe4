"""The house keeps its order.

Imports point only to rooms further up; light modules never import torch; nothing outside a task's room knows the task
by name; and nothing outside `models` and `interchange` knows a kind of model by its class.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import regard
from regard.models import KINDS
from regard.tasks import TASKS
from regard.tasks.base import Task

SOURCE = Path(regard.__file__).parent
ROOMS = [
    *("errors", "version", "checking", "special", "durable", "kernels", "attention", "layers", "models", "decoding"),
    *("data", "doctor", "tasks", "directory", "training", "interchange", "engines", "look", "serve", "recipes", "api"),
    *("commands", "cli", "__main__"),
]
STRANGERS = {"decoding": {"models"}, "data": {"models", "decoding"}}  # what a room does not know, though it is above
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")

# strings that equal a task's name and mean something else, or may name the task: (file, string) → why
OTHER_WORDS = {
    ("recipes/__init__.py", "translate"): "the task of a recipe that names none",
    ("durable.py", "write"): "what could not be done with a file",
    ("recipes/own_data.py", "tag"): "a column of a file",
    ("decoding/tree.py", "answer"): "the state of a hypothesis",
    ("look/record.py", "answer"): "a key of the record",
    ("models/long.py", "rank"): "a key of [model]",
    ("recipes/own_data.py", "sets"): "a bundled recipe",
    ("models/__init__.py", "sets"): "a form of models",
    ("models/__init__.py", "caption"): "a kind",
    ("models/caption.py", "caption"): "a kind",
    ("data/captions/examples.py", "caption"): "a column of a file",
    ("tasks/base.py", "nodes"): "what a side consists of",
    ("look/neighbours.py", "nodes"): "what a side consists of",
    ("decoding/tree.py", "nodes"): "a key of the record",
    ("serve/texts/documents.py", "translate"): "an attribute of HTML",
    ("serve/protocols/openai.py", "answer"): "a key of the record",
    ("look/timeline.py", "forecast"): "what the line of the steps ahead is called",
}

# modules that must work in a process without torch; a folder means all modules in it
LIGHT = [
    *("__init__.py", "errors.py", "special.py", "checking.py", "durable.py", "directory.py", "data", "engines"),
    *("tasks/__init__.py", "tasks/base.py", "tasks/surfaces.py", "tasks/scores.py", "tasks/translate/words.py"),
    *("tasks/reading.py", "tasks/classify/reading.py", "tasks/embed/reading.py", "tasks/tag/reading.py"),
    *("tasks/answer/reading.py", "tasks/rank/reading.py", "tasks/fill/reading.py"),
    *("tasks/write/growing.py", "tasks/write/prompts.py"),
    *("tasks/forecast/surface.py", "tasks/forecast/measures.py", "tasks/forecast/baselines.py"),
    *("interchange/expressible.py", "interchange/ctranslate2.py", "interchange/stacks.py", "interchange/packages.py"),
    *("decoding/config.py", "training/config.py", "models/__init__.py", "models/facts.py"),
    *("commands/run.py", "commands/lines.py", "cli.py"),
    *("look/__init__.py", "look/page.py", "serve", "commands/serve.py", "commands/serve_worker.py"),
]
HEAVY = {  # batches hold tensors
    *("data/pairs/batches.py", "data/rows/batches.py", "data/text/blocks.py", "data/text/lanes.py"),
    *("data/pictures/augment.py", "data/pictures/batches.py"),
    "data/sets/batches.py",
    *("data/captions/batches.py",),
    "data/graphs/batches.py",
    "data/series/windows.py",
}

# A new public method of Task is one more that every task must implement. Before raising this number, look for a form
# that only the tasks that need it have to know: a protocol at the end of tasks/base.py, or a helper in their own rooms.
TASK_METHODS = 13


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(tree: ast.AST, *, only_when_loaded: bool = False) -> Iterator[tuple[int, str]]:
    """Imported modules, and `module.name` for what is imported from one, with their lines.

    `only_when_loaded` leaves out what loading the file does not import: in functions, and for type checkers alone.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno} imports by dots; the full name says which room it is"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif only_when_loaded and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        elif only_when_loaded and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from imports(ast.Module([other], []), only_when_loaded=True)
        else:
            yield from imports(node, only_when_loaded=only_when_loaded)


def imported_rooms(path: Path) -> Iterator[str]:
    """The rooms that a file imports from, wherever in the file it does so."""
    names = (name for _, name in imports(ast.parse(path.read_text(encoding="utf-8"))))
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


# nothing outside a task's room knows the task by name


def rooms_of_tasks() -> dict[str, str]:
    """Each task with its room: a file or folder of tasks/, without suffix."""
    return {name: row.task.removeprefix("regard.").partition(":")[0].split(".")[1] for name, row in TASKS.items()}


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """The string constants of a file with their lines. A docstring or a help text never equals a name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def names_of_tasks(path: Path) -> Iterator[tuple[int, str]]:
    """Where a file outside a task's room has the task's name."""
    inside = path.relative_to(SOURCE).with_suffix("").parts
    room = inside[1] if inside[0] == "tasks" else None
    yield from ((line, text) for line, text in strings(path) if text in TASKS and rooms_of_tasks()[text] != room)


def test_no_name_of_a_task_outside_its_room_and_the_table() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line} {name!r}"
        for path in FILES
        if path != SOURCE / "tasks" / "__init__.py"
        for line, name in names_of_tasks(path)
        if (path.relative_to(SOURCE).as_posix(), name) not in OTHER_WORDS
    ]
    assert found == [], "ask the task's interface (tasks/base.py); a string that means something else: OTHER_WORDS"


def test_every_exception_for_a_name_is_in_use() -> None:
    used = {(path.relative_to(SOURCE).as_posix(), name) for path in FILES for _, name in names_of_tasks(path)}
    assert [exception for exception in OTHER_WORDS if exception not in used] == []


def test_a_name_of_a_task_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    code = """
def choose(recipe, name="classify"):
    '''Whether it can write, answer or "translate".'''
    if recipe.task == "translate" or recipe.task in ("tag", "embed"):
        return {"fill": 1}
    known: Literal["answer"] = tasks.task("write")
    help("write a text")
"""
    (tmp_path / "api.py").write_text(code)
    (tmp_path / "tasks" / "translate").mkdir(parents=True)
    (tmp_path / "tasks" / "translate" / "task.py").write_text(code)
    everywhere = {"classify": 2, "translate": 4, "tag": 4, "embed": 4, "fill": 5, "answer": 6, "write": 6}
    assert {name: line for line, name in names_of_tasks(tmp_path / "api.py")} == everywhere
    inside = {name for _, name in names_of_tasks(tmp_path / "tasks" / "translate" / "task.py")}
    assert inside == everywhere.keys() - {"translate"}


def test_the_interface_of_a_task_does_not_grow() -> None:
    methods = [name for name, value in vars(Task).items() if not name.startswith("_") and callable(_function(value))]
    assert len(methods) <= TASK_METHODS, methods


def _function(value: object) -> object:
    return value.__func__ if isinstance(value, classmethod | staticmethod) else value


# nothing outside models and interchange knows a kind by its class


def test_no_kind_is_imported_outside_models_and_interchange() -> None:
    modules = {kind.module for kind in KINDS.values()}
    found = [
        f"{path.relative_to(SOURCE)}:{line} imports {name}"
        for path in FILES
        if room_of(path) not in ("models", "interchange")
        for line, name in imports(ast.parse(path.read_text(encoding="utf-8")))
        if modules & {name, name.rpartition(".")[0]}
    ]
    assert found == [], "ask the config (models/facts.py), the body (models/body.py) or a protocol (tasks/modules.py)"


# light modules never import torch


def file_of(module: str) -> Path | None:
    """The file of a module of regard, if it is one."""
    path = SOURCE.joinpath(*module.split(".")[1:])
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)


@cache
def loaded_by(path: Path) -> list[tuple[int, str]]:
    """What loading a file loads directly: its imports, the packages of each, and the packages that the file is in."""
    folder = ".".join(("regard", *path.relative_to(SOURCE).parts[:-1]))
    found = [(1, folder), *imports(ast.parse(path.read_text(encoding="utf-8")), only_when_loaded=True)]
    split = [(line, name.split(".")) for line, name in found]
    return [(line, ".".join(parts[:size])) for line, parts in split for size in range(1, len(parts) + 1)]


def way_to_torch(path: Path) -> list[str]:
    """The shortest chain of imports from a file to torch, as `file:line`; empty if there is none."""
    ways: dict[Path, list[str]] = {path: []}
    waiting = [path]
    for current in waiting:
        for line, name in loaded_by(current):
            way = [*ways[current], f"{current.relative_to(SOURCE)}:{line} imports {name}"]
            if name == "torch" or name == "safetensors.torch":
                return way
            target = file_of(name) if name.split(".")[0] == "regard" else None
            if target is not None and target not in ways:
                ways[target] = way
                waiting.append(target)
    return []


def light_files() -> list[Path]:
    named = [SOURCE / name for name in LIGHT]
    files = [file for path in named for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    return [file for file in files if file.relative_to(SOURCE).as_posix() not in HEAVY]


@pytest.mark.parametrize("path", light_files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_light_modules_do_not_import_torch(path: Path) -> None:
    assert way_to_torch(path) == []


def test_heavy_modules_lead_to_torch() -> None:
    for name in HEAVY:
        assert way_to_torch(SOURCE / name), f"{name} does not import torch any more; take it out of HEAVY"


def test_a_way_to_torch_is_found_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    (tmp_path / "room").mkdir()
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "room" / "__init__.py").write_text("import json\n\nfrom torch import nn\n")
    (tmp_path / "room" / "other.py").write_text("")
    (tmp_path / "clean.py").write_text(
        "if TYPE_CHECKING:\n    import torch\n\n\ndef load():\n    import torch\n    from regard.room import other\n"
    )
    (tmp_path / "first.py").write_text("import os\ntry:\n    from regard.room import other\nexcept ImportError: ...\n")
    assert way_to_torch(tmp_path / "clean.py") == []
    told = ["first.py:3 imports regard.room", "room/__init__.py:3 imports torch"]
    assert way_to_torch(tmp_path / "first.py") == told
    assert way_to_torch(tmp_path / "room" / "other.py") == ["room/other.py:1 imports regard.room", told[1]]
