"""`regard check`: what is wrong with a data set, by file and line, and a copy of it without."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from regard.data.files import Column, is_numbered
from regard.doctor.examine import Form, Wanted, examine
from regard.doctor.reading import lines
from regard.doctor.report import Report
from regard.durable import make_directory
from regard.errors import RegardError
from regard.recipes.own_data import LOOKED_AT, Sample, columns_of, look_at, recipe_of, sample_of

FORMS: dict[str, Form] = {"pairs": "pairs", "labels": "labels"}
CALLED = {"pairs": "pairs", "labels": "labelled texts", "text": "plain text"}
BINARY = 0.1  # share of NULs from which on a file is no text
More = Callable[[int], None]
Writer = Callable[[list[str]], object]
ROLES = {"pairs": ("source", "target"), "labels": ("text", "label")}


def check(
    data: str,
    *,
    target: str | None = None,
    form: Form | None = None,
    test: tuple[str, ...] = (),
    languages: tuple[str, ...] = (),
    fix: Path | None = None,
    as_json: bool = False,
) -> bool:
    """Look for defects, print what was found, write what is left to `fix`. → whether nothing was found"""
    files = (data,) if target is None else (data, target)
    console = Console(stderr=True)
    sample = _beginning(data) if target is None else None
    form = form or ("pairs" if sample is None else _form(data, sample, console))
    if languages and len(languages) != (2 if form == "pairs" else 1):
        raise RegardError(f"--languages names {len(languages)} languages; give one for each text of an example: en,de")
    wanted = Wanted(form, files, _columns(sample, form) if sample else None, languages, test)
    with _counting(console) as more, _writing(fix, wanted) as write:
        report, rows = examine(wanted, more=more)
        for cells in rows:
            write(cells)
    _show(report, as_json=as_json, fixed=fix is not None)
    return report.clean


def _form(name: str, sample: Sample, console: Console) -> Form:
    """What a file holds by its beginning, which is said, because a wrong guess is not seen otherwise."""
    recipe, why = recipe_of(sample, name)
    form = FORMS.get(recipe, "text")
    console.print(
        f"{name} is read as {CALLED[form]}: {why}; --as chooses", markup=False, highlight=False, soft_wrap=True
    )
    return form


def _beginning(name: str) -> Sample:
    """The beginning of a file, whatever is wrong with it. Lines that have not as many columns as most are left out, so
    that a few defects do not hide what the file holds."""
    if not is_numbered(name):
        return look_at(name)
    texts = [text for _, text in islice(lines(name, Report([name])), LOOKED_AT)]
    if sum(text.count("\0") for text in texts) > BINARY * sum(map(len, texts)):
        raise RegardError(f"{name} is a binary file; give text, .jsonl or .parquet, named as such")
    tabs = Counter(text.count("\t") for text in texts if text.strip())
    most = max(tabs, key=tabs.__getitem__, default=0)
    return sample_of(name, [text for text in texts if not text.strip() or text.count("\t") == most])


def _columns(sample: Sample, form: Form) -> tuple[Column, ...] | None:
    """The columns of a file that names them; None for all columns of a TSV without a header."""
    if form == "text":
        return None
    found, _ = columns_of(sample, ROLES[form])
    chosen = tuple(found[role] for role in ROLES[form] if role in found)
    return None if len(chosen) < 2 or chosen == (1, 2) else chosen


def _show(report: Report, *, as_json: bool, fixed: bool) -> None:
    if as_json:
        print(json.dumps(report.to_json(), ensure_ascii=False, indent=2))
    else:
        report.show(Console(highlight=False), fixed=fixed)


@contextmanager
def _counting(console: Console) -> Iterator[More]:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(show_speed=True))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        line = shown.add_task("checking", total=None)
        yield lambda count: shown.advance(line, count)


@contextmanager
def _writing(fix: Path | None, wanted: Wanted) -> Iterator[Writer]:
    """What writes an example that is left: to one file, or to files of the same names in a folder."""
    if fix is None:
        yield lambda _cells: None
        return
    two = len(wanted.files) > 1
    if two:
        make_directory(fix)
    places = [fix / Path(name).name for name in wanted.files] if two else [fix]
    for place, name in zip(places, wanted.files, strict=True):
        if place.resolve() == Path(name).resolve():
            raise RegardError(f"{place} is the data itself, which is being read; name another file with --fix")
        if place.name.removesuffix(".gz").endswith((".jsonl", ".parquet", ".csv")):
            raise RegardError(f"{place}: what is left is written as text with tabs; name a .tsv or .txt file")
    with ExitStack() as stack:
        files = [stack.enter_context(_opened(place)) for place in places]
        if two:
            yield lambda cells: [file.write(f"{cell}\n") for file, cell in zip(files, cells, strict=True)]
        else:
            yield lambda cells: files[0].write("\t".join(cells) + "\n")


@contextmanager
def _opened(place: Path) -> Iterator[IO[str]]:
    """A file that has its name only when it is complete."""
    part = place.with_name(f".{place.name}.part")
    try:
        with (
            gzip.open(part, "wt", encoding="utf-8")
            if place.suffix == ".gz"
            else part.open("w", encoding="utf-8") as file
        ):
            yield file
        part.replace(place)
    except OSError as error:
        raise RegardError(f"{place} cannot be written ({error.strerror or error}); name another file") from None
    finally:
        part.unlink(missing_ok=True)
