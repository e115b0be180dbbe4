"""The command line: parse, call, print. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from regard.durable import is_file
from regard.errors import RegardError, cut
from regard.version import __version__

app = typer.Typer(
    name="regard",
    help="Train attention models on your own data, on the machine you have, and see what they look at.",
    add_completion=False,
    rich_markup_mode="markdown",
)
# what the parser raises; typer gives it no name of its own
UsageError: type[typer.BadParameter] = typer.BadParameter.__bases__[0]

DEBUG = "REGARD_DEBUG"
LONGEST = 800  # characters of a message
NO_MEMORY = re.compile(r"allocat|not enough memory|out of memory|bad_alloc|size calculation overflowed", re.IGNORECASE)

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="a model directory")]
Json = Annotated[bool, typer.Option("--json", help="print JSON, for scripts")]
Beam = Annotated[int | None, typer.Option(min=1, help="hypotheses kept alive; 1 is greedy")]
Runtime = Annotated[
    Literal["auto", "torch", "ctranslate2"],
    typer.Option(help="what computes: auto takes CTranslate2 where it gives the same answers, torch elsewhere"),
]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change a key of the recipe; may be repeated")
]


def main() -> None:
    """Run a command. What goes wrong is one line on standard error, with exit code 2 if the user can put it right and
    1 if not; a traceback is printed only with --debug."""
    _prepare_streams()
    warnings.formatwarning = lambda message, *_, **__: f"regard: {_brief(str(message))}\n"
    arguments = sys.argv[1:]
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--debug" in options:  # wherever it stands
        arguments.remove("--debug")
        os.environ[DEBUG] = "1"
    command = typer.main.get_command(app)
    try:
        with command.make_context("regard", arguments) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except KeyboardInterrupt as interrupted:
        _end(str(interrupted) or "stopped", code=130)
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):  # which rich turns into exit code 1
            raise
        _release_streams()
    except BrokenPipeError:  # the reader of a pipe has seen enough
        _release_streams()
    except BaseException as error:  # Rust's panics are no Exception
        if os.environ.get(DEBUG) and not isinstance(error, UsageError):
            traceback.print_exc()
        _end(*_explain(error))


def _prepare_streams() -> None:
    """Answers are UTF-8 whatever the locale is; a name that is not UTF-8 is shown with escapes."""
    if sys.stderr is None:  # closed, and print would take standard output for it
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    if sys.stdout is None:
        _end("standard output is closed; send it to a file or to another program", code=2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _release_streams() -> None:
    """Let go of streams that can no longer be written, so that Python does not try it again when it ends."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _explain(error: BaseException) -> tuple[str, int]:
    """What to say of an error, and the exit code."""
    if isinstance(error, UsageError):
        asked = error.ctx.command_path if error.ctx else "regard"
        return f"{error.format_message().rstrip('.')}; see: {asked} --help", 2
    if isinstance(error, RegardError):
        return str(error), 2
    if isinstance(error, OSError):
        where = error.filename or "standard output or a file"
        return f"{where} cannot be read or written ({error.strerror or error}); put that right and run it again", 2
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and NO_MEMORY.search(str(error))):
        return f"there is not enough memory ({error}); use smaller sizes, such as a lower batch_tokens or beam", 2
    if isinstance(error, RecursionError):
        return "something in the input is nested too deeply; make it simpler", 2
    if isinstance(error, OverflowError):
        return f"a number is too large ({error}); use a smaller one", 2
    if isinstance(error, UnicodeError):
        return f"a name or a text is not UTF-8 ({error}); rename or convert it", 2
    what = f"{type(error).__name__}: {error}"
    return f"an unexpected error: {what}; run again with --debug for the traceback, and report it", 1


def _end(message: str, code: int) -> NoReturn:
    print(f"regard: {_brief(message)}", file=sys.stderr)
    _release_streams()
    sys.exit(code)


def _brief(message: str) -> str:
    """A message on one line. Input that it repeats may be of any length, so the middle of a long one is left out."""
    text = " ".join(map(cut, message.split()))
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
    debug: Annotated[  # noqa: ARG001 - `main` reads it wherever it stands
        bool, typer.Option("--debug", help="print the traceback of an error; also with REGARD_DEBUG=1")
    ] = False,
) -> None:
    if version:
        print(f"regard {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def demo(
    words: Annotated[list[str] | None, typer.Argument(metavar="WORD", help="words to pronounce afterwards")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="the model directory")] = Path("runs/demo"),
) -> None:
    """Train spelling → pronunciation in about three minutes, score it, show what it looks at."""
    from regard.commands.demo import run as run_demo

    run_demo(words or [], out=out)


