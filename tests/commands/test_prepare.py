"""`regard prepare`: what it writes is what training would have made, and training does not make it again."""

import json
from pathlib import Path

import pytest
import safetensors.torch
from torch.testing import assert_close
from typer.testing import CliRunner

from regard.api import reading
from regard.api.preparing import prepare
from regard.api.training import train
from regard.cli import app
from regard.data.pairs import corpus
from regard.data.pairs import examples as pairs
from regard.tasks.translate.task import Translate
from small_models import words, write_pairs

SETTINGS = {
    "data.valid": "[]",
    "data.test": "[]",
    "model.layers": 1,
    "model.width": 16,
    "model.heads": 2,
    "training.steps": 2,
    "training.batch_tokens": 64,
    "training.validate_every": 0,
    "training.threads": 1,
    "decoding.max_length": 4,
}


@pytest.fixture
def changes(tmp_path: Path) -> list[str]:
    write_pairs(tmp_path / "lexicon.tsv", [(word, word[::-1]) for word in words(500)])
    return [f"{key}={value}" for key, value in {**SETTINGS, "data.train": tmp_path / "lexicon.tsv"}.items()]


def prepared(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = [*(folder / "checkpoints" / "corpus").iterdir(), folder / "tokenizer.json", folder / "source.json"]
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in files if path.exists()}


@pytest.mark.parametrize("large", [False, True])
def test_training_takes_what_was_prepared(
    tmp_path: Path, changes: list[str], monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    if large:
        monkeypatch.setattr(corpus, "SHARD_PAIRS", 256)
        monkeypatch.setattr(pairs, "LARGE", 0)
    train("demo", out=tmp_path / "alone", changes=changes)
    path, _ = prepare("demo", out=tmp_path / "prepared", changes=changes, processes=2)
    assert path == tmp_path / "prepared"
    before = prepared(path)
    assert ("train-00001.arrow" in before) == large
    assert ("held-out.jsonl" in before) == large
    assert {name: content for name, (content, _) in before.items() if name.endswith(".arrow")} == {
        name: content for name, (content, _) in prepared(tmp_path / "alone").items() if name.endswith(".arrow")
    }
    with monkeypatch.context() as patched:
        patched.setattr(Translate, "learn", lambda *_: pytest.fail("learned again"))
        train("demo", out=path, changes=changes)
    assert prepared(path) == before
    ours, theirs = (
        safetensors.torch.load_file(folder / "weights.safetensors") for folder in (path, tmp_path / "alone")
    )
    assert_close(ours, theirs, rtol=0, atol=0)


def test_a_vocabulary_is_learned_again_from_other_files_or_settings(tmp_path: Path, changes: list[str]) -> None:
    prepare("demo", out=tmp_path / "run", changes=changes)
    note = tmp_path / "run" / "checkpoints" / reading.NOTE
    first = note.read_bytes()
    prepare("demo", out=tmp_path / "run", changes=[*changes, "tokenizer.lowercase=true"])
    second = note.read_bytes()
    assert second != first
    write_pairs(tmp_path / "lexicon.tsv", [(word, word[::-1]) for word in words(90)])
    prepare("demo", out=tmp_path / "run", changes=[*changes, "tokenizer.lowercase=true"])
    assert note.read_bytes() not in (first, second)
    note.write_text("[")
    prepare("demo", out=tmp_path / "run", changes=changes)
    assert len(json.loads(note.read_bytes())) == 2


def test_the_command_prints_what_was_read(tmp_path: Path, changes: list[str]) -> None:
    options = [part for change in changes for part in ("--set", change)]
    command = ["prepare", "demo", "-o", str(tmp_path / "run"), *options, "--processes", "1"]
    result = CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False)
    found = json.loads(result.stdout)
    assert found["directory"] == str(tmp_path / "run")
    assert found["processes"] == 1
    read = found["read"]["the train pairs"]
    assert read["unit"] == "pairs"
    assert f"{read['count']:,} pairs read" in found["train"][0]
    said = CliRunner().invoke(app, command, catch_exceptions=False).stdout
    assert found["train"][0] in said
    assert "train with the same recipe" in said
