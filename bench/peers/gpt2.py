"""transformers' GPT2LMHeadModel with the weights of regard's GPT."""

from __future__ import annotations

import torch
from answering import Settings
from reading import read_weights
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel


def build(settings: Settings) -> GPT2LMHeadModel:
    """Norm first, learned positions, one embedding for input and output; attention drops nothing, so it stays fused."""
    dropout = settings.get("dropout", 0.0)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=settings["vocabulary"],
            n_layer=settings["layers"],
            n_embd=settings["width"],
            n_head=settings["heads"],
            n_inner=settings["hidden"],
            n_positions=settings["context"],
            resid_pdrop=dropout,
            embd_pdrop=dropout,
            attn_pdrop=0.0,
            bos_token_id=2,
            eos_token_id=None,
            pad_token_id=0,
            attn_implementation="sdpa",
        )
    )
    _copy(model, read_weights(settings["weights"]))
    return model


@torch.no_grad()
def _copy(model: GPT2LMHeadModel, weights: dict[str, Tensor]) -> None:
    body = model.transformer
    body.wte.weight.copy_(weights["embedding.table.weight"])
    body.wpe.weight.copy_(weights["embedding.position.table"])
    _copy_pair(body.ln_f, weights, "body.final")
    for number, layer in enumerate(body.h):
        ours = f"body.blocks.{number}"
        _copy_pair(layer.ln_1, weights, f"{ours}.around_attention.norm")
        _copy_pair(layer.ln_2, weights, f"{ours}.around_feed_forward.norm")
        parts = [f"{ours}.attention.{name}" for name in ("query", "key", "value")]
        layer.attn.c_attn.weight.copy_(torch.cat([weights[f"{part}.weight"] for part in parts]).T)
        layer.attn.c_attn.bias.copy_(torch.cat([weights[f"{part}.bias"] for part in parts]))
        _copy_transposed(layer.attn.c_proj, weights, f"{ours}.attention.output")
        _copy_transposed(layer.mlp.c_fc, weights, f"{ours}.feed_forward.inner")
        _copy_transposed(layer.mlp.c_proj, weights, f"{ours}.feed_forward.outer")


def _copy_pair(norm: nn.LayerNorm, weights: dict[str, Tensor], name: str) -> None:
    norm.weight.copy_(weights[f"{name}.weight"])
    norm.bias.copy_(weights[f"{name}.bias"])


def _copy_transposed(linear: nn.Module, weights: dict[str, Tensor], name: str) -> None:
    """GPT-2 keeps its linear maps the other way round."""
    linear.weight.copy_(weights[f"{name}.weight"].T)
    linear.bias.copy_(weights[f"{name}.bias"])
