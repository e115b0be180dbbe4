"""The command line: parse, call, print. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import json
import math
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.commands.demos import DEFAULT, DEMOS, chosen
from regard.commands.failures import UsageError, brief, end, explain, prepare_streams, release_streams
from regard.errors import RegardError
from regard.version import __version__

app = typer.Typer(
    name="regard",
    help="Train attention models on your own data, on the machine you have, and see what they look at.",
    add_completion=False,
    rich_markup_mode="markdown",
)

DEBUG = "REGARD_DEBUG"

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="a model directory")]
Json = Annotated[bool, typer.Option("--json", help="print JSON, for scripts")]
Beam = Annotated[int | None, typer.Option(min=1, help="beam size; 1 is greedy search")]
Runtime = Annotated[
    Literal["auto", "torch", "ctranslate2"],
    typer.Option(help="the engine: auto uses CTranslate2 where it gives the same answers, torch elsewhere"),
]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change a key of the recipe; may be repeated")
]

Minutes = Annotated[
    float | None,
    typer.Option(help="plan for so many minutes: steps, warm-up and rate fit them; as --set training.minutes=…"),
]


def main() -> None:
    """Run a command. What goes wrong is one line on standard error, with exit code 2 if the user can correct it and 1
    if not; a traceback is printed only with --debug."""
    prepare_streams()
    warnings.formatwarning = lambda message, *_, **__: f"regard: {brief(str(message))}\n"
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
        end(str(interrupted) or "stopped", code=getattr(interrupted, "code", 130))
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):  # which rich turns into exit code 1
            raise
        release_streams()
    except BrokenPipeError:  # the reader of a pipe has seen enough
        release_streams()
    except BaseException as error:  # Rust's panics are no Exception
        if os.environ.get(DEBUG) and not isinstance(error, UsageError):
            traceback.print_exc()
        end(*explain(error))


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
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME] [INPUT]…", help=f"{' or '.join(DEMOS)}, and inputs to answer afterwards"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="the model directory; runs/demo or runs/demo-NAME by default")
    ] = None,
) -> None:
    """Train spelling → pronunciation, or another embedded example, in minutes; score it and show what it looks at."""
    from regard.commands.demos import demo as demo_of

    name, inputs = chosen(words or [])
    demo_of(name)(inputs, out=out or Path("runs/demo" if name == DEFAULT else f"runs/demo-{name}"))


@app.command()
def train(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="a name that `regard recipes` lists, a TOML file, or a data file")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="the model directory, resumed if it exists; runs/RECIPE by default"),
    ] = None,
    changes: Changes = None,
    minutes: Minutes = None,
    teacher: Annotated[
        Path | None, typer.Option(help="a larger model, whose answers replace the targets of the training data")
    ] = None,
    processes: Annotated[
        int, typer.Option(min=1, help="processes on this machine that train together; see docs/scale.md")
    ] = 1,
) -> None:
    """Train a model from a recipe, or resume training that was interrupted."""
    if processes > 1:
        from regard.commands.processes import train_together

        raise typer.Exit(train_together(_without(sys.argv[2:], "--processes"), processes))
    from regard.api.training import train as train_model
    from regard.commands.evaluate import show
    from regard.tasks.base import Score

    taught = [] if teacher is None else [f"data.teacher={json.dumps(str(teacher.resolve()))}"]
    model = train_model(recipe, out=out, changes=[*(changes or []), *_budget(minutes), *taught], show=True)
    if os.environ.get("RANK", "0") != "0":  # the first of several processes speaks for all
        return
    print(f"trained for {model.report['steps']:,} steps: {model.report['ended']}")
    print(f"scores on {model.judged_on}:")
    signatures = model.report.get("signatures", {})
    scores = {name: math.nan if value is None else value for name, value in model.report["scores"].items()}
    show({name: Score(value, signatures.get(name, "")) for name, value in scores.items()})
    print(f"the model is in {model.path}, its learning curve in {model.path / 'curve.png'}; try:")
    print(f"  regard run {model.path} {model.surface.example}")
    print(f"  regard evaluate {model.path} --data FILE")


@app.command()
def compare(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="as for `regard train`")],
    vary: Annotated[
        list[str],
        typer.Option("--vary", metavar="KEY=A,B,…", help="values of a key of the recipe; may be repeated"),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="the folder of all runs; runs/compare-RECIPE by default"),
    ] = None,
    changes: Changes = None,
    minutes: Minutes = None,
    as_json: Json = False,
) -> None:
    """Train a recipe with every combination of some values, with the same seed and data, and print one table.

    What was interrupted is resumed, and what is finished is not trained again. --minutes is the budget of each run.
    """
    from regard.commands.compare import run as run_compare

    run_compare(recipe, vary=vary, out=out, changes=changes or [], minutes=minutes, as_json=as_json)


@app.command()
def prepare(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="as for `regard train`")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="the model directory to train in; runs/RECIPE by default")
    ] = None,
    changes: Changes = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="processes that tokenise; as many as there are cores by default")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read, filter and tokenise the data of a recipe, so that `regard train` starts at once; resume if interrupted."""
    from regard.commands.prepare import prepare as prepare_data

    prepare_data(recipe, out=out, changes=changes or [], processes=processes, as_json=as_json)


