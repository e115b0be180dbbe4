"""How deep parameters are, what is frozen by it, and which learn more slowly."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from regard import models
from regard.errors import RegardError
from regard.layers.low_rank import add_low_rank, merged
from regard.models.heads import Headed
from regard.training import optimiser
from regard.training.config import TrainingConfig
from regard.training.depth import freeze, rates
from regard.training.weights import weights_of

HEAD: dict[str, Any] = {"classes": 2, "pooling": "mean", "dropout": 0.0}


def headed() -> Headed:
    torch.manual_seed(0)
    body = models.build("bert", vocabulary=11, layers=3, width=8, heads=2, masked_words=False, next_sentence=False)
    return Headed(body, classes=2, pooling="pooler", dropout=0.0)


EMBEDDED = {"embedding.table.weight": 0}
TOPS: dict[str, dict[str, int]] = {  # of three layers: below the first, after the last, and above it
    "bert": {
        **EMBEDDED,
        "embedding.position.table": 0,
        "segments.weight": 0,
        "norm.weight": 0,
        "norm.bias": 0,
        "pooler.weight": 4,
        "pooler.bias": 4,
        "transform.linear.weight": 4,
        "transform.linear.bias": 4,
        "transform.norm.weight": 4,
        "transform.norm.bias": 4,
        "output.bias": 4,
        "next_sentence.weight": 4,
        "next_sentence.bias": 4,
    },
    "elmo": {**EMBEDDED, "mix.weights": 4, "mix.scale": 4, "output.bias": 4},
    "gpt": {**EMBEDDED, "embedding.position.table": 0, "body.final.weight": 3, "body.final.bias": 3},
    "rnn": {**EMBEDDED, "output.bias": 4},
    "transformer_xl": {**EMBEDDED, "output.bias": 4},
    "xlnet": {**EMBEDDED, "mask": 0, "output.bias": 4},
}
SHARED = ("universal_encoder", "universal_decoder")
LAYERS = {
    "bert": "body.blocks.{}.around_attention.norm.weight",
    "elmo": "backward_layers.{}.layers.0.weight_hh_l0",
    "gpt": "body.blocks.{}.around_feed_forward.norm.bias",
    "rnn": "body.layers.{}.weight_hh_l0",
    "transformer_xl": "body.blocks.{}.attention.position.content",
    "xlnet": "body.{}.attention.segments",
}


@pytest.mark.parametrize("kind", TOPS)
def test_every_parameter_of_a_body_has_its_depth_with_and_without_a_head(kind: str):
    heads = {"heads": 2} if kind in ("bert", "gpt", "transformer_xl", "xlnet") else {}
    body: Any = models.build(kind, vocabulary=11, layers=3, width=8, **heads)
    depth = {name: body.depth_of(name) for name, _ in body.named_parameters()}
    assert {name: each for name, each in depth.items() if not any(part.isdigit() for part in name.split("."))} == TOPS[
        kind
    ]
    assert [depth[LAYERS[kind].format(layer)] for layer in range(3)] == [1, 2, 3]
    assert {*depth.values()} >= {0, 1, 2, 3}
    model = Headed(body, **HEAD)
    names = [name for name, _ in model.named_parameters()]
    for name in names:
        assert model.depth_of(name) == (depth[name.removeprefix("encoder.")] if name.startswith("encoder.") else 4)
    assert {"output.weight", "output.bias", "encoder.embedding.table.weight"} <= set(names)


def test_every_kind_that_can_be_a_body_is_here():
    assert {*TOPS, *SHARED} == {*models.kinds("causal"), *models.kinds("encoder")}


@pytest.mark.parametrize("kind", SHARED)
def test_a_block_that_is_shared_over_depth_is_as_deep_as_the_last_layer(kind: str):
    body: Any = models.build(kind, vocabulary=11, layers=3, width=8, heads=2, hidden=5)
    depth = {name: body.depth_of(name) for name, _ in body.named_parameters()}
    assert {depth[name] for name in depth if name.startswith("body.")} == {3}
    assert depth["embedding.table.weight"] == 0


def test_freezing_leaves_the_heads_of_a_body_to_learn():
    body = models.build("bert", vocabulary=11, layers=3, width=8, heads=2)
    freeze(body, "all", lora=False)
    learning = {name.partition(".")[0] for name, parameter in body.named_parameters() if parameter.requires_grad}
    assert learning == {"pooler", "transform", "output", "next_sentence"}


def test_a_change_of_low_rank_is_all_that_learns_below_the_head():
    model = headed()
    add_low_rank(model, rank=2)
    freeze(model, 0, lora=True)
    learning = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {name.rpartition(".")[2] for name in learning if name.startswith("encoder.body.")} == {"up", "down"}
    assert {name for name in learning if not name.startswith("encoder.body.")} == {
        "encoder.pooler.weight",
        "encoder.pooler.bias",
        "output.weight",
        "output.bias",
    }


def test_a_model_with_two_stacks_is_refused_by_name():
    model = models.build("transformer", vocabulary=11, layers=1, width=8, heads=2)
    assert set(rates(model, 1.0).values()) == {1.0}
    freeze(model, 0, lora=False)
    with pytest.raises(RegardError, match=r"training\.layer_decay=0\.9 needs .* which Transformer is not"):
        rates(model, 0.9)
    with pytest.raises(RegardError, match=r"training\.freeze=all needs"):
        freeze(model, "all", lora=False)
    with pytest.raises(RegardError, match=r"the model has 3 layers"):
        freeze(headed(), 4, lora=False)


def test_each_layer_learns_more_slowly_than_the_one_above():
    model = headed()
    assert rates(model, 0.5)["encoder.embedding.table.weight"] == 0.5**4
    groups = optimiser.build(model, TrainingConfig(layer_decay=0.5, weight_decay=0.1)).param_groups
    assert {group["scale"] for group in groups} == {1.0, 0.5, 0.25, 0.125, 0.0625}
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))
    scale = {id(p): group["scale"] for group in groups for p in group["params"]}
    assert scale[id(model.output.weight)] == 1
    assert scale[id(model.encoder.segments.weight)] == 0.0625


def test_a_change_of_low_rank_starts_as_none_and_can_be_merged():
    model, tokens = headed().eval(), torch.tensor([[2, 7, 5, 3]])
    before = model(tokens)
    add_low_rank(model, rank=2)
    assert torch.equal(model(tokens), before)
    for name, parameter in model.named_parameters():
        if name.endswith(".up"):
            torch.nn.init.normal_(parameter)
    changed = model(tokens)
    assert not torch.allclose(changed, before)
    plain = headed().eval()
    plain.load_state_dict(merged(weights_of(model)))
    assert_close(plain(tokens), changed)
