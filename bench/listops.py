"""ListOps by each form of attention, beside two baselines that cannot see how the list is nested.

    python -m bench listops [--longest 2000] [--short-steps 1500] [--steps 1000] [--attention exact] …

Every form learns the recipe `listops` twice: first lists of up to 64 tokens, then, from these weights and with half the
rate, lists of up to --longest tokens among short ones. All forms have the same examples and steps, and are scored on
the test part of the long lists. With --out, models are kept there; a model that exists is resumed, or only scored if it
is complete. Each form learns in a process of its own, whose peak of memory is printed; minutes are of both parts.

    root operation    the most frequent value for the operation that comes first
    bag of words      multinomial logistic regression on how often each token occurs, and how many tokens there are
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

from regard.api import train
from regard.data import made

FORMS = ("exact", "window", "big_bird", "linformer", "performer")
EXAMPLES = 40_000  # long ones to learn from
SHORT = "longest=64&shortest=4"
SHORT_EXAMPLES = 200_000
SHORT_RATE, RATE_AFTER = 1e-3, 5e-4  # the highest learning rates
SHORT_TOKENS, TOKENS_AFTER = 8192, 16384  # of a batch
EPOCHS, RATE, TOGETHER = 40, 0.02, 512  # of the bag of words
UNITS = 1 << 20 if sys.platform == "darwin" else 1 << 10  # in a megabyte, as the system counts its peak

Rows = Sequence[tuple[str, str]]


def main(arguments: list[str]) -> None:
    options = _parser().parse_args(arguments)
    out = options.out or Path(tempfile.mkdtemp(prefix="regard-listops-"))
    if options.alone:
        print(json.dumps(_learn(options.alone, options, out / options.alone)))
        return
    learned, tested = (list(made.rows(_name(part, options.longest))) for part in ("train", "test"))
    rows: list[dict[str, Any]] = [
        {"name": "root operation, most frequent value", "accuracy": by_root(learned, tested)},
        {"name": "bag of words", "accuracy": by_counts(learned, tested)},
    ]
    for form in options.attention or FORMS:
        rows.append({"name": form, **_apart(form, arguments, out)})
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(
        *("", "accuracy", "of short lists", "minutes", "steps", "texts/s", "peak MB"),
        title=f"ListOps to {options.longest} tokens",
    )
    for row in rows:
        table.add_row(row["name"], f"{row['accuracy']:.1f} %", *(_cost(row) if "steps" in row else []))
    Console().print(table)


def _cost(row: dict[str, Any]) -> list[str]:
    spent = [f"{row[key]:,.0f}" for key in ("steps", "tokens_per_second", "peak")]
    return [f"{row['short']:.1f} %", f"{row['seconds'] / 60:.1f}", *spent]


def by_root(learned: Rows, tested: Rows) -> float:
    """The accuracy, in percent, of the most frequent value for the first token."""
    counts: dict[str, Counter[str]] = {}
    for text, value in learned:
        counts.setdefault(text.split(" ", 1)[0], Counter())[value] += 1
    said = {root: found.most_common(1)[0][0] for root, found in counts.items()}
    return 100 * sum(said.get(text.split(" ", 1)[0]) == value for text, value in tested) / len(tested)


def by_counts(learned: Rows, tested: Rows) -> float:
    """The accuracy, in percent, of P(value | text) = softmax(W c + b), c the counts of tokens, scaled."""
    words = {word: number for number, word in enumerate(sorted({word for text, _ in learned for word in text.split()}))}
    x, y = _counted(learned, words)
    mean, spread = x.mean(0), x.std(0).clamp(min=1e-6)
    generator = torch.Generator().manual_seed(1)
    weight, bias = torch.zeros(x.shape[1], 10, requires_grad=True), torch.zeros(10, requires_grad=True)
    optimiser = torch.optim.Adam([weight, bias], lr=RATE)
    for epoch in range(EPOCHS):
        for group in optimiser.param_groups:
            group["lr"] = RATE * (1 - epoch / EPOCHS)
        for rows in torch.randperm(len(x), generator=generator).split(TOGETHER):
            optimiser.zero_grad()
            F.cross_entropy((x[rows] - mean) / spread @ weight + bias, y[rows]).backward()
            optimiser.step()
    x, y = _counted(tested, words)
    with torch.no_grad():
        said = ((x - mean) / spread @ weight + bias).argmax(1)
    return 100 * float((said == y).float().mean())


def _counted(rows: Rows, words: dict[str, int]) -> tuple[Tensor, Tensor]:
    """Counts of tokens as logarithms, with the length (N, V + 1), and values (N,)."""
    x = torch.zeros(len(rows), len(words) + 1)
    for number, (text, _) in enumerate(rows):
        for word, count in Counter(text.split()).items():
            if word in words:
                x[number, words[word]] = count
    x[:, -1] = x.sum(1)
    return x.log1p(), torch.tensor([int(value) for _, value in rows])


def _apart(form: str, arguments: list[str], out: Path) -> dict[str, Any]:
    """What a process that learns one form of attention found."""
    command = [sys.executable, "-m", "bench", "listops", *arguments, "--out", str(out), "--alone", form]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _learn(form: str, options: argparse.Namespace, out: Path) -> dict[str, Any]:
    parts = {part: _name(part, options.longest) for part in ("train", "valid", "test")}
    short = f"listops:train?{SHORT}&examples={SHORT_EXAMPLES}"
    begun = _train(
        out / "short",
        {"train": short, "valid": f"listops:valid?{SHORT}", "test": f"listops:test?{SHORT}"},
        [f"model.attention={form}", f"training.learning_rate={SHORT_RATE}", f"training.batch_tokens={SHORT_TOKENS}"],
        options,
        options.short_steps,
    )
    ended = _train(
        out / "long",
        {**parts, "train": [short, parts["train"]]},
        [
            *(f"model.attention={form}", f"model.body={out / 'short'}"),
            *(f"training.learning_rate={RATE_AFTER}", f"training.batch_tokens={TOKENS_AFTER}"),
        ],
        options,
        options.steps,
    )
    return {
        "accuracy": ended["scores"]["accuracy"],
        "short": begun["scores"]["accuracy"],
        **{name: begun[name] + ended[name] for name in ("seconds", "steps")},
        **{name: ended[name] for name in ("tokens_per_second", "parameters")},
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / UNITS,
    }


def _train(
    out: Path, parts: dict[str, Any], changes: list[str], options: argparse.Namespace, steps: int
) -> dict[str, Any]:
    data = [f"data.{part}={json.dumps(names)}" for part, names in parts.items()]
    changes = [*data, *changes, f"training.steps={steps}", *options.set]
    return train("listops", out=out, changes=changes, show=sys.stderr.isatty()).report


def _name(part: str, longest: int) -> str:
    amount = f"&examples={EXAMPLES}" if part == "train" else ""
    return f"listops:{part}?longest={longest}{amount}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench listops", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--longest", type=int, default=512, help="tokens of the longest lists: 512 or 2000")
    parser.add_argument("--attention", action="append", choices=FORMS, help="only this form; may be given again")
    parser.add_argument("--short-steps", type=int, default=1500, help="updates on short lists")
    parser.add_argument("--steps", type=int, default=1000, help="updates on long lists")
    parser.add_argument("--out", type=Path, help="the folder of the models; those that exist are resumed")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--alone", choices=FORMS, help=argparse.SUPPRESS)
    return parser