@app.command()
def train(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="a name that `regard recipes` lists, a TOML file, or a data file")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="the model directory, resumed if it exists; runs/RECIPE without")
    ] = None,
    changes: Changes = None,
    teacher: Annotated[
        Path | None, typer.Option(help="a larger model whose answers are learned instead of the targets")
    ] = None,
) -> None:
    """Train a model from a recipe, or go on with one that was interrupted."""
    from regard.api.training import train as train_model
    from regard.commands.evaluate import show
    from regard.tasks.base import Score

    taught = [] if teacher is None else [f"data.teacher={json.dumps(str(teacher.resolve()))}"]
    model = train_model(recipe, out=out, changes=[*(changes or []), *taught], show=True)
    print(f"trained for {model.report['steps']:,} steps: {model.report['ended']}")
    print(f"scores on {model.judged_on}:")
    signatures = model.report.get("signatures", {})
    show({name: Score(value, signatures.get(name, "")) for name, value in model.report["scores"].items()})
    print(f"the model is in {model.path}, its learning curve in {model.path / 'curve.png'}; try:")
    print(f"  regard run {model.path} {model.surface.example}")
    print(f"  regard evaluate {model.path} --data FILE")


@app.command()
def run(
    model: ModelPath,
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="texts to answer; without any, the lines of standard input"),
    ] = None,
    beam: Beam = None,
    n_best: Annotated[int, typer.Option(min=1, help="answers to each line; with their scores, if more than one")] = 1,
    sample: Annotated[bool, typer.Option("--sample", help="draw at random instead of searching for the best")] = False,
    temperature: Annotated[float | None, typer.Option(help="of sampling: below 1 nearer to what is probable")] = None,
    top_k: Annotated[int | None, typer.Option(help="of sampling: among so many most probable tokens")] = None,
    top_p: Annotated[float | None, typer.Option(help="of sampling: among tokens that hold this much mass")] = None,
    seed: Annotated[int | None, typer.Option(help="of sampling")] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="so many answers drawn at random: --sample --n-best together")
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="of writing: end before this text; may be repeated")
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="how every answer must begin")] = None,
    alignment: Annotated[
        bool, typer.Option("--alignment", help="which source word each word looked at, as source-target, after a tab")
    ] = False,
    max_length: Annotated[int | None, typer.Option(min=1, help="the longest answer, in tokens")] = None,
    no_repeat_ngram: Annotated[int | None, typer.Option(min=0, help="no sequence of so many tokens twice")] = None,
    replace_unknown: Annotated[
        bool, typer.Option("--replace-unknown", help="copy the source word looked at where a word is unknown")
    ] = False,
    runtime: Runtime = "auto",
    compute_type: Annotated[
        Literal["float32", "int8", "auto"],
        typer.Option(help="of CTranslate2: int8 may be faster and changes some answers; auto measures"),
    ] = "float32",
    as_json: Json = False,
) -> None:
    """Answer texts: one line in, one line out, in order; or go on from them, if the model writes.

    A line of more than 1,024 tokens is split where sentences end, and the answers are joined.
    """
    from regard.commands.lines import arriving, typed
    from regard.commands.run import run as run_model

    for file in filter(is_file, text or ()):
        warnings.warn(
            f"{file} is answered as a text; for the lines of the file: regard run {model} < {file}", stacklevel=1
        )
    given = {
        "beam": beam,
        "n_best": n_best if n_best > 1 else None,
        "sample": sample or None,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "max_length": max_length,
        "no_repeat_ngram": no_repeat_ngram,
        "replace_unknown": replace_unknown or None,
        "prefix": None if prefix is None else typed(prefix),
        "stop": [typed(each) for each in stop or ()] or None,
        "alignment": alignment or None,
        "runtime": None if runtime == "auto" else runtime,
        "compute_type": None if compute_type == "float32" else compute_type,
    }
    given |= {} if samples is None else {"sample": True, "n_best": samples}
    if not text and sys.stdin is None:
        raise RegardError("standard input is closed; give texts as arguments, or lines on standard input")
    run_model(
        model,
        [[typed(each) for each in text]] if text else arriving(sys.stdin.buffer),
        {name: value for name, value in given.items() if value is not None},
        as_json=as_json,
        at_once=not text and sys.stdin.isatty(),  # someone who types wants an answer to each line
        named="text" if text else "line",
    )


