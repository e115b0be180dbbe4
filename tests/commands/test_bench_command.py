import io

import pytest
from rich.console import Console

from regard import RegardError
from regard.commands import bench as speed
from small_models import reversing


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(speed, "TOGETHER", (1, 2))
    monkeypatch.setattr(speed, "SINGLE", 3)
    monkeypatch.setattr(speed, "STARTS", 1)


@pytest.mark.parametrize(
    ("kind", "runtime", "why"),
    [("transformer", "ctranslate2", "the same answers faster"), ("seq2seq", "torch", "cannot express")],
)
def test_it_says_how_fast_in_which_runtime_and_why(kind, runtime, why, tmp_path):
    (tmp_path / "texts").write_text("abc\n\nde\nedcb\n", encoding="utf-8")
    found = speed.measure(reversing(kind).path, data=tmp_path / "texts")
    assert found["runtime"] == runtime
    assert why in found["why"]
    assert found["texts"] == 3
    assert [(row["beam"], row["together"]) for row in found["throughput"]] == [(1, 1), (1, 2), (5, 1), (5, 2)]
    for row in found["throughput"]:
        assert row["tokens_per_second"] > row["sentences_per_second"] > 0
    assert found["latency"]["percentile_95_ms"] >= found["latency"]["median_ms"] > 0
    assert found["start"]["seconds"] > 0
    shown = io.StringIO()
    speed.show(found, Console(file=shown, width=100))
    assert f"runtime: {runtime}, because" in shown.getvalue()


def test_without_a_file_it_takes_what_the_recipe_names():
    assert speed._lines(reversing("transformer").path, None)[0]


def test_a_file_without_text_is_named(tmp_path):
    (tmp_path / "blank").write_text("\n")
    with pytest.raises(RegardError, match="blank has no text to answer"):
        speed.measure(reversing("transformer").path, data=tmp_path / "blank")
    with pytest.raises(RegardError, match="gone does not exist"):
        speed.measure(reversing("transformer").path, data=tmp_path / "gone")
