"""The task write from text files to continuations: in Python and on the command line."""

import io
import json
import math
import sys
import warnings

import pytest

import regard
from regard import RegardError, cli
from written_models import TEXT, written, written_recipe

EVERY = pytest.mark.parametrize("kind", ["gpt", "rnn", "transformer_xl"])
QUICK = ["training.steps=3", "decoding.max_length=5"]


def weights(path):
    return (path / "weights.safetensors").read_bytes()


# learning


@EVERY
def test_a_small_model_learns_more_than_how_often_a_character_comes(kind):
    model = written(kind)
    shares = [TEXT.count(character) / len(TEXT) for character in set(TEXT)]
    by_frequency = math.exp(-sum(share * math.log(share) for share in shares))
    assert model.report["scores"]["perplexity"] < by_frequency / 3
    assert set(model.report["scores"]) == {"perplexity", "bits_per_character"}


@EVERY
def test_a_loaded_model_writes_and_scores_as_the_trained_one(kind):
    trained = written(kind)
    loaded = regard.load(trained.path)
    assert loaded.answers(["the", "a big", ""]) == trained.answers(["the", "a big", ""])
    assert {name: score.value for name, score in loaded.evaluate().items()} == pytest.approx(trained.report["scores"])


@EVERY
def test_a_run_that_was_stopped_and_gone_on_with_is_the_same(tmp_path, kind):
    changes = ["model.dropout=0.2", *(["data.carry=5"] if kind == "rnn" else [])]
    recipe = written_recipe(tmp_path, kind=kind, steps=17)
    whole = regard.train(recipe, out=tmp_path / "whole", changes=[*changes, "training.schedule=constant"])
    for steps in (5, 12, 17):
        parts = [*changes, "training.schedule=constant", f"training.steps={steps}"]
        again = regard.train(recipe, out=tmp_path / "parts", changes=parts)
    assert weights(again.path) == weights(whole.path)
    assert again.report["tokens"] == whole.report["tokens"]


def test_other_text_is_not_gone_on_with(tmp_path):
    recipe = written_recipe(tmp_path)
    regard.train(recipe, out=tmp_path / "out", changes=QUICK)
    (tmp_path / "text.txt").write_text("other " * 500)
    with pytest.raises(RegardError, match="was trained on other"):
        regard.train(recipe, out=tmp_path / "out", changes=["training.steps=4", "decoding.max_length=5"])


@pytest.mark.parametrize(
    "settings",
    [
        ["tokenizer.kind=byte_bpe", "model.position=rotary", "model.norm=rms", "model.activation=swiglu"],
        ["tokenizer.kind=bpe", "model.key_value_heads=1", "training.accumulate=2", "training.validate_every=2"],
        ["tokenizer.kind=words", "model.position=alibi", "training.label_smoothing=0.1", "data.block=10"],
        ["tokenizer.kind=bytes", "data.hold_out=0.4", "training.ema=0.9"],
    ],
    ids=" ".join,
)
def test_a_recipe_can_ask_for(tmp_path, settings):
    model = regard.train(written_recipe(tmp_path), out=tmp_path / "out", changes=[*QUICK, *settings])
    assert model.report["scores"]["perplexity"] > 1
    assert regard.load(model.path)("the cat") == model("the cat")


def test_test_files_are_judged_and_may_be_several(tmp_path):
    recipe = written_recipe(tmp_path)
    for name in ("one", "two"):
        (tmp_path / f"{name}.txt").write_text(f"the {name} sat.\n")
    files = [str(tmp_path / "one.txt"), str(tmp_path / "two.txt")]
    model = regard.train(recipe, out=tmp_path / "out", changes=[*QUICK, f"data.test={json.dumps(files)}"])
    assert model.judged_on == "data.test"
    assert model.evaluate()["bits_per_character"].signature == "26 characters"
    assert model.evaluate(files)["perplexity"].value == pytest.approx(model.report["scores"]["perplexity"])


# writing


