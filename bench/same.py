"""Compare two checkouts of regard: every task must train, answer and show the same, on synthetic data.

    python -m bench same --before CHECKOUT [--only CASE]… [--json]

Both checkouts run the same commands of `regard` on the same files. A row of the table is a case (`bench.same_cases`), a
column is what is compared, always exactly:

    losses          history and validations of report.json, without times
    weights         weights.safetensors
    scores          scores, signatures and the rest of report.json, without times and versions
    files           recipe.toml, the tokenizers, the labels and the other files beside the model
    answers         what `regard run` prints
    evaluate        what `regard evaluate --json` prints
    record          what `regard look` writes and prints
    resume          the weights of a resumed run, against those of an uninterrupted run
    old directory   this checkout loads a model of the earlier checkout, and resumes an interrupted run of it

The exit code is 1 if anything differs. Intended differences are declared in `KNOWN`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy
import tomli_w
from safetensors.numpy import load_file

from bench.same_cases import CASES, HALF, Case, write_data
from bench.worker import PeerError, System, Worker, scratch
from regard.errors import RegardError

LOGARITHM = "the loss of a token is the logarithm of its share, which rounds otherwise (below 1e-6)"

# intended differences: a pattern of "case/column/place", such as "*/scores/signatures.bleu", and the reason
KNOWN: dict[str, str] = {
    "*/scores/flops": "products that are added in place are counted",
    "*/scores/kept": "the report names the steps that the weights are from",
    "tag*/files/recipe.toml.data.words": "recipes of tag say how a text is cut into words",
    "tag*/files/recipe.toml.data.entities": "recipes of tag say whether answers are words or whole entities",
    "translate*/files/recipe.toml.model.decoder": "recipes of transformer say how the decoder reads its own words",
    "*/record/*statistics.heads*": "heads are compared in one computation, which rounds otherwise (below 1e-6)",
    "*/record/*statistics.similarity*": "heads are compared in one computation, which rounds otherwise (below 1e-6)",
    "*/record/*sides.source.border": "records of pairs say where the second text begins",
    "answer-impossible/record/terminal*": "a look says that a passage is read in parts, and how much of it is shown",
    "answer-impossible/record/*notes*": "a look says that a passage is read in parts, and how much of it is shown",
    "write-*/record/terminal*": "rows of causal maps name the token that looks and the token that is predicted",
    "classify-bert/losses/validations*.loss": "the validation loss is computed without label smoothing for every task",
    "*/losses/*.loss": LOGARITHM,
    "*/losses/*perplexity": LOGARITHM,
    "*/scores/scores.*perplexity": LOGARITHM,
    "*/scores/scores.bits_per_character": LOGARITHM,
    "*/evaluate/*perplexity*": LOGARITHM,
    "*/evaluate/*bits_per_character*": LOGARITHM,
}

TIMES = {"seconds", "learning_seconds", "tokens_per_second"}
CURVES = {"history", "validations"}
NOT_IN_FILES = {"report.json", "weights.safetensors", "curve.png"}  # other columns compare what these show
Difference = tuple[str, str]  # the place, and what is there before and after


class CommandError(Exception):
    """A command of `regard` that ended with an error."""


class Checkout:
    """One of the two checkouts. Its commands run in `folder`/NAME, where each case has a folder of its own."""

    def __init__(self, name: str, root: Path, folder: Path) -> None:
        self.name, self.folder, self._source = name, folder / name, root / "src"
        environment = {"PYTHONPATH": str(self._source), "XDG_CACHE_HOME": str(self.folder / "cache"), "COLUMNS": "100"}
        self.system = System(name, "regard_commands", environment=environment)
        self._worker: Worker | None = None
        self._trained: dict[str, CommandError | None] = {}

    def start(self, stack: ExitStack) -> None:
        self._worker = stack.enter_context(Worker(self.system, threads=1))
        try:
            self._worker.ask("prepare", source=str(self._source))
        except PeerError as error:
            raise RegardError(f"the checkout {self.name} cannot be imported: {error}") from None

    def regard(self, case: Case, *words: str, texts: Sequence[str] = ()) -> str:
        """What a command prints; `texts` are the lines of its standard input."""
        assert self._worker is not None
        lines = "".join(f"{text}\n" for text in texts)
        done = self._worker.ask("run", words=words, folder=str(self.path(case)), input=lines)
        if done["code"]:
            said = done["errors"].strip().splitlines() or ["no message"]
            raise CommandError(f"`regard {' '.join(words)}` fails in the checkout {self.name}: {said[-1]}")
        return str(done["printed"])

    def path(self, case: Case, *parts: str) -> Path:
        return self.folder.joinpath(case.name, *parts)

    def train(self, case: Case) -> None:
        """Train a model in one run (full), for half of the steps (half), and resume a copy of that (resumed); once."""
        if case.name not in self._trained:
            self._trained[case.name] = None
            self.path(case).mkdir(parents=True)
            self.path(case, "recipe.toml").write_text(tomli_w.dumps(case.recipe), encoding="utf-8")
            try:
                self.regard(case, "train", "recipe.toml", "-o", "full")
                self.regard(case, "train", "recipe.toml", "-o", "half", "--set", f"training.steps={HALF}")
                self.resume(case, self.path(case, "half"), "resumed")
            except CommandError as error:
                self._trained[case.name] = error
        if failed := self._trained[case.name]:
            raise failed

    def resume(self, case: Case, half: Path, name: str, *, interrupted: bool = False) -> None:
        """Resume a copy of a run of half the steps. An interrupted run has checkpoints, but no final weights."""
        copy = shutil.copytree(half, self.path(case, name))
        for file in ("weights.safetensors", "report.json") if interrupted else ():
            (copy / file).unlink()
        self.regard(case, "train", "recipe.toml", "-o", name)

    def answers(self, case: Case, model: str = "full") -> dict[str, Any]:
        """What `regard run` prints; the texts are arguments of the even commands, and input lines of the odd ones."""
        found = {}
        for at, options in enumerate(case.answers):
            given, lines = ((), case.texts) if at % 2 else (case.texts, ())
            printed = self.regard(case, "run", model, *options, *given, texts=lines)
            found[f"run {' '.join(options)}".strip()] = parsed(printed)
        return found

    def evaluations(self, case: Case) -> dict[str, Any]:
        commands = [("evaluate", "full", "--json", *options) for options in case.evaluations]
        return {" ".join(words): parsed(self.regard(case, *words)) for words in commands}

    def records(self, case: Case) -> dict[str, Any]:
        """What `regard look` prints without options, and what it writes with each of the options."""
        look = ("look", "full", case.looked_at or case.texts[0])
        found: dict[str, Any] = {"terminal": parsed(self.regard(case, *look))}
        for at, options in enumerate(case.looks):
            name = f"record-{at}.json"
            self.regard(case, *look, "-o", name, *options)
            found[f"look {' '.join(options)}".strip()] = json.loads(self.path(case, name).read_bytes())
        return found

    def report(self, case: Case) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path(case, "full", "report.json").read_bytes())
        return found

    def weights(self, case: Case, name: str = "full") -> dict[str, Any]:
        return dict(load_file(self.path(case, name, "weights.safetensors")))

    def files(self, case: Case) -> dict[str, Any]:
        """The contents of the files beside the model; a file that holds an empty list counts as missing."""
        paths = (path for path in self.path(case, "full").iterdir() if path.is_file() and path.name not in NOT_IN_FILES)
        found = {path.name: read(path) for path in sorted(paths)}
        return {name: content for name, content in found.items() if content != []}


def read(path: Path) -> Any:
    """The content of a TOML or JSON file; the checksum of any other file."""
    content = path.read_bytes()
    if path.suffix == ".toml":
        return tomllib.loads(content.decode())
    return json.loads(content) if path.suffix == ".json" else sha256(content).hexdigest()


def parsed(printed: str) -> Any:
    """The value of printed JSON; the lines of other text, of which each may be a JSON object."""
    try:
        return json.loads(printed)
    except ValueError:
        return [json.loads(line) if line.startswith("{") else line for line in printed.splitlines()]


def differences(before: Any, after: Any, place: str = "") -> Iterator[Difference]:
    """The places where two values (of dicts, lists, arrays and plain values) are not exactly the same."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in {**before, **after}:
            inner = f"{place}.{key}".lstrip(".")
            if key in before and key in after:
                yield from differences(before[key], after[key], inner)
            else:
                yield inner, f"is only {'before' if key in before else 'after'}"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, f"{place}[{at}]")
    elif isinstance(before, numpy.ndarray) and isinstance(after, numpy.ndarray):
        if (before.dtype, before.shape) != (after.dtype, after.shape):
            yield place, f"{before.dtype} {before.shape} → {after.dtype} {after.shape}"
        elif before.tobytes() != after.tobytes():
            yield place, f"by {numpy.abs(before.astype(float) - after.astype(float)).max():.3g} at most"
    elif repr(before) != repr(after):  # 1 differs from 1.0, and NaN equals NaN
        texts = [f"{len(value)} items" if isinstance(value, list) else repr(value) for value in (before, after)]
        yield place, _change(*texts)


