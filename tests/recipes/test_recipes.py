"""Recipes: what comes along, what is refused, and how."""

import os
from pathlib import Path

import pytest

from regard import models, recipes, tasks
from regard.errors import RegardError
from regard.recipes.presets import PRESETS
from regard.tasks.base import OPTIONAL_KEYS

FILES = sorted((Path(recipes.__file__).parent).glob("*.toml"))
GOOD = """
task = "translate"
[data]
train = "a.tsv"
[model]
kind = "transformer"
preset = "tiny"
"""


def test_recipes_were_found():
    assert len(FILES) == len(recipes.bundled())
    wanted = {
        "g2p",
        "demo",
        "pairs",
        "multi30k-en-de",
        "multi30k-en-fr",
        "iwslt14-de-en",
        "wmt14-en-de",
        "rnn-attention",
    }
    assert wanted <= set(recipes.bundled())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_bundled_recipe_builds_its_model_and_says_what_it_is(path: Path):
    recipe = recipes.load(path.stem)
    assert recipes.bundled()[path.stem]
    if recipe.kind == "body":  # whose sizes are known when it is there
        assert recipe.model.body
        return
    import torch

    with torch.device("meta"):
        models.from_config(recipe.model, **(models.SIZES.get(models.KINDS[recipe.kind].form) or {"vocabulary": 300}))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_complete_recipe_reads_as_itself(path: Path):
    recipe = recipes.load(path.stem)
    assert recipes.parse(recipe.to_toml(), where="complete") == recipe


@pytest.mark.parametrize("kind", PRESETS)
def test_presets_exist_as_published(kind: str):
    assert {"tiny", "small"} <= PRESETS[kind].keys()
    for preset in PRESETS[kind]:
        text = f'[model]\nkind = "{kind}"\npreset = "{preset}"'
        recipes.parse(text, where="preset")


def test_special_ids_of_an_imported_model_are_kept():
    text = '[model]\nkind = "gpt"\nvocabulary = 50257\n[model.special]\nbos = 50256\neos = 50256'
    recipe = recipes.parse(text, where="imported")
    assert recipes.parse(recipe.to_toml(), where="again") == recipe
    assert recipe.model.special.pad is None
    with pytest.raises(RegardError, match=r"did you mean 'model.special.mask'"):
        recipes.parse(text + "\nmaske = 3", where="imported")


def test_keys_of_the_recipe_win_over_the_preset():
    recipe = recipes.parse(GOOD, where="x", changes=["model.layers=7"])
    assert (recipe.model.layers, recipe.model.width) == (7, 128)


def test_a_change_may_be_any_toml_or_a_plain_string():
    changes = ["training.steps=12", "data.valid=b.tsv", 'data.test={source="a.en", target="a.de"}', "model.tied=false"]
    recipe = recipes.parse(GOOD, where="x", changes=changes)
    assert (recipe.training.steps, recipe.data.valid, recipe.model.tied) == (12, "b.tsv", False)
    assert recipe.data.test.target == "a.de"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("model.widht=3", "x.toml: key 'model.widht' is unknown; did you mean 'model.width'"),
        ("training.stps=3", "did you mean 'training.steps'"),
        ("trainin.steps=3", "did you mean 'training'"),
        ("data.columns.sorce=3", "did you mean 'data.columns.source'"),
        ("training.steps=many", "training.steps = 'many': input should be a valid integer"),
        ("training.steps=0", "greater than or equal to 1"),
        ("model.kind=transfromer", "did you mean 'transformer'"),
        ("model.preset=huge", "there are tiny, small, base, big, auto"),
        ("tokenizer.kind=bep", "input should be 'bpe'"),
        ("decoding.n_best=9", "n_best=9 exceeds beam=5"),
        ("steps", "expected KEY=VALUE"),
        ("task.x=1", "has no parts"),
    ],
)
def test_a_mistake_is_named_with_what_to_do(change: str, sentence: str):
    with pytest.raises(RegardError) as error:
        recipes.parse(GOOD, where="x.toml", changes=[change])
    assert sentence in str(error.value)


