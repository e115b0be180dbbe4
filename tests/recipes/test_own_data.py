"""Recipes for data of one's own: the columns that are found, the recipe that fits, and what is said of it."""

import json
import random

import pyarrow
import pyarrow.parquet
import pytest

from regard import recipes
from regard.errors import RegardError
from regard.recipes.own_data import find_columns, recipe_for
from regard.tasks.classify.task import Classify
from regard.tasks.tag.task import Tag

DRAW = random.Random(1)
TEXTS = [" ".join(DRAW.choices("abcdefghijklmnop", k=DRAW.randint(4, 9))) for _ in range(60)]
LABELS = [("good", "bad", "so so")[number % 3] for number in range(60)]
ROLES = ("text", "pair", "label")


def table(*columns, header=None):
    return [*([header] if header else []), *zip(*columns, strict=True)]


def write(path, rows, separator="\t"):
    path.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return str(path)


NUMBERS = range(60)
FILES = [
    (table(TEXTS, LABELS), {"text": 1, "label": 2}, "by position"),
    (table(LABELS, TEXTS), {"text": 2, "label": 1}, "by position"),
    (table(NUMBERS, LABELS, TEXTS), {"text": 3, "label": 2}, "by position"),
    (table(TEXTS, LABELS, header=("sentence", "label")), {"text": "sentence", "label": "label"}, "from the header"),
    (table(LABELS, TEXTS, header=("Class", "Review")), {"text": "Review", "label": "Class"}, "from the header"),
    (table(TEXTS, LABELS, header=("content", "category")), {"text": "content", "label": "category"}, "from the header"),
    (table(TEXTS, LABELS, header=("text", "target")), {"text": "text", "label": "target"}, "from the header"),
    (
        table(NUMBERS, TEXTS, LABELS, header=("id", "what was said", "sentiment")),
        {"text": "what was said", "label": "sentiment"},
        "from the header",
    ),
    (
        table(NUMBERS, TEXTS, LABELS, header=("id", "what was said", "how")),
        {"text": "what was said", "label": "how"},
        "from the header",
    ),
    (
        table(TEXTS, TEXTS, LABELS, header=("sentence1", "sentence2", "label")),
        {"text": "sentence1", "pair": "sentence2", "label": "label"},
        "from the header",
    ),
]


@pytest.mark.parametrize(("suffix", "separator"), [(".tsv", "\t"), (".csv", ","), ("", "\t")])
@pytest.mark.parametrize(("rows", "columns", "how"), FILES, ids=lambda value: str(value)[:40])
def test_the_columns_of_labels_are_found_and_said(tmp_path, rows, columns, how, suffix, separator):
    name = write(tmp_path / f"my{suffix}", rows, separator)
    said = []
    recipe = recipes.load("labels", [f"data.train={name}"], tell=said.append)
    assert recipe.data.columns.model_dump(exclude_none=True) == columns
    told = ", ".join(f"{role} = {column!r}" for role, column in columns.items())
    assert [line for line in said if line.startswith(f"columns: {told} ({how}")] == said
    found = list(Classify.examples(name, recipe.data))
    assert [(each.text, each.label) for each in found] == list(zip(TEXTS, LABELS, strict=True))
    assert recipe_for(name)[0] == "labels"


def test_columns_that_are_given_are_taken(tmp_path):
    name = write(tmp_path / "my.tsv", table(TEXTS, LABELS, TEXTS))
    given = [f"data.train={name}", "data.columns.text=3", "data.columns.label=2"]
    assert recipes.load("labels", given).data.columns.model_dump(exclude_none=True) == {"text": 3, "label": 2}


def test_columns_are_not_found_where_there_is_no_file(tmp_path):
    for entry in (None, [], 3, "missing.tsv", "a\0b", "x" * 5000, "~nobody-of-this-name/x", str(tmp_path)):
        assert find_columns(entry, ROLES) == ({}, "")
    assert recipes.load("labels").data.columns.model_dump(exclude_none=True) == {}


def test_the_recipe_of_sst2_reads_other_files_too(tmp_path):
    name = write(tmp_path / "my.tsv", table(TEXTS, LABELS))
    columns = recipes.load("sst2", [f"data.train={name}"]).data.columns
    assert columns.model_dump(exclude_none=True) == {"text": 1, "label": 2}


def conll(separator):
    tagged = [[(word, "B-X" if word in "abc" else "O") for word in text.split()] for text in TEXTS]
    return "\n\n".join("\n".join(separator.join(pair) for pair in sentence) for sentence in tagged) + "\n"


