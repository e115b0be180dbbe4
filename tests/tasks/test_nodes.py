"""Nodes of a graph: a tiny model from file to answer, scores, record and resumed weights."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

import regard
from regard import recipes
from regard.commands.run import run
from regard.errors import RegardError
from regard.models import from_config
from regard.models.gat import GATConfig
from regard.tasks.nodes import NodesData, strongest
from regard.training.optimiser import decays


def write(path: Path, seed: int = 0, *, width: int = 6) -> str:
    """Two communities; the label is the community, and most edges stay in it. The last node is alone."""
    random = numpy.random.default_rng(seed)
    labels = numpy.arange(61) % 2
    edges = random.integers(0, 60, (300, 2))
    edges = edges[(labels[edges[:, 0]] == labels[edges[:, 1]]) | (random.random(300) < 0.1)]
    features = random.random((61, width)).astype(numpy.float32)
    features[:, 0] += 0.7 * labels
    order = random.permutation(60)
    numpy.savez(path, features=features, edges=edges, labels=labels, train_idx=order[:30], val_idx=order[30:45],
                test_idx=order[45:], classes=numpy.array(["red", "blue"]))  # fmt: skip
    return str(path)


def recipe(folder: Path, *changes: str) -> Any:
    text = f"""
task = "nodes"
[data]
train = "{write(folder / "g.npz")}"
[model]
kind = "gat"
width = 8
heads = 2
dropout = 0.1
attention_dropout = 0.1
[training]
steps = 60
batch_size = 16
learning_rate = 0.02
warmup = 0
schedule = "constant"
validate_every = 1
checkpoint_every = 25
average_of = "best"
precision = "float32"
"""
    return recipes.parse(text, where="test", changes=list(changes))


@pytest.fixture(scope="module", params=["whole", "drawn"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp(request.param)
    changes = [] if request.param == "whole" else ["data.neighbours=[4, 3]"]
    regard.train(recipe(path, *changes), out=path / "model")
    return regard.load(path / "model")


def test_a_tiny_model_learns_and_is_scored_on_the_test_nodes(trained: Any) -> None:
    scores = trained.evaluate()
    assert scores["accuracy"].value >= 80
    assert scores["accuracy"].signature == "percent of 15 nodes"
    assert trained.report["scores"]["accuracy"] == pytest.approx(scores["accuracy"].value)
    best = min(trained.report["validations"], key=lambda each: (-each["accuracy"], each["loss"]))
    assert trained.report["kept"] == [best["step"]]


def test_the_best_step_is_kept_though_it_was_only_held_in_memory(trained: Any) -> None:
    """The weights score what the best validation scored."""
    best = max(each["accuracy"] for each in trained.report["validations"])
    splits = trained.task.open(recipes.setting(trained.recipe), None)
    found = trained.task.exam(splits.valid, trained.options()).scores(trained.module)
    assert found["accuracy"].value == pytest.approx(best)


def test_the_last_step_is_kept_at_which_neither_accuracy_nor_loss_was_better_before(tmp_path: Path) -> None:
    model = regard.train(recipe(tmp_path, "data.best=both"), out=tmp_path / "model")
    kept, highest, lowest = 0, 0.0, math.inf
    for each in model.report["validations"]:
        if each["accuracy"] >= highest and each["loss"] <= lowest:
            kept = each["step"]
        highest, lowest = max(highest, each["accuracy"]), min(lowest, each["loss"])
    assert model.report["kept"] == [kept]
    assert kept > max(model.report["validations"], key=lambda each: each["accuracy"])["step"]


@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_the_recipes_follow_the_paper(name: str) -> None:
    found = recipes.load(name)
    training = found.training
    assert isinstance(found.data, NodesData)
    assert isinstance(found.model, GATConfig)
    assert (found.data.best, training.patience, training.validate_every, training.average) == ("both", 100, 1, 1)
    assert (training.optimiser, training.weight_decay, training.learning_rate) == ("adam", 5e-4, 0.005)
    assert (training.schedule, training.warmup, training.clip, training.ema) == ("constant", 0, 0.0, 0.0)
    model = from_config(found.model, features=30, outputs=7)
    assert decays(model) == {name for name, _ in model.named_parameters() if not name.endswith("bias")}


def test_nodes_are_asked_by_their_ids(trained: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(trained.path, [["17", "60", "17"]], {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == printed[2]
    assert [line.split("\t")[0] in ("red", "blue") for line in printed] == [True] * 3
    run(trained.path, [["17"]], {}, as_json=True)
    (found,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert sum(each["score"] for each in found["answers"]) == pytest.approx(1, abs=1e-5)
    assert trained(17) == trained({"node": "17"}) == trained([17])[0]
    with pytest.raises(RegardError, match="has no node '99'; its 61 nodes are 0 to 60"):
        trained("99")


def test_another_graph_is_scored(trained: Any, tmp_path: Path) -> None:
    assert trained.evaluate(write(tmp_path / "other.npz", 1))["accuracy"].value > 50
    with pytest.raises(RegardError, match="has 7 features, and the model was trained on 6"):
        trained.evaluate(write(tmp_path / "wide.npz", width=7))


def test_a_look_has_the_neighbourhood_and_the_weights_that_were_used(trained: Any) -> None:
    record = trained.look("17")
    source = record.sides["source"]
    assert (source.kind, source.items[0], record.answer.text) == ("nodes", "17", trained(17)[0]["label"])
    assert len(source.items) == len(source.labels) <= 60
    assert record.saliency["source"].weights.shape == (1, 1, len(source.items))
    last = record.map("layers.1")
    assert last.weights.shape == (1, len(source.items), len(source.items))
    assert last.weights[0, 0].sum().item() == pytest.approx(1, abs=1e-5)  # all that the node itself sees is shown
    there = {tuple(sorted(pair)) for pair in last.weights[0].nonzero().tolist() if pair[0] != pair[1]}
    assert there <= set(source.edges)
    assert trained.look("17", reference="red").answer.text == "red"
    alone = trained.look("60")
    assert alone.sides["source"].items == ("60",)
    assert torch.equal(alone.map("layers.0").weights, torch.ones(2, 1, 1))


def test_a_run_that_is_resumed_ends_with_the_same_weights(tmp_path: Path) -> None:
    def weights(name: str, steps: int) -> bytes:
        changes = [f"training.steps={steps}", "training.checkpoint_every=3", "data.neighbours=[3, 2]"]
        regard.train(recipe(tmp_path, *changes), out=tmp_path / name)
        return (tmp_path / name / "weights.safetensors").read_bytes()

    weights("one", 4)
    assert weights("one", 8) == weights("other", 8)


def test_a_graph_that_is_gone_is_named(tmp_path: Path) -> None:
    model = regard.train(recipe(tmp_path, "training.steps=2"), out=tmp_path / "model")
    (tmp_path / "g.npz").unlink()
    with pytest.raises(RegardError, match=r"data\.train, which is read again: .*g\.npz does not exist"):
        regard.load(model.path)(3)


def test_neighbours_are_drawn_for_each_layer(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"data\.neighbours = \[4\] must have one number for each layer .* has 2"):
        regard.train(recipe(tmp_path, "data.neighbours=[4]"), out=tmp_path / "model")


def test_the_strongest_nodes_are_those_with_the_largest_product_of_weights() -> None:
    last = {0: [(0, 0.1), (1, 0.6), (2, 0.3)]}
    first = {1: [(3, 0.9), (1, 0.1)], 2: [(4, 1.0)], 0: [(5, 1.0)]}
    assert strongest([last, first], most=10) == [0, 1, 3, 2, 4, 5]
    assert strongest([last, first], most=3) == [0, 1, 3]
