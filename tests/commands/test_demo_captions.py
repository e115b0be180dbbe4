from pathlib import Path

import pytest
from rich.console import Console

import regard
from regard.commands.demos import captions as demo
from regard.commands.demos import chosen

CHANGES = [
    *("training.steps=2", "training.batch_size=8", "training.warmup=1", "training.threads=1", "model.width=12"),
    *(
        "model.filters=4",
        "model.stride=8",
        "model.blocks=[1, 0, 0]",
        "decoding.max_length=6",
        "training.validate_every=0",
    ),
    *(f'data.{part}="drawn:{part}?examples=12"' for part in ("train", "valid", "test")),
]


def test_the_demo_scores_describes_draws_and_says_what_to_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(["captions", "a.png"]) == ("captions", ["a.png"])
    monkeypatch.setattr(demo, "train", lambda name, out, show: regard.train(name, out=out, changes=CHANGES, show=show))

    def shown(*pictures: str) -> str:
        console = Console(width=120, force_terminal=False)
        with console.capture() as printed:
            demo.run(pictures, out=tmp_path / "out", show=console)
        return printed.get()

    text = shown()
    assert "% of captions are exactly right" in text
    assert text.count("\n  scene:") == demo.SHOWN
    assert "regard run" in text
    assert (tmp_path / "out" / "looked.png").stat().st_size > 5000
    assert "data:image/png;base64," in (tmp_path / "out" / "look.html").read_text("utf-8")
    assert "scene:red star 20 20 9\n" in shown("scene:red star 20 20 9")