@app.command()
def evaluate(
    model: ModelPath,
    data: Annotated[
        str | None, typer.Option(help="a file of pairs, or of text; without it the recipe's test set, or valid")
    ] = None,
    source: Annotated[str | None, typer.Option(help="source lines, with --target instead of --data")] = None,
    target: Annotated[str | None, typer.Option(help="reference lines")] = None,
    against: Annotated[Path | None, typer.Option(help="another model: paired bootstrap on the same data")] = None,
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="text is tokenised already: score it as it stands")
    ] = False,
    beam: Beam = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="change a key of [data], or of [model] if no weight depends on it"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a model on data it has not learned from, alone or against another."""
    from regard.commands.evaluate import run as run_evaluate

    if (source is None) != (target is None) or (source and data):
        raise RegardError("give --data, or --source and --target: two files with as many lines")
    entry = {"source": source, "target": target} if source and target else data
    given = {} if beam is None else {"beam": beam}
    run_evaluate(
        model, entry, given=given, changes=changes or (), against=against, tokenized=tokenized, as_json=as_json
    )


@app.command()
def look(
    models: Annotated[list[str], typer.Argument(metavar="MODEL… [TEXT]", help="model directories, then a text")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help=".html, .png, .svg, .pdf or .json; the terminal without it")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="this layer alone")] = None,
    head: Annotated[int | None, typer.Option(help="this head alone")] = None,
    reference: Annotated[str | None, typer.Option(help="make the model say this, and show what it looks at")] = None,
    pharaoh: Annotated[
        bool, typer.Option("--pharaoh", help="print word alignments, source-target, and nothing else")
    ] = False,
    statistics: Annotated[
        Path | None, typer.Option(help="a file of lines: what each head tends to do over them")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="of the live page; 0 takes a free one")] = 0,
) -> None:
    """Show what a model looks at: in the terminal, as a page or a picture; live in the browser without a text."""
    from regard.commands.lines import typed
    from regard.commands.look import run as run_look

    run_look(
        models,
        out=out,
        options={"layer": layer, "head": head, "reference": None if reference is None else typed(reference)},
        pharaoh=pharaoh,
        statistics=statistics,
        port=port,
    )


@app.command()
def bench(
    model: ModelPath,
    data: Annotated[
        Path | None, typer.Option(help="a file of texts, one a line; without it the recipe's test set, or valid")
    ] = None,
    runtime: Runtime = "auto",
    as_json: Json = False,
) -> None:
    """How fast a model answers on this machine, and in which runtime."""
    from rich.console import Console

    from regard.commands.bench import measure, show

    found = measure(model, data=data, runtime=runtime, console=Console(stderr=True))
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        show(found, Console())


@app.command()
def export(
    model: ModelPath,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="a directory that is not there yet")],
    to: Annotated[Literal["ctranslate2", "huggingface"], typer.Option("--to", help="the format")],
) -> None:
    """Write a model in another format, with all that is needed to use it there."""
    if to == "huggingface":
        from regard.api.exchange import export_model

        export_model(model, out)
    else:
        from regard.interchange.ctranslate2 import export

        export(model, out)
    print(f"{out} holds the model for {to}, and its tokenizers")


@app.command("import")
def import_(
    source: Annotated[
        str, typer.Argument(metavar="DIR", help="a Hugging Face directory, or an installed package with one inside")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="the model directory, which is not there yet")],
) -> None:
    """Bring a model from elsewhere, to use it or to start from it."""
    from regard.api.exchange import import_model
    from regard.tasks import surface

    recipe = import_model(source, out)
    print(f'{out} holds {source} as kind = "{recipe.kind}" for task = "{recipe.task}"; try:')
    example = surface(recipe.task).example
    print(f"  regard run {out} {example}")
    print(f"  regard look {out} {example}")


@app.command()
def recipes(as_json: Json = False) -> None:
    """The bundled recipes, one line each."""
    from regard.recipes import bundled

    _print_table(bundled(), as_json)


@app.command()
def models(as_json: Json = False) -> None:
    """The systems that a recipe's model.kind can name, one line each."""
    from regard.models import KINDS

    _print_table({name: kind.summary for name, kind in KINDS.items()}, as_json)


def _print_table(rows: dict[str, str], as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    width = max(map(len, rows))
    for name, line in rows.items():
        print(f"{name:{width}}  {line}")


if __name__ == "__main__":
    main()
