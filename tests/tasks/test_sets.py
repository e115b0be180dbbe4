"""Sets: losses and scores against their equations, every form of input, errors, and tiny models from file to record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

import regard
from regard import recipes, tasks
from regard.commands.run import run
from regard.data.sets.examples import SetExample, elements_of
from regard.data.sets.scale import Scale
from regard.errors import RegardError
from regard.look.show import main_map
from regard.models.deep_sets import DeepSetsConfig
from regard.tasks.base import Looking, RunOptions, Work
from regard.tasks.sets import JudgeSets, SetsData

NUMBERS = Scale(numpy.array([2.0]), numpy.array([4.0]))
PAIR = Scale(numpy.array([10.0, -1.0]), numpy.array([3.0, 0.5]))
SETS = [elements_of(each) for each in ([3, 1], [7], [0, 0, 5, -2])]


def task_of(wanted: Any, *, loss: str = "absolute", smoothing: float = 0.0) -> tuple[JudgeSets, nn.Module]:
    torch.manual_seed(2)
    task = JudgeSets(NUMBERS, wanted, loss=loss, smoothing=smoothing)
    return task, task.module(DeepSetsConfig(width=11, pooling="sum")).eval()


def one_batch(task: JudgeSets, wanted: list[Any]) -> Any:
    examples = [SetExample(elements, each, "") for elements, each in zip(SETS, wanted, strict=True)]
    setting = recipes.setting(recipes.parse('task = "sets"\n[model]\nkind = "deep_sets"', where="test"))  # type: ignore[arg-type]
    stream = task.batches(examples, setting, Work(Path(), print), name="train")  # type: ignore[arg-type]
    (batch,) = stream.epoch(0)
    return batch


def said(model: nn.Module) -> list[Tensor]:
    """What the model says of each set alone, its numbers scaled by hand."""
    with torch.no_grad():
        return [
            model(torch.tensor((each - 2) / 4, dtype=torch.float32).unsqueeze(0), torch.tensor([len(each)]))[0]  # type: ignore[operator]
            for each in SETS
        ]


@pytest.mark.parametrize("loss", ["absolute", "squared"])
def test_the_loss_of_numbers_is_their_distance_in_standard_deviations(loss: str):
    task, model = task_of(PAIR, loss=loss)
    wanted = [(13.0, 0.0), (9.5, -2.0), (0.0, 0.0)]
    batch = one_batch(task, wanted)
    errors = [
        float(found - (each - mean) / spread)
        for row, numbers in zip(said(model), wanted, strict=True)
        for found, each, mean, spread in zip(row, numbers, (10.0, -1.0), (3.0, 0.5), strict=True)
    ]
    expected = sum(error**2 for error in errors) if loss == "squared" else sum(map(abs, errors))
    assert batch.targets == 6
    assert task.loss(model, batch).item() == pytest.approx(expected, rel=1e-5)


def test_the_loss_of_labels_is_the_cross_entropy_and_smoothing_is_for_learning():
    task, model = task_of(("a", "b", "c"), smoothing=0.1)
    batch = one_batch(task, ["c", "a", "a"])
    logs = [row.double().log_softmax(-1) for row in said(model)]
    right = [float(-row[number]) for row, number in zip(logs, (2, 0, 0), strict=True)]
    spread = [float(-row.mean()) for row in logs]
    assert batch.targets == 3
    assert task.loss(model, batch, plain=True).item() == pytest.approx(sum(right), rel=1e-5)
    assert task.loss(model, batch).item() == pytest.approx(0.9 * sum(right) + 0.1 * sum(spread), rel=1e-5)


def test_scores_are_those_of_their_definitions():
    task, model = task_of(PAIR)
    wanted = [(13.0, 0.0), (9.5, -2.0), (0.0, 0.0)]
    examples = [SetExample(elements, each, "") for elements, each in zip(SETS, wanted, strict=True)]
    scores = task.exam(examples, RunOptions()).scores(model)
    answers = numpy.array([row.numpy() * (3.0, 0.5) + (10.0, -1.0) for row in said(model)])
    assert numpy.allclose(task.answer(model, SETS, RunOptions()), answers, atol=1e-5)
    errors = answers - wanted
    assert scores["mae"].value == pytest.approx(numpy.abs(errors).mean(), rel=1e-5)
    assert scores["rmse"].value == pytest.approx(numpy.sqrt((errors**2).mean()), rel=1e-5)
    task, model = task_of(("a", "b", "c"))
    best = ["abc"[int(row.argmax())] for row in said(model)]
    examples = [SetExample(elements, each, "") for elements, each in zip(SETS, [*best[:2], "x"], strict=True)]
    with pytest.raises(RegardError, match=r"has the label 'x', which is not in data\.train; it has a, b, c"):
        task.exam(examples, RunOptions())
    wrong = next(label for label in "abc" if label != best[2])
    examples[2] = SetExample(SETS[2], wrong, "")
    assert task.exam(examples, RunOptions()).scores(model)["accuracy"].value == pytest.approx(200 / 3)


def test_sets_of_another_kind_are_refused():
    task, model = task_of(PAIR)
    for asked, sentence in ((["a"], "set 1 holds texts"), ([[1, 2]], "set 1 holds vectors of 2 numbers")):
        with pytest.raises(RegardError, match=f"{sentence}, and this model reads sets of numbers"):
            task.answer(model, [elements_of(asked)], RunOptions())
    words = JudgeSets(["a", "7"], PAIR, loss="absolute", smoothing=0.0)
    with pytest.raises(RegardError, match=r"holds numbers, and this model reads sets of texts"):
        words.answer(model, [elements_of([1.5])], RunOptions())
    with pytest.raises(RegardError, match=r"wants 'x', and data\.train wants 2 numbers of each set"):
        task.exam([SetExample(SETS[0], "x", "")], RunOptions())


def test_words_have_numbers_and_unknown_ones_are_told():
    task = JudgeSets(["a", "7"], PAIR, loss="absolute", smoothing=0.0)
    model = task.module(DeepSetsConfig(width=5)).eval()
    known, whole = (task.answer(model, [elements_of(each)], RunOptions()) for each in (["7", "a"], ["a", "7"]))
    assert numpy.allclose(known, whole)
    assert task.answer(model, [elements_of([7])], RunOptions()) == task.answer(model, [("7",)], RunOptions())
    with pytest.warns(UserWarning, match="1 of 2 elements are not known from training"):
        task.answer(model, [("a", "zebra")], RunOptions())


# files to records


def write(path: Path, rows: list[tuple[Any, Any]]) -> Path:
    path.write_text("".join(json.dumps({"set": a, "label": b}) + "\n" for a, b in rows), encoding="utf-8")
    return path


def recipe(train: Path, *changes: str) -> recipes.Wish:
    text = f"""
