import os
import shutil

import pytest

from made_models import write_model
from regard.engines.ctranslate2 import cache


@pytest.fixture(autouse=True)
def user_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "regard"


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "model")


def names(directory):
    return sorted(path.name for path in (directory / "runtime").iterdir())


def works(converted):
    translator = converted.open(compute_type="float32", workers=1, threads=1)
    return len(translator.translate_batch([["w1", "w2"]], max_decoding_length=3)) == 1


def test_a_model_is_converted_once(model, monkeypatch):
    first = cache.converted(model, positions=64)
    assert first.path.parent == model / "runtime"
    assert works(first)
    monkeypatch.setattr("regard.interchange.ctranslate2.convert", None)
    assert cache.converted(model, positions=64) == first


@pytest.mark.parametrize("changed", ["weights.safetensors", "recipe.toml", "source.json"])
def test_it_is_converted_anew_when_what_it_was_made_from_changes(model, changed):
    before = cache.converted(model, positions=64)
    stat = (model / changed).stat()
    os.utime(model / changed, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000))
    after = cache.converted(model, positions=64)
    assert after.path != before.path
    assert names(model) == [after.path.name]


def test_new_weights_give_new_answers(tmp_path):
    scores = []
    for seed in (1, 2):
        model = write_model(tmp_path / "model", seed=seed)
        translator = cache.converted(model, positions=64).open(compute_type="float32", workers=1, threads=1)
        scores.append(translator.score_batch([["w1"]], [["w2"]])[0].log_probs)
    assert scores[0] != pytest.approx(scores[1], abs=1e-3)


def test_longer_tables_stand_beside_the_usual_ones(model):
    assert {cache.converted(model, positions=64).path, cache.converted(model, positions=128).path} == set(
        (model / "runtime").iterdir()
    )


def test_where_the_model_cannot_be_written_beside_it_is_kept_in_the_users_cache(model, user_cache):
    (model / "runtime").write_text("a file where a folder should be: as good as read-only, even for root")
    found = cache.converted(model, positions=64)
    assert found.path.is_relative_to(user_cache)
    assert works(found)
    assert cache.converted(model, positions=64) == found


def test_where_nothing_can_be_written_it_is_held_in_memory(model, user_cache):
    (model / "runtime").write_text("no folder")
    user_cache.parent.mkdir()
    user_cache.write_text("no folder")
    found = cache.converted(model, positions=64)
    assert found.path is None
    assert works(found)


def test_a_process_that_was_slower_takes_what_the_faster_one_made(model):
    found = cache.converted(model, positions=64)
    kept = {path.name: path.read_bytes() for path in found.path.iterdir()}
    cache._keep(found.path, {"model.bin": b"another"})
    assert {path.name: path.read_bytes() for path in found.path.iterdir()} == kept
    assert names(model) == [found.path.name]


def test_two_models_do_not_share_a_place_in_the_users_cache(model, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(model, other)
    for directory in (model, other):
        (directory / "runtime").write_text("no folder")
    assert cache.converted(model, positions=64).path.parent != cache.converted(other, positions=64).path.parent
