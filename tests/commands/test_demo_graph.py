from pathlib import Path

import pytest
from rich.console import Console

import regard
from regard.commands.demos import chosen
from regard.commands.demos import graph as demo

CHANGES = ['data.train="graph:lookup?keys=3&groups=12&noise=1"', "model.width=8", "training.steps=4",
           "training.validate_every=2", "training.checkpoint_every=4", "training.threads=1"]  # fmt: skip


def test_the_demo_scores_answers_draws_and_says_what_to_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(["graph", "0:1?"]) == ("graph", ["0:1?"])
    monkeypatch.setattr(demo, "train", lambda name, out, show: regard.train(name, out=out, changes=CHANGES, show=show))

    def shown(*nodes: str) -> tuple[list[str], str]:
        console = Console(width=200, force_terminal=False)
        with console.capture() as printed:
            demo.run(nodes, out=tmp_path / "out", show=console)
        text = printed.get()
        answered = [line.split()[0] for line in text.splitlines() if line.startswith("  ") and "regard" not in line]
        return answered, text

    answered, text = shown()
    assert len(answered) == 3  # the askers of a group held out for testing
    assert len({node.split(":")[0] for node in answered}) == 1
    model = regard.load(tmp_path / "out")
    assert set(answered) <= set(model.task.lines(model.examples()))
    assert "same for all 3 askers of a group, whose answers all differ: it gives 33 %" in text
    assert "regard run" in text
    assert (tmp_path / "out" / "look.png").stat().st_size > 5000
    assert answered[0] in (tmp_path / "out" / "look.html").read_text("utf-8")
    assert shown("0:1?", "0:2?")[0] == ["0:1?", "0:2?"]
