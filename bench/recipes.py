"""Published scores and what a bundled recipe reaches beside them, with the time it took.

python -m bench multi30k --data FOLDER [--pair en-de] [--raw]      the folder data/task1 of github.com/multi30k/dataset
python -m bench g2p
python -m bench tatoeba --data FOLDER --minutes 30                 train.tsv.gz, valid.tsv.gz and test.tsv.gz
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from regard.api import Model, train
from regard.tasks.scores import Score

PUBLISHED = {
    "multi30k": "41.02 BLEU on lower-cased tokens, test_2016_flickr en-de (Wu 2021, Transformer-Tiny)",
    "g2p": "30.2 % word error, current CMUdict without stress (cmusphinx/g2p-seq2seq, Transformer 3 × 256)",
}


def multi30k(arguments: list[str]) -> None:
    """Tokenised BLEU as it was published, or with --raw the cased text and sacrebleu's own tokens."""
    parser = _parser("multi30k")
    parser.add_argument("--data", type=Path, required=True, help="folder of the raw files, with tok/ inside")
    parser.add_argument("--pair", default="en-de", choices=["en-de", "en-fr"])
    parser.add_argument("--raw", action="store_true", help="the raw text instead of lower-cased tokens")
    options = parser.parse_args(arguments)
    source, target = options.pair.split("-")
    folder, middle = (options.data, "") if options.raw else (options.data / "tok", ".lc.norm.tok")
    changes = [
        f'data.{part}={{source="{folder}/{name}{middle}.{source}.gz", target="{folder}/{name}{middle}.{target}.gz"}}'
        for part, name in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr"))
    ]
    changes += [] if options.raw else ["tokenizer.split=spaces"]
    model = train(f"multi30k-{options.pair}", out=_out(options), changes=[*changes, *options.set], show=True)
    scores = {"13a": model.evaluate()["bleu"], "as it stands": model.evaluate(tokenize="none")["bleu"]}
    _report(
        model, scores, PUBLISHED["multi30k"] if (options.pair, options.raw) == ("en-de", False) else "", options.json
    )


def g2p(arguments: list[str]) -> None:
    """Word and symbol error on the words of the dictionary that are kept apart."""
    parser = _parser("g2p")
    parser.add_argument("--recipe", default="g2p", choices=["g2p", "demo"])
    options = parser.parse_args(arguments)
    model = train(options.recipe, out=_out(options), changes=options.set, show=True)
    _report(model, model.evaluate(), PUBLISHED["g2p"], options.json)


def tatoeba(arguments: list[str]) -> None:
    """What a newcomer gets from `regard train pairs` with nothing tuned."""
    parser = _parser("tatoeba")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=30.0)
    options = parser.parse_args(arguments)
    changes = [f"data.{part}={options.data}/{part}.tsv.gz" for part in ("train", "valid", "test")]
    changes.append(f"training.minutes={options.minutes}")
    model = train("pairs", out=_out(options), changes=[*changes, *options.set], show=True)
    _report(model, model.evaluate(), "", options.json)


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


def _report(model: Model, scores: dict[str, Score], published: str, as_json: bool) -> None:
    report = model.report
    cost = {name: report[name] for name in ("steps", "tokens", "seconds", "tokens_per_second", "flops", "parameters")}
    if as_json:
        values = {name: {"value": score.value, "signature": score.signature} for name, score in scores.items()}
        print(json.dumps({"scores": values, "published": published, **cost}, indent=2))
        return
    for name, score in scores.items():
        print(f"{name:14} {score.value:7.2f}   {score.signature}")
    print(f"{'published':14} {published}" if published else "", end="\n" if published else "")
    minutes = report["seconds"] / 60
    print(
        f"{minutes:.1f} minutes, {report['tokens_per_second']:.0f} target tokens/s, {report['flops']:.2e} FLOPs, "
        f"{report['steps']} steps"
    )
