import json
import random
import shutil
import zipfile
from pathlib import Path

import pytest

import regard
from regard import RegardError, recipes
from regard.api import Validator
from small_models import KNOWN, LETTERS, SEED, copying, reversing, reversing_recipe, words, write_pairs

BOTH = pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
MIXED = ["".join(random.Random(n).choices(LETTERS, k=n)) for n in (5, 1, 11, 3, 2, 7, 4)]
QUICK = ["training.steps=4", "training.validate_every=0", "decoding.max_length=5", "data.hold_out=5"]


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


# answering


def test_one_text_gives_one_answer_and_a_list_a_list():
    model = reversing("transformer")
    assert model(["abc", "dd"]) == [model("abc"), model("dd")]
    assert model([]) == []


def test_nothing_is_answered_to_nothing():
    model = reversing("transformer")
    assert model(["", "abc", "  "]) == ["", model("abc"), ""]
    (answer,) = model.answers([""], decoding=model.decoding({"n_best": 3}))[0]
    assert (answer.text, answer.tokens, answer.logprobs) == ("", (), ())
    assert model.word_alignment("", answer) == []


@BOTH
@pytest.mark.parametrize("beam", [1, 3])
def test_a_batch_gives_the_answers_of_one_by_one(kind, beam):
    model = reversing(kind)
    decoding = model.decoding({"beam": beam, "n_best": beam})
    together = model.answers(MIXED, decoding=decoding)
    alone = [model.answers([text], decoding=decoding)[0] for text in MIXED]
    assert [[a.tokens for a in found] for found in together] == [[a.tokens for a in found] for found in alone]
    for one, other in zip(together, alone, strict=True):
        assert [a.score for a in one] == pytest.approx([a.score for a in other], abs=1e-4)


@pytest.mark.parametrize("together", [1, 2, 100])
def test_a_stream_keeps_the_order_of_its_texts(together):
    model = reversing("transformer")
    texts = [*MIXED, "", "abc"]
    found = list(model.stream(iter(texts), together=together))
    assert [text for text, _ in found] == texts
    assert [answers[0].text for _, answers in found] == model(texts)


def test_the_n_best_are_different_and_the_best_comes_first():
    model = reversing("transformer")
    found = model.answers(["abcde"], decoding=model.decoding({"n_best": 7}))[0]
    scores = [answer.score for answer in found]
    assert len({answer.text for answer in found}) == 7
    assert scores == sorted(scores, reverse=True)
    assert found[0].text == model("abcde")
    assert scores[0] == pytest.approx(sum(found[0].logprobs) / len(found[0].logprobs))


def test_an_answer_begins_with_its_prefix():
    model = reversing("transformer")
    assert [found[0].text[:2] for found in model.answers(MIXED, prefix="ca")] == ["ca"] * len(MIXED)


def test_sampling_is_repeated_by_its_seed():
    model = reversing("transformer")
    drawn = [
        [a[0].text for a in model.answers(MIXED, decoding=model.decoding({"sample": True, "temperature": 5.0} | seed))]
        for seed in ({"seed": 3}, {"seed": 3}, {"seed": 4})
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_words_that_are_unknown_are_copied_from_the_source():
    model = copying()
    decoding = model.decoding({"replace_unknown": True})
    texts = ["big zebra sees cat", "old old emu", "dog likes gnu"]
    assert "<unk>" in model(texts[0])
    assert [found[0].text for found in model.answers(texts, decoding=decoding)] == texts
    several = model.answers(texts[:1], decoding=model.decoding({"replace_unknown": True, "n_best": 3}))[0]
    assert not any("<unk>" in answer.text for answer in several)


@BOTH
def test_alignments_have_a_row_for_each_piece_of_the_answer_and_a_column_for_each_of_the_source(kind):
    model = reversing(kind)
    (answer,) = model.answers(["abc"])[0]
    source, target, looked = model.alignment("abc", answer)
    assert source == ["a", "b", "c", "</s>"]
    assert target == model.pieces(answer) == list(answer.text)
    assert looked.shape == (len(target), len(source))
    assert looked.sum(1).tolist() == pytest.approx([1.0] * len(target), abs=1e-5)
    assert model.word_alignment("abc", answer) == [(0, 0)]


def test_a_model_without_attention_says_that_it_cannot_align(tmp_path):
    changes = [*QUICK, "model.score=none"]
    model = regard.train(reversing_recipe(tmp_path, kind="seq2seq"), out=tmp_path / "out", changes=changes)
    with pytest.raises(RegardError, match="nothing can be aligned"):
        model.word_alignment("abc", model.answers(["abc"])[0][0])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"beem": 3}, "'beem' is unknown; did you mean 'beam'"),
        ({"n_best": 3, "beam": 2}, "n_best=3 exceeds beam=2"),
        ({"temperature": 0.5}, "without sample=true"),
        ({"beam": "many"}, "beam = 'many'"),
    ],
)
def test_wrong_decoding_settings_are_told(settings, told):
    with pytest.raises(RegardError, match=told):
        reversing("transformer").decoding(settings)


