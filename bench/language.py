"""Published losses of language models and what a bundled recipe reaches beside them, with the time it took.

python -m bench shakespeare --data input.txt              tiny-shakespeare, of github.com/karpathy/char-rnn; .gz too
python -m bench wikitext2 --data FOLDER --minutes 10      train.txt.gz, valid.txt.gz and test.txt.gz

A validation loss is by token, in nats, over blocks side by side, as in training; perplexity is by a sliding window.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from regard.api import Model, train

SHAKESPEARE = 1.88  # nanoGPT's README, its setting for a CPU: validation loss after 2000 steps
WIKITEXT2 = "no figure is published for a run this short"


def shakespeare(arguments: list[str]) -> None:
    """The recipe `shakespeare` beside nanoGPT's figure for the same setting."""
    parser = _parser("shakespeare")
    parser.add_argument("--data", type=Path, required=True, help="input.txt, or input.txt.gz")
    options = parser.parse_args(arguments)
    changes = [f"data.train={json.dumps(str(options.data))}", *options.set]
    model = train("shakespeare", out=_out(options), changes=changes, show=True)
    _report(model, f"{SHAKESPEARE} (nanoGPT, 4 layers, width 128, context 64, 2000 steps of 12 blocks)", options.json)


def wikitext2(arguments: list[str]) -> None:
    """The recipe `wikitext2`, for as long as there is time."""
    parser = _parser("wikitext2")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=10.0)
    options = parser.parse_args(arguments)
    changes = [f"data.{part}={json.dumps(f'{options.data}/{part}.txt.gz')}" for part in ("train", "valid", "test")]
    changes += [f"training.minutes={options.minutes}", *options.set]
    model = train("wikitext2", out=_out(options), changes=changes, show=True)
    _report(model, WIKITEXT2, options.json)


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m bench {name}", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="the model directory; one that exists is gone on with")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true")
    return parser


def _out(options: argparse.Namespace) -> Path:
    return options.out or Path(tempfile.mkdtemp(prefix="regard-bench-")) / "model"


def _report(model: Model, published: str, as_json: bool) -> None:
    report = model.report
    losses = [scores["loss"] for scores in report["validations"]]
    found = {"validation_loss": losses[-1] if losses else None, **report["scores"]}
    cost = {name: report[name] for name in ("steps", "tokens", "seconds", "tokens_per_second", "flops", "parameters")}
    if as_json:
        print(json.dumps({"scores": found, "published": published, **cost}, indent=2))
        return
    for name, value in found.items():
        print(f"{name:20} {'not validated' if value is None else format(value, '8.4f')}")
    print(f"{'published loss':20} {published}")
    minutes = report["seconds"] / 60
    print(
        f"{minutes:.1f} minutes, {report['tokens_per_second']:.0f} tokens/s, {report['steps']} steps: {report['ended']}"
    )
