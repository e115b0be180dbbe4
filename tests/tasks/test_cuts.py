"""What is said of texts that are cut, and of inputs of another shape than those learned from."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import regard
import tiny_bert
from regard import recipes
from regard.api.exchange import import_model

LONG = "the cat sat on a red mat in paris " * 6  # 54 words, and the model reads 37 tokens
LABELS = ["O", "B-LOC", "I-LOC"]
NAMED = {"id2label": dict(enumerate(LABELS)), "label2id": {name: at for at, name in enumerate(LABELS)}}


def imported(path: Path, architecture: str, **changes: Any) -> Any:
    tiny_bert.save(path / "theirs", architecture, **changes)
    import_model(path / "theirs", path / "ours")
    return regard.load(path / "ours")


def looked_at(model: Any, asked: object) -> tuple[str, ...]:
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        return tuple(model.look(asked).notes)


@pytest.mark.parametrize(
    ("architecture", "changes", "asked", "notes"),
    [
        ("BertForSequenceClassification", NAMED, LONG, ["only the first 35 of 54 tokens are read"]),
        (
            "BertForSequenceClassification",
            NAMED,
            ("a cat", LONG),
            ["only 34, the first of each text, of 56 tokens are read"],
        ),
        ("BertModel", {}, LONG, ["only the first 35 of 54 tokens are read"]),
        (
            "BertForTokenClassification",
            NAMED,
            LONG,
            ["the text is read in 2 parts: only the first 35 of 54 tokens are looked at"],
        ),
        (
            "BertForQuestionAnswering",
            {},
            ("a cat", LONG),
            ["the passage is read in parts: the part with the best answer has 32 of its 54 tokens"],
        ),
        ("BertForQuestionAnswering", {}, (LONG, "a cat"), ["only the first 17 of 54 tokens of the question are read"]),
    ],
)
def test_a_look_says_what_was_cut(
    tmp_path: Path, architecture: str, changes: dict[str, Any], asked: object, notes: list[str]
):
    model = imported(tmp_path, architecture, **changes)
    assert looked_at(model, asked) == tuple(notes)
    short = "a cat" if isinstance(asked, str) else ("a cat", "a dog")
    assert looked_at(model, short) == ()


def test_a_text_that_both_directions_read_says_what_was_cut(tmp_path: Path):
    (tmp_path / "a.txt").write_text("the cat sat\nthe dog ran\n", encoding="utf-8")
    text = f"""
task = "fill"
[data]
train = "{tmp_path / "a.txt"}"
valid = "{tmp_path / "a.txt"}"
max_length = 9
[tokenizer]
kind = "words"
[model]
kind = "elmo"
layers = 1
width = 8
[training]
steps = 1
batch_tokens = 64
"""
    model = regard.train(recipes.parse(text, where="test"), out=tmp_path / "model")
    assert looked_at(model, "the cat sat " * 4) == ("only the first 7 of 12 tokens are read",)


def classifier(path: Path, *, pair: bool) -> Any:
    (path / "a.tsv").write_text("the cat\ta dog\tyes\nthe mat\ta dog\tno\n", encoding="utf-8")
    columns = "columns = {text = 1, pair = 2, label = 3}" if pair else "columns = {text = 1, label = 3}"
    text = f"""
task = "classify"
[data]
train = "{path / "a.tsv"}"
valid = "{path / "a.tsv"}"
{columns}
[tokenizer]
kind = "words"
[model]
kind = "bert"
layers = 1
width = 8
heads = 2
[training]
steps = 1
batch_tokens = 64
"""
    regard.train(recipes.parse(text, where="test"), out=path / "model")
    return regard.load(path / "model")


@pytest.mark.parametrize("pair", [True, False])
def test_inputs_of_another_shape_than_those_learned_from_are_told_of_once(tmp_path: Path, pair: bool):
    model = classifier(tmp_path, pair=pair)
    fits, other = [("the cat", "a dog"), "the cat"] if pair else ["the cat", ("the cat", "a dog")]
    learned, given = ("pairs of texts", "one text") if pair else ("single texts", "a pair of texts")
    model([fits, fits])  # without a warning, which would be an error
    with pytest.warns() as told:
        model([other, fits, other])
    assert [str(each.message) for each in told] == [
        f"this model was trained on {learned}, and 2 of 3 inputs are {given}"
    ]
    with pytest.warns(match=f"this model was trained on {learned}"):
        model.look(other)


def test_of_a_model_from_elsewhere_nobody_knows_what_it_was_trained_on(tmp_path: Path):
    model = imported(tmp_path, "BertForSequenceClassification", **NAMED)
    model(["a cat", ("a cat", "a dog")])
