"""torch.nn.Transformer in a plain loop, embeddings and positions around it as its tutorial has them."""

from __future__ import annotations

import math

import torch
from answering import Run, Settings, answer
from learning import PAD, learner, smoothed
from torch import Tensor, nn

LONGEST = 512


class Translator(nn.Module):
    """The same model: no norm ends the stacks, and dropout stands where it does in Marian: attention stays fused."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        width, dropout = settings["width"], settings["dropout"]
        self.embedding = nn.Embedding(settings["vocabulary"], width, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.register_buffer("positions", waves(width))
        self.dropout = nn.Dropout(dropout)
        self.transformer = nn.Transformer(
            width,
            settings["heads"],
            settings["layers"],
            settings["layers"],
            settings["hidden"],
            dropout=dropout,
            batch_first=True,
        )
        self.transformer.encoder.norm = self.transformer.decoder.norm = None
        for layer in [*self.transformer.encoder.layers, *self.transformer.decoder.layers]:
            layer.dropout.p = layer.self_attn.dropout = 0.0
            if hasattr(layer, "multihead_attn"):
                layer.multihead_attn.dropout = 0.0

    def embed(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(x + self.positions[: tokens.shape[1]])

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        padding = source == PAD if bool((lengths < source.shape[1]).any()) else None
        hidden = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(target.shape[1]),
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return hidden @ self.embedding.weight.T


def waves(width: int) -> Tensor:
    at, rate = torch.arange(LONGEST)[:, None], torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    return torch.stack([(at * rate).sin(), (at * rate).cos()], -1).flatten(1)


def prepare(settings: Settings) -> Run:
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(0)
    model = Translator(settings)

    def loss(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        return smoothed(model(source, lengths, target[:, :-1]), target, settings["smoothing"])

    return learner(model, loss, settings)


if __name__ == "__main__":
    answer(prepare, packages=("torch",))
