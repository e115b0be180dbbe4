import json
import re
import shutil
import tomllib
import zipfile
from pathlib import Path

import pytest

import regard
from regard import RegardError, durable, recipes
from regard.data.pairs import shortlist
from regard.data.pairs.examples import PairsData
from regard.models import config_class
from regard.recipes import Recipe
from regard.tasks.translate.task import Translate
from small_models import KNOWN, MIXED, QUICK, SEED, copying, reversing, reversing_recipe, words, write_pairs

BOTH = pytest.mark.parametrize("kind", ["transformer", "seq2seq"])


def weights(path):
    return (Path(path) / "weights.safetensors").read_bytes()


# learning


@BOTH
def test_a_small_model_learns_to_spell_backwards(kind):
    model = reversing(kind)
    assert model.report["scores"]["exact"] >= 80, f"seed {SEED}"
    assert model("abcd") == "dcba"


@BOTH
def test_a_loaded_model_gives_the_answers_of_the_trained_one(kind):
    trained = reversing(kind)
    loaded = regard.load(trained.path)
    assert loaded.answers(MIXED) == trained.answers(MIXED)
    assert (loaded.recipe, loaded.report) == (trained.recipe, trained.report)
    assert not loaded.module.training


def test_attention_of_a_model_that_copies_follows_the_words():
    model = copying()
    (answer,) = model.answers(["big old dog sees cat"])[0]
    assert model.word_alignment("big old dog sees cat", answer) == [(word, word) for word in range(5)]


def test_a_lexicon_is_judged_by_words_and_symbols(tmp_path):
    write_pairs(tmp_path / "words.tsv", [(word, " ".join(word.upper())) for word in words(100)])
    changes = [f"data.train={tmp_path}/words.tsv", "task=transcribe", "tokenizer.shared=false"]
    changes += ["tokenizer.kind=characters", "tokenizer.target_kind=words", "training.validate_every=2"]
    model = regard.train("demo", out=tmp_path / "out", changes=[*QUICK, *changes, "data.valid=[]", "data.test=[]"])
    assert list(model.report["scores"]) == ["word_error", "symbol_error"]
    assert list(model.report["validations"][0]) == ["step", "loss", "word_error"]


@pytest.mark.parametrize(
    "settings",
    [
        ["training.label_smoothing=0.0"],
        ["training.label_smoothing=0.3", "training.accumulate=2"],
        ["training.r_drop=5", "model.dropout=0.2"],
        ["training.ema=0.9", "training.average=2", "training.checkpoint_every=1"],
        ["training.validate_every=2", "training.checkpoint_every=2", "training.average_of=best", "training.average=2"],
        ["training.validate_every=1", "training.patience=1", "training.checkpoint_every=1"],
        ["training.minutes=0.0001"],
        ["tokenizer.kind=bpe", "tokenizer.vocabulary=50", "tokenizer.dropout=0.3"],
        ["tokenizer.shared=false", "tokenizer.target_kind=bytes"],
        ["data.max_length=4", "data.max_ratio=1.5", "data.drop_duplicates=true"],
        ["model.kind=seq2seq", "model.score=none"],
        ["model.kind=seq2seq", "model.choice=hard", "training.r_drop=1"],
    ],
    ids=" ".join,
)
def test_a_recipe_can_ask_for(tmp_path, settings):
    recipe = reversing_recipe(tmp_path)
    kind = ["model.heads=2", "model.hidden=64"] if "model.kind=seq2seq" not in settings else []
    text = recipe.read_text("utf-8").replace("heads = 2\nhidden = 64", "")
    recipe.write_text(text, encoding="utf-8")
    model = regard.train(recipe, out=tmp_path / "out", changes=[*QUICK, *kind, *settings])
    assert 0 <= model.report["scores"]["exact"] <= 100
    assert regard.load(model.path)("abc") == model("abc")


# the directory


def test_a_model_directory_holds_what_is_needed_and_no_pickle():
    model = reversing("transformer")
    files = {"recipe.toml", "weights.safetensors", "tokenizer.json", "report.json", "curve.png", "checkpoints"}
    assert {path.name for path in model.path.iterdir()} - {"runtime"} == files  # kept there once `regard run` ran
    every = [path for path in model.path.rglob("*") if path.is_file() and "runtime" not in path.parts]
    assert len(every) > len(files)
    assert {path.suffix for path in every} == {".toml", ".safetensors", ".json", ".png", ".arrow"}
    assert not any(path.read_bytes().startswith(b"\x80") or zipfile.is_zipfile(path) for path in every)


