"""A progress bar of inputs that are done, on standard error; nothing where that is no terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from regard.tasks.counting import counted_by


@contextmanager
def progress_bar(title: str) -> Iterator[None]:
    """Show the counts of the tasks that run while the `with` lasts. The bar moves to and fro until a total is known."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns,
        console=console,
        transient=True,
        redirect_stdout=False,  # answers go to standard output, wherever that is
        disable=not console.is_terminal,
    ) as shown:
        line = shown.add_task(title, total=None)
        with counted_by(lambda done, total: shown.update(line, completed=done, total=total)):
            yield
