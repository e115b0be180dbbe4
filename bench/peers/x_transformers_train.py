"""x-transformers' encoder and decoder in a plain loop."""

from __future__ import annotations

import torch
from answering import Run, Settings, answer
from learning import PAD, learner, smoothed
from torch import Tensor, nn
from x_transformers import Decoder, Encoder, TransformerWrapper

LONGEST = 512


class Translator(nn.Module):
    """The same model by its options: post-norm, ReLU, sinusoidal positions, one embedding, fused attention."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        inside = {
            "dim": settings["width"],
            "depth": settings["layers"],
            "heads": settings["heads"],
            "attn_dim_head": settings["width"] // settings["heads"],
            "attn_flash": True,
            "ff_mult": settings["hidden"] / settings["width"],
            "ff_custom_activation": nn.ReLU(),
            "ff_dropout": settings["dropout"],
            "pre_norm": False,
        }
        around = {
            "num_tokens": settings["vocabulary"],
            "max_seq_len": LONGEST,
            "scaled_sinu_pos_emb": True,
            "emb_dropout": settings["dropout"],
        }
        self.encoder = TransformerWrapper(**around, attn_layers=Encoder(**inside), return_only_embed=True)
        decoder = Decoder(**inside, cross_attend=True)
        self.decoder = TransformerWrapper(**around, attn_layers=decoder, tie_embedding=True)
        self.decoder.token_emb = self.encoder.token_emb

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        mask = source != PAD if bool((lengths < source.shape[1]).any()) else None
        memory = self.encoder(source, mask=mask)
        return self.decoder(target, context=memory, context_mask=mask)


def prepare(settings: Settings) -> Run:
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(0)
    model = Translator(settings)

    def loss(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        return smoothed(model(source, lengths, target[:, :-1]), target, settings["smoothing"])

    return learner(model, loss, settings)


if __name__ == "__main__":
    answer(prepare, packages=("torch", "x-transformers"))
