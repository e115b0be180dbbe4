"""Fine-tuning: the head on a body is transformers' own, data that cannot be right is told, and a run learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch.testing import assert_close

import regard
import tiny_bert
from regard import models, recipes
from regard.errors import RegardError
from regard.interchange.huggingface import import_directory
from regard.models.heads import Headed

QUICK = ["training.steps=60", "training.batch_tokens=128", "training.learning_rate=0.003", "training.warmup=5"]
QUICK += ["training.schedule=constant", "training.validate_every=30", "training.checkpoint_every=30"]
QUICK += ["training.label_smoothing=0", "training.precision=float32", "model.dropout=0"]


def copied(directory: Path, theirs: Any, *, name: str, pooling: Any) -> Headed:
    """Our head on our body, with the weights of theirs."""
    body = import_directory(directory)
    encoder: Any = models.from_config(body.config, vocabulary=0)
    encoder.load_state_dict(dict(body.weights), strict=False)
    head = getattr(theirs, name)
    module = Headed(encoder, classes=head.out_features, pooling=pooling, dropout=0.1)
    module.output.load_state_dict(head.state_dict())
    return module.eval()


@pytest.mark.parametrize(
    ("architecture", "name", "pooling"),
    [
        ("BertForSequenceClassification", "classifier", "pooler"),
        ("BertForTokenClassification", "classifier", None),
        ("BertForQuestionAnswering", "qa_outputs", None),
    ],
)
def test_logits_are_those_of_transformers(tmp_path: Path, architecture: str, name: str, pooling: Any):
    labels = {} if name == "qa_outputs" else {"num_labels": 5}
    theirs = tiny_bert.save(tmp_path / "headed", architecture, **labels)
    body = tmp_path / "body"
    theirs.bert.save_pretrained(body)
    (body / "vocab.txt").write_text("\n".join(tiny_bert.VOCABULARY), encoding="utf-8")
    given = tiny_bert.tokenizer()(["the cat sat", "a"], ["on the red mat.", "dog"], return_tensors="pt", padding=True)
    with torch.no_grad():
        answer = theirs(**given)
        logits = torch.stack([answer.start_logits, answer.end_logits], -1) if name == "qa_outputs" else answer.logits
        ours = copied(body, theirs, name=name, pooling=pooling)(
            given["input_ids"], given["attention_mask"].sum(1), given["token_type_ids"]
        )
    real = given["attention_mask"].bool()
    assert_close(*((ours, logits) if pooling else (ours[real], logits[real])), atol=1e-5, rtol=1e-4)


@pytest.fixture
def body(tmp_path: Path) -> Path:
    tiny_bert.save(tmp_path / "body")
    return tmp_path / "body"


def write_films(path: Path) -> str:
    good, bad = "the happy {} sat on a good {}", "the sad {} ran on a bad {}"
    nouns = ["cat", "dog", "bird", "film", "mat"]
    lines = [
        f"{text.format(a, b)}\t{label}" for a in nouns for b in nouns for text, label in ((good, "yes"), (bad, "no"))
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def classifier(body: Path | None, data: str, *changes: str) -> recipes.Recipe:
    start = f'body = "{body}"' if body else 'kind = "bert"\nlayers = 1\nwidth = 16\nheads = 2'
    text = f'task = "classify"\n[data]\ntrain = "{data}"\n[tokenizer]\nkind = "words"\n[model]\n{start}'
    return recipes.parse(text, where="test", changes=[*QUICK, *changes])


def test_a_classifier_learns_from_a_body_and_is_the_same_when_loaded(tmp_path: Path, body: Path):
    films = write_films(tmp_path / "films.tsv")
    model = regard.train(classifier(body, films), out=tmp_path / "model")
    assert model.report["scores"]["accuracy"] == 100
    found = model("the happy cat sat on a good mat")
    assert [each["label"] for each in found] == ["yes", "no"]
    assert sum(each["score"] for each in found) == pytest.approx(1)
    again = regard.load(tmp_path / "model")
    assert again(["the happy cat sat on a good mat", "sad"])[0] == found
    assert again.evaluate(films)["f1"].value == 100
    (tmp_path / "body").rename(tmp_path / "gone")
    assert regard.load(tmp_path / "model")("") == model("")


def test_a_classifier_learns_from_nothing(tmp_path: Path):
    model = regard.train(classifier(None, write_films(tmp_path / "films.tsv")), out=tmp_path / "model")
    assert model.report["scores"]["accuracy"] == 100


@pytest.mark.parametrize(
    ("change", "frozen"),
    [
        ("training.freeze=2", ["embedding.table.weight", "body.blocks.1.attention.query.weight"]),
        ("training.freeze=all", ["norm.weight", "body.blocks.2.feed_forward.outer.bias"]),
        ("training.lora=2", ["norm.weight", "body.blocks.2.attention.query.weight"]),
    ],
)
def test_what_is_frozen_stays_and_the_rest_learns(tmp_path: Path, body: Path, change: str, frozen: list[str]):
    changes = [change, "training.steps=3", "training.validate_every=0"]
    regard.train(classifier(body, write_films(tmp_path / "films.tsv"), *changes), out=tmp_path / "model")
    before = import_directory(body).weights
    after = safetensors.torch.load_file(tmp_path / "model" / "weights.safetensors")
    assert all(torch.equal(before[name], after[f"encoder.{name}"]) for name in frozen)
    assert not torch.equal(before["pooler.weight"], after["encoder.pooler.weight"])
    learning = "attention.value.up" if "lora" in change else "attention.value.weight"
    if "lora" in change:
        assert after[f"encoder.body.blocks.2.{learning}"].abs().sum() > 0  # it starts at zero
    elif "all" not in change:
        assert not torch.equal(before[f"body.blocks.2.{learning}"], after[f"encoder.body.blocks.2.{learning}"])
    regard.load(tmp_path / "model")("a cat")


def test_pairs_are_read_by_name_and_labels_may_be_numbers(tmp_path: Path, body: Path):
    rows = [{"a": "the cat", "b": "the cat" if same else "a dog", "same": same} for same in (0, 1)] * 4
    rows += [{"a": f"the {word}", "b": "the dog", "same": 0} for word in ("cat", "mat")]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    columns = ["data.columns.text=a", "data.columns.pair=b", "data.columns.label=same", "training.steps=2"]
    data = str(tmp_path / "pairs.jsonl")
    model = regard.train(classifier(body, data, *columns, f"data.valid={data}"), out=tmp_path / "model")
    assert {each["label"] for each in model({"text": "the cat", "text_pair": "a dog"})} == {"0", "1"}
    assert model(("the cat", "a dog")) == model({"text": "the cat", "text_pair": "a dog"})
    assert model(model.surface.parse("the cat\ta dog")) == model(("the cat", "a dog"))


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("cat\tyes\ndog\tmaybe\n", "which is not in data.train; it has no, yes"),
        ("\tyes\n", "valid.tsv:1 has no text"),
        ("cat\t\n", "valid.tsv:1 has no label"),
        ("\n", "has no examples"),
    ],
)
def test_examples_that_cannot_be_right_are_named(tmp_path: Path, body: Path, lines: str, sentence: str):
    (tmp_path / "valid.tsv").write_text(lines, encoding="utf-8")
    recipe = classifier(body, write_films(tmp_path / "films.tsv"), f"data.valid={tmp_path / 'valid.tsv'}")
    with pytest.raises(RegardError) as error:
        regard.train(recipe, out=tmp_path / "model")
    assert sentence in str(error.value)


def test_one_label_is_too_few_and_too_many_layers_cannot_be_frozen(tmp_path: Path, body: Path):
    (tmp_path / "one.tsv").write_text("cat\tyes\ndog\tyes\nbird\tyes\n", encoding="utf-8")
    with pytest.raises(RegardError, match="only the label 'yes'"):
        regard.train(classifier(body, str(tmp_path / "one.tsv")), out=tmp_path / "model")
    films = write_films(tmp_path / "films.tsv")
    with pytest.raises(RegardError, match="the model has 3 layers"):
        regard.train(classifier(body, films, "training.freeze=4"), out=tmp_path / "other")


@pytest.mark.parametrize("change", ["training.layer_decay=0.8", "training.lora=2", "training.freeze=1"])
def test_a_run_that_is_gone_on_with_ends_with_the_same_weights(tmp_path: Path, body: Path, change: str):
    films = write_films(tmp_path / "films.tsv")

    def weights(name: str, steps: int) -> bytes:
        changes = [change, f"training.steps={steps}", "training.validate_every=0", "training.checkpoint_every=3"]
        regard.train(classifier(body, films, *changes, "model.dropout=0.1"), out=tmp_path / name)
        return (tmp_path / name / "weights.safetensors").read_bytes()

    assert weights("one", 4) != weights("one", 7)
    assert weights("one", 7) == weights("other", 7)
