"""The command line: parse, call, print. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.errors import RegardError
from regard.version import __version__

app = typer.Typer(
    name="regard",
    help="Train attention models on your own data, on the machine you have, and see what they look at.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="a model directory")]
Json = Annotated[bool, typer.Option("--json", help="print JSON, for scripts")]
Beam = Annotated[int | None, typer.Option(min=1, help="hypotheses kept alive; 1 is greedy")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change a key of the recipe; may be repeated")
]


def main() -> None:
    """Run a command; what the user can put right is one line on standard error and exit code 2."""
    try:
        app()
    except RegardError as error:
        print(f"regard: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as interrupted:
        print(f"regard: {interrupted or 'stopped'}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
        sys.exit(0)


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False) -> None:
    if version:
        print(f"regard {__version__}")
        raise typer.Exit


@app.command()
def demo(
    words: Annotated[list[str] | None, typer.Argument(help="words to pronounce afterwards")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="the model directory")] = Path("runs/demo"),
) -> None:
    """Train spelling → pronunciation in about three minutes, score it, show what it looks at."""
    from regard.demo import run as run_demo

    run_demo(words or [], out=out)


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="a bundled name (see `regard recipes`) or a TOML file")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="the model directory; resumed if it exists")] = None,
    changes: Changes = None,
) -> None:
    """Train a model from a recipe, or go on with one that was interrupted."""
    from regard.api import train as train_model

    model = train_model(recipe, out=out, changes=changes or [], show=True)
    _print_scores(model.report["scores"], model.report.get("signatures", {}))
    print(f"the model is in {model.path}; try: regard run {model.path}")


@app.command()
def run(
    model: ModelPath,
    text: Annotated[list[str] | None, typer.Argument(help="texts to answer; standard input, line by line, without any")] = None,
    beam: Beam = None,
    n_best: Annotated[int, typer.Option(min=1, help="answers to each line, with their scores when more than one")] = 1,
    sample: Annotated[bool, typer.Option(help="draw at random instead of searching for the best")] = False,
    temperature: Annotated[float | None, typer.Option(help="of sampling")] = None,
    top_k: Annotated[int | None, typer.Option(help="of sampling")] = None,
    top_p: Annotated[float | None, typer.Option(help="of sampling")] = None,
    seed: Annotated[int | None, typer.Option(help="of sampling")] = None,
    prefix: Annotated[str | None, typer.Option(help="how every answer must begin")] = None,
    alignment: Annotated[bool, typer.Option(help="word alignments as source-target pairs, after a tab")] = False,
    max_length: Annotated[int | None, typer.Option(min=1, help="the longest answer, in tokens")] = None,
    no_repeat_ngram: Annotated[int | None, typer.Option(min=0, help="no sequence of so many tokens occurs twice")] = None,
    replace_unknown: Annotated[bool, typer.Option(help="copy the source word looked at in place of <unk>")] = False,
    as_json: Json = False,
) -> None:
    """Answer texts: one line in, one line out, in order."""
    from regard.api import load

    loaded = load(model)
    options = {"beam": beam, "n_best": n_best, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    options |= {"max_length": max_length, "no_repeat_ngram": no_repeat_ngram}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    given |= {"sample": True} if sample else {}
    given |= {"replace_unknown": True} if replace_unknown else {}
    decoding = loaded.decoding(given)
    for line, answers in loaded.stream(text if text else _lines(), decoding=decoding, prefix=prefix):
        pairs = loaded.word_alignment(line, answers[0]) if alignment else None
        if as_json:
            found = [{"text": a.text, "score": a.score, "tokens": loaded.pieces(a)} for a in answers]
            row = {"input": line, "answers": found, **({} if pairs is None else {"alignment": pairs})}
            print(json.dumps(row, ensure_ascii=False), flush=True)
            continue
        ending = "" if pairs is None else "\t" + " ".join(f"{s}-{t}" for s, t in pairs)
        for answer in answers[:n_best]:
            print(answer.text + (f"\t{answer.score:.4f}" if n_best > 1 else "") + ending, flush=True)


@app.command()
def evaluate(
    model: ModelPath,
    data: Annotated[str | None, typer.Option(help="a file of pairs; the recipe's own test (or valid) set without it")] = None,
    source: Annotated[str | None, typer.Option(help="source lines, with --target instead of --data")] = None,
    target: Annotated[str | None, typer.Option(help="reference lines")] = None,
    against: Annotated[Path | None, typer.Option(help="another model: paired bootstrap on the same data")] = None,
    tokenized: Annotated[bool, typer.Option(help="text is tokenised already: score it as it stands")] = False,
    beam: Beam = None,
    as_json: Json = False,
) -> None:
    """Score a model on data it has not learned from."""
    from regard.api import load

    if (source is None) != (target is None):
        raise RegardError("--source and --target go together: two files with as many lines")
    entry: Any = {"source": source, "target": target} if source else data
    loaded = load(model)
    decoding = None if beam is None else loaded.decoding({"beam": beam})
    if against is not None:
        result = loaded.compare(load(against), entry, tokenize="none" if tokenized else "13a", decoding=decoding)
        if as_json:
            print(json.dumps(result, indent=2))
            return
        for name, row in result.items():
            print(f"{name:14} {row['first']:8.2f} {row['second']:8.2f}   p = {row['p']:.4f}")
        return
    scores = loaded.evaluate(entry, tokenize="none" if tokenized else "13a", decoding=decoding)
    if as_json:
        print(json.dumps({name: {"value": s.value, "signature": s.signature} for name, s in scores.items()}, indent=2))
        return
    _print_scores({name: s.value for name, s in scores.items()}, {name: s.signature for name, s in scores.items()})


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


def _print_scores(scores: dict[str, float], signatures: dict[str, str]) -> None:
    for name, value in scores.items():
        print(f"{name:14} {value:8.2f}   {signatures.get(name, '')}".rstrip())


def _lines() -> Iterator[str]:
    """Standard input; only a line feed ends a line, so that one line in stays one line out."""
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            yield raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise RegardError(f"standard input, line {number}: not UTF-8; convert it, e.g. iconv -f latin1 -t utf8") from None


if __name__ == "__main__":
    main()
