"""transformers' MarianMTModel with the weights of regard's Transformer."""

from __future__ import annotations

import torch
from answering import Settings
from reading import read_weights
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

PARTS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


def build(settings: Settings) -> MarianMTModel:
    """Post-norm, ReLU, sinusoidal positions, one embedding for source, target and output."""
    layers, heads, hidden = settings["layers"], settings["heads"], settings["hidden"]
    model = MarianMTModel(
        MarianConfig(
            vocab_size=settings["vocabulary"],
            d_model=settings["width"],
            encoder_layers=layers,
            decoder_layers=layers,
            encoder_attention_heads=heads,
            decoder_attention_heads=heads,
            encoder_ffn_dim=hidden,
            decoder_ffn_dim=hidden,
            activation_function="relu",
            dropout=settings.get("dropout", 0.0),
            attention_dropout=0.0,
            activation_dropout=0.0,
            scale_embedding=True,
            max_position_embeddings=512,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
            decoder_start_token_id=2,
            forced_eos_token_id=None,
            attn_implementation="sdpa",
        )
    )
    _copy(model, read_weights(settings["weights"]))
    return model


@torch.no_grad()
def _copy(model: MarianMTModel, weights: dict[str, Tensor]) -> None:
    model.model.shared.weight.copy_(weights["source.table.weight"])
    width = model.config.d_model
    order = [column // 2 + (column % 2) * (width // 2) for column in range(width)]  # sines and cosines in turn
    for stack in ("encoder", "decoder"):
        side = getattr(model.model, stack)
        side.embed_positions.weight.copy_(side.embed_positions.weight[:, order].clone())
        for number, layer in enumerate(side.layers):
            _copy_layer(layer, _inside(weights, f"{stack}.blocks.{number}."))


def _copy_layer(layer: nn.Module, block: dict[str, Tensor]) -> None:
    _copy_attention(layer.self_attn, _inside(block, "attention."))
    layer.self_attn_layer_norm.load_state_dict(_inside(block, "around_attention.norm."))
    if "cross.query.weight" in block:
        _copy_attention(layer.encoder_attn, _inside(block, "cross."))
        layer.encoder_attn_layer_norm.load_state_dict(_inside(block, "around_cross.norm."))
    layer.fc1.load_state_dict(_inside(block, "feed_forward.inner."))
    layer.fc2.load_state_dict(_inside(block, "feed_forward.outer."))
    layer.final_layer_norm.load_state_dict(_inside(block, "around_feed_forward.norm."))


def _copy_attention(attention: nn.Module, weights: dict[str, Tensor]) -> None:
    for ours, theirs in PARTS.items():
        getattr(attention, theirs).load_state_dict(_inside(weights, f"{ours}."))


def _inside(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