def test_a_shortlist_is_learnt_unless_none_is_wanted_or_nothing_can_use_it(tmp_path, monkeypatch):
    recipe = reversing_recipe(tmp_path)
    monkeypatch.setattr(shortlist, "COMMON", 1)
    without = ["decoding.shortlist=false"], ["model.decoder=ssru"]
    for number, changes in enumerate(without):
        model = regard.train(recipe, out=tmp_path / str(number), changes=[*QUICK, *changes])
        assert not (model.path / shortlist.NAME).exists()
    listed = regard.train(recipe, out=tmp_path / "listed", changes=QUICK)
    found = shortlist.Shortlist.load(listed.path / shortlist.NAME)
    assert found.listed.shape[0] == listed.task.tokenizers.source.size
    monkeypatch.setattr(shortlist, "COMMON", 1000)
    model = regard.train(recipe, out=tmp_path / "few", changes=QUICK)
    assert not (model.path / shortlist.NAME).exists()  # of a small vocabulary, every token is common


def test_separate_tokenizers_have_a_file_each(tmp_path):
    changes = [*QUICK, "tokenizer.shared=false"]
    model = regard.train(reversing_recipe(tmp_path), out=tmp_path / "out", changes=changes)
    assert {"source.json", "target.json"} == {path.name for path in model.path.glob("*.json")} - {"report.json"}


def test_a_model_answers_without_its_checkpoints(tmp_path):
    trained = reversing("seq2seq")
    shutil.copytree(trained.path, tmp_path / "moved", ignore=shutil.ignore_patterns("checkpoints", "report.json"))
    assert regard.load(tmp_path / "moved")(MIXED) == trained(MIXED)


def test_the_report_says_what_the_run_was_and_how_its_scores_came_about():
    model = reversing("transformer")
    keys = ["task", "kind", "parameters", "steps", "tokens", "seconds", "tokens_per_second", "flops", "scores", "seed"]
    assert list(model.report)[: len(keys)] == keys
    assert model.report["signatures"] == {name: score.signature for name, score in model.evaluate().items()}
    assert json.loads((model.path / "report.json").read_text("utf-8")) == model.report


def test_the_stored_recipe_is_complete_and_trains_the_same(tmp_path):
    first = regard.train(reversing_recipe(tmp_path), out=tmp_path / "first", changes=QUICK)
    assert recipes.load(first.path / "recipe.toml") == first.recipe
    again = regard.train(first.path / "recipe.toml", out=tmp_path / "again")
    assert weights(again.path) == weights(first.path)


