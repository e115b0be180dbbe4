"""Vectors learned from pairs that mean the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import regard
import tiny_bert
from regard import recipes
from regard.api.exchange import export_model, import_model
from regard.errors import RegardError

QUICK = ["training.batch_tokens=400", "training.learning_rate=0.003", "training.warmup=5", "training.threads=1"]
QUICK += ["training.schedule=constant", "training.validate_every=0", "training.checkpoint_every=4"]
QUICK += ["training.precision=float32", "model.dropout=0"]
NOUNS = ["cat", "dog", "bird", "film", "mat"]
LINES = [f"the {a} sat on a {b}\ta {b} : {a}s" for a in NOUNS for b in NOUNS]


@pytest.fixture
def body(tmp_path: Path) -> Path:
    tiny_bert.save(tmp_path / "body")
    return tmp_path / "body"


def embedder(body: Path, lines: list[str], *changes: str, name: str = "pairs.tsv") -> recipes.Recipe:
    path = body.parent / name
    path.write_text("\n".join(lines), encoding="utf-8")
    text = f'task = "embed"\n[data]\ntrain = "{path}"\nvalid = "{path}"\n[model]\nbody = "{body}"'
    return recipes.parse(text, where="test", changes=[*QUICK, *changes])


def test_partners_are_found_and_the_model_is_the_same_when_loaded(tmp_path: Path, body: Path):
    import_model(body, tmp_path / "before")
    before = regard.load(tmp_path / "before")
    model = regard.train(embedder(body, LINES, "training.steps=60"), out=tmp_path / "model")
    assert before.evaluate(tmp_path / "pairs.tsv")["accuracy"].value < 60
    assert model.report["scores"]["accuracy"] > 80
    assert model.report["scores"]["mrr"] > 85
    vector = model("the cat sat\ton a mat")
    assert len(vector) == 24
    assert sum(x * x for x in vector) == pytest.approx(1, abs=1e-5)
    again = regard.load(tmp_path / "model")
    assert again("the cat sat\ton a mat") == vector
    assert again.surface.parse("one\ttext") == "one\ttext"
    assert {name: score.value for name, score in again.evaluate().items()} == model.report["scores"]
    export_model(tmp_path / "model", tmp_path / "theirs")  # it has no head, so it is a body like any other


def test_nearness_is_compared_with_scores_where_a_file_has_them(tmp_path: Path, body: Path):
    rows = [{"text": f"the {a}", "pair": f"a {b}", "how": 4.5 if a == b else 1} for a in NOUNS for b in NOUNS]
    (tmp_path / "scored.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    changes = [f"data.valid={tmp_path}/scored.jsonl", "data.columns.score=how", "training.steps=2"]
    plain = [json.dumps({"text": f"the {a}", "pair": f"a {a}"}) for a in NOUNS]
    model = regard.train(embedder(body, plain, *changes, name="plain.jsonl"), out=tmp_path / "model")
    assert set(model.report["scores"]) == {"spearman"}
    assert -100 <= model.report["scores"]["spearman"] <= 100
    model = regard.train(embedder(body, plain, *changes, "data.same=4", name="plain.jsonl"), out=tmp_path / "other")
    assert set(model.report["scores"]) == {"accuracy", "mrr", "spearman"}


def test_a_run_that_is_gone_on_with_ends_with_the_same_weights(tmp_path: Path, body: Path):
    def run(name: str, steps: int) -> bytes:
        regard.train(embedder(body, LINES, f"training.steps={steps}", "training.freeze=1"), out=tmp_path / name)
        return (tmp_path / name / "weights.safetensors").read_bytes()

    assert run("one", 3) != run("one", 6)
    assert run("one", 6) == run("other", 6)


@pytest.mark.parametrize(
    ("lines", "change", "sentence"),
    [
        (["the cat\t\n"], "data.max_length=30", "pairs.tsv:1 has one text and no other"),
        (["the cat\ta cat\tmuch"], "data.columns.score=3", "has the score 'much', which is not a number"),
        (["the cat\ta cat\t3"], "data.columns.score=3", "set data.same to the lowest score that means the same"),
        (["the cat\ta cat"], "data.columns.score=3", "is in neither data.valid nor data.test"),
        (["the cat\ta cat"], "training.freeze=all", "leaves nothing to learn"),
    ],
)
def test_pairs_that_cannot_be_learned_from_are_named(body: Path, lines: list[str], change: str, sentence: str):
    with pytest.raises(RegardError) as error:
        regard.train(embedder(body, lines, change, "training.steps=1"), out=body.parent / "model")
    assert sentence in str(error.value)
