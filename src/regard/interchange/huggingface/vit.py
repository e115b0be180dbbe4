"""ViT is `vit` with cut patches and a class token. Their map of a patch is a convolution with its own stride."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from regard.interchange.huggingface.architecture import (
    Architecture,
    Name,
    Settings,
    linear,
    refuse,
    written_activation,
)
from regard.models.vit import ViTConfig
from regard.special import Special


def read(settings: Settings, tensors: Collection[str], _special: Special) -> ViTConfig:
    settings.require(qkv_bias=True)
    return ViTConfig(
        layers=settings.layers("num_hidden_layers", tensors, "encoder.layer."),
        width=settings.number("hidden_size"),
        heads=settings.heads("num_attention_heads", width="hidden_size"),
        hidden=settings.number("intermediate_size"),
        dropout=settings.share("hidden_dropout_prob", 0.0),
        patch_size=settings.number("patch_size", 16),
        activation=settings.activation("hidden_act", "gelu"),
        epsilon=settings.epsilon("layer_norm_eps", 1e-12),
    )


def write(config: ViTConfig) -> dict[str, Any]:
    refuse(
        config,
        "ViT",
        patch="cut",
        pooling="class",
        position="learned",
        wiring="pre_norm",
        bias=True,
        attention="exact",
    )
    return {
        "architectures": ["ViTForImageClassification"],
        "num_hidden_layers": config.layers,
        "hidden_size": config.width,
        "num_attention_heads": config.heads,
        "intermediate_size": config.hidden or 4 * config.width,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": 0.0,
        "patch_size": _patch(config),
        "hidden_act": written_activation(config.activation),
        "layer_norm_eps": config.epsilon,
        "qkv_bias": True,
    }


def names(config: ViTConfig) -> list[Name]:
    patch = _patch(config)
    projection = "embeddings.patch_embeddings.projection"
    table = [
        Name("embeddings.cls_token", ("embedding.token",), "row"),
        Name("embeddings.position_embeddings", ("embedding.position.table",), "row"),
        Name(f"{projection}.weight", ("embedding.patches.linear.weight",), axes=(-1, patch, patch)),
        Name(f"{projection}.bias", ("embedding.patches.linear.bias",)),
    ]
    for layer in range(config.layers):
        theirs, ours = f"encoder.layer.{layer}", f"body.blocks.{layer}"
        table += [
            *linear(f"{theirs}.attention.attention.query", f"{ours}.attention.query"),
            *linear(f"{theirs}.attention.attention.key", f"{ours}.attention.key"),
            *linear(f"{theirs}.attention.attention.value", f"{ours}.attention.value"),
            *linear(f"{theirs}.attention.output.dense", f"{ours}.attention.output"),
            *linear(f"{theirs}.layernorm_before", f"{ours}.around_attention.norm"),
            *linear(f"{theirs}.intermediate.dense", f"{ours}.feed_forward.inner"),
            *linear(f"{theirs}.output.dense", f"{ours}.feed_forward.outer"),
            *linear(f"{theirs}.layernorm_after", f"{ours}.around_feed_forward.norm"),
        ]
    return [*table, *linear("layernorm", "body.final"), *linear("classifier", "output")]


def _patch(config: ViTConfig) -> int:
    return config.patch_size or 4


VIT = Architecture(
    model_type="vit",
    kind="vit",
    accepted=("ViTForImageClassification",),
    prefix="vit.",
    heads=("classifier.",),
    read=read,
    write=write,
    names=names,
    constant=r"embeddings\.mask_token",
    pictures=True,
)
