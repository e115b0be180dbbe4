"""The key `attention` of [model]: every form in every kind that has it, from the recipe to the record."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import regard
from regard import models, recipes
from regard.errors import RegardError

VOCABULARY = 23
FORMS: dict[str, dict[str, Any]] = {
    "exact": {},
    "window": {"window": 3},
    "big_bird": {"blocks": 2, "window": 2},
    "linformer": {"rank": 4, "projections": "per_head"},
    "performer": {"features": 16, "redraw": 2, "hyperbolic": True},
}
CAUSAL = [form for form in FORMS if form != "linformer"]

RECIPE = """
task = "{task}"
[data]
train = "{train}"
{data}
[tokenizer]
kind = "characters"
[model]
{model}
layers = 1
width = 16
heads = 2
dropout = 0.1
attention = "{form}"
[training]
steps = 4
batch_tokens = 128
warmup = 1
learning_rate = 0.01
label_smoothing = 0.0
validate_every = 0
checkpoint_every = 3
threads = 1
{decoding}
"""
TASKS = {
    "write": ("text.txt", "block = 16\nhold_out = 0.2", 'kind = "gpt"\nmaximum = 16', CAUSAL),
    "classify": ("rows.tsv", "max_length = 32\nhold_out = 2", 'kind = "bert"\nmaximum = 32\npooling = "mean"', FORMS),
    "translate": ("rows.tsv", "hold_out = 2", 'kind = "transformer"\nmaximum = 64', FORMS),
}
ROADS = [(task, form) for task, row in TASKS.items() for form in row[3]]


def built(kind: str, **options: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"layers": 2, "width": 16, "heads": 2, "dropout": 0.0, "maximum": 24}
    return models.build(kind, vocabulary=VOCABULARY, **sizes, **options).double().eval()


def tokens(rows: int, length: int) -> torch.Tensor:
    return torch.randint(4, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("form", CAUSAL)
@pytest.mark.parametrize("position", ["learned", "rotary"])
def test_a_causal_model_sees_no_later_token_and_steps_equal_one_pass(form: str, position: str):
    model = built("gpt", position=position, attention=form, **FORMS[form])
    rows = tokens(3, 12)
    whole = model.output(model(rows))
    changed = rows.clone()
    changed[:, 9:] = 5
    assert torch.equal(model.output(model(changed))[:, :9], whole[:, :9])
    lengths = torch.tensor([5, 2, 4])
    state = model.start(model.encode(rows[:, :5] * (torch.arange(5) < lengths.unsqueeze(1)), lengths))
    token = rows[torch.arange(3), lengths - 1]
    for step in range(5):
        logits, state = model.step(token, state)
        expected = torch.stack([whole[row, length - 1 + step] for row, length in enumerate(lengths.tolist())])
        assert_close(logits, expected, atol=1e-5, rtol=1e-5)
        token = rows[torch.arange(3), lengths + step]
        order = torch.tensor([2, 0, 1])
        state, token, rows, whole, lengths = (
            state.reorder(order),
            token[order],
            rows[order],
            whole[order],
            lengths[order],
        )


@pytest.mark.parametrize("form", CAUSAL)
def test_a_decoder_of_every_form_steps_as_it_learns(form: str):
    model = built("transformer", decoder_attention=form, **FORMS[form])
    source, target = tokens(2, 7), tokens(2, 6)
    source[1, 4:] = 0
    whole = model.output(model(source, None, target))
    state = model.start(model.encode(source))
    for step in range(6):
        logits, state = model.step(target[:, step], state)
        assert_close(logits, whole[:, step], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["bert", "transformer"])
def test_padding_changes_nothing(kind: str, form: str):
    model = built(kind, attention=form, **FORMS[form])
    rows, lengths = tokens(3, 12), torch.tensor([12, 7, 9])
    read = model.states if kind == "bert" else lambda rows, lengths: model.encode(rows, lengths).states
    for row, length in enumerate(lengths.tolist()):
        rows[row, length:] = 0
        alone = read(rows[row : row + 1, :length], lengths[row : row + 1])
        assert_close(read(rows, lengths)[row : row + 1, :length], alone)


def recipe(folder: Path, task: str, form: str, *changes: str) -> recipes.Recipe:
    train, data, model, _ = TASKS[task]
    words = ["red cat", "big dog", "old bird", "sad film"]
    (folder / "text.txt").write_text("\n".join(words * 12), encoding="utf-8")
    (folder / "rows.tsv").write_text("\n".join(f"{a} {b}\t{a[:3]}" for a in words for b in words), encoding="utf-8")
    decoding = "" if task == "classify" else "[decoding]\nbeam = 2\nmax_length = 6"
    text = RECIPE.format(task=task, train=folder / train, data=data, model=model, form=form, decoding=decoding)
    settings = [f"model.{key}={str(value).lower()}" for key, value in FORMS[form].items()]
    return recipes.parse(text, where="test", changes=[*settings, *changes])


@pytest.mark.parametrize(("task", "form"), ROADS)
def test_the_whole_road(tmp_path: Path, task: str, form: str):
    regard.train(recipe(tmp_path, task, form), out=tmp_path / "model")
    model = regard.load(tmp_path / "model")
    answers = model(["red cat", "big"])
    assert answers == regard.load(tmp_path / "model")(["red cat", "big"])
    record = model.look("red cat")
    own = [each for each in record.maps if each.name.endswith("attention") and "decoder" not in each.name]
    assert own
    for each in own:
        assert_close(each.weights.sum(-1), torch.ones(each.weights.shape[:2]))
        if form == "linformer":
            assert each.key == "projected"
            assert record.sides["projected"].items == ("projected 1", "projected 2", "projected 3", "projected 4")


@pytest.mark.parametrize(
    ("task", "form"), [("write", "performer"), ("translate", "performer"), ("classify", "linformer")]
)
def test_a_run_that_is_resumed_ends_with_the_same_weights(tmp_path: Path, task: str, form: str):
    def weights(name: str, steps: int) -> bytes:
        changes = (
            [f"training.steps={steps}", "training.accumulate=2"] if task == "write" else [f"training.steps={steps}"]
        )
        regard.train(recipe(tmp_path, task, form, *changes), out=tmp_path / name)
        return (tmp_path / name / "weights.safetensors").read_bytes()

    assert weights("one", 4) != weights("one", 7)
    assert weights("one", 7) == weights("other", 7)


@pytest.mark.parametrize(
    ("kind", "settings", "told"),
    [
        ("gpt", {"attention": "linformer"}, 'choose "performer", "window" or "big_bird"'),
        ("gpt", {"attention": "big_bird", "random": 2}, "random blocks may lie in the future"),
        ("gpt", {"attention": "performer", "position": "alibi"}, "never computes the score of a pair"),
        ("transformer", {"attention": "linformer", "position": "shaw"}, "never computes the score of a pair"),
        ("transformer", {"decoder_attention": "linformer"}, "decoder_attention"),
        ("bert", {"window": 5}, 'a setting of attention = "window" or "big_bird"'),
        ("bert", {"attention": "linformer", "rank": 65, "maximum": 64}, "more than the 64 positions"),
        ("bert", {"attention": "performer", "features": 7, "hyperbolic": "true"}, "choose an even number"),
        ("bert", {"attention": "performer", "rank": 5}, 'a setting of attention = "linformer"'),
        ("bert", {"attention": "big_bird", "blocks": 4, "window": 8}, "an odd number of blocks"),
        ("bert", {"attention": "nearest"}, "attention"),
    ],
)
def test_what_cannot_be_is_refused_when_the_recipe_is_read(
    tmp_path: Path, kind: str, settings: dict[str, Any], told: str
):
    task = {"gpt": "write", "bert": "classify", "transformer": "translate"}[kind]
    changes = [f"model.{key}={value}" for key, value in settings.items()]
    with pytest.raises(RegardError, match=told):
        recipe(tmp_path, task, "exact", *changes)


@pytest.mark.parametrize(("task", "form"), [("write", "window"), ("classify", "performer"), ("translate", "performer")])
def test_a_form_that_nobody_else_has_is_not_exported(tmp_path: Path, task: str, form: str):
    changes = ["model.pooling=pooler"] if task == "classify" else []
    regard.train(recipe(tmp_path, task, form, *changes), out=tmp_path / "model")
    with pytest.raises(RegardError, match="attention"):
        regard.load(tmp_path / "model").export(tmp_path / "theirs")
