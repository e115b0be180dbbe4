"""Adam and AdamW, fused into one pass over the weights, and Muon."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from regard.attention.scores import LeakyAdditive, LeakySum
from regard.training import machine
from regard.training.config import TrainingConfig
from regard.training.depth import rates
from regard.training.muon import MATRICES, MOMENTUM, Muon

FUSED = {"cpu", "cuda", "mps", "xpu"}
MAPS = (nn.Linear, nn.Bilinear, _ConvNd, nn.RNNBase, nn.RNNCellBase)  # modules that multiply by a matrix
SCORES = (LeakySum, LeakyAdditive)  # scores that do


def build(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """The optimiser a recipe asks for. At every step the loop sets the rate of each group, its `scale` times r.

        m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²,   w ← w − r m̂ / (√v̂ + ε)          Kingma 2015

    Weight decay λ adds λw to g (adam) or takes rλw from w (adamw, Loshchilov 2019). It applies to the matrices of
    linear maps, convolutions, recurrent layers (`MAPS`) and scores only. Biases, norms and other vectors are left
    alone, and so are tables that are looked up by row: embeddings, even where the output layer shares their weights,
    and learned positions. A rare row has few gradients and would shrink in between. Muon updates those same matrices,
    and leaves everything else to AdamW.
    """
    decayed, scale = decays(model), rates(model, config.layer_decay)
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, parameter in sorted(model.named_parameters(), key=lambda pair: pair[0] not in decayed):
        if parameter.requires_grad:
            groups.setdefault((scale[name], name in decayed), []).append(parameter)
    described = [
        {
            "params": parameters,
            "weight_decay": config.weight_decay if decaying else 0.0,
            "scale": factor,
            MATRICES: decaying,
        }
        for (factor, decaying), parameters in groups.items()
    ]
    common: dict[str, Any] = {
        "lr": config.learning_rate,
        "betas": config.betas,
        "eps": config.epsilon,
        "fused": all(p.device.type in FUSED for p in model.parameters()),
    }
    match config.optimiser:
        case "muon":
            precision = machine.choose_precision(config.precision, next(model.parameters()).device)
            return Muon(described, momentum=config.momentum, precision=precision, **common)
        case "adamw":
            return torch.optim.AdamW(described, **common)
        case "adam":
            return torch.optim.Adam(described, **common)


def kept(optimiser: torch.optim.Optimizer, group: dict[str, Any]) -> frozenset[str]:
    """What an optimiser keeps for each parameter of a group from step to step."""
    turned = isinstance(optimiser, Muon) and group[MATRICES]
    return frozenset({MOMENTUM}) if turned else frozenset({"step", "exp_avg", "exp_avg_sq"})


def decays(model: nn.Module) -> set[str]:
    """Names of the parameters that weight decay applies to: those matrices that no embedding shares."""
    matrices, looked_up = set[int](), set[int]()
    for module in model.modules():
        own = {id(parameter) for parameter in module.parameters(recurse=False) if parameter.dim() >= 2}
        if isinstance(module, MAPS + SCORES):
            matrices |= own
        elif isinstance(module, nn.Embedding | nn.EmbeddingBag):
            looked_up |= own
    return {name for name, parameter in model.named_parameters() if id(parameter) in matrices - looked_up}
