import re

import pytest
import torch
from torch import nn

from regard import models
from regard.attention.scores import LeakyAdditive, LeakySum
from regard.layers.low_rank import add_low_rank
from regard.training import optimiser
from regard.training.config import TrainingConfig


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 5)
        self.conv = nn.Conv1d(5, 5, 3)
        self.linear = nn.Linear(5, 7)
        self.norm = nn.LayerNorm(7)
        self.narrow = nn.Linear(7, 5)
        self.output = nn.Linear(5, 11)
        self.output.weight = self.embed.weight


def test_weight_decay_spares_biases_norms_and_embeddings():
    assert optimiser.decays(Small()) == {"conv.weight", "linear.weight", "narrow.weight"}


SMALL = {"layers": 2, "width": 12, "heads": 3}
TEXTS = [*models.kinds("pairs"), *models.kinds("causal"), *models.kinds("encoder")]  # kinds with tables of tokens
POSITIONS = [
    *(("transformer", {"position": position}) for position in ("sinusoidal", "learned", "shaw", "rotary")),
    *(("gpt", {"position": position}) for position in ("learned", "alibi")),
]


@pytest.mark.parametrize(("kind", "settings"), [*((kind, {}) for kind in TEXTS), *POSITIONS], ids=str)
def test_weight_decay_of_every_kind_is_on_its_matrices_and_on_no_table(kind, settings):
    usual = dict(models.config_class(kind)())
    sizes = {name: size for name, size in SMALL.items() if isinstance(usual.get(name), int)}
    decoder = {"decoder": "transformer"} if kind == "caption" else {}  # the one that has heads
    model = models.build(kind, vocabulary=31, **sizes, **settings, **decoder)
    matrices = {name for name, parameter in model.named_parameters() if parameter.dim() >= 2}
    tables = {name for name in matrices if re.search(r"(^|\.)(table|segments|mask|token)(\.|$)", name)}
    tables |= {name for name in matrices if re.search(r"parametrizations|position\.(content|distance)$|_bias$", name)}
    tables |= {name for name in matrices if re.search(r"\.spatial\.(rows|columns)$", name)}
    assert tables or models.KINDS[kind].form not in ("pairs", "causal", "encoder")
    assert optimiser.decays(model) == matrices - tables


def test_weight_decay_knows_maps_of_every_sort():
    model = nn.ModuleDict(
        {
            "conv": nn.Conv2d(3, 5, 2),
            "cell": nn.LSTMCell(3, 5),
            "gru": nn.GRU(3, 5),
            "both": nn.Bilinear(2, 3, 5),
            "graph": LeakySum(5, heads=2),
            "graph_v2": LeakyAdditive(5, heads=2),
            "bag": nn.EmbeddingBag(7, 3),
            "attention": nn.ModuleDict({"query": nn.Linear(3, 5)}),
        }
    )
    add_low_rank(model, rank=2)
    recurrent = {f"cell.weight_{way}h" for way in "ih"} | {f"gru.weight_{way}h_l0" for way in "ih"}
    low_rank = {f"attention.query.{name}" for name in ("weight", "up", "down")}
    others = {"conv.weight", "both.weight", "graph.left", "graph.right", "graph_v2.combine"}
    assert optimiser.decays(model) == recurrent | low_rank | others


@pytest.mark.parametrize(("name", "theirs"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_every_parameter_is_in_the_optimiser_that_was_asked_for_once(name, theirs):
    model = Small()
    config = TrainingConfig(optimiser=name, weight_decay=0.03, betas=(0.8, 0.95), epsilon=1e-7, learning_rate=0.02)
    built = optimiser.build(model, config)
    assert type(built) is theirs
    given = [parameter for group in built.param_groups for parameter in group["params"]]
    assert sorted(map(id, given)) == sorted(map(id, model.parameters()))
    for group in built.param_groups:
        assert (group["lr"], group["betas"], group["eps"], group["fused"]) == (0.02, (0.8, 0.95), 1e-7, True)
    assert {group["weight_decay"] for group in built.param_groups} == {0.03, 0.0}


def test_an_update_of_adamw_is_the_equation():
    """w − r m̂ / (√v̂ + ε) − r λ w; after one step m̂ = g and v̂ = g²."""
    layer = nn.Linear(3, 2)
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    built = optimiser.build(layer, TrainingConfig(optimiser="adamw", learning_rate=0.1, weight_decay=0.5, epsilon=0.01))
    (layer(torch.tensor([[1.0, -2.0, 3.0]])) ** 2).sum().backward()
    gradients = {name: p.grad.clone() for name, p in layer.named_parameters()}
    built.step()
    for name, p in layer.named_parameters():
        decay = 0.05 if name == "weight" else 0.0
        expected = before[name] * (1 - decay) - 0.1 * gradients[name] / (gradients[name].abs() + 0.01)
        torch.testing.assert_close(p.detach(), expected)


def test_a_model_without_matrices_has_an_optimiser_too():
    assert len(optimiser.build(nn.LayerNorm(3), TrainingConfig()).param_groups) == 1