@app.command()
def check(
    data: Annotated[str, typer.Argument(metavar="DATA", help="pairs or labelled texts (.tsv, …), or plain text")],
    target: Annotated[str | None, typer.Option(help="the targets, if DATA holds the sources line by line")] = None,
    form: Annotated[
        Literal["pairs", "labels", "text"] | None, typer.Option("--as", help="what DATA holds; found out unless given")
    ] = None,
    test: Annotated[str | None, typer.Option(help="test data, whose examples DATA must not have")] = None,
    test_target: Annotated[str | None, typer.Option(help="its targets, if --test holds the sources")] = None,
    languages: Annotated[
        str | None, typer.Option(help="the languages of the texts: en,de; needs the extra regard[check]")
    ] = None,
    fix: Annotated[
        Path | None, typer.Option(metavar="OUT", help="write what is left, mended: a file, or a folder with --target")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="exit with 1 if something is to mend or to drop")] = False,
    as_json: Json = False,
) -> None:
    """Find what is wrong with data, by file and line, before a model learns it; with --fix, write a mended copy."""
    from regard.commands.check import check as check_data

    clean = check_data(
        data,
        target=target,
        form=form,
        test=tuple(name for name in (test, test_target) if name is not None),
        languages=tuple(languages.split(",")) if languages else (),
        fix=fix,
        as_json=as_json,
    )
    if strict and not clean:
        raise typer.Exit(1)


def _budget(minutes: float | None) -> list[str]:
    """--minutes as a change of the recipe."""
    return [] if minutes is None else [f"training.minutes={float(minutes)}"]


def _without(arguments: list[str], option: str) -> list[str]:
    """The arguments without an option and its value."""
    kept, skip = [], False
    for argument in arguments:
        if not skip and argument != option and not argument.startswith(f"{option}="):
            kept.append(argument)
        skip = argument == option
    return kept


