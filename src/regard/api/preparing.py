"""From a recipe to prepared data, from which `regard train` starts at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from regard import durable, recipes
from regard.api.body import completed
from regard.api.loading import path_of
from regard.api.reading import Data, read_data
from regard.api.training import Telling, make_run_directory, settle
from regard.directory import ModelDirectory
from regard.recipes import Recipe, Wish
from regard.tasks.base import Bar, Work
from regard.training.distribution import Crew


def prepare(
    recipe: str | Path | Wish,
    *,
    out: str | Path | None = None,
    changes: Iterable[str] = (),
    processes: int = 1,
    bar: Bar | None = None,
    console: Console | None = None,
) -> tuple[Path, Data]:
    """Read, filter and tokenise the data of a recipe, as `train` does before its first step. → the directory, the data

    The arguments are those of `train`. `processes` tokenise; `bar` receives counts, and `console` progress.
    """
    console = console or Console(stderr=True, quiet=True)
    wish = recipe if isinstance(recipe, Recipe) else recipes.load(recipe, changes, tell=console.out)
    name = "model" if isinstance(recipe, Recipe) else Path(recipe).stem
    path = path_of(out) if out is not None else Path("runs") / name
    chosen, body = completed(wish)
    make_run_directory(path)
    directory, crew = ModelDirectory(path), Crew()
    with durable.alone(path), console.status("reading the examples") as status:
        durable.sweep(path)
        begun = settle(directory, chosen, crew)
        work = Work(directory.work, Telling(console, status), processes=processes, bar=bar)
        return path, read_data(chosen, body, directory, crew, work, begun=begun)
