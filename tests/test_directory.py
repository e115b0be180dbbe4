"""A model directory names the file that is damaged or missing, and what to do about it."""

import re
import shutil
import subprocess
import sys

import pytest
import safetensors.torch

import regard
from regard.directory import ModelDirectory
from regard.errors import RegardError
from regard.special import OWN
from regard.tasks.base import Codec
from small_models import QUICK, reversing_recipe


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


# the [model] of recipe.toml belongs to the weights


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    regard.train(reversing_recipe(folder), out=folder / "model", changes=QUICK)
    return folder / "model"


def changed(trained, folder, before, after):
    """A copy of a model directory with a change to its recipe."""
    copy = shutil.copytree(trained, folder / "copy")
    recipe, times = re.subn(before, after, (copy / "recipe.toml").read_text(), flags=re.MULTILINE)
    assert times == 1
    (copy / "recipe.toml").write_text(recipe)
    return ModelDirectory(copy)


# each leaves the name and the shape of every weight as it is
CHANGES = {
    "heads": ("^heads = 2", "heads = 4", "model.heads is 4 and was 2"),
    "activation": ('^activation = "relu"', 'activation = "gelu"', "model.activation is 'gelu' and was 'relu'"),
    "scale": ("^scale = true", "scale = false", "model.scale is False and was True"),
    "position": ('^position = "sinusoidal"', 'position = "rotary"', "model.position is 'rotary' and was 'sinusoidal'"),
    "a key taken away": ("^heads = 2\n", "", "model.heads is not given and was 2"),
    "a key added": ("^heads = 2", "heads = 2\ndecoder_heads = 4", "model.decoder_heads is 4 and was not given"),
    "a key of a table inside": ("^eos = 3", "eos = 2", "model.special.eos is 2 and was 3"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_weights_refuse_another_model_than_they_were_trained_with(trained, tmp_path, name):
    before, after, told = CHANGES[name]
    directory = changed(trained, tmp_path, before, after)
    for use in (directory.tables, lambda: regard.load(directory.path)):
        with pytest.raises(RegardError, match=rf"recipe\.toml is not the recipe that .* trained with: {told}"):
            use()


def test_a_key_of_a_later_version_is_no_change(trained, tmp_path):
    changed(trained, tmp_path, "^heads = 2", "heads = 2\nkey_of_a_later_version = 3").tables()


def test_weights_without_a_note_are_loaded_as_before(trained, tmp_path):
    directory = changed(trained, tmp_path, "^heads = 2", "heads = 4")
    safetensors.torch.save_file(directory.weights(), directory.path / "weights.safetensors")
    regard.load(directory.path)


@pytest.mark.parametrize("note", ["", "[]", '{"model": 3}', '{"model": {}, "sum": "x"}'])
def test_a_damaged_note_is_told(trained, tmp_path, note):
    directory = changed(trained, tmp_path, "^heads = 2", "heads = 2")
    safetensors.torch.save_file(directory.weights(), directory.path / "weights.safetensors", {"regard": note})
    with pytest.raises(RegardError, match=r"weights\.safetensors is damaged"):
        directory.tables()


@pytest.mark.parametrize("runtime", ["torch", "ctranslate2"])
def test_numbers_that_were_changed_are_told(trained, tmp_path, runtime):
    from regard.commands.run import run

    directory = changed(trained, tmp_path, "^heads = 2", "heads = 2")
    content = bytearray((directory.path / "weights.safetensors").read_bytes())
    content[-5] ^= 1
    (directory.path / "weights.safetensors").write_bytes(content)
    with pytest.raises(RegardError, match=r"weights\.safetensors is damaged .*not those that were written"):
        run(directory.path, [["abc"]], {"runtime": runtime})


def test_a_changed_byte_of_a_tokenizer_is_told(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "model")
    path = tmp_path / "model" / "tokenizer.json"
    path.write_text(path.read_text().replace('"a"', '"ä"', 1))
    with pytest.raises(
        RegardError, match=r"tokenizer\.json is not the tokenizer that weights\.safetensors was trained"
    ):
        regard.load(tmp_path / "model")
    told = subprocess.run(
        [sys.executable, "-m", "regard", "run", str(tmp_path / "model"), "abc"], capture_output=True, check=False
    )
    assert (told.returncode, b"is not the tokenizer that" in told.stderr) == (2, True)


def test_weights_that_say_nothing_of_tokenizers_are_loaded(trained, tmp_path):
    """Those of earlier versions, and those of other programs."""
    shutil.copytree(trained, tmp_path / "model")
    path = tmp_path / "model" / "weights.safetensors"
    safetensors.torch.save_file(safetensors.torch.load_file(path), path)
    assert regard.load(tmp_path / "model").task is not None