def _change(before: str, after: str) -> str:
    """The first 60 characters of two texts, beginning shortly before the first difference."""
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    begin = max(shared - 20, 0)
    cut = (f"{'…' * bool(begin)}{text[begin:][:60]}{'…' * (len(text) > begin + 60)}" for text in (before, after))
    return " → ".join(cut)


def without_times(value: Any) -> Any:
    """A part of report.json without the times, which differ from run to run."""
    if isinstance(value, Mapping):
        return {key: without_times(each) for key, each in value.items() if key not in TIMES}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def losses(report: Mapping[str, Any]) -> Any:
    return without_times({key: report.get(key) for key in CURVES})


def scores(report: Mapping[str, Any]) -> Any:
    return without_times({key: value for key, value in report.items() if key not in CURVES | {"versions"}})


def verdict(where: str, found: Iterator[Difference], known: Mapping[str, str]) -> str:
    """A cell of the table: the first difference that is not known, else the reasons of the known ones, else "same"."""
    intended = []
    for place, what in found:
        reasons = [reason for pattern, reason in known.items() if fnmatchcase(f"{where}/{place}", pattern)]
        if not reasons:
            return f"differs: {place}: {what}"
        intended += reasons
    return f"known: {'; '.join(dict.fromkeys(intended))}" if intended else "same"


