import pytest
from rich.console import Console

import regard
from regard.commands.demos import spelling as demo
from small_models import QUICK, words, write_pairs


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """The demo on a lexicon of its own, for four steps: what it prints, given words."""
    write_pairs(tmp_path / "lexicon.tsv", [(word, " ".join(word.upper())) for word in words(200)])
    changes = [*QUICK, f"data.train={tmp_path}/lexicon.tsv", "data.valid=[]", "data.test=[]", "training.threads=1"]
    monkeypatch.setattr(demo, "train", lambda name, out, show: regard.train(name, out=out, changes=changes, show=show))

    def run(*asked):
        console = Console(width=100, force_terminal=False)
        with console.capture() as printed:
            demo.run(asked, out=tmp_path / "out", show=console)
        return printed.get()

    return run


def test_the_demo_scores_pronounces_draws_and_says_what_to_try(shown, tmp_path):
    text = shown("Abba", "bad cab")
    assert "on 5 words it has never seen" in text
    assert "% of words wrong" in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith("  ")][:3] == ["abba", "bad", "cab"]
    assert "</s>" in text
    assert "regard run" in text
    assert str(tmp_path) in "".join(text.split())
    assert (tmp_path / "out" / "weights.safetensors").exists()


def test_the_demo_has_words_of_its_own_and_takes_what_it_cannot_read(shown):
    assert all(word in shown() for word in demo.WORDS)
    assert "東京" in shown("東京")
