"""The works that train a recipe beside a published figure, on made-up files and a body of a few thousand weights."""

import gzip
import json
import random
import tempfile
from pathlib import Path

import pytest

import tiny_bert
from bench import fine_tuning, language
from regard import recipes

QUICK = ["training.validate_every=2", "training.checkpoint_every=2", "training.batch_tokens=128", "training.threads=1"]


def write(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode()))


def quick(*changes: str) -> list[str]:
    return [word for change in (*QUICK, *changes) for word in ("--set", change)]


@pytest.fixture(autouse=True)
def models_are_left_in_a_folder_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def body(tmp_path: Path) -> Path:
    tiny_bert.save(tmp_path / "body")
    return tmp_path / "body"


def test_reviews_are_scored_on_dev(tmp_path: Path, body: Path, capsys: pytest.CaptureFixture[str]):
    rows = "sentence\tlabel\n" + "".join(f"{word} film\t{number}\n" for number, word in enumerate(["bad", "good"])) * 5
    for name in ("train", "dev"):
        write(tmp_path / f"{name}.tsv.gz", rows)
    fine_tuning.sst2(["--data", str(tmp_path), "--steps", "2", *quick(f"model.body={body}", "data.max_length=9")])
    printed = capsys.readouterr().out
    assert "percent of 10 texts" in printed
    assert "91.5" in printed
    assert "minutes" in printed
    assert "2 steps" in printed


def test_names_are_scored_on_test(tmp_path: Path, body: Path, capsys: pytest.CaptureFixture[str]):
    for name, count in (("train", 5), ("testa", 3), ("testb", 7)):
        write(tmp_path / f"eng.{name}.gz", "Smith NNP I-NP I-PER\nsat VBD I-VP O\n\n" * count)
    arguments = ["--data", str(tmp_path), "--steps", "2", "--json", *quick(f"model.body={body}", "data.max_length=9")]
    fine_tuning.conll2003(arguments)
    found = json.loads(capsys.readouterr().out)
    assert found["steps"] == 2
    assert "7" in found["scores"]["f1"]["signature"]


def test_answers_are_scored_and_the_time_may_be_limited(tmp_path: Path, body: Path, capsys: pytest.CaptureFixture[str]):
    row = {"context": "the cat sat in paris", "question": "in?", "answer": "paris", "answer_start": 15}
    write(tmp_path / "train_sample.jsonl.gz", "\n".join([json.dumps(row)] * 6))
    question = {"question": "in?", "id": "1", "answers": [{"text": "paris", "answer_start": 15}]}
    articles = [{"title": "a", "paragraphs": [{"context": row["context"], "qas": [question]}]}]
    write(tmp_path / "dev_v1.1_36_articles.json.gz", json.dumps({"version": "1.1", "data": articles}))
    changes = quick(f"model.body={body}", "data.max_length=17", "data.stride=5")
    fine_tuning.squad(["--data", str(tmp_path), "--minutes", "0.0001", *changes])
    printed = capsys.readouterr().out
    assert "planned for 0.0001 minutes" in printed
    assert "88.5" in printed


def test_both_settings_for_shakespeare_have_as_many_weights_and_learn_from_as_many_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    draw = random.Random(0)
    text = "".join(draw.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,;:!?'-&$3\n", k=9000))
    (tmp_path / "input.txt").write_text(text)
    found = {}
    for setting in ("regard", "nanogpt"):
        arguments = ["--data", str(tmp_path / "input.txt"), "--setting", setting, "--steps", "2", "--json"]
        language.shakespeare([*arguments, "--set", "training.validate_every=2", "--set", "training.threads=1"])
        found[setting] = json.loads(capsys.readouterr().out)
        assert found[setting]["scores"]["validation loss"]["value"] == pytest.approx(4.2, abs=0.5)
    ours, theirs = found["regard"], found["nanogpt"]
    assert ours["tokens"] == theirs["tokens"] > 1000
    assert ours["parameters"] == pytest.approx(theirs["parameters"], rel=0.01)


def test_nanogpts_setting_is_what_its_readme_says():
    recipe = recipes.load("shakespeare", [*language.NANOGPT])
    model, training = recipe.model.model_dump(), recipe.training
    assert [model[name] for name in ("layers", "heads", "width", "maximum", "dropout")] == [4, 4, 128, 64, 0.0]
    assert (training.steps, training.batch_tokens, training.learning_rate, training.warmup) == (2000, 768, 0.001, 100)
    assert (training.lowest_rate, training.betas, training.weight_decay) == (0.0001, (0.9, 0.99), 0.1)
