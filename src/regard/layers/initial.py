"""How the weights of language models are initialised."""

import torch
from torch import nn

DEVIATION = 0.02  # Radford 2018, 4.1; Devlin 2019


@torch.no_grad()
def start_normal(module: nn.Module, *, deviation: float = DEVIATION) -> None:
    """Weights of linear maps and embeddings start normal around 0; biases and the row of padding start at 0."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=deviation)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
        if isinstance(part, nn.Embedding) and part.padding_idx is not None:
            part.weight[part.padding_idx].zero_()
