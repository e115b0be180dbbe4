"""Models that learned to write from a short text, trained once for all tests of a session."""

import functools
import tempfile
from pathlib import Path

import regard
from regard.api.writer import Writer

VERSE = "the cat sat on the mat.\nthe dog sat on the log.\n\na big red fox ran by – çà et là.\n"
TEXT = VERSE * 30
SIZES = {
    "gpt": "layers = 2\nwidth = 32\nheads = 2\nmaximum = 24",
    "rnn": "layers = 2\nwidth = 32\ndropout = 0.0",
    "transformer_xl": "layers = 2\nwidth = 32\nheads = 2\nmemory = 24\ndropout = 0.0",
}
RECIPE = """
task = "write"

[data]
train = "{folder}/text.txt"
block = 24

[tokenizer]
kind = "{tokenizer}"
vocabulary = 300

[model]
kind = "{kind}"
{sizes}

[training]
steps = {steps}
batch_tokens = 192
learning_rate = {rate}
warmup = 10
schedule = "cosine"
label_smoothing = 0.0
validate_every = 0
checkpoint_every = 7
record_every = 5
threads = 1

[decoding]
beam = 1
max_length = 40
"""


def written_recipe(folder: Path, *, kind: str = "gpt", tokenizer: str = "characters", steps: int = 60) -> Path:
    """A recipe for writing, and its text, in a folder."""
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    path = folder / f"{kind}-{tokenizer}.toml"
    rate = 0.03 if kind == "rnn" else 0.01
    made = RECIPE.format(folder=folder, kind=kind, tokenizer=tokenizer, steps=steps, sizes=SIZES[kind], rate=rate)
    path.write_text(made, encoding="utf-8")
    return path


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()  # removed when the session ends


@functools.cache
def written(kind: str, tokenizer: str = "characters") -> Writer:
    folder = Path(_folder().name)
    recipe = written_recipe(folder, kind=kind, tokenizer=tokenizer, steps=100 if kind == "rnn" else 60)
    model = regard.train(recipe, out=folder / f"{kind}-{tokenizer}")
    assert isinstance(model, Writer)
    return model
