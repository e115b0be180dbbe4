"""Taggers and finders of answers, from a tiny body to answers with their places."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import regard
import tiny_bert
from regard import recipes
from regard.errors import RegardError

QUICK = ["training.steps=80", "training.batch_tokens=256", "training.learning_rate=0.003", "training.warmup=5"]
QUICK += ["training.schedule=constant", "training.validate_every=40", "training.checkpoint_every=40"]
QUICK += ["training.label_smoothing=0", "training.precision=float32", "model.dropout=0"]
NOUNS = ["cat", "dog", "bird", "film"]


@pytest.fixture
def body(tmp_path: Path) -> Path:
    tiny_bert.save(tmp_path / "body")
    return tmp_path / "body"


def recipe(task: str, body: Path, train: Path, *changes: str) -> recipes.Recipe:
    text = f'task = "{task}"\n[data]\ntrain = "{train}"\nvalid = "{train}"\n[model]\nbody = "{body}"'
    return recipes.parse(text, where="test", changes=[*QUICK, *changes])


def sentences(path: Path) -> Path:
    lines = [f"The O\n{noun} O\nsat O\nin O\nParis I-LOC\nSmith I-PER\n. O\n" for noun in NOUNS]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def questions(path: Path) -> Path:
    rows = []
    for noun in NOUNS:
        for city in ("paris", "london"):
            passage = f"the red {noun} sat on a mat{' in' * (len(noun) - 2)} {city}. the sad dog ran."
            rows.append({"context": passage, "question": "in?", "answer": city, "answer_start": 0})
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_a_tagger_learns_and_says_where(tmp_path: Path, body: Path):
    data = sentences(tmp_path / "train.conll")
    model = regard.train(recipe("tag", body, data), out=tmp_path / "model")
    assert model.report["scores"]["f1"] == 100
    text = "The bird sat in Paris  Smith."
    found = regard.load(tmp_path / "model")(text)
    assert [(each["entity"], each["word"], each["index"]) for each in found] == [
        ("B-LOC", "Paris", 5),
        ("B-PER", "Smith", 6),
    ]
    assert all(text[each["start"] : each["end"]] == each["word"] and 0 < each["score"] <= 1 for each in found)
    assert model("") == []
    assert model([["The", "cat", "sat", "in", "Paris", "Smith", "."]])[0][0]["start"] == 15


def test_a_long_sentence_is_tagged_to_its_end_and_a_long_word_once(tmp_path: Path, body: Path):
    model = regard.train(recipe("tag", body, sentences(tmp_path / "train.conll")), out=tmp_path / "model")
    words = [*["The", "cat", "sat", "in", "Paris", "Smith", "."] * 9, "x" * 90, "Paris"]
    tags = [tag for tag, _ in model.task.tag(model.module, [words])[0]]
    assert len(tags) == len(words)
    parts = list(model.task.reading.parts(words))
    assert [word for _, begins in parts for word, _ in begins] == list(range(len(words)))
    assert max(len(row.ids) for row, _ in parts) <= 37


def test_an_unknown_tag_and_lines_without_one_are_named(tmp_path: Path, body: Path):
    model = regard.train(
        recipe("tag", body, sentences(tmp_path / "a.conll"), "training.steps=1"), out=tmp_path / "model"
    )
    (tmp_path / "new.conll").write_text("Smith B-ORG\n", encoding="utf-8")
    with pytest.raises(RegardError, match=r"label 'B-ORG', which is not in data\.train; it has B-LOC, B-PER, O"):
        model.evaluate(tmp_path / "new.conll")
    (tmp_path / "bad.conll").write_text("Smith\n", encoding="utf-8")
    with pytest.raises(RegardError, match=r"bad.conll:1 has 1 columns"):
        model.evaluate(tmp_path / "bad.conll")


def test_an_answer_is_found_with_its_place(tmp_path: Path, body: Path):
    changes = ["data.max_length=37", "training.steps=80"]
    model = regard.train(recipe("answer", body, questions(tmp_path / "a.jsonl"), *changes), out=tmp_path / "model")
    assert model.report["scores"]["exact"] == 100
    passage = "the red cat sat on a mat in paris. the sad dog ran."
    found = regard.load(tmp_path / "model")({"question": "in?", "context": passage})
    assert (found["answer"], passage[found["start"] : found["end"]]) == ("paris", "paris")
    assert model(("ran in?", ""))["answer"] == ""
    with pytest.raises(RegardError, match="a question and a passage"):
        model("ran in?")


def test_every_token_of_a_long_passage_is_read(tmp_path: Path, body: Path):
    changes = ["data.max_length=20", "data.stride=5", "training.steps=1"]
    model = regard.train(recipe("answer", body, questions(tmp_path / "a.jsonl"), *changes), out=tmp_path / "model")
    passage = " ".join(NOUNS * 12)
    parts = list(model.task.reading.parts("in?", passage))
    assert len(parts) > 5
    assert {offset for part in parts for offset in part.offsets} == set(model.task.rows.tokenizer.offsets(passage))
    assert all(len(part.row.ids) <= 20 for part in parts)
    cut = model.task.rows.tokenizer.encode([passage])[0]
    assert all(part.row.ids[part.first] in cut for part in parts)
    assert passage.startswith(model(("in?", passage))["answer"], model(("in?", passage))["start"])


def test_a_passage_without_the_answer_is_named_unless_that_is_allowed(tmp_path: Path, body: Path):
    def write(**row: str) -> Path:
        lines = [
            {"context": "the cat sat", "question": "who?", **row},
            {"context": "a dog", "question": "?", "answer": "dog"},
        ]
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        return tmp_path / "a.jsonl"

    with pytest.raises(RegardError, match="the answer 'bird' is not in the passage"):
        regard.train(recipe("answer", body, write(answer="bird"), "training.steps=1"), out=tmp_path / "one")
    with pytest.raises(RegardError, match=r"data\.impossible=true"):
        regard.train(recipe("answer", body, write(), "training.steps=1"), out=tmp_path / "two")
    changes = ["training.steps=60", "data.impossible=true", "data.max_length=37"]
    model = regard.train(recipe("answer", body, write(), *changes), out=tmp_path / "three")
    assert model(("who?", "the cat sat"))["answer"] == ""
    assert model(("?", "a dog"))["answer"] == "dog"