Pair = tuple[Any, Any]


def compared(case: Case, before: Checkout, after: Checkout) -> dict[str, Callable[[], Pair]]:
    """For each column, a function that returns the two values to compare."""
    both = (before, after)
    answers = cache(lambda each: each.answers(case))

    def resumed() -> Pair:
        full, half = ({each.name: each.weights(case, name) for each in both} for name in ("full", "resumed"))
        return full, half

    def old_directory() -> Pair:
        shutil.copytree(before.path(case, "full"), after.path(case, "old"))
        after.resume(case, before.path(case, "half"), "old-half", interrupted=True)
        found = {"answers": after.answers(case, "old"), "weights": after.weights(case, "old-half")}
        return {"answers": answers(before), "weights": before.weights(case)}, found

    def of(get: Callable[[Checkout], Any]) -> Callable[[], Pair]:
        return lambda: (get(before), get(after))

    return {
        "losses": of(lambda each: losses(each.report(case))),
        "weights": of(lambda each: each.weights(case)),
        "scores": of(lambda each: scores(each.report(case))),
        "files": of(lambda each: each.files(case)),
        "answers": of(answers),
        "evaluate": of(lambda each: each.evaluations(case)),
        "record": of(lambda each: each.records(case)),
        "resume": resumed,
        "old directory": old_directory,
    }


def row(case: Case, before: Checkout, after: Checkout) -> dict[str, str]:
    """The cells of a case by column."""
    cells = {}
    for column, get in compared(case, before, after).items():
        try:
            for body in (each for each in CASES if each.name == case.body):
                before.train(body)
            before.train(case)
            after.train(case)
            cells[column] = verdict(f"{case.name}/{column}", differences(*get()), KNOWN)
        except (CommandError, OSError, ValueError) as error:
            cells[column] = f"differs: {error}"
    return cells


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench same", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [case.name for case in CASES]
    parser.add_argument("--before", type=Path, required=True, help="the folder of the earlier checkout")
    parser.add_argument("--only", action="append", choices=names, help="one case instead of all; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    root = options.before.resolve()
    if not (root / "src" / "regard" / "cli.py").is_file():
        raise RegardError(f"--before {options.before} is no checkout of regard: it has no src/regard/cli.py")
    with scratch() as folder, ExitStack() as stack:
        write_data(Path(folder) / "data")
        before = Checkout("before", root, Path(folder))
        after = Checkout("after", Path(__file__).resolve().parent.parent, Path(folder))
        before.start(stack)
        after.start(stack)
        found = {}
        for case in (each for each in CASES if each.name in (options.only or names)):
            begin = time.monotonic()
            found[case.name] = row(case, before, after)
            print(f"{case.name}: {time.monotonic() - begin:.0f} seconds", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        show(found)
    if any(cell.startswith("differs") for cells in found.values() for cell in cells.values()):
        sys.exit(1)


def show(found: Mapping[str, Mapping[str, str]]) -> None:
    """Print the table, and below it the first difference of each cell that is not "same"."""
    columns = {column: max(len(column), len("differs")) for column in next(iter(found.values()))}
    width = max(map(len, ("case", *found)))
    heading = [f"{column:{size}}" for column, size in columns.items()]
    rows = {
        name: [f"{cells[each].partition(':')[0]:{columns[each]}}" for each in columns] for name, cells in found.items()
    }
    for name, words in {"case": heading, **rows}.items():
        print("  ".join([f"{name:{width}}", *words]).rstrip())
    for name, cells in found.items():
        for column, cell in cells.items():
            if cell != "same":
                print(f"{name}, {column} {cell}")
