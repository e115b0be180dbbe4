"""What models are for, one room each. A room holds all that its task reads, learns, answers, scores and shows.

base         what a task is: Task, Surface, Engine
surfaces     surfaces that several tasks share
reading      what tasks on rows of text share without torch: inputs become rows, and numbers become answers
rows         what they share with torch: batches, passes over many texts
saying       what tasks share whose answers are texts: the loss, the answers of a search, what is seen
pictures     what tasks on pictures share: what was measured on them, the picture that is asked about
scores       scores that several tasks share; significance of their differences

A task is one file, or a folder with `task.py` where it has several ideas. `TASKS` is the whole list.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

from regard.errors import unknown_name

if TYPE_CHECKING:
    from regard.models import Form
    from regard.models.facts import Use
    from regard.tasks.base import AnySurface, AnyTask


class Row(NamedTuple):
    """Where a task stands, imported only when it is asked for, and what it does. A surface that must be had without
    torch stands in a module of its own."""

    task: str
    summary: str
    surface: str | None = None


TASKS = {
    "translate": Row("regard.tasks.translate.task:Translate", "a text to a text", "regard.tasks.surfaces:TextToTexts"),
    "transcribe": Row(
        "regard.tasks.translate.task:Transcribe", "spelling to sound", "regard.tasks.surfaces:TextToTexts"
    ),
    "write": Row("regard.tasks.write.task:Write", "a prompt to its continuation", "regard.tasks.surfaces:Prompt"),
    "embed": Row("regard.tasks.embed.task:Embed", "a text to a vector", "regard.tasks.embed.reading:Vector"),
    "classify": Row(
        "regard.tasks.classify.task:Classify", "a text or a pair to a label", "regard.tasks.classify.reading:Labels"
    ),
    "tag": Row("regard.tasks.tag.task:Tag", "words to a tag for each", "regard.tasks.tag.reading:Entities"),
    "answer": Row(
        "regard.tasks.answer.task:FindAnswer",
        "a question and a passage to the answer in it",
        "regard.tasks.answer.reading:Spans",
    ),
    "fill": Row(
        "regard.tasks.fill.task:Fill", "a text with gaps to the words in them", "regard.tasks.fill.reading:Gaps"
    ),
    "nodes": Row("regard.tasks.nodes:ClassifyNodes", "a node of a graph to its label"),
    "rank": Row(
        "regard.tasks.rank.task:Rank", "a query and texts to the texts, best first", "regard.tasks.rank.reading:Ranking"
    ),
    "see": Row("regard.tasks.see:See", "a picture to a label"),
    "sets": Row("regard.tasks.sets:JudgeSets", "a set to a label or numbers"),
    "caption": Row("regard.tasks.caption.task:Caption", "a picture to a text about it"),
    "forecast": Row(
        "regard.tasks.forecast.task:Forecast", "series to their next numbers", "regard.tasks.forecast.surface:Forecasts"
    ),
}


def task(name: str) -> type[AnyTask]:
    """The class of a task."""
    found: type[AnyTask] = _find(_row(name).task)
    return found


def surface(name: str) -> AnySurface:
    """The surface of a task; where the table names it, without importing torch."""
    row = _row(name)
    if row.surface is None:
        return task(name).surface
    found: type[AnySurface] = _find(row.surface)
    return found()


def suited(form: Form, use: Use) -> str:
    """The first task that a model of this form can do, and that takes this of it."""
    for name in TASKS:
        if form in task(name).forms and task(name).uses == use:
            return name
    raise LookupError(f"no task takes {use!r} of a model of form {form!r}")


def _row(name: str) -> Row:
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]


def _find(path: str) -> type:
    module, _, name = path.partition(":")
    found: type = getattr(importlib.import_module(module), name)
    return found
