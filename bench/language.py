"""Published losses of language models and what a bundled recipe reaches beside them, with the time it took.

python -m bench shakespeare --data input.txt [--setting nanogpt]    tiny-shakespeare, of github.com/karpathy/char-rnn
python -m bench wikitext2 --data FOLDER --minutes 10                train.txt.gz, valid.txt.gz and test.txt.gz

`shakespeare` is the recipe as it stands: as many weights and tokens as nanoGPT's setting for a CPU, better used. With
--setting nanogpt it is that setting itself. A validation loss is by token, in nats, over blocks side by side, as in
training; perplexity is by a sliding window.
"""

from __future__ import annotations

import json
from pathlib import Path

from bench import published
from regard.api import Model, train
from regard.tasks.scores import Score

SHAKESPEARE = "1.88 validation loss (nanoGPT's README: 4 layers, width 128, context 64, 2000 steps of 12 blocks)"
WIKITEXT2 = "86.91 test perplexity (GluonNLP's model zoo: LSTM, 2 layers of 650, tied, 750 passes over the text)"
NANOGPT = [
    "model.position=learned",
    "model.norm=layer",
    "model.activation=gelu_tanh",
    "model.hidden=512",
    "training.learning_rate=0.001",
    "training.lowest_rate=0.0001",
    "training.optimiser=adamw",
    "training.betas=[0.9, 0.99]",
]


def shakespeare(arguments: list[str]) -> None:
    """Both settings learn from the same tokens, in the same order."""
    parser = published.parser("shakespeare", __doc__)
    parser.add_argument("--data", type=Path, required=True, help="input.txt, or input.txt.gz")
    parser.add_argument("--setting", choices=["regard", "nanogpt"], default="regard")
    options = parser.parse_args(arguments)
    changes = [f"data.train={json.dumps(str(options.data))}", *(NANOGPT if options.setting == "nanogpt" else [])]
    changes += published.changes(options)
    model = train("shakespeare", out=published.out(options), changes=changes, show=True)
    published.report(model, _scores(model), SHAKESPEARE, as_json=options.json)


def wikitext2(arguments: list[str]) -> None:
    """The recipe `wikitext2`, for as long as there is time."""
    parser = published.parser("wikitext2", __doc__)
    parser.set_defaults(minutes=10.0)
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args(arguments)
    changes = [f"data.{part}={json.dumps(f'{options.data}/{part}.txt.gz')}" for part in ("train", "valid", "test")]
    model = train("wikitext2", out=published.out(options), changes=[*changes, *published.changes(options)], show=True)
    published.report(model, _scores(model), WIKITEXT2, as_json=options.json)


def _scores(model: Model) -> dict[str, Score]:
    """The last loss on the validation text, if it was validated, and what the run ended with."""
    losses = [scores["loss"] for scores in model.report["validations"]]
    last = {"validation loss": Score(losses[-1], "nats a token, blocks side by side")} if losses else {}
    return {**last, **published.final_scores(model)}
