"""What Python sees: the names, short forms, wrong types as sentences."""

import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard import RegardError
from regard.api.training import Telling
from small_models import QUICK, reversing, reversing_recipe

WRONG = [None, 3, 2.5, b"abc", {"a": 1}, {"text": None}, (), object(), len, True, [None], [["a"]], {1, 2}]


def test_the_names_of_the_package_are_listed_without_importing_torch():
    code = """
import regard, sys
wanted = {"Model", "RegardError", "export_model", "import_model", "load", "look", "models", "recipes", "train"}
assert wanted <= set(dir(regard)), dir(regard)
assert "torch" not in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert all(getattr(regard, name) is not None for name in dir(regard))


@pytest.mark.parametrize("asked", WRONG, ids=lambda asked: type(asked).__name__)
def test_an_input_of_a_wrong_type_is_a_sentence(asked):
    model = reversing("transformer")
    with pytest.raises(RegardError, match="give a text"):
        model(asked)
    with pytest.raises(RegardError, match="give a text"):
        model.look(asked)


@pytest.mark.parametrize(
    "asked", [None, 3, "abc", {"text": "abc"}, object(), len], ids=lambda each: type(each).__name__
)
def test_answers_are_given_to_lists_alone(asked):
    with pytest.raises(RegardError, match="a list of inputs is expected"):
        reversing("transformer").answers(asked)


def test_options_are_given_by_name():
    model = reversing("transformer")
    assert model("abcd", beam=1) == model("abcd", beam=3) == "dcba"
    with pytest.raises(RegardError, match="--beem has no effect"):
        model("abcd", beem=1)


def test_a_model_is_shown_in_one_short_line():
    model = reversing("transformer")
    assert repr(model) == f'<translate model "{model.path}": transformer, 21,664 parameters>'


def test_a_model_goes_out_and_comes_back(tmp_path):
    model = reversing("transformer")
    model.export(tmp_path / "theirs")
    recipe = regard.import_model(tmp_path / "theirs", tmp_path / "ours")
    assert recipe.task == model.recipe.task
    assert regard.load(tmp_path / "ours")("abcd") == model("abcd")


@pytest.mark.parametrize("path", [None, 3, ["a"], "a\0b", "x" * 5000], ids=lambda path: repr(path)[:20])
def test_what_cannot_be_a_path_is_a_sentence(path, tmp_path):
    model = reversing("transformer")
    for call in (
        lambda: regard.load(path),
        lambda: regard.export_model(path, tmp_path / "out"),
        lambda: model.export(path),
        lambda: regard.import_model(model.path, path),
        lambda: regard.train(reversing_recipe(tmp_path), out=path if path is not None else 3),
    ):
        with pytest.raises(RegardError, match="path") as error:
            call()
        assert len(str(error.value)) < 400


def test_what_cannot_be_a_recipe_or_a_change_is_a_sentence():
    for recipe in (None, 3, "x" * 5000, "a\0b"):
        with pytest.raises(RegardError):
            regard.train(recipe)
    with pytest.raises(RegardError, match="expected KEY=VALUE"):
        regard.train("pairs", changes=[3])


def test_what_takes_long_is_told_without_a_terminal_too(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Telling, "FIRST", -1.0)
    monkeypatch.setattr(Telling, "EVERY", -1.0)
    regard.train(reversing_recipe(tmp_path), out=tmp_path / "out", changes=QUICK, show=True)
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == ["reading the examples", "learning a vocabulary"]
    assert "the weights are those of step 4, the last one" in said


def test_a_file_is_trained_by_its_name_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"{'good' if number % 2 else 'bad'} {number}\t{number % 2}\n" for number in range(40)]
    Path("mine.tsv").write_text("".join(rows))
    changes = ["training.steps=2", "training.validate_every=1", "training.checkpoint_every=1", "tokenizer.kind=words"]
    model = regard.train("mine.tsv", changes=changes, show=True)
    assert model.path == Path("runs/mine")
    assert [each["label"] for each in sorted(model("good 3"), key=lambda each: each["label"])] == ["0", "1"]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "mine.tsv is trained with the recipe labels: column 2 has 2 different values in 40 lines"
    assert said[1] == "columns: text = 1, label = 2 (by position: no header names them)"
    assert regard.train("mine.tsv", changes=changes).report == model.report


@pytest.mark.parametrize("value", ["3", 1.5, float("nan"), [], {}, b"x", 10**20, -(10**20), object()])
def test_what_look_cannot_show_is_told(value):
    model = reversing("transformer")
    for key in ("layer", "head"):
        with pytest.raises(RegardError, match=f"look: {key} = "):
            model.look("abc", **{key: value})
    if not isinstance(value, str):
        with pytest.raises(RegardError, match="look: reference = "):
            model.look("abc", reference=value)


@pytest.mark.parametrize("value", [3, None, 1.5, "training.steps=4", b"x", {"training.steps": 4}])
def test_changes_that_are_no_list_are_told(value):
    with pytest.raises(RegardError, match=r"changes = .*: a list is expected"):
        regard.train("pairs", changes=value)


@pytest.mark.parametrize("value", [10**20, -(10**20), 2**63, 0, -1, True, "3", 1.5, float("nan"), [], {}])
@pytest.mark.parametrize("key", ["beam", "n_best", "max_length"])
def test_a_number_that_no_search_can_have_is_told(key, value):
    with pytest.raises(RegardError, match=rf"decoding: ({key}|beam) = "):
        reversing("transformer")("abc", **{key: value})
