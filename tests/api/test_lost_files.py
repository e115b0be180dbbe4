"""Files that are damaged or removed, and disks that are full, while training and importing."""

import json
import shutil

import pytest

import regard
from faulty_disk import FullDisk, failing
from regard import RegardError
from regard.api import training
from regard.api.exchange import import_model
from regard.training.watchers import Validation
from small_models import QUICK, reversing, reversing_recipe

DAMAGES = ["", "garbage", "[]", "{}", "3", "[" * 100_000]


@pytest.mark.parametrize("how", DAMAGES, ids=lambda how: how[:10])
def test_a_damaged_note_about_the_data_is_a_warning(tmp_path, how):
    recipe = reversing_recipe(tmp_path)
    path = regard.train(recipe, out=tmp_path / "out", changes=QUICK).path
    note = path / "checkpoints" / "learned-from.json"
    before = note.read_bytes()
    note.write_text(how)
    with pytest.warns(UserWarning, match=r"learned-from\.json is damaged and is written again"):
        model = regard.train(recipe, out=path, changes=[*QUICK, "training.steps=6"])
    assert model.report["steps"] == 6
    assert note.read_bytes() == before


@pytest.mark.parametrize("name", ["weights.safetensors", "report.json"])
@pytest.mark.parametrize("how", DAMAGES, ids=lambda how: how[:10])
def test_a_finished_directory_that_is_damaged_is_mended_by_training_again(tmp_path, name, how):
    recipe = reversing_recipe(tmp_path)
    first = regard.train(recipe, out=tmp_path / "out", changes=QUICK)
    before = (first.path / "weights.safetensors").read_bytes()
    (first.path / name).write_text(how)
    if (name, how) == ("report.json", "{}"):  # an object, as every report
        again = regard.train(recipe, out=first.path, changes=QUICK)
    else:
        with pytest.warns(UserWarning, match=f"{name} is damaged .* is written again"):
            again = regard.train(recipe, out=first.path, changes=QUICK)
    assert (first.path / "weights.safetensors").read_bytes() == before
    assert regard.load(first.path).report == again.report
    assert again.report["scores"] == first.report["scores"]


def test_a_directory_that_is_removed_while_training_ends_in_a_sentence(tmp_path, monkeypatch):
    validate = Validation.__call__

    def remove(self, run):
        if run.step == 3:
            shutil.rmtree(tmp_path / "out")
        validate(self, run)

    monkeypatch.setattr(Validation, "__call__", remove)
    changes = [*QUICK, "training.validate_every=1", "training.checkpoint_every=1"]
    with pytest.raises(RegardError, match="was removed while training in it"):
        regard.train(reversing_recipe(tmp_path), out=tmp_path / "out", changes=changes)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["recipe.toml", "tokenizer.json"])
def test_a_file_that_is_removed_while_training_is_named_at_the_end(tmp_path, monkeypatch, name):
    train_in = training.train_in

    def train_and_remove(*arguments, **settings):
        (tmp_path / "out" / name).unlink()
        return train_in(*arguments, **settings)

    monkeypatch.setattr(training, "train_in", train_and_remove)
    with pytest.raises(RegardError, match=f"was changed while training in it: {name} of it is missing"):
        regard.train(reversing_recipe(tmp_path), out=tmp_path / "out", changes=QUICK)


def test_a_full_disk_is_a_sentence_wherever_training_is(tmp_path):
    """At operations from the first to the last; with space again, the same command ends well."""
    recipe, out = reversing_recipe(tmp_path), tmp_path / "out"
    changes = [*QUICK, "training.steps=2", "tokenizer.shared=false"]
    operations = []
    with failing(operations.append):
        whole = regard.train(recipe, out=tmp_path / "whole", changes=changes)
    for at in range(0, len(operations), len(operations) // 5):
        with failing(FullDisk(at)), pytest.raises(RegardError, match=r"the disk is full|No space left"):
            regard.train(recipe, out=out, changes=changes)
        model = regard.train(recipe, out=out, changes=changes)
        assert (model.path / "weights.safetensors").read_bytes() == (whole.path / "weights.safetensors").read_bytes()
        shutil.rmtree(out)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A translator as a Hugging Face directory."""
    out = tmp_path_factory.mktemp("exported") / "marian"
    regard.export_model(reversing("transformer").path, out)
    return out


def test_a_full_disk_leaves_nothing_of_an_import(tmp_path, exported):
    for at in range(1000):
        out = tmp_path / "model"
        try:
            with failing(FullDisk(at)):
                import_model(exported, out)
        except RegardError:
            if out.exists():  # the disk was full when all was written and in its place
                break
        else:
            break
    assert at > 5
    assert json.loads((out / "report.json").read_bytes())["steps"] == 0
    assert regard.load(out)("abc") == reversing("transformer")("abc")
