import pytest
import torch
from torch import nn

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