def jsonl(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


OTHERS = {
    "pairs.tsv": ("pairs", "".join(f"{text}\t{text[::-1]}\n" for text in TEXTS)),
    "pairs.csv": ("pairs", "source,target\n" + "".join(f"{text},{text[::-1]}\n" for text in TEXTS)),
    "pairs.jsonl": ("pairs", jsonl({"source": "a", "target": "b"})),
    "labels.jsonl": ("labels", jsonl({"id": 3, "review": "a", "sentiment": 1})),
    "tags.jsonl": ("tags", jsonl({"tokens": ["a"], "ner_tags": ["O"]})),
    "spaces.conll": ("tags", conll(" ")),
    "tabs.tsv": ("tags", conll("\t")),
    "series.csv": ("series", "day,sold\n2024-01-01,3\n2024-02-30,4\n2024-01-03,5\n2024-01-04,many\n"),
    "nixtla.csv": ("series", "unique_id,ds,y\na,soon,1\na,2024-01-02\n"),
    "years.csv": ("series", "ds,y\n1949,1\n1950,2\n"),
    "verse.txt": ("shakespeare", "\n".join(TEXTS)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_data_file_is_trained_with_the_recipe_that_fits_it(tmp_path, name):
    fitting, content = OTHERS[name]
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    said = []
    recipe = recipes.load(path, tell=said.append)
    assert recipe.task == recipes.load(fitting).task
    assert recipe.data.train == str(path)
    assert said[0].startswith(f"{path} is trained with the recipe {fitting}: ")


def test_parquet_is_known_by_the_names_of_its_columns(tmp_path):
    path = tmp_path / "my.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"Text": TEXTS, "label": LABELS}), path)
    recipe = recipes.load(path)
    assert (recipe.task, recipe.data.columns.text, recipe.data.columns.label) == ("classify", "Text", "label")
    path.write_bytes(b"PAR1 no more")
    with pytest.raises(RegardError, match="is not a sound Parquet file"):
        recipes.load(path)


def test_a_file_that_no_recipe_fits_is_refused_with_its_columns(tmp_path):
    path = tmp_path / "my.jsonl"
    path.write_text(jsonl({"one": "a", "two": "b"}))
    with pytest.raises(RegardError, match=r"no recipe fits .*my\.jsonl: its columns are one, two"):
        recipes.load(path)


def test_semicolons_between_columns_are_told(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text("day;sold\n2024-01-01;3,5\n2024-01-02;4,5\n")
    with pytest.raises(RegardError, match=r"my\.csv has ';' between its columns; put commas there"):
        recipes.load(path)


def test_the_keys_of_tags_are_found(tmp_path):
    path = tmp_path / "my.jsonl"
    path.write_text(jsonl({"tokens": ["a", "b"], "ner_tags": ["O", "B-X"]}))
    recipe = recipes.load("tags", [f"data.train={path}"])
    (found,) = Tag.examples(str(path), recipe.data)
    assert (found.words, found.tags) == (("a", "b"), ("O", "B-X"))


# the recipe's own files


def test_files_that_belong_to_the_data_of_the_recipe_are_left_out_with_other_data():
    said = []
    recipe = recipes.load("rnn-attention", ["data.train=my.tsv", "data.valid=held.tsv"], tell=said.append)
    assert (recipe.data.train, recipe.data.valid, recipe.data.test) == ("my.tsv", "held.tsv", None)
    assert said == ["data.test of the recipe belongs to its own data.train and is not used; name yours with --set"]
    recipe = recipes.load("rnn-attention", ["data.train=my.tsv"], tell=said.append)
    assert (recipe.data.valid, recipe.data.test) == (None, None)
    assert said[1].startswith("data.valid and data.test of the recipe belong to its own data.train and are not used")


def test_files_of_a_recipe_are_kept_with_its_own_data_and_where_they_are_named():
    assert recipes.load("rnn-attention").data.test is not None
    assert recipes.load("rnn-attention", ["data.train=my.tsv", "data.test=t.tsv"]).data.test == "t.tsv"


def test_a_recipe_of_ones_own_keeps_all_that_it_names(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[data]\ntrain = "a.tsv"\ntest = "t.tsv"\n[model]\nkind = "transformer"')
    assert recipes.load(path, ["data.train=b.tsv"]).data.test == "t.tsv"


SETS = [
    ({"set": [1, 2], "label": "x"}, {"set": "set", "label": "label"}),
    ({"id": 7, "points": [[1, 2]], "class": "x"}, {"set": "points", "label": "class"}),
    ({"basket": ["a"], "total": 3.5}, {"set": "basket", "label": "total"}),
    ({"input": [1, 2], "target": [1.0, 2.0]}, {"set": "input", "label": "target"}),
]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize(("row", "columns"), SETS, ids=lambda value: str(value)[:30])
def test_a_column_of_lists_is_a_set(tmp_path, row, columns, suffix):
    name = str(tmp_path / f"a{suffix}")
    if suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), name)
    else:
        (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    assert recipe_for(name) == ("sets", f"its column {columns['set']!r} holds lists")
    assert find_columns(name, ("set", "label"))[0] == columns
    told: list[str] = []
    recipe = recipes.load(name, tell=told.append)
    assert (recipe.task, recipe.data.columns.set, recipe.data.train) == ("sets", columns["set"], name)
    assert any("columns: set = " in sentence for sentence in told)


def test_lists_of_words_with_their_tags_are_no_sets(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"tokens": ["a"], "ner_tags": ["O"]}) + "\n")
    assert recipe_for(str(tmp_path / "a.jsonl"))[0] == "tags"
    (tmp_path / "b.jsonl").write_text(json.dumps({"one": [1], "two": [2], "three": 3, "four": 4}) + "\n")
    with pytest.raises(RegardError, match=r"no recipe fits .*b\.jsonl"):
        recipe_for(str(tmp_path / "b.jsonl"))