@app.command()
def run(
    model: ModelPath,
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="texts to answer; without any, the lines of standard input"),
    ] = None,
    beam: Beam = None,
    n_best: Annotated[
        int, typer.Option(min=1, help="answers for each line; several are printed with their scores")
    ] = 1,
    sample: Annotated[
        bool, typer.Option("--sample", help="sample an answer instead of searching for the best")
    ] = False,
    temperature: Annotated[
        float | None, typer.Option(help="for sampling: values below 1 favour probable tokens")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="for sampling: draw from this many most probable tokens")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="for sampling: draw from the tokens with this total probability")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="for sampling: the random seed")] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="sample this many answers: --sample and --n-best together")
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="for language models: end before this text; may be repeated"),
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="begin every answer with this text")] = None,
    alignment: Annotated[
        bool,
        typer.Option("--alignment", help="add after a tab which source word each word looked at, as source-target"),
    ] = False,
    max_length: Annotated[int | None, typer.Option(min=1, help="the longest answer, in tokens")] = None,
    no_repeat_ngram: Annotated[
        int | None, typer.Option(min=0, help="no sequence of this many tokens occurs twice")
    ] = None,
    replace_unknown: Annotated[
        bool, typer.Option("--replace-unknown", help="replace an unknown word by the source word it looked at")
    ] = False,
    runtime: Runtime = "auto",
    compute_type: Annotated[
        Literal["measured", "float32", "int8", "auto"],
        typer.Option(
            help="for CTranslate2: float32 gives torch's answers, int8 may be faster and changes some, auto takes the "
            "faster; measured is the form found as good on validation data and fastest, and float32 without one"
        ),
    ] = "measured",
    as_json: Json = False,
) -> None:
    """Answer texts: one line in, one line out, in order. A language model continues them.

    A line of more than 1,024 tokens is split where sentences end, and the answers are joined.
    """
    from regard.commands.lines import arriving, typed
    from regard.commands.run import run as run_model

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
        "compute_type": None if compute_type == "measured" else compute_type,
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
        named="input" if text else "line",
    )


@app.command()
def evaluate(
    model: ModelPath,
    data: Annotated[
        str | None, typer.Option(help="a data file; by default the recipe's test set, or its validation set")
    ] = None,
    source: Annotated[str | None, typer.Option(help="source lines, with --target instead of --data")] = None,
    target: Annotated[str | None, typer.Option(help="reference lines")] = None,
    against: Annotated[
        Path | None, typer.Option(help="another model to compare with, by paired bootstrap on the same data")
    ] = None,
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="the text is tokenised already: score it as it is")
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
    """Score a model on data it was not trained on, or compare it with another model."""
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
        Path | None,
        typer.Option("--out", "-o", help="a file: .html, .png, .svg, .pdf or .json; the terminal by default"),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="show only this layer")] = None,
    head: Annotated[int | None, typer.Option(help="show only this head")] = None,
    reference: Annotated[
        str | None, typer.Option(help="force this answer, and show what the model looks at while it gives it")
    ] = None,
    first: Annotated[
        int | None,
        typer.Option("--from", min=0, help="of a long text: the token from which on every weight is shown"),
    ] = None,
    pharaoh: Annotated[
        bool, typer.Option("--pharaoh", help="print word alignments, source-target, and nothing else")
    ] = False,
    statistics: Annotated[
        Path | None, typer.Option(help="a file of texts, one on each line: show what each head does on average")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="the port of the live page; 0 takes a free one")] = 0,
) -> None:
    """Show what a model looks at: in the terminal, as a page or a picture; without a text, live in the browser."""
    from regard.commands.lines import typed
    from regard.commands.look import run as run_look

    run_look(
        models,
        out=out,
        options={
            "layer": layer,
            "head": head,
            "reference": None if reference is None else typed(reference),
            "first": first,
        },
        pharaoh=pharaoh,
        statistics=statistics,
        port=port,
    )


