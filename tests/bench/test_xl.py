"""The bench of Transformer-XL, on a text of a few words."""

import gzip
import json
from pathlib import Path

import pytest

from bench import xl

SMALL = [
    *("model.layers=1", "model.width=8", "model.heads=2", "model.memory=4", "data.block=4", "tokenizer.vocabulary=50"),
    *("training.batch_tokens=32", "training.threads=1", "training.validate_every=0", "training.warmup=1"),
]


def test_perplexity_by_memory_and_speed_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for part in ("train", "valid", "test"):
        with gzip.open(tmp_path / f"{part}.txt.gz", "wt") as file:
            file.write(" the cat sat on the mat \n the dog ran by \n" * 20)
    changes = [part for change in SMALL for part in ("--set", change)]
    out = ["--out", str(tmp_path / "out"), "--data", str(tmp_path), "--steps", "2", "--json"]
    xl.main([*out, "--judged", "30", "--memories", "0", "6", *changes])
    found = json.loads(capsys.readouterr().out)
    assert [row["memory"] for row in found["perplexity"]] == [0, 6]
    assert found["perplexity"][0]["with"] != found["perplexity"][1]["with"]
    assert [row["memory"] for row in found["speed"]] == [6]
    recipe = (tmp_path / "out" / "without" / "recipe.toml").read_text()
    assert "memory = 0" in recipe
