import math

import pytest
import torch
from torch import nn

from regard.errors import RegardError
from regard.recipes import parse
from regard.training import optimiser
from regard.training.config import TrainingConfig
from regard.training.muon import Muon, orthogonal

RATE, DECAY, MOMENTUM = 0.02, 0.1, 0.9
CONFIG = TrainingConfig(
    optimiser="muon", learning_rate=RATE, weight_decay=DECAY, momentum=MOMENTUM, precision="float32"
)


class Net(nn.Module):
    """Matrices of three forms, two of them alike, a kernel, a table and vectors."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 6)
        self.wide, self.tall, self.square = nn.Linear(6, 4), nn.Linear(4, 6), nn.Linear(6, 6)
        self.kernel = nn.Conv2d(3, 5, 2)


def matrices(model):
    return [model.wide.weight, model.tall.weight, model.square.weight]


def test_updates_are_those_of_torch():
    """Matrices as torch.optim.Muon updates them, everything else as torch.optim.AdamW."""
    torch.manual_seed(0)
    ours, theirs = Net(), Net()
    theirs.load_state_dict(ours.state_dict())
    built = optimiser.build(ours, CONFIG)
    muon = torch.optim.Muon(
        matrices(theirs), lr=RATE, weight_decay=DECAY, momentum=MOMENTUM, adjust_lr_fn="match_rms_adamw"
    )
    others = [theirs.table.weight, *(p for p in theirs.parameters() if p.dim() == 1)]
    adam = torch.optim.AdamW(others, lr=RATE, betas=CONFIG.betas, eps=CONFIG.epsilon, weight_decay=0.0)
    for _ in range(4):
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            q.grad = torch.randn_like(q)
            p.grad = q.grad.clone()
        built.step()
        for each in (muon, adam):
            each.step()
    for p, q in zip(matrices(ours), matrices(theirs), strict=True):
        torch.testing.assert_close(p, q, rtol=0.0, atol=4 * RATE * 0.2 * math.sqrt(6) * 0.02)  # theirs is in bfloat16
    for p, q in zip([ours.table.weight, ours.wide.bias], [theirs.table.weight, theirs.wide.bias], strict=True):
        torch.testing.assert_close(p, q)


def test_a_kernel_is_a_matrix_with_a_row_for_each_output():
    torch.manual_seed(0)
    model, linear = Net(), nn.Linear(12, 5)
    with torch.no_grad():
        linear.weight.copy_(model.kernel.weight.flatten(1))
    model.kernel.weight.grad = torch.randn_like(model.kernel.weight)
    linear.weight.grad = model.kernel.weight.grad.flatten(1).clone()
    for each in (model, linear):
        optimiser.build(each, CONFIG).step()
    torch.testing.assert_close(model.kernel.weight.flatten(1), linear.weight)


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 5, 40)], ids=str)
def test_orthogonal_keeps_the_directions_and_makes_the_lengths_alike(shape):
    """U S Vᵀ → U S' Vᵀ with S' about 1, by NumPy's own decomposition."""
    torch.manual_seed(1)
    matrices = torch.randn(shape) * torch.logspace(-1, 1, shape[0])[:, None, None]
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    middle = left.mT @ orthogonal(matrices) @ right.mT  # S', if the directions are kept
    lengths = middle.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(middle, torch.diag_embed(lengths), atol=1e-3, rtol=0.0)
    assert lengths.min() > 0.3
    assert lengths.max() < 1.3


def test_a_gradient_of_zeros_moves_nothing_but_the_decay():
    model = nn.Linear(3, 3, bias=False)
    before = model.weight.detach().clone()
    model.weight.grad = torch.zeros_like(model.weight)
    optimiser.build(model, CONFIG).step()
    torch.testing.assert_close(model.weight.detach(), before * (1 - RATE * DECAY))


def test_what_is_kept_is_what_the_state_has():
    model = Net()
    built = optimiser.build(model, CONFIG)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    built.step()
    assert isinstance(built, Muon)
    for group in built.param_groups:
        for parameter in group["params"]:
            assert built.state[parameter].keys() == optimiser.kept(built, group)


def test_matrices_in_parts_are_refused():
    training = 'optimiser = "muon"\n[training.distribution]\nkind = "sharded"'
    with pytest.raises(RegardError, match=r"muon.*whole matrices.*replicated"):
        parse(f'task = "write"\n[model]\nkind = "gpt"\n[training]\n{training}', where="here")