@EVERY
@pytest.mark.filterwarnings("ignore:a prompt is too long")
def test_prompts_together_are_prompts_one_by_one(kind):
    model = written(kind)
    prompts = ["the cat", "a", "the dog sat on the log.\nthe ", ""]
    assert model(prompts) == [model(prompt) for prompt in prompts]
    drawn = model.decoding({"sample": True, "n_best": 3, "seed": 4, "max_length": 50})
    assert model.answers(prompts, decoding=drawn) != model.answers(prompts)
    for prompt, found in zip(prompts, model.answers(prompts, decoding=drawn), strict=True):
        (alone,) = model.answers([prompt], decoding=drawn)
        assert [answer.text for answer in found] == [answer.text for answer in alone]


@pytest.mark.parametrize("tokenizer", ["characters", "byte_bpe", "bpe", "words"])
def test_a_stream_is_the_answer_in_pieces(tokenizer):
    model = written("gpt", tokenizer)
    for stop in ((), ("sat",), ("\n\n", "z")):
        for changes in ({}, {"sample": True, "temperature": 1.5, "seed": 3}):
            decoding = model.decoding(changes)
            pieces = list(model.stream("a big red", decoding=decoding, stop=stop))
            (answer,) = model.answers(["a big red"], decoding=decoding, stop=stop)[0]
            assert "".join(pieces) == answer.text
            assert len(pieces) > 1 or stop
            assert not any(each in answer.text for each in stop)


def test_several_samples_differ_and_a_seed_repeats_them():
    model = written("gpt")
    first = model.write("the", samples=4, temperature=2.0, seed=1)
    assert len(set(first)) > 1
    assert first == model.write("the", samples=4, temperature=2.0, seed=1)
    assert first != model.write("the", samples=4, temperature=2.0, seed=2)


def test_a_beam_is_searched_within_reach_and_refused_beyond():
    model = written("gpt")
    wide, narrow = (
        model.answers(["the cat"], decoding=model.decoding({"beam": beam, "max_length": 8}))[0][0] for beam in (4, 1)
    )
    assert wide.score >= narrow.score
    assert len(wide.text) == len(wide.tokens) == 8
    assert model.write("the cat", beam=4, max_length=8, stop=wide.text[3]) == [wide.text[:3].partition(wide.text[3])[0]]
    with pytest.raises(RegardError, match="more than the 24 the model can look back on"):
        model.write("the cat", beam=3, max_length=30)


