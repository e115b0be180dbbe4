"""How deep parameters are, what is frozen by it, and which learn more slowly."""

from __future__ import annotations

from typing import Any

import torch
from torch.testing import assert_close

from regard import models
from regard.layers.low_rank import add_low_rank, merged
from regard.models.heads import Headed
from regard.training import optimiser
from regard.training.checkpoint import weights_of
from regard.training.config import TrainingConfig
from regard.training.depth import depths, rates

HEAD: dict[str, Any] = {"classes": 2, "pooling": "mean", "dropout": 0.0}


def headed() -> Headed:
    torch.manual_seed(0)
    body = models.build("bert", vocabulary=11, layers=3, width=8, heads=2, masked_words=False, next_sentence=False)
    return Headed(body, classes=2, pooling="pooler", dropout=0.0)


def test_depth_grows_from_the_embeddings_to_the_head():
    depth = depths(headed())
    wanted = {
        "embedding.table.weight": 0,
        "norm.bias": 0,
        "segments.weight": 0,
        "body.blocks.0.attention.query.weight": 1,
    }
    wanted |= {"body.blocks.2.around_attention.norm.weight": 3, "pooler.weight": 4}
    assert {name: depth[f"encoder.{name}"] for name in wanted} == wanted
    assert depth["output.weight"] == 4


def test_the_last_norm_of_a_causal_model_goes_with_its_last_layer():
    depth = depths(Headed(models.build("gpt", vocabulary=11, layers=3, width=8, heads=2), **HEAD))
    assert (depth["encoder.embedding.position.table"], depth["encoder.body.final.weight"]) == (0, 3)
    depth = depths(Headed(models.build("rnn", vocabulary=11, layers=3, width=8), **HEAD))
    assert (depth["encoder.body.layers.0.weight_ih_l0"], depth["encoder.body.layers.2.bias_hh_l0"]) == (1, 3)
    depth = depths(Headed(models.build("elmo", vocabulary=11, layers=2, width=8), **HEAD))
    assert (depth["encoder.backward_layers.1.layers.0.bias_hh_l0"], depth["encoder.mix.scale"]) == (2, 3)


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
