"""ListOps by each form of attention, beside two baselines that cannot see how the list is nested.

    python -m bench listops [--longest 64 512 2000] [--steps 1000 700 150] [--attention exact] …

Every form learns the recipe `listops` in stages: first lists of up to 64 tokens, then, from these weights and with half
the rate, lists of up to each further length, among those of before. All forms have the same examples and steps, and are
scored on the test lists of each stage. A window and the blocks of Big Bird see all of a list of 64 tokens, so these
forms are exact attention in the first stage, and take over its weights. With --out, models are kept there; a model that
exists is resumed, or only scored if it is complete. Each model learns in a process of its own, whose peak of memory is
printed.

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
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

from regard.api import train
from regard.data import made
from regard.errors import RegardError

FORMS = ("exact", "window", "big_bird", "linformer", "performer")
SEE_ALL_OF_SHORT = ("window", "big_bird")
SHORT = 64  # tokens of a list that a window and the blocks of Big Bird see as a whole
LONGEST, STEPS = (SHORT, 512, 2000), (1000, 700, 150)
EXAMPLES, SHORT_EXAMPLES = 40_000, 200_000  # to learn from
RATE_FIRST, RATE_AFTER = 2e-3, 1e-3  # the highest learning rates
TOKENS_FIRST, TOKENS_AFTER = 8192, 16384  # of a batch
EPOCHS, RATE, TOGETHER = 40, 0.02, 512  # of the bag of words
UNITS = 1 << 20 if sys.platform == "darwin" else 1 << 10  # in a megabyte, as the system counts its peak

Rows = Sequence[tuple[str, str]]


def main(arguments: list[str]) -> None:
    parser = _parser()
    options = parser.parse_args(arguments)
    if len(options.longest) != len(options.steps):
        parser.error("--longest and --steps have one number for each stage")
    if options.alone:
        form, stage = options.alone
        print(json.dumps(_learn(form, int(stage), options)))
        return
    options.out = options.out or Path(tempfile.mkdtemp(prefix="regard-listops-"))
    console = Console(stderr=options.json)
    stages = []
    for stage, longest in enumerate(options.longest):
        learned, tested = (list(islice(made.rows(_name(part, longest)), EXAMPLES)) for part in ("train", "test"))
        rows = [
            {"name": "root operation, most frequent value", "accuracy": by_root(learned, tested)},
            {"name": "bag of words", "accuracy": by_counts(learned, tested)},
        ]
        forms = [_form(form, longest) for form in options.attention or FORMS]
        for form in dict.fromkeys(forms):
            rows.append({"name": form, **_apart(form, stage, arguments, options.out)})
        stages.append({"longest": longest, "rows": rows})
        console.print(_table(longest, rows))
    if options.json:
        print(json.dumps(stages, indent=2))


def _table(longest: int, rows: list[dict[str, Any]]) -> Table:
    table = Table("", "accuracy", "steps", "minutes", "texts/s", "peak MB", title=f"ListOps to {longest} tokens")
    for row in rows:
        spent = (
            [
                f"{row['steps']:,}",
                f"{row['seconds'] / 60:.1f}",
                f"{row['texts_per_second']:,.0f}",
                f"{row['peak']:,.0f}",
            ]
            if "steps" in row
            else []
        )
        table.add_row(row["name"], f"{row['accuracy']:.1f} %", *spent)
    return table


def _form(form: str, longest: int) -> str:
    """The form that stands for it on lists of up to `longest` tokens."""
    return "exact" if longest <= SHORT and form in SEE_ALL_OF_SHORT else form


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


def _apart(form: str, stage: int, arguments: list[str], out: Path) -> dict[str, Any]:
    """What a process that learns one stage with one form of attention found."""
    command = [sys.executable, "-m", "bench", "listops", *arguments, "--out", str(out), "--alone", form, str(stage)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise RegardError(f"{form}, stage {stage + 1}: its process ended with code {done.returncode}; see above")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _learn(form: str, stage: int, options: argparse.Namespace) -> dict[str, Any]:
    lengths = options.longest[: stage + 1]
    data = {
        "train": [_name("train", longest) for longest in lengths],
        "valid": _name("valid", lengths[-1]),
        "test": _name("test", lengths[-1]),
    }
    rate, tokens = (RATE_FIRST, TOKENS_FIRST) if len(lengths) == 1 else (RATE_AFTER, TOKENS_AFTER)
    changes = [
        *(f"data.{part}={json.dumps(names)}" for part, names in data.items()),
        f"model.attention={form}",
        f"training.steps={options.steps[stage]}",
        f"training.learning_rate={rate}",
        f"training.batch_tokens={tokens}",
    ]
    if len(lengths) > 1:
        changes.append(f"model.body={_directory(form, lengths[-2], options.out)}")
    out = _directory(form, lengths[-1], options.out)
    report = train("listops", out=out, changes=[*changes, *options.set], show=sys.stderr.isatty()).report
    return {
        "accuracy": report["scores"]["accuracy"],
        **{name: report[name] for name in ("seconds", "steps", "parameters")},
        "texts_per_second": report["tokens_per_second"],
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / UNITS,
    }


def _directory(form: str, longest: int, out: Path) -> Path:
    return out / _form(form, longest) / f"to-{longest}"


def _name(part: str, longest: int) -> str:
    shortest = "&shortest=4" if longest <= SHORT else ""
    amount = f"&examples={SHORT_EXAMPLES if longest <= SHORT else EXAMPLES}" if part == "train" else ""
    return f"listops:{part}?longest={longest}{shortest}{amount}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench listops", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--longest", type=int, nargs="+", default=LONGEST, help="tokens of the longest lists of a stage"
    )
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS, help="updates of a stage")
    parser.add_argument("--attention", action="append", choices=FORMS, help="only this form; may be given again")
    parser.add_argument("--out", type=Path, help="the folder of the models; those that exist are resumed")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)
    return parser
