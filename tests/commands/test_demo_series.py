from pathlib import Path

import pytest
from rich.console import Console

import regard
from regard.commands.demos import chosen
from regard.commands.demos import series as demo

CHANGES = [
    *("training.steps=2", "training.warmup=1", "training.threads=1", "model.width=4", "training.validate_every=0"),
    *("training.batch_size=8", 'data.train="series:airline?until=1954-12"', "data.horizon=12"),
]


def test_the_demo_scores_forecasts_draws_and_says_what_to_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(["series", "my.csv"]) == ("series", ["my.csv"])
    monkeypatch.setattr(demo, "train", lambda name, out, show: regard.train(name, out=out, changes=CHANGES, show=show))

    def shown(*tables: str) -> str:
        console = Console(width=120, force_terminal=False)
        with console.capture() as printed:
            model = demo.run(tables, out=tmp_path / "out", show=console)
        scores = model.report["scores"]
        assert f"{scores['mase']:.2f}" in printed.get()
        assert f"{scores['fixed_seasonal_naive_smape']:.2f}" in printed.get()
        return printed.get()

    text = shown()
    assert "last year again, rolling origin" in text
    assert [line.split()[0] for line in text.splitlines() if "80 %:" in line][::5] == ["1961-01-01", "1961-06-01"]
    assert "regard run" in text
    assert (tmp_path / "out" / "forecast.png").stat().st_size > 5000
    assert "1961-01-01" in (tmp_path / "out" / "look.html").read_text("utf-8")
    assert "1958-01-01" in shown("series:airline?until=1957-12")
