import os
import shutil

import pytest

from made_models import write_model
from regard.engines.ctranslate2 import cache
from regard.engines.ctranslate2.plans import Plan
from regard.errors import RegardError


@pytest.fixture(autouse=True)
def user_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "regard"


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "model")


CHANGES = {
    "weights.safetensors": lambda path: flip(path),
    "recipe.toml": lambda path: path.write_text(path.read_text() + "# a comment"),
    "source.json": lambda path: path.write_text(path.read_text() + " "),
}


def names(directory):
    return sorted(path.name for path in (directory / "runtime").iterdir())


def works(converted):
    translator = converted.open("Translator", Plan("float32", workers=1, threads=1))
    return len(translator.translate_batch([["w1", "w2"]], max_decoding_length=3)) == 1


def test_a_model_is_converted_once(model, monkeypatch):
    first = cache.converted(model, positions=64)
    assert first.path.parent == model / "runtime"
    assert works(first)
    monkeypatch.setattr("regard.interchange.ctranslate2.convert", None)
    assert cache.converted(model, positions=64) == first


@pytest.mark.parametrize("changed", CHANGES)
def test_it_is_converted_anew_when_what_it_was_made_from_changes(model, changed):
    before = cache.converted(model, positions=64)
    CHANGES[changed](model / changed)
    after = cache.converted(model, positions=64)
    assert after.path != before.path
    assert names(model) == [after.path.name]


def test_new_weights_give_new_answers(tmp_path):
    scores = []
    for seed in (1, 2):
        model = write_model(tmp_path / "model", seed=seed)
        translator = cache.converted(model, positions=64).open("Translator", Plan("float32", workers=1, threads=1))
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


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def become_a_pipe(path):
    path.unlink()
    os.mkfifo(path)


# what may happen to a converted model (kept), beside that of another one; nothing of it may answer
DAMAGES = {
    "flipped": lambda kept, _: flip(kept / "model.bin"),
    "truncated": lambda kept, _: os.truncate(kept / "model.bin", 1000),
    "empty": lambda kept, _: os.truncate(kept / "model.bin", 0),
    "missing": lambda kept, _: (kept / "model.bin").unlink(),
    "foreign weights": lambda kept, other: shutil.copy(other / "model.bin", kept),
    "foreign": lambda kept, other: shutil.copytree(other, kept, dirs_exist_ok=True),
    "foreign vocabulary": lambda kept, _: (kept / "target_vocabulary.json").write_text("[]"),
    "one more file": lambda kept, _: (kept / "vmap.txt").write_text("w1\tw2\n"),
    "no note": lambda kept, _: (kept / "made.json").unlink(),
    "damaged note": lambda kept, _: (kept / "made.json").write_text("[" * 100_000),
    "pipe": lambda kept, _: become_a_pipe(kept / "config.json"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_or_foreign_one_is_made_anew(model, tmp_path, what):
    kept = cache.converted(model, positions=64).path
    sound = {path.name: path.read_bytes() for path in kept.iterdir()}
    other = cache.converted(write_model(tmp_path / "other", seed=2), positions=64).path
    DAMAGES[what](kept, other)
    with pytest.warns(UserWarning, match="is damaged or was made of another model"):
        again = cache.converted(model, positions=64)
    assert {path.name: path.read_bytes() for path in again.path.iterdir()} == sound
    assert names(model) == [kept.name]
    assert cache.converted(model, positions=64) == again


def test_notes_of_measurements_do_not_matter(model):
    kept = cache.converted(model, positions=64)
    (kept.path / "plans.json").write_text("{}")
    assert cache.converted(model, positions=64) == kept


def test_weights_of_the_same_size_and_time_are_seen(model, tmp_path):
    before = cache.converted(model, positions=64)
    weights, stat = model / "weights.safetensors", (model / "weights.safetensors").stat()
    other = write_model(tmp_path / "other", seed=2) / "weights.safetensors"
    assert other.stat().st_size == stat.st_size
    shutil.copy(other, weights)
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert cache.converted(model, positions=64).path != before.path


def test_what_ctranslate2_cannot_open_is_told(model):
    found = cache.converted(model, positions=64)
    os.truncate(found.path / "model.bin", 1000)
    with pytest.raises(RegardError, match=r"CTranslate2 cannot open .* --runtime torch"):
        found.open("Translator", Plan("float32", workers=1, threads=1))


def test_a_path_that_is_not_utf_8_is_opened(model, tmp_path):
    odd = tmp_path / os.fsdecode(b"mod\xe9l")
    shutil.copytree(model, odd)
    assert works(cache.converted(odd, positions=64))
