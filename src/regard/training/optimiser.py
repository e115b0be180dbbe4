"""Adam and AdamW, fused into one pass over the weights."""

from __future__ import annotations

import torch
from torch import nn

from regard.training.config import TrainingConfig

FUSED = {"cpu", "cuda", "mps", "xpu"}


def build(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """The optimiser a recipe asks for. The learning rate is set by the loop at every step.

        m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²,   w ← w − r m̂ / (√v̂ + ε)          Kingma 2015

    Weight decay λ adds λw to g (adam) or takes rλw from w (adamw, Loshchilov 2019). It applies to the matrices of
    linear maps and convolutions only. Biases, norms and other vectors are left alone, and so are embeddings, even where
    the output layer shares their weights: a rare token's row has few gradients and would shrink in between.
    """
    decayed = decays(model)
    groups = [
        {"params": [p for name, p in model.named_parameters() if name in decayed], "weight_decay": config.weight_decay},
        {"params": [p for name, p in model.named_parameters() if name not in decayed], "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if config.optimiser == "adamw" else torch.optim.Adam
    return kind(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=config.betas,
        eps=config.epsilon,
        fused=all(p.device.type in FUSED for p in model.parameters()),
    )


def decays(model: nn.Module) -> set[str]:
    """Names of the parameters that weight decay applies to."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding | nn.EmbeddingBag)}
    return {name for name, p in model.named_parameters() if p.dim() >= 2 and id(p) not in embeddings}
