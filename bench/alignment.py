"""How well attention aligns words, on a made-up pair of languages whose true alignment is known.

    python -m bench alignment [--steps 1500] [--pairs 8000] [--json]        a few minutes on two cores

Source sentences are subject, verb, object with adjectives; the target puts every adjective after its noun and the verb
at the end, and says some words with two. A word of an answer is aligned with the source word it looks at most. Error is
the alignment error rate (Och 2003) on reference translations that the model is made to say, with chance beside it.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from regard.api import Model, train

Link = tuple[int, int]

SYSTEMS = {
    "additive (Bahdanau)": ["model.kind=seq2seq", "model.score=additive", "model.order=bahdanau", "model.width=64"],
    "general (Luong)": ["model.kind=seq2seq", "model.score=general", "model.order=luong", "model.width=64"],
    "Transformer": ["model.kind=transformer", "model.layers=2", "model.width=64", "model.heads=4", "model.hidden=128"],
}
RECIPE = """
[tokenizer]
kind = "words"
vocabulary = 500
shared = false
[model]
kind = "seq2seq"
layers = 1
dropout = 0.1
[training]
batch_tokens = 1024
learning_rate = 0.004
warmup = 200
schedule = "cosine"
validate_every = 500
checkpoint_every = 500
[decoding]
beam = 1
max_length = 40
"""


def sentence(draw: random.Random) -> tuple[list[str], list[str], set[Link]]:
    """Source words, target words, and which target word comes from which source word."""
    source: list[str] = []
    target: list[tuple[int, str]] = []

    def say(word: str, fertile: bool) -> list[tuple[int, str]]:
        source.append(word)
        place = len(source) - 1
        return [(place, f"{word.upper()}1"), (place, f"{word.upper()}2")] if fertile else [(place, word.upper())]

    def noun_phrase() -> list[tuple[int, str]]:
        adjectives = [say(f"a{draw.randrange(20)}", fertile=False) for _ in range(draw.randrange(3))]
        number = draw.randrange(40)
        noun = say(f"n{number}", fertile=number % 4 == 0)
        return [*noun, *(part for adjective in adjectives for part in adjective)]

    subject = noun_phrase()
    verb = say(f"v{draw.randrange(20)}", fertile=False)
    target = [*subject, *noun_phrase(), *verb]
    return source, [word for _, word in target], {(place, number) for number, (place, _) in enumerate(target)}


def error_rate(model: Model, examples: list[tuple[list[str], list[str], set[Link]]]) -> float:
    """1 − 2 |A ∩ S| / (|A| + |S|), A the model's links and S the true ones."""
    common = links = true = 0
    for source, target, right in examples:
        text = " ".join(source)
        found = set(model.word_alignment(text, model.said(text, " ".join(target))))
        common, links, true = common + len(found & right), links + len(found), true + len(right)
    return 1 - 2 * common / (links + true)


def chance(examples: list[tuple[list[str], list[str], set[Link]]], draw: random.Random) -> float:
    common = links = true = 0
    for source, target, right in examples:
        found = {(draw.randrange(len(source)), number) for number in range(len(target))}
        common, links, true = common + len(found & right), links + len(found), true + len(right)
    return 1 - 2 * common / (links + true)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench alignment", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--pairs", type=int, default=8000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="regard-alignment-") as folder:
        rows = measure(Path(folder), steps=options.steps, pairs=options.pairs)
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("attention", "alignment error, %", "answers exactly right, %")
    for name, row in rows.items():
        table.add_row(name, f"{row['error']:.1f}", f"{row['exact']:.1f}")
    Console().print(table)


def measure(folder: Path, *, steps: int, pairs: int) -> dict[str, dict[str, float]]:
    """Train every system on so many pairs for so many steps: alignment error and exact answers, in per cent."""
    draw = random.Random(1)
    examples = [sentence(draw) for _ in range(pairs)]
    (folder / "pairs.tsv").write_text("".join(f"{' '.join(s)}\t{' '.join(t)}\n" for s, t, _ in examples))
    (folder / "recipe.toml").write_text(RECIPE)
    test = [sentence(draw) for _ in range(300)]
    rows = {"chance": {"error": 100 * chance(test, draw), "exact": 0.0}}
    for name, settings in SYSTEMS.items():
        changes = [f"data.train={folder}/pairs.tsv", f"training.steps={steps}", *settings]
        model = train(folder / "recipe.toml", out=folder / name.split()[0], changes=changes)
        said = model([" ".join(source) for source, _, _ in test])
        right = sum(answer == " ".join(target) for answer, (_, target, _) in zip(said, test, strict=True))
        rows[name] = {"error": 100 * error_rate(model, test), "exact": 100 * right / len(test)}
    return rows
