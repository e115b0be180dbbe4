"""Published scores and what a bundled recipe reaches beside them, with the time it took.

python -m bench multi30k --data FOLDER [--pair en-de] [--raw]      the folder data/task1 of github.com/multi30k/dataset
python -m bench g2p
python -m bench tatoeba --data FOLDER --minutes 30                 train.tsv.gz, valid.tsv.gz and test.tsv.gz
"""

from __future__ import annotations

from pathlib import Path

from bench import published
from regard.api import train

PUBLISHED = {
    "multi30k": "41.02 BLEU on lower-cased tokens, test_2016_flickr en-de (Wu 2021, Transformer-Tiny)",
    "g2p": "30.2 % word error, current CMUdict without stress (cmusphinx/g2p-seq2seq, Transformer 3 × 256)",
}


def multi30k(arguments: list[str]) -> None:
    """Tokenised BLEU as it was published, or with --raw the cased text and sacrebleu's own tokens."""
    parser = published.parser("multi30k", __doc__)
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
    changes += published.changes(options)
    model = train(f"multi30k-{options.pair}", out=published.out(options), changes=changes, show=True)
    scores = {"13a": model.evaluate()["bleu"], "as it stands": model.evaluate(tokenize="none")["bleu"]}
    theirs = PUBLISHED["multi30k"] if (options.pair, options.raw) == ("en-de", False) else ""
    published.report(model, scores, theirs, as_json=options.json)


def g2p(arguments: list[str]) -> None:
    """Word and symbol error on the words of the dictionary that are kept apart."""
    parser = published.parser("g2p", __doc__)
    parser.add_argument("--recipe", default="g2p", choices=["g2p", "demo"])
    options = parser.parse_args(arguments)
    model = train(options.recipe, out=published.out(options), changes=published.changes(options), show=True)
    published.report(model, model.evaluate(), PUBLISHED["g2p"], as_json=options.json)


def tatoeba(arguments: list[str]) -> None:
    """What a newcomer gets from `regard train pairs` with nothing tuned."""
    parser = published.parser("tatoeba", __doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.set_defaults(minutes=30.0)
    options = parser.parse_args(arguments)
    changes = [f"data.{part}={options.data}/{part}.tsv.gz" for part in ("train", "valid", "test")]
    changes += published.changes(options)
    model = train("pairs", out=published.out(options), changes=changes, show=True)
    published.report(model, model.evaluate(), "", as_json=options.json)
