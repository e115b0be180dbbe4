"""A two-way language model from plain text, and what is learned on its features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import regard
from regard import recipes
from regard.errors import RegardError
from regard.tasks.base import RunOptions

NOUNS = ["cat", "dog", "bird", "film", "mat"]
QUICK = ["training.batch_tokens=128", "training.learning_rate=0.02", "training.warmup=5", "training.threads=1"]
QUICK += ["training.schedule=constant", "training.validate_every=0", "training.checkpoint_every=4"]
QUICK += ["training.label_smoothing=0", "training.precision=float32"]
SIZES = 'kind = "elmo"\nlayers = 2\nwidth = 12\ndropout = 0.1'


def language_model(folder: Path, *changes: str) -> recipes.Recipe:
    lines = [f"the {mood} {a} sat on a {b} .\n" for mood in ("happy", "sad") for a in NOUNS for b in NOUNS]
    (folder / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    text = f'task = "fill"\n[data]\ntrain = "{folder}/text.txt"\n[tokenizer]\nkind = "words"\n[model]\n{SIZES}'
    return recipes.parse(text, where="test", changes=[*QUICK, *changes])


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elmo")
    regard.train(language_model(folder, "training.steps=40"), out=folder / "body")
    return folder / "body"


def classifier(body: Path, folder: Path, *changes: str) -> recipes.Recipe:
    lines = [f"the {mood} {a} sat on a {b}\t{mood}" for mood in ("happy", "sad") for a in NOUNS for b in NOUNS]
    films = folder / "films.tsv"
    films.write_text("\n".join(lines), encoding="utf-8")
    text = f'task = "classify"\n[data]\ntrain = "{films}"\nvalid = "{films}"\n[model]\nbody = "{body}"'
    return recipes.parse(text, where="test", changes=[*QUICK, *changes])


def weights(directory: Path) -> dict[str, Any]:
    return safetensors.torch.load_file(directory / "weights.safetensors")


def test_a_language_model_tells_its_perplexities_and_fills_gaps(body: Path):
    model = regard.load(body)
    scores = model.report["scores"]
    assert 1 < scores["forward_perplexity"] < 6  # of 15 words
    assert 1 < scores["backward_perplexity"] < 6
    assert {name: score.value for name, score in model.evaluate().items()} == pytest.approx(scores)
    assert model("the happy cat [MASK] on a mat .")[0]["token_str"] == "sat"
    (answer,) = model.answers(["the sad dog sat [MASK] a mat ."])
    assert model.surface.lines(answer, RunOptions()) == ["the sad dog sat on a mat ."]


def test_both_directions_are_seen_each_with_its_own_past(body: Path):
    model = regard.load(body)
    record = model.look("the happy cat sat")
    items = record.sides["source"].items
    names = [f"{way}_layers.{layer}.layers.0.forward" for way in ("forward", "backward") for layer in (0, 1)]
    assert ([each.name for each in record.maps], record.answer) == (names, None)
    assert [each.layer for each in record.maps] == [0, 1, 0, 1]
    for each in record.maps:
        weights = each.weights[0]
        assert weights.shape == (len(items), len(items))
        past = weights.tril() if each.name.startswith("forward") else weights.triu()
        assert torch.equal(weights, past)
        assert (weights.diagonal() > 0).all()
    (only,) = (each for each in model.look("the happy cat sat", layer=1).maps if each.name == names[3])
    torch.testing.assert_close(only.weights, record.maps[3].weights)
    assert {each.name for each in model.look("the happy cat sat", layer=0).maps} == {names[0], names[2]}
    with pytest.raises(RegardError, match="neither direction reads beyond it"):
        model.look("the [MASK] cat")


def test_features_of_a_frozen_language_model_are_enough_to_classify(tmp_path: Path, body: Path):
    model = regard.train(classifier(body, tmp_path, "training.steps=120"), out=tmp_path / "model")
    assert model.report["scores"]["accuracy"] >= 90
    before, after = weights(body), weights(tmp_path / "model")
    kept = {name for name in before if not name.startswith(("mix.", "output."))}
    assert kept
    assert all(torch.equal(before[name], after[f"encoder.{name}"]) for name in kept)
    assert set(after) == {f"encoder.{name}" for name in kept} | {
        "encoder.mix.weights",
        "encoder.mix.scale",
        "output.weight",
        "output.bias",
    }
    assert not torch.equal(before["mix.weights"], after["encoder.mix.weights"])
    assert after["encoder.mix.scale"] != 1
    again = regard.load(tmp_path / "model")
    assert again(["the sad film", ""]) == model(["the sad film", ""])
    assert again.recipe.training.freeze == "all"


@pytest.mark.parametrize(
    ("change", "learning", "still"),
    [
        ("training.freeze=0", "encoder.embedding.table.weight", None),
        (
            "training.freeze=1",
            "encoder.backward_layers.1.layers.0.weight_hh_l0",
            "forward_layers.0.layers.0.bias_ih_l0",
        ),
    ],
)
def test_as_much_learns_as_is_asked(tmp_path: Path, body: Path, change: str, learning: str, still: str | None):
    regard.train(classifier(body, tmp_path, change, "training.steps=2"), out=tmp_path / "model")
    before, after = weights(body), weights(tmp_path / "model")
    assert not torch.equal(before[learning.removeprefix("encoder.")], after[learning])
    assert still is None or torch.equal(before[still], after[f"encoder.{still}"])


def test_a_tagger_learns_on_features_and_is_the_same_when_loaded(tmp_path: Path, body: Path):
    lines = [f"the O\nsad O\n{noun} I-PER\nsat O\non O\na O\n{other} O\n" for noun in NOUNS for other in NOUNS]
    (tmp_path / "train.conll").write_text("\n".join(lines), encoding="utf-8")
    text = f'task = "tag"\n[data]\ntrain = "{tmp_path}/train.conll"\n[model]\nbody = "{body}"'
    recipe = recipes.parse(text, where="test", changes=[*QUICK, "training.steps=60"])
    model = regard.train(recipe, out=tmp_path / "model")
    assert model.report["scores"]["f1"] == 100
    found = regard.load(tmp_path / "model")("the sad film sat on a mat")
    assert [(each["entity"], each["word"]) for each in found] == [("B-PER", "film")]


def test_without_a_head_all_of_it_learns_on(tmp_path: Path, body: Path):
    (tmp_path / "pairs.tsv").write_text("\n".join(f"the {noun}\ta {noun}" for noun in NOUNS), encoding="utf-8")
    text = f'task = "embed"\n[data]\ntrain = "{tmp_path}/pairs.tsv"\n[model]\nbody = "{body}"'
    recipe = recipes.parse(text, where="test", changes=[*QUICK, "training.steps=2"])
    vector = regard.train(recipe, out=tmp_path / "vectors")("the cat")
    assert len(vector) == 24
    before, after = weights(body), weights(tmp_path / "vectors")
    learning = [name for name in before if "layers" in name or name == "mix.weights"]
    assert learning
    assert not any(torch.equal(before[name], after[name]) for name in learning)
    further = language_model(tmp_path, "training.steps=1", "training.learning_rate=1e-6", f"model.body={body}")
    scores = regard.train(further, out=tmp_path / "further").report["scores"]
    assert scores == pytest.approx(regard.load(body).report["scores"], rel=0.01)  # it went on from there


@pytest.mark.parametrize("task", ["fill", "classify"])
def test_a_run_that_is_gone_on_with_ends_with_the_same_weights(tmp_path: Path, body: Path, task: str):
    def run(name: str, steps: int) -> bytes:
        change = f"training.steps={steps}"
        recipe = language_model(tmp_path, change) if task == "fill" else classifier(body, tmp_path, change)
        regard.train(recipe, out=tmp_path / name)
        return (tmp_path / name / "weights.safetensors").read_bytes()

    assert run("one", 5) != run("one", 9)
    assert run("one", 9) == run("other", 9)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("training.lora=2", "changes queries and values, and this model has none"),
        ("model.pooling=pooler", "pooling = 'pooler': input should be"),
        ("training.freeze=3", "the model has 2 layers"),
    ],
)
def test_what_has_no_meaning_is_refused(tmp_path: Path, body: Path, change: str, sentence: str):
    with pytest.raises(RegardError) as error:
        regard.train(classifier(body, tmp_path, change), out=tmp_path / "model")
    assert sentence in str(error.value)