@pytest.mark.parametrize("name", ["weights.safetensors", "tokenizer.json", "recipe.toml", "report.json"])
@pytest.mark.parametrize("damage", ["cut", "garbled", "folder"])
def test_a_damaged_file_is_named(tmp_path, name, damage):
    shutil.copytree(reversing("seq2seq").path, tmp_path / "model")
    file = tmp_path / "model" / name
    content = file.read_bytes()
    file.unlink()
    if damage == "folder":
        file.mkdir()
    else:
        file.write_bytes(content[: len(content) // 2] if damage == "cut" else b"\xff\x00" + content[2:])
    with pytest.raises(RegardError, match=name):
        regard.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["weights.safetensors", "tokenizer.json", "recipe.toml"])
def test_a_missing_file_is_named(tmp_path, name):
    shutil.copytree(reversing("seq2seq").path, tmp_path / "model")
    (tmp_path / "model" / name).unlink()
    with pytest.raises(RegardError, match=name):
        regard.load(tmp_path / "model")


def test_a_model_that_cannot_answer_pairs_is_refused(tmp_path):
    (tmp_path / "write.toml").write_text('[data]\ntrain = "pairs.tsv"\n[model]\nkind = "gpt"')
    with pytest.raises(RegardError, match=r'is for the kinds .*transformer.*, and not for kind = "gpt"'):
        regard.train(tmp_path / "write.toml", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_weights_of_another_model_are_refused(tmp_path):
    shutil.copytree(reversing("seq2seq").path, tmp_path / "model")
    shutil.copy(reversing("transformer").path / "weights.safetensors", tmp_path / "model")
    with pytest.raises(RegardError, match=r"model.kind is .seq2seq. and was .transformer."):
        regard.load(tmp_path / "model")


# going on

FULL = ["model.dropout=0.2", "training.ema=0.9", "training.average=2", "training.checkpoint_every=3"]
FULL += ["tokenizer.kind=bpe", "tokenizer.vocabulary=50", "tokenizer.dropout=0.2", "training.r_drop=1"]


def test_more_steps_later_give_the_weights_of_all_steps_at_once(tmp_path):
    recipe = reversing_recipe(tmp_path)
    for out, steps in (("whole", 11), ("parts", 5), ("parts", 11)):
        changes = [*QUICK, *FULL, "training.schedule=constant", f"training.steps={steps}"]
        model = regard.train(recipe, out=tmp_path / out, changes=changes)
        assert model.report["steps"] == steps
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")


def test_a_run_that_broke_off_ends_with_the_weights_of_one_that_did_not(tmp_path, monkeypatch):
    recipe = reversing_recipe(tmp_path)
    changes = [*QUICK, *FULL, "training.schedule=cosine", "training.steps=11", "training.validate_every=2"]
    regard.train(recipe, out=tmp_path / "whole", changes=changes)
    validate, calls = Translate.validation_score, []

    def break_off(self, answers, references):
        calls.append(len(calls))
        if len(calls) == 4:
            raise RuntimeError("the power went")
        return validate(self, answers, references)

    monkeypatch.setattr(Translate, "validation_score", break_off)
    with pytest.raises(RuntimeError, match="the power went"):
        regard.train(recipe, out=tmp_path / "broken", changes=changes)
    assert not (tmp_path / "broken" / "weights.safetensors").exists()
    regard.train(recipe, out=tmp_path / "broken", changes=changes)
    assert weights(tmp_path / "whole") == weights(tmp_path / "broken")


def test_training_what_is_trained_changes_nothing(tmp_path, capsys):
    recipe = reversing_recipe(tmp_path)
    first = regard.train(recipe, out=tmp_path / "out", changes=QUICK)
    before = {path: path.stat().st_mtime_ns for path in first.path.iterdir() if path.suffix != ".toml"}
    again = regard.train(recipe, out=tmp_path / "out", changes=QUICK, show=True)
    assert again.report == first.report
    assert before == {path: path.stat().st_mtime_ns for path in first.path.iterdir() if path.suffix != ".toml"}
    assert "nothing is left to do: all 4 steps are made" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("model.width=34", "model.width: 32 → 34"),
        ("training.learning_rate=0.02", "training.learning_rate: 0.01 → 0.02"),
        ("data.max_length=9", "data.max_length: 256 → 9"),
        ("tokenizer.kind=bytes", "tokenizer.kind: characters → bytes"),
    ],
)
def test_another_recipe_on_the_same_directory_is_refused_by_its_key(tmp_path, change, told):
    recipe = reversing_recipe(tmp_path)
    path = regard.train(recipe, out=tmp_path / "out", changes=QUICK).path
    before = weights(path), (path / "recipe.toml").read_bytes()
    with pytest.raises(RegardError, match=told):
        regard.train(recipe, out=path, changes=[*QUICK, change])
    assert before == (weights(path), (path / "recipe.toml").read_bytes())


def test_a_run_does_not_go_on_with_other_pairs(tmp_path):
    recipe = reversing_recipe(tmp_path)
    pairs = Path(regard.train(recipe, out=tmp_path / "out", changes=QUICK).recipe.data.train)
    before = pairs.read_text()
    pairs.write_text(before.replace("a", "b"))
    longer = [*QUICK, "training.steps=9"]
    with pytest.raises(RegardError, match=r"out was trained on other data than data\.train has now"):
        regard.train(recipe, out=tmp_path / "out", changes=longer)
    pairs.write_text(before)  # later than it was, but the same
    assert regard.train(recipe, out=tmp_path / "out", changes=longer).report["steps"] == 9


def test_going_on_says_from_where(tmp_path, capsys):
    recipe = reversing_recipe(tmp_path)
    regard.train(recipe, out=tmp_path / "out", changes=QUICK, show=True)
    assert "going on" not in capsys.readouterr().err
    regard.train(recipe, out=tmp_path / "out", changes=[*QUICK, "training.steps=9"], show=True)
    assert "resuming from step 4" in capsys.readouterr().err


