"""Models that learn something in seconds, trained once for all tests of a session.

`reversing` spells short words backwards; `copying` says sentences again, of whose words it knows only a few.
"""

import functools
import itertools
import random
import tempfile
from pathlib import Path

import regard
from regard import Model

SEED = 1
LETTERS = "abcde"
MIXED = ["".join(random.Random(length).choices(LETTERS, k=length)) for length in (5, 1, 11, 3, 2, 7, 4)]
KNOWN = ("red", "blue", "big", "old", "cat", "dog", "sees", "likes")

# changes to a recipe for tests that need a model but not a good one
QUICK = ["training.steps=4", "training.validate_every=0", "decoding.max_length=5", "data.hold_out=5"]

REVERSING = """
[data]
train = "{folder}/words.tsv"
hold_out = 60

[tokenizer]
kind = "characters"

[model]
kind = "{kind}"
layers = 1
width = 32
dropout = 0.0
{size}

[training]
steps = {steps}
batch_tokens = 512
learning_rate = 0.01
warmup = 50
validate_every = 100
threads = 1

[decoding]
max_length = 24
"""

COPYING = """
[data]
train = "{folder}/sentences.tsv"

[tokenizer]
kind = "words"
vocabulary = 12

[model]
kind = "seq2seq"
order = "luong"
score = "general"
width = 32

[training]
steps = 150
batch_tokens = 512
learning_rate = 0.02
warmup = 20
schedule = "cosine"
validate_every = 0
threads = 1

[decoding]
max_length = 12
"""


def words(count: int = 600) -> list[str]:
    """Different words of two to five letters, of each length as many as there are up to 250."""
    draw = random.Random(SEED)
    every = [["".join(letters) for letters in itertools.product(LETTERS, repeat=length)] for length in range(2, 6)]
    return draw.sample([word for some in every for word in draw.sample(some, min(len(some), 250))], count)


def write_pairs(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def reversing_recipe(folder: Path, *, kind: str = "transformer", steps: int = 300) -> Path:
    """A recipe for spelling backwards, and its pairs, in a folder."""
    write_pairs(folder / "words.tsv", [(word, word[::-1]) for word in words()])
    size = "heads = 2\nhidden = 64" if kind == "transformer" else ""
    recipe = folder / f"{kind}.toml"
    recipe.write_text(REVERSING.format(folder=folder, kind=kind, size=size, steps=steps), encoding="utf-8")
    return recipe


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()  # removed when the session ends


@functools.cache
def reversing(kind: str) -> Model:
    folder = Path(_folder().name)
    recipe = reversing_recipe(folder, kind=kind, steps=300 if kind == "transformer" else 150)
    return regard.train(recipe, out=folder / kind)


@functools.cache
def copying() -> Model:
    """Half of the sentences hold one word that is rare, and so unknown."""
    folder, draw = Path(_folder().name), random.Random(SEED)
    sentences = [[draw.choice(KNOWN) for _ in range(draw.randint(2, 5))] for _ in range(600)]
    for number, sentence in enumerate(sentences[::2]):
        sentence[draw.randrange(len(sentence))] = f"word{number}"
    write_pairs(folder / "sentences.tsv", [(" ".join(sentence),) * 2 for sentence in sentences])
    recipe = folder / "copying.toml"
    recipe.write_text(COPYING.format(folder=folder), encoding="utf-8")
    return regard.train(recipe, out=folder / "copying")
