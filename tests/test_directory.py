"""A model directory names the file that is damaged or missing, and what to do about it."""

import pytest

from regard.directory import ModelDirectory
from regard.errors import RegardError
from regard.special import OWN
from regard.tasks.base import Codec


def test_a_directory_that_is_no_model_is_told(tmp_path):
    with pytest.raises(RegardError, match=r"is not a model directory: it has no weights\.safetensors"):
        ModelDirectory(tmp_path).tables()
    (tmp_path / "weights.safetensors").touch()
    with pytest.raises(RegardError, match=r"recipe\.toml cannot be read"):
        ModelDirectory(tmp_path).tables()
    (tmp_path / "recipe.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(RegardError, match=r"recipe\.toml cannot be read"):
        ModelDirectory(tmp_path).tables()


@pytest.mark.parametrize("content", ["3", "null", "[1, 2]", "{", "[" * 100_000])
def test_labels_that_are_no_list_of_texts_are_told(tmp_path, content):
    (tmp_path / "labels.json").write_text(content)
    with pytest.raises(RegardError, match=r"labels\.json"):
        ModelDirectory(tmp_path).codec(OWN)


def test_a_codec_is_read_as_it_was_written(tmp_path):
    directory = ModelDirectory(tmp_path)
    directory.write(Codec(labels=("no", "ja", "vielleicht")))
    assert directory.codec(OWN) == Codec(labels=("no", "ja", "vielleicht"))
    directory.write(Codec())
    assert directory.codec(OWN) == Codec()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000])
def test_a_damaged_report_is_told_and_a_missing_one_is_empty(tmp_path, content):
    assert ModelDirectory(tmp_path).report() == {}
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(RegardError, match=r"report\.json is damaged"):
        ModelDirectory(tmp_path).report()