# scoring


def test_evaluating_a_file_counts_what_is_right(tmp_path):
    model = reversing("transformer")
    pairs = [(word, word[::-1]) for word in words(40)]
    right = sum(model(source) == target for source, target in pairs)
    file = write_pairs(tmp_path / "test.tsv", pairs)
    scores = model.evaluate(file)
    assert scores["exact"].value == pytest.approx(100 * right / len(pairs))
    assert "tok:13a" in scores["bleu"].signature
    assert "tok:none" in model.evaluate(str(file), tokenize="none")["bleu"].signature


def test_two_files_of_lines_score_as_one_of_pairs(tmp_path):
    model = reversing("transformer")
    pairs = [(word, word[::-1]) for word in words(20)]
    one = write_pairs(tmp_path / "test.tsv", pairs)
    for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        (tmp_path / side).write_text("\n".join(lines) + "\n", encoding="utf-8")
    two = {"source": str(tmp_path / "source"), "target": str(tmp_path / "target")}
    assert model.evaluate(two) == model.evaluate(one)


def test_any_target_of_a_source_counts_as_right_and_blank_lines_do_not_count(tmp_path):
    model = reversing("transformer")
    pairs = [("abc", "wrong"), ("abc", model("abc")), ("", ""), ("dd", "wrong"), ("", "")]
    file = write_pairs(tmp_path / "test.tsv", pairs)
    assert model.references(file) == {"abc": ["wrong", model("abc")], "dd": ["wrong"]}
    assert model.evaluate(file)["exact"].value == 50


def test_without_a_file_a_model_is_judged_on_what_it_did_not_learn_from():
    model = reversing("transformer")
    assert model.judged_on == "the pairs held out of data.train"
    assert {name: score.value for name, score in model.evaluate().items()} == model.report["scores"]
    assert len(model.references()) == 60


@pytest.mark.parametrize("data", [42, {"source": "only.txt"}, {"source": "a", "target": "b", "third": "c"}])
def test_what_names_no_pairs_is_told(data):
    with pytest.raises(RegardError, match="data: "):
        reversing("transformer").evaluate(data)


def test_a_file_of_blank_lines_cannot_be_scored(tmp_path):
    (tmp_path / "blank.tsv").write_text("\n\n")
    with pytest.raises(RegardError, match=r"blank\.tsv has no pairs"):
        reversing("transformer").evaluate(tmp_path / "blank.tsv")


def test_two_models_are_compared_on_the_same_pairs(tmp_path):
    good = reversing("transformer")
    bad = regard.train(reversing_recipe(tmp_path), out=tmp_path / "bad", changes=QUICK)
    apart, same = good.compare(bad), good.compare(good)
    assert all(row["p"] == 1 and row["first"] == row["second"] for row in same.values())
    assert apart["ter"]["first"] == pytest.approx(good.report["scores"]["ter"])
    assert apart["ter"]["first"] < apart["ter"]["second"]
    assert apart["ter"]["p"] < 0.05


# the directory


def test_a_model_directory_holds_what_is_needed_and_no_pickle():
    model = reversing("transformer")
    files = {"recipe.toml", "weights.safetensors", "tokenizer.json", "report.json", "curve.png", "checkpoints"}
    assert {path.name for path in model.path.iterdir()} == files
    every = [path for path in model.path.rglob("*") if path.is_file()]
    assert len(every) > len(files)
    assert {path.suffix for path in every} == {".toml", ".safetensors", ".json", ".png", ".arrow"}
    assert not any(path.read_bytes().startswith(b"\x80") or zipfile.is_zipfile(path) for path in every)


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


def test_weights_of_another_model_are_refused(tmp_path):
    shutil.copytree(reversing("seq2seq").path, tmp_path / "model")
    shutil.copy(reversing("transformer").path / "weights.safetensors", tmp_path / "model")
    with pytest.raises(RegardError, match="does not fit the model"):
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
    validate, calls = Validator.__call__, []

    def break_off(self, module):
        calls.append(len(calls))
        if len(calls) == 4:
            raise RuntimeError("the power went")
        return validate(self, module)

    monkeypatch.setattr(Validator, "__call__", break_off)
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
    with pytest.raises(RegardError, match="no checkpoint to go on from"):
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
