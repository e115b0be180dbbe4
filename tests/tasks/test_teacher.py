import json
from pathlib import Path

import pytest

import regard
from regard import RegardError
from regard.tasks.translate import teacher
from small_models import QUICK, reversing, reversing_recipe, write_pairs


@pytest.fixture
def student(tmp_path):
    """A recipe whose targets are nonsense."""
    write_pairs(tmp_path / "nonsense.tsv", [(word, "x") for word in ("abc", "de", "edcb", "aab", "bad", "c")])
    taught = f"data.teacher={json.dumps(str(reversing('transformer').path))}"
    changes = [*QUICK, f"data.train={tmp_path}/nonsense.tsv", "data.hold_out=1", taught]
    recipe, out = reversing_recipe(tmp_path), tmp_path / "out"
    return lambda *more, show=False: regard.train(recipe, out=out, changes=[*changes, *more], show=show)


def parts(model):
    return sorted((model.path / "checkpoints" / "teacher").glob("*.jsonl"))


def test_the_targets_are_what_the_teacher_answers(student, monkeypatch, capsys):
    monkeypatch.setattr(teacher, "PART", 3)
    model = student(show=True)
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("the teacher")]
    assert said == ["the teacher answers: 3 pairs", "the teacher answers: 5 pairs"]
    pairs = [json.loads(line) for part in parts(model) for line in part.read_text().splitlines()]
    assert [len(part.read_text().splitlines()) for part in parts(model)] == [3, 2]
    answers = reversing("transformer")([pair["source"] for pair in pairs])
    assert [pair["target"] for pair in pairs] == answers
    assert "x" not in model.task.tokenizers.target.tokens("x")

    first, second = parts(model)
    second.unlink()  # as if it had been stopped there
    monkeypatch.setattr(teacher, "_answers", lambda _, chunk: ["again"] * len(chunk))
    with pytest.raises(RegardError, match="other data"):
        student("training.steps=9")
    assert "again" not in first.read_text()
    assert second.read_text().count("again") == 2


def test_what_is_no_model_cannot_teach(student, tmp_path):
    with pytest.raises(RegardError, match=r"data\.teacher=.*nobody is no model directory"):
        student(f"data.teacher={tmp_path}/nobody")


def test_a_teacher_that_fails_says_why(student, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    Path(broken / "weights.safetensors").write_bytes(b"")
    with pytest.raises(RegardError, match=r"the teacher .*broken could not answer: .*recipe\.toml"):
        student(f"data.teacher={broken}")