def test_a_recipe_that_is_not_there_or_not_toml(tmp_path: Path):
    with pytest.raises(RegardError, match="did you mean 'pairs'"):
        recipes.load("pair")
    with pytest.raises(RegardError, match="recipe 'xyz' is unknown; there are addition, "):
        recipes.load("xyz")
    with pytest.raises(RegardError, match=r"my.tsv does not exist; check the path"):
        recipes.load("my.tsv")
    with pytest.raises(RegardError, match="is a folder without pictures"):
        recipes.load(tmp_path)
    with pytest.raises(RegardError, match="does not exist"):
        recipes.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = = 3")
    with pytest.raises(RegardError, match=r"bad\.toml is not TOML"):
        recipes.load(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    ("megabytes", "size", "dropout", "steps"),
    [(0.0001, 128, 0.3, 4000), (4, 128, 0.3, 24_400), (20, 128, 0.1, 61_000), (200, 512, 0.1, 100_000)],
)
def test_size_dropout_and_steps_fit_the_data(tmp_path: Path, megabytes: float, size: int, dropout: float, steps: int):
    with (tmp_path / "my.tsv").open("wb") as file:
        file.truncate(round(1e6 * megabytes))
    train, said = f"data.train={tmp_path / 'my.tsv'}", list[str]()
    found = recipes.load("pairs", [train], tell=said.append)
    assert (found.model.width, found.model.dropout, found.training.steps) == (size, dropout, steps)
    assert said[0].startswith(f"data.train has {megabytes:,.1f} MB of text: preset ")
    assert said[0].endswith(f"dropout {dropout:g}, at most {steps:,} steps")
    planned = recipes.load("pairs", [train, "training.minutes=30"], tell=said.append)
    assert planned.training.steps == 100_000
    assert said[-1].endswith("as many steps as fit")
    given = recipes.load("pairs", [train, "model.dropout=0.2", "training.steps=7", "model.preset=base"])
    assert (given.model.width, given.model.dropout, given.training.steps) == (512, 0.2, 7)


def test_differences_name_keys_and_values():
    one, other = (recipes.parse(GOOD, where="x", changes=[f"training.steps={n}", f"training.seed={n}"]) for n in (3, 4))
    assert recipes.differences(one, other, except_for=("training.steps",)) == ["training.seed: 3 → 4"]


@pytest.mark.parametrize(
    ("task", "given", "expected"), [("translate", "", 0.1), ("write", "", 0.0), ("write", "label_smoothing = 0.2", 0.2)]
)
def test_labels_are_smoothed_by_default_for_pairs_alone(task: str, given: str, expected: float):
    kind = "transformer" if task == "translate" else "gpt"
    text = f'task = "{task}"\n[data]\ntrain = "x"\n[model]\nkind = "{kind}"\n'
    assert recipes.parse(f"{text}[training]\n{given}", where="test").training.label_smoothing == expected


CHANGED = {
    "tokenizer.dropout": "tokenizer.dropout=0.1",
    "tokenizer.shared": "tokenizer.shared=false",
    "tokenizer": "tokenizer.vocabulary=77",
    "training.batch_tokens": "training.batch_tokens=77",
    "training.batch_size": "training.batch_size=77",
    "training.label_smoothing": "training.label_smoothing=0.3",
    "training.r_drop": "training.r_drop=2",
    "training.freeze": "training.freeze=1",
    "training.layer_decay": "training.layer_decay=0.9",
    "training.lora": "training.lora=4",
    "model.body": "model.body=elsewhere",
    "decoding": "decoding.beam=7",
}


def test_every_key_that_only_some_tasks_use_is_tried():
    assert CHANGED.keys() == set(OPTIONAL_KEYS)


@pytest.mark.parametrize("task", tasks.TASKS)
@pytest.mark.parametrize("key", OPTIONAL_KEYS)
def test_a_key_that_a_task_does_not_use_is_refused(task: str, key: str):
    form = tasks.task(task).forms[0]
    kind = {"pairs": "transformer", "causal": "gpt", "encoder": "bert"}.get(form) or models.kinds(form)[0]
    text = f'task = "{task}"\n[model]\nkind = "{kind}"'
    recipes.parse(text, where="test").refuse_ignored()
    if key == "model.body" and "body" not in models.config_class(kind).model_fields:
        return
    pieces = ["tokenizer.kind=bpe"] if (task, key) == ("caption", "tokenizer.dropout") else []  # words have none
    changed = recipes.parse(text, where="test", changes=[CHANGED[key], *pieces])
    if key in tasks.task(task).honours:
        changed.refuse_ignored()
    else:
        with pytest.raises(RegardError, match=rf'{key}.* has no effect for task = "{task}"; leave it out'):
            changed.refuse_ignored()


@pytest.mark.parametrize(
    "key",
    ["model.width", "model.layers", "training.threads", "training.steps", "data.max_length", "tokenizer.vocabulary"],
)
@pytest.mark.parametrize("number", [10**20, -(10**20), 10**400])
def test_numbers_that_nothing_can_compute_with_are_refused(key: str, number: int):
    with pytest.raises(RegardError, match=f"x.toml: {key} = -?1000") as error:
        recipes.parse(GOOD, where="x.toml", changes=[f"{key}={number}"])
    assert len(str(error.value)) < 300  # of which 200 are the number


@pytest.mark.parametrize(
    "change", ["data=3", "data=[1]", "model=3", "model=[]", "model.preset=[]", "model.preset={}", "training=x"]
)
def test_what_is_no_table_is_refused(change: str):
    with pytest.raises(RegardError, match=r"^x\.toml: "):
        recipes.parse(GOOD, where="x.toml", changes=[change])


def test_a_recipe_that_is_no_regular_file_is_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(RegardError, match="is not a regular file"):
        recipes.load(tmp_path / "pipe.toml")
