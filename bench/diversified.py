"""Multi30k from its own data alone, seen from both sides (data diversification, Nguyen 2020), as published.

    python -m bench diversified --data FOLDER [--pair en-de] [--first-steps 5000] [--steps 9000] [--out FOLDER]

Two models learn first, side by side: one from source to target, one from target to source. Each answers all training
data. The model that is scored learns from three parts: the original pairs, the sources with the answers of the first
model, and the answers of the second with the original targets. Nothing but the training data is used, and settings are
those of the recipe. With --out, models are kept there, and a command that was interrupted is continued.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

from bench import published
from bench.recipes import PUBLISHED
from regard import durable
from regard.api import load, train
from regard.errors import RegardError

FIRST, LAST = 5000, 9000  # updates of the two models that answer, and of the one that is scored
PARTS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
MIDDLE = ".lc.norm.tok"


def main(arguments: list[str]) -> None:
    parser = published.parser("diversified", __doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the raw files, with tok/ inside")
    parser.add_argument("--pair", default="en-de", choices=["en-de", "en-fr"])
    parser.add_argument("--first-steps", type=int, default=FIRST, help="updates of the two models that answer")
    parser.set_defaults(steps=LAST)
    options = parser.parse_args(arguments)
    out, begun = published.out(options), time.monotonic()
    recipe, (source, target) = f"multi30k-{options.pair}", options.pair.split("-")
    given = {part: {side: _file(options.data, name, side) for side in (source, target)} for part, name in PARTS.items()}
    there, back = out / "there", out / "back"
    directions = {there: (source, target), back: (target, source)}
    _train_all([_command(recipe, path, given, direction, options) for path, direction in directions.items()])
    answers = {target: _answers(there, given["train"][source]), source: _answers(back, given["train"][target])}
    train_on = [
        _pair(given["train"][source], given["train"][target]),
        _pair(given["train"][source], answers[target]),
        _pair(answers[source], given["train"][target]),
    ]
    changes = [
        f"data.train=[{', '.join(train_on)}]",
        *(f"data.{part}={_pair(given[part][source], given[part][target])}" for part in ("valid", "test")),
        "tokenizer.split=spaces",
        *published.changes(options),
    ]
    model = train(recipe, out=out / "model", changes=changes, show=True)
    scores = {"13a": model.evaluate()["bleu"], "as it stands": model.evaluate(tokenize="none")["bleu"]}
    first = {path.name: load(path).evaluate(tokenize="none")["bleu"] for path in (there, back)}
    scores |= {f"{name}, as it stands": score for name, score in first.items()}
    published.report(model, scores, PUBLISHED["multi30k"] if options.pair == "en-de" else "", as_json=options.json)
    if not options.json:
        print(f"{(time.monotonic() - begun) / 60:.1f} minutes in all, unless something was there before")


def _file(folder: Path, name: str, language: str) -> Path:
    return folder / "tok" / f"{name}{MIDDLE}.{language}.gz"


def _pair(source: Path, target: Path) -> str:
    return f"{{source={json.dumps(str(source))}, target={json.dumps(str(target))}}}"


def _command(
    recipe: str, out: Path, given: dict[str, dict[str, Path]], direction: tuple[str, str], options: argparse.Namespace
) -> list[str]:
    """`regard train` of a model from one language to the other, with one thread."""
    source, target = direction
    changes = [f"data.{part}={_pair(files[source], files[target])}" for part, files in given.items()]
    changes += [f'data.languages=["{source}", "{target}"]', "tokenizer.split=spaces", "training.threads=1"]
    changes += [f"training.steps={options.first_steps}", *options.set]
    words = [word for change in changes for word in ("--set", change)]
    return [sys.executable, "-m", "regard", "train", recipe, "-o", str(out), *words]


def _train_all(commands: list[list[str]]) -> None:
    """Side by side."""
    codes = [process.wait() for process in [subprocess.Popen(command) for command in commands]]
    if any(codes):
        raise RegardError("one of the first models did not learn; see above")


def _answers(model: Path, texts: Path) -> Path:
    """The file with the answers of a model to each line of `texts`."""
    path = model / "answers.txt"
    if not path.exists():
        with gzip.open(texts, "rt", encoding="utf-8") as lines:
            asked = "".join(" ".join(line.split()) + "\n" for line in lines)
        command = [sys.executable, "-m", "regard", "run", str(model)]
        done = subprocess.run(command, input=asked, stdout=subprocess.PIPE, encoding="utf-8", check=False)
        if done.returncode or done.stdout.count("\n") != asked.count("\n"):
            raise RegardError(f"{model} did not answer every line of {texts}; see above")
        durable.write_file(path, done.stdout.encode())
    return path