@pytest.mark.parametrize("kind", ["gpt", "rnn"])
def test_only_the_end_of_a_long_prompt_is_read_and_that_is_told(kind, monkeypatch):
    monkeypatch.setattr("regard.tasks.write.prompts.LONGEST", 48)
    model, read = written(kind), {"gpt": 12, "rnn": 48}[kind]  # characters are tokens, and the gpt has a block of 24
    prompt = "the cat sat on the mat. " * 100
    told = f"only the last {read} of 2,400 tokens are read"
    with pytest.warns(UserWarning, match=f"a prompt is too long: {told}"):
        answer = model(prompt, max_length=6)
    with pytest.warns(UserWarning, match=told):
        assert "".join(model.stream(prompt, max_length=6)) == answer
    assert model(prompt[-read:], max_length=6) == answer
    with pytest.warns(UserWarning, match=told):
        assert model.look(prompt).notes == (told,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.look(prompt[-read:]).notes == ()
        (told,) = model.look(prompt, reference="the").notes
    assert told == f"only the last {2 * read + 1 if kind == 'gpt' else read + 1} of 2,403 tokens are read"


def test_unknown_characters_in_a_prompt_are_read_as_unknown():
    assert written("gpt")("№ the cat sat on ") is not None


# what is refused


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("data.trian=a.txt", "key 'data.trian' is unknown; did you mean 'data.train'"),
        ("data.columns=3", "did you mean 'data."),
        ("data.block=0", "data.block = 0"),
        ("data.block=25", "data.block=25 exceeds the 24 learned positions"),
        ("data.carry=5", "data.carry=5 is for kinds that carry their state (rnn)"),
        ("data.hold_out=1.5", "data.hold_out = 1.5"),
        ("data.train=none.txt", "none.txt does not exist"),
        ("tokenizer.kind=wordpiece", "loses line ends"),
        ("training.r_drop=1", "training.r_drop = 1.0 has no effect for task"),
        ("model.kind=seq2seq", "model.heads"),
        ("task=translate", "data.block"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path, change, told):
    with pytest.raises(RegardError) as error:
        regard.train(written_recipe(tmp_path), out=tmp_path / "out", changes=[*QUICK, change])
    assert told in str(error.value)


def test_a_kind_that_cannot_write_is_refused(tmp_path):
    recipe = tmp_path / "a.toml"
    recipe.write_text('task = "write"\n[data]\ntrain = "a.txt"\n[model]\nkind = "seq2seq"\n')
    with pytest.raises(RegardError, match=r'task = "write" is for the kinds .*rnn, gpt'):
        regard.train(recipe, out=tmp_path / "out")


@pytest.mark.parametrize(
    ("content", "told"), [("", "is empty"), ("a", "too few"), ("a short text", "10 tokens, not one block of 24")]
)
def test_too_little_text_is_told(tmp_path, content, told):
    recipe = written_recipe(tmp_path)
    (tmp_path / "text.txt").write_text(content)
    with pytest.raises(RegardError) as error:
        regard.train(recipe, out=tmp_path / "out", changes=QUICK)
    assert told in str(error.value)


# the command line


@pytest.fixture
def call(monkeypatch, capsys):
    """The command in this process: its exit code, and what it printed."""
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = 0
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code or 0
        return code, *capsys.readouterr()

    return run


def test_the_bundled_recipe_trains_on_a_file(call, tmp_path):
    (tmp_path / "input.txt").write_text(TEXT, encoding="utf-8")
    small = ["model.width=16", "model.layers=1", "training.steps=2", "training.batch_tokens=128"]
    changes = [part for change in [f"data.train={tmp_path / 'input.txt'}", *small] for part in ("--set", change)]
    code, out, _ = call("train", "shakespeare", "-o", tmp_path / "out", *changes)
    assert code == 0
    assert "perplexity" in out
    assert "bits_per_character" in out


def test_run_prints_the_continuation(call):
    model = written("gpt")
    assert call("run", model.path, "the cat") == (0, model("the cat") + "\n", "")
    assert call("run", model.path, stdin=b"the cat\na big\n")[1] == f"{model('the cat')}\n---\n{model('a big')}\n"
    (short,) = model.write("the cat", stop=["on", "\n"], max_length=20)
    assert call("run", model.path, "the cat", "--stop", "on", "--stop", "\n", "--max-length", "20")[1] == short + "\n"


def test_run_draws_several_samples_and_prints_json(call):
    model = written("rnn")
    options = ["--samples", "3", "--temperature", "1.5", "--seed", "7"]
    drawn = model.write("the", samples=3, temperature=1.5, seed=7)
    assert call("run", model.path, "the", *options)[1] == "\n---\n".join(drawn) + "\n"
    (found,) = [json.loads(line) for line in call("run", model.path, "the", "--json", *options)[1].splitlines()]
    assert found["input"] == "the"
    assert [answer["text"] for answer in found["answers"]] == drawn
    assert "".join(found["answers"][0]["tokens"]) == drawn[0]


def test_evaluate_prints_perplexity_and_bits(call, tmp_path):
    model = written("gpt")
    code, out, _ = call("evaluate", model.path)
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["perplexity", "bits_per_character"])
    (tmp_path / "other.txt").write_text("the cat sat.")
    found = json.loads(call("evaluate", model.path, "--data", tmp_path / "other.txt", "--json")[1])
    assert found["bits_per_character"]["signature"] == "12 characters"


@pytest.mark.parametrize(
    "command",
    [
        ["run", "--prefix", "a"],
        ["run", "--alignment"],
        ["run", "--replace-unknown"],
        ["evaluate", "--beam", "3"],
        ["evaluate", "--tokenized"],
    ],
    ids=" ".join,
)
def test_options_of_pairs_are_refused_on_one_line(call, command):
    code, out, err = call(command[0], written("gpt").path, *command[1:])
    assert (code, out, err.count("\n")) == (2, "", 1)
    told = "has no effect on a model that answers with texts" if command[0] == "run" else "is for models of pairs"
    assert f"{command[1]} {told}" in err