@app.command()
def serve(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL…", help="model directories, as DIR or NAME=DIR; the first by default")
    ],
    host: Annotated[
        str, typer.Option(help="the address to listen at; 0.0.0.0 for other machines, then give --keys")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="the port; 0 takes a free one")] = 8000,
    workers: Annotated[
        int | None, typer.Option(min=1, help="processes that answer, of one thread each; one for each core by default")
    ] = None,
    runtime: Runtime = "auto",
    compute_type: Annotated[
        Literal["measured", "float32", "int8"],
        typer.Option(
            help="for CTranslate2: int8 may be faster and changes some answers; measured is the form that was "
            "found as good on validation data and fastest, and float32 without one"
        ),
    ] = "measured",
    languages: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]SOURCE,TARGET", help="languages of a model, if its recipe names none: en,de"),
    ] = None,
    memory: Annotated[
        int | None, typer.Option(min=1, metavar="MB", help="weights held at once, in all workers together")
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="a file of API keys, one on each line; also from the environment: REGARD_KEYS")
    ] = None,
    rate: Annotated[int | None, typer.Option(min=1, help="requests a minute of each key")] = None,
    cors: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="an origin whose pages may ask, or *; may be repeated")
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, metavar="BYTES", help="bytes of a request")] = 2 << 20,
    max_characters: Annotated[int, typer.Option(min=1, help="characters of all texts of a request")] = 100_000,
    max_batch: Annotated[int, typer.Option(min=1, help="inputs of a request")] = 256,
    max_queue: Annotated[int, typer.Option(min=1, help="inputs that wait; beyond them: 429 with Retry-After")] = 2048,
    max_seconds: Annotated[float, typer.Option(min=0.001, help="seconds from a request to its answer")] = 60.0,
    max_beam: Annotated[int, typer.Option(min=1, help="the beam, and answers to one input")] = 32,
    max_length: Annotated[int, typer.Option(min=1, help="tokens of an answer")] = 4096,
    drain: Annotated[float, typer.Option(min=0, help="seconds to finish requests after SIGTERM")] = 30.0,
) -> None:
    """Serve models over HTTP, until Ctrl-C: an API for programs, and a page for people."""
    from regard.commands.serve import require_extra
    from regard.commands.serve import serve as serve_models
    from regard.engines.ctranslate2.plans import cores

    require_extra()
    from regard.serve.keys import Keys
    from regard.serve.settings import Limits, Settings

    limits = Limits(
        body=max_body,
        characters=max_characters,
        batch=max_batch,
        queue=max_queue,
        seconds=max_seconds,
        beam=max_beam,
        length=max_length,
        drain=drain,
    )
    settings = Settings(
        host=host,
        port=port,
        workers=workers or cores(),
        memory=None if memory is None else memory << 20,
        keys=Keys.read(keys, rate=rate),
        cors=tuple(cors or ()),
        limits=limits,
    )
    serve_models(models, settings, runtime=runtime, compute_type=compute_type, languages=languages or ())


@app.command()
def bench(
    model: ModelPath,
    data: Annotated[
        Path | None,
        typer.Option(help="a file of texts, one on each line, or of examples; by default the recipe's own"),
    ] = None,
    runtime: Runtime = "auto",
    as_json: Json = False,
) -> None:
    """Measure how fast a model answers on this machine, and in which form it answers as well and fastest.

    The validation set is answered in float32 and in int8, and with the model's shortlist if it has one. `regard run`
    and `regard serve` use the fastest form that is as good from then on; --compute-type float32 gives exact answers.
    """
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
    out: Annotated[Path, typer.Argument(metavar="DIR", help="a directory that does not exist yet")],
    to: Annotated[Literal["ctranslate2", "huggingface"], typer.Option("--to", help="the format")],
) -> None:
    """Write a model in another format, with all that is needed to use it there.

    For CTranslate2, int8 and the shortlist are judged on the recipe's validation data, for at most a minute.
    """
    if to == "huggingface":
        from regard.api.exchange import export_model

        export_model(model, out)
    else:
        from regard.commands.judging import judge_once
        from regard.interchange.ctranslate2 import export

        export(model, out)
        judge_once(model, seconds=60)
    print(f"{out} holds the model for {to}")


@app.command("import")
def import_(
    source: Annotated[
        str, typer.Argument(metavar="DIR", help="a Hugging Face directory, or an installed package with one inside")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="the model directory, which does not exist yet")],
) -> None:
    """Import a model, to use it or to fine-tune it."""
    from regard.api.exchange import import_model
    from regard.tasks import surface

    recipe = import_model(source, out)
    print(f'{out} holds {source} as kind = "{recipe.kind}" for task = "{recipe.task}"; try:')
    example = surface(recipe.task).example
    print(f"  regard run {out} {example}")
    print(f"  regard look {out} {example}")


@app.command()
def recipes(as_json: Json = False) -> None:
    """List the bundled recipes, one on each line."""
    from regard.recipes import bundled

    _print_table(bundled(), as_json)


@app.command()
def models(as_json: Json = False) -> None:
    """List the kinds of models that a recipe's model.kind can name, one on each line."""
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