def test_a_directory_in_use_is_left_alone(tmp_path):
    recipe = reversing_recipe(tmp_path)
    (tmp_path / "out").mkdir()
    with durable.alone(tmp_path / "out"), pytest.raises(RegardError, match="out is being trained by another process"):
        regard.train(recipe, out=tmp_path / "out", changes=QUICK)
    regard.train(recipe, out=tmp_path / "out", changes=QUICK)


def test_an_attempt_that_learned_nothing_does_not_bind_the_next(tmp_path):
    recipe = reversing_recipe(tmp_path)
    with pytest.raises(RegardError, match=r"missing\.tsv does not exist"):
        regard.train(recipe, out=tmp_path / "out", changes=[*QUICK, "data.valid=missing.tsv"])
    changes = [*QUICK, "tokenizer.shared=false", "tokenizer.kind=bytes"]
    model = regard.train(recipe, out=tmp_path / "out", changes=changes)
    fresh = regard.train(recipe, out=tmp_path / "fresh", changes=changes)
    assert weights(model.path) == weights(fresh.path)
    assert not (model.path / "tokenizer.json").exists()


def test_a_test_set_that_cannot_be_read_is_told_before_training(tmp_path):
    with pytest.raises(RegardError, match=r"missing\.tsv does not exist"):
        regard.train(reversing_recipe(tmp_path), out=tmp_path / "out", changes=[*QUICK, "data.test=missing.tsv"])
    assert not list((tmp_path / "out" / "checkpoints").glob("step-*"))


def test_a_finished_model_without_checkpoints_is_not_overwritten(tmp_path):
    recipe = reversing_recipe(tmp_path)
    path = regard.train(recipe, out=tmp_path / "out", changes=QUICK).path
    shutil.rmtree(path / "checkpoints")
    before = weights(path)
    with pytest.raises(RegardError, match="no checkpoint to resume from"):
        regard.train(recipe, out=path, changes=[*QUICK, "training.steps=9"])
    assert weights(path) == before


def test_a_recipe_by_name_trains_in_a_folder_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path / "my.tsv", [(f"a {word} cat", f"le {word} chat") for word in KNOWN * 10])
    changes = [
        *QUICK,
        "training.patience=0",
        "data.train=my.tsv",
        "model.layers=1",
        "model.width=16",
        "model.hidden=16",
    ]
    assert regard.train("pairs", changes=changes).path == Path("runs/pairs")
    recipe = recipes.load("pairs", changes)
    assert regard.train(recipe).path == Path("runs/model")
    assert weights("runs/model") == weights("runs/pairs")


# the page about it


def explained_keys(block):
    """{table: keys} of a TOML block, also of lines that are off."""
    found, table = {}, ""
    for line in block.splitlines():
        table = line.strip("[]") if line.startswith("[") else table
        if key := re.match(r"(?:# )?(\w+) = ", line):
            found.setdefault(table, set()).add(key[1])
    return found


def test_the_page_explains_every_key_and_gives_its_default():
    pages = (Path(__file__).parents[2] / "docs" / name for name in ("translate.md", "conv-seq2seq.md"))
    text = "".join(page.read_text("utf-8") for page in pages)
    blocks = re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    every, *others = (
        next(block for block in blocks if text in block) for text in ("label_smoothing", "bidirectional", "kernel")
    )
    given, keys = tomllib.loads(every), explained_keys(every)
    tables = {name: Recipe.model_fields[name].annotation for name in ("tokenizer", "training", "decoding")}
    for name, config in {**tables, "data": PairsData, "model": config_class("transformer")}.items():
        assert keys[name] - {"preset"} == {field.alias or key for key, field in config.model_fields.items()}
        given[name].pop("train", None)
        defaults = {"label_smoothing": 0.1} if name == "training" else {}  # of pairs
        assert config(**given[name]) == config(**defaults)
    for kind, block in zip(("seq2seq", "conv_seq2seq"), others, strict=True):
        assert explained_keys(block)["model"] == set(config_class(kind).model_fields)
        assert config_class(kind)(**tomllib.loads(block)["model"]) == config_class(kind)()


def test_what_is_for_bodies_is_refused_elsewhere(tmp_path):
    with pytest.raises(RegardError, match=r'training\.freeze = 2 has no effect for task = "transl'):
        regard.train("pairs", out=tmp_path / "out", changes=["training.freeze=2", "data.train=a.tsv"])
