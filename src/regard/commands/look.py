"""`regard look`: models and a text in; the terminal, a file, or a live page out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from regard.api.loading import load
from regard.api.model import Model
from regard.api.translator import Translator
from regard.commands.lines import typed
from regard.commands.progress_bar import progress_bar
from regard.commands.serve import require_extra
from regard.data.files import read_lines
from regard.directory import ModelDirectory
from regard.errors import RegardError, cut
from regard.look import page
from regard.look.record import Record
from regard.look.terminal import show

if TYPE_CHECKING:
    from regard.serve.live import Looker


def run(
    arguments: Sequence[str],
    *,
    out: Path | None,
    options: Mapping[str, Any],
    pharaoh: bool,
    statistics: Path | None,
    port: int,
) -> None:
    """Arguments are model directories, then at most one text; without a text the page is served until Ctrl-C."""
    names, texts = _sorted(arguments)
    if not texts and (out is not None or pharaoh):
        raise RegardError(f"{'-o' if out is not None else '--pharaoh'} needs a text to look at; give one in quotes")
    if not texts:
        require_extra("the live page")
    models = [load(name) for name in names]
    lookers = [partial(_look, model, options, _statistics(model, statistics)) for model in models]
    if not texts:
        _refuse_files(models)
        serve(lookers, port=port, pairs=any(model.surface.two_texts for model in models))
        return
    if pharaoh:
        for model in models:
            if not isinstance(model, Translator):
                raise RegardError(f'--pharaoh: {model.path} is for task = "{model.recipe.task}", which aligns no words')
            pairs = model.word_alignment(texts[0], model.said(texts[0], options.get("reference")))
            print(" ".join(f"{source}-{target}" for source, target in pairs))
        return
    records = [looker(texts[0], None) for looker in lookers]
    if out is None:
        for record in records:
            show(record, Console())
        return
    if out.suffix == ".html":
        page.save([record.to_json() for record in records], out)
    elif len(records) > 1:
        raise RegardError(f"{out}: two models side by side are a page; write them to a name that ends in .html")
    else:
        records[0].save(out)
    print(f"{out} shows what {' and '.join(names)} looked at")


def _refuse_files(models: Sequence[Model]) -> None:
    """Refuse the live page for models that read files: a page must not name files of this computer."""
    for model in models:
        if model.surface.files:
            raise RegardError(
                f"{model.path} looks at files, and the live page takes texts only; name a file: "
                f"regard look {model.path} {model.surface.example} -o look.html"
            )


def serve(lookers: Sequence[Looker], *, port: int, pairs: bool) -> None:
    """Serve the live page on this machine, until Ctrl-C."""
    from regard.serve.live import LivePage

    page = LivePage(lookers, port=port, pairs=pairs)
    print(f"the page is at http://127.0.0.1:{page.port} until Ctrl-C", flush=True)
    page.run()


def _look(
    model: Model, options: Mapping[str, Any], statistics: Mapping[str, Any] | None, text: str, first: int | None
) -> Record:
    """The record of a text; `first` is asked for on the live page."""
    asked = options if first is None else {**options, "first": first}
    return replace(model.look(model.surface.parse(text), **asked), statistics=statistics)


def _statistics(model: Model, lines: Path | None) -> dict[str, Any] | None:
    if lines is None:
        return None
    texts = [model.surface.parse(line) for _, line in read_lines(str(lines)) if line.strip()]
    with progress_bar("looking at texts"):
        return model.statistics(texts)


def _sorted(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Model directories come first; what follows is the text."""
    models = [name for name in arguments if ModelDirectory(Path(name)).is_model]
    texts = [name for name in arguments if name not in models]
    if not models:
        raise RegardError(f"{cut(arguments[0])} is not a model directory; train one with: regard train")
    if list(arguments[: len(models)]) != models or len(texts) > 1:
        raise RegardError("expected model directories, then one text in quotes")
    return models, [typed(text) for text in texts]
