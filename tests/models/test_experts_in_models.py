"""Experts in models: what they add to the loss, what a record shows of them, and what cannot express them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import regard
from regard import recipes
from regard.errors import RegardError
from regard.interchange.expressible import obstacle
from regard.layers.experts import Experts
from regard.layers.penalty import penalties
from regard.models import build
from regard.training.learner import Learner

TEXTS = [f"the {who} {what}" for who in ("cat", "dog", "fox", "bird") for what in ("sat", "ran", "ate", "is here")]
RECIPE = """
task = "translate"
[data]
train = "{train}"
valid = "{train}"
[tokenizer]
kind = "words"
vocabulary = 40
[model]
kind = "transformer"
layers = 2
width = 16
heads = 2
hidden = 24
experts = 3
[training]
steps = {steps}
schedule = "constant"
batch_tokens = 64
warmup = 2
validate_every = 3
checkpoint_every = 3
threads = 1
[decoding]
beam = 1
max_length = 6
"""


def trained(folder: Path, name: str, *, steps: int = 6) -> Any:
    train = folder / "train.tsv"
    if not train.exists():
        train.write_text("\n".join(f"{text}\t{text}" for text in TEXTS * 4), encoding="utf-8")
    text = RECIPE.format(train=train, steps=steps)
    return regard.train(recipes.parse(text, where=name), out=folder / name)


class SumOfLosses:
    """A task with a loss that is easy to compute again."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return model(batch.tokens).square().sum()


class Tokens:
    def __init__(self) -> None:
        self.tokens = torch.randint(4, 19, (3, 5), generator=torch.Generator().manual_seed(1))
        self.targets = 15


def test_the_penalty_is_added_for_each_target():
    torch.manual_seed(0)
    model: Any = build("gpt", vocabulary=19, layers=2, width=12, heads=3, experts=4, balance=0.3, dropout=0.0)
    batch: Any = Tokens()
    with penalties() as added:
        alone = SumOfLosses().loss(model, batch)
    assert len(added) == 2  # one for each layer
    found = Learner(model, SumOfLosses())(batch)  # type: ignore[arg-type]
    assert_close(found, alone + 15 * (added[0] + added[1]))
    assert found > alone + 15 * 0.3  # the least penalty of a layer is its weight, about
    gates = [part.gate.weight for part in model.modules() if isinstance(part, Experts)]
    assert all(gradient.abs().sum() > 0 for gradient in torch.autograd.grad(added[0] + added[1], gates))


def test_the_whole_road(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model = trained(tmp_path, "model")
    validated = model.report["validations"][-1]["loss"]
    record = model.look("the cat sat")
    maps = [each for each in record.maps if each.key == "expert"]
    assert [each.name for each in maps] == [
        f"{side}.blocks.{layer}.feed_forward" for side in ("encoder", "decoder") for layer in (0, 1)
    ]
    assert record.sides["expert"].items == ("expert 1", "expert 2", "expert 3")
    for each in maps:
        assert each.weights.shape == (1, len(record.sides[each.query].items), 3)
        assert ((each.weights > 0).sum(-1) == 2).all()  # two experts for each token
        assert_close(each.weights.sum(-1), torch.ones(each.weights.shape[:2]))
    record.save(tmp_path / "record.html")
    record.save(tmp_path / "record.svg")

    def forbidden(*_: object) -> Tensor:
        raise AssertionError("a penalty was computed where nothing is learned")

    monkeypatch.setattr(Experts, "_imbalance", forbidden)
    again = regard.load(tmp_path / "model")
    assert again("the cat sat") == model("the cat sat")
    again.evaluate()
    assert validated > 0


def test_a_run_that_is_gone_on_with_ends_with_the_same_weights(tmp_path: Path):
    trained(tmp_path, "parts", steps=3)
    parts, whole = trained(tmp_path, "parts").module, trained(tmp_path, "whole").module
    assert_close(parts.state_dict(), whole.state_dict(), rtol=0, atol=0)


def test_formats_that_cannot_hold_experts_refuse_them(tmp_path: Path):
    model = trained(tmp_path, "model", steps=3)
    assert "model.experts = 3" in str(obstacle(model.recipe.model.model_dump(mode="json", exclude_none=True)))
    with pytest.raises(RegardError, match="experts"):
        model.export(tmp_path / "exported")
    assert not (tmp_path / "exported").exists()