task = "sets"
[data]
train = "{train}"
hold_out = 20
[model]
kind = "deep_sets"
width = 16
heads = 2
[training]
steps = 150
batch_size = 16
learning_rate = 0.01
warmup = 5
schedule = "cosine"
validate_every = 75
checkpoint_every = 75
precision = "float32"
threads = 1
"""
    return recipes.parse(text, where="test", changes=changes)


def word_rows() -> list[tuple[Any, Any]]:
    """A shopping basket is sweet if there is honey in it."""
    draw = numpy.random.default_rng(1)
    things = ["bread", "milk", "honey", "salt", "tea"]
    baskets = [draw.choice(things, draw.integers(1, 5)).tolist() for _ in range(200)]
    return [(basket, "sweet" if "honey" in basket else "plain") for basket in baskets]


@pytest.fixture(scope="module")
def sweet(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("sweet")
    regard.train(recipe(write(folder / "a.jsonl", word_rows()), "model.pooling=attention"), out=folder / "model")
    return regard.load(folder / "model")


@pytest.fixture(scope="module")
def largest(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("largest")
    train = "largest:train?examples=2000&highest=20"
    regard.train(recipe(Path(train), "training.steps=250", "model.width=32"), out=folder / "model")
    return regard.load(folder / "model")


def test_a_tiny_model_learns_labels_of_words(sweet: Any):
    assert sweet.evaluate()["accuracy"].value == 100
    assert sweet.report["scores"]["accuracy"] == 100
    answer = sweet(("tea", "honey", "salt"))
    assert [each["label"] for each in answer] == ["sweet", "plain"]
    assert sum(each["score"] for each in answer) == pytest.approx(1)
    assert sweet(("salt", "honey", "tea"))[0]["score"] == pytest.approx(answer[0]["score"], abs=1e-6)


def test_a_tiny_model_learns_the_largest_number(largest: Any):
    assert largest.evaluate()["mae"].value < 1
    assert largest((3, 17, 5)) == pytest.approx(17, abs=2)
    assert largest([(3, 17, 5), {"set": [2]}]) == pytest.approx([largest((17, 5, 3)), largest((2,))], abs=1e-4)
    assert largest(numpy.array([3, 17, 5])) == pytest.approx(largest((3, 17, 5)))
    with pytest.raises(RegardError, match="in Python, a list is a list of sets"):
        largest([3, 17])


def test_a_record_shows_what_the_pooled_set_counted(sweet: Any, largest: Any):
    record = sweet.look(("tea", "honey", "salt"))
    assert record.sides["source"].items == ("tea", "honey", "salt")
    assert record.sides["target"].items == record.sides["pooled"].items == ("sweet",)
    (pool,) = record.maps
    assert (pool.query, pool.key, pool.kind) == ("pooled", "source", "cross")
    assert torch.allclose(pool.weights.sum(-1), torch.ones(2, 1))
    assert pool.weights.mean(0)[0].argmax() == 1  # honey decides
    assert record.saliency["source"].weights.shape == (1, 1, 3)
    assert sweet.look(("tea",), reference="plain").answer.text == "plain"
    with pytest.raises(RegardError, match="cannot be chosen here; there are plain, sweet"):
        sweet.look(("tea",), reference="sour")
    record = largest.look((3, 17, 5))
    (pool,) = record.maps
    assert record.title == f"[3, 17, 5] → {largest((3, 17, 5)):.6g}"
    assert pool.weights.shape == (1, 1, 3)
    assert float(pool.weights.sum()) == pytest.approx(1)
    with pytest.raises(RegardError, match="answers with numbers; leave it out"):
        largest.look((3,), reference="3")


def test_inducing_vectors_are_a_side_of_their_own(tmp_path: Path):
    train = write(tmp_path / "a.jsonl", word_rows())
    changes = ["training.steps=1", "model.encoder=isab", "model.inducing=3", "model.encoder_layers=1"]
    model = regard.train(recipe(train, *changes), out=tmp_path / "model")
    record = model.look(("tea", "salt"))
    assert record.sides["inducing"].items == ("inducing 1", "inducing 2", "inducing 3")
    sides = {each.name: (each.query, each.key, tuple(each.weights.shape[1:])) for each in record.maps}
    assert sides["encoder.0.gather.attention"] == ("inducing", "source", (3, 2))
    assert sides["encoder.0.spread.attention"] == ("source", "inducing", (2, 3))
    assert sides["pool"] == ("pooled", "source", (1, 2))
    assert main_map(record).name == "pool"  # what the pooled set counted


def test_lines_are_answered_and_printed(sweet: Any, largest: Any, capsys: pytest.CaptureFixture[str]):
    run(sweet.path, [['["honey"]', '["salt", "tea"]']], {})
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["sweet", "plain"]
    run(largest.path, [["[3, 17, 5]"]], {}, as_json=True)
    (found,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert found["answers"] == pytest.approx([largest((3, 17, 5))])
    for line, sentence in (("3 4", "is no JSON list"), ("{", "is no JSON list"), ("[]", "the set is empty")):
        with pytest.raises(RegardError, match=sentence):
            run(largest.path, [[line]], {})


def test_lines_of_examples_are_inputs(largest: Any):
    examples = largest.task.read("largest:test?examples=3", SetsData(), key="data")
    surface = tasks.surface("sets")
    parsed = [surface.parse(line) for line in JudgeSets.lines(examples)]
    assert all(numpy.array_equal(one, each.elements) for one, each in zip(parsed, examples, strict=True))  # type: ignore[arg-type]


def test_a_run_that_is_resumed_ends_with_the_same_weights(tmp_path: Path):
    train = write(tmp_path / "a.jsonl", word_rows())

    def weights(name: str, steps: int) -> bytes:
        changes = [f"training.steps={steps}", "training.validate_every=0", "training.checkpoint_every=3"]
        changes += ["model.dropout=0.1", "training.schedule=constant", "model.pooling=attention"]
        regard.train(recipe(train, *changes), out=tmp_path / name)
        return (tmp_path / name / "weights.safetensors").read_bytes()

    assert weights("one", 14) != weights("one", 17)
    assert weights("one", 17) == weights("other", 17)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([([1], "a"), (["x"], "b")], r"a\.jsonl:2 holds texts and .*a\.jsonl:1 holds numbers; all sets must be alike"),
        ([([1], "a"), ([[1, 2]], "b")], r"a\.jsonl:2 holds vectors of 2 numbers"),
        ([([1], "a"), ([2], 3)], r"a\.jsonl:2 has 1 number to be said and .* has a text as its label"),
        ([([1], [1, 2]), ([2], 3)], r"a\.jsonl:2 has 1 number to be said and .* has 2 numbers to be said"),
        ([([1], "a"), ([2], "a")], "data.train has only the label 'a'"),
    ],
)
def test_examples_that_are_not_alike_are_refused(tmp_path: Path, rows: list[Any], sentence: str):
    train = write(tmp_path / "a.jsonl", rows)
    with pytest.raises(RegardError, match=sentence):
        regard.train(recipe(train, f'data.valid="{train}"'), out=tmp_path / "model")


def test_a_look_is_quick_where_many_are_looked_at(sweet: Any):
    found = sweet.statistics([("tea", "honey"), ("salt",), ("honey", "salt")])
    assert found
    assert sweet.task.sight(sweet.module, ("tea",), Looking()).given[0].shape == (1, 1)
