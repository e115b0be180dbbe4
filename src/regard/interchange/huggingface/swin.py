"""Swin is `swin`. Their blocks are numbered in each stage, and ours from the first to the last."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from regard.interchange.huggingface.architecture import Architecture, Name, Settings, linear, written_activation
from regard.models.swin import SwinConfig
from regard.special import Special

STAGES = "encoder.layers."


def read(settings: Settings, tensors: Collection[str], _special: Special) -> SwinConfig:
    settings.require(use_absolute_embeddings=False)
    ratio = settings.get("mlp_ratio", 4.0)
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= settings.largest:
        raise settings.wrong("mlp_ratio", "must be a number above 0")
    return SwinConfig(
        width=settings.number("embed_dim"),
        layers=_stages(settings, "depths", tensors),
        heads=_stages(settings, "num_heads", tensors),
        patch=settings.number("patch_size", 4),
        window=settings.number("window_size", 7),
        expansion=float(ratio),
        stochastic_depth=settings.share("drop_path_rate", 0.1),
        dropout=settings.share("hidden_dropout_prob", 0.0),
        activation=settings.activation("hidden_act", "gelu"),
        bias=settings.flag("qkv_bias", True),
        epsilon=settings.epsilon("layer_norm_eps", 1e-5),
    )


def _stages(settings: Settings, key: str, tensors: Collection[str]) -> list[int]:
    """A number for each stage that the weights have tensors of."""
    found = {name[len(STAGES) :].partition(".")[0] for name in tensors if name.startswith(STAGES)}
    values = settings.get(key)
    whole = isinstance(values, list) and all(type(each) is int and 1 <= each <= settings.largest for each in values)
    if not whole or len(values) != len(found):
        raise settings.wrong(key, f"must be a list of {len(found)} numbers, one for each stage in the weights")
    return list(values)


def write(config: SwinConfig) -> dict[str, Any]:
    return {
        "architectures": ["SwinForImageClassification"],
        "embed_dim": config.width,
        "hidden_size": config.width << (len(config.layers) - 1),
        "depths": config.layers,
        "num_heads": config.heads,
        "patch_size": config.patch,
        "window_size": config.window,
        "mlp_ratio": config.expansion,
        "drop_path_rate": config.stochastic_depth,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": 0.0,
        "hidden_act": written_activation(config.activation),
        "qkv_bias": config.bias,
        "layer_norm_eps": config.epsilon,
        "use_absolute_embeddings": False,
    }


def names(config: SwinConfig) -> list[Name]:
    table = [
        *linear("embeddings.patch_embeddings.projection", "embedding.cut"),
        *linear("embeddings.norm", "embedding.norm"),
    ]
    number = 0
    for stage, layers in enumerate(config.layers):
        for layer in range(layers):
            table += _block(f"{STAGES}{stage}.blocks.{layer}", f"blocks.{number}", bias=config.bias)
            number += 1
        if stage < len(config.layers) - 1:
            merge = f"{STAGES}{stage}.downsample"
            table += linear(f"{merge}.norm", f"merges.{stage}.norm")
            table.append(Name(f"{merge}.reduction.weight", (f"merges.{stage}.output.weight",)))
    return [*table, *linear("layernorm", "norm"), *linear("classifier", "output")]


def _block(theirs: str, ours: str, *, bias: bool) -> list[Name]:
    table = []
    for part in ("query", "key", "value"):
        table += linear(f"{theirs}.attention.self.{part}", f"{ours}.attention.{part}")[: 1 + bias]
    return [
        *table,
        Name(f"{theirs}.attention.self.relative_position_bias_table", (f"{ours}.attention.table",)),
        *linear(f"{theirs}.attention.output.dense", f"{ours}.attention.output"),
        *linear(f"{theirs}.layernorm_before", f"{ours}.around_attention.norm"),
        *linear(f"{theirs}.intermediate.dense", f"{ours}.feed_forward.inner"),
        *linear(f"{theirs}.output.dense", f"{ours}.feed_forward.outer"),
        *linear(f"{theirs}.layernorm_after", f"{ours}.around_feed_forward.norm"),
    ]


SWIN = Architecture(
    model_type="swin",
    kind="swin",
    accepted=("SwinForImageClassification",),
    prefix="swin.",
    heads=("classifier.",),
    read=read,
    write=write,
    names=names,
    constant=r"embeddings\.mask_token|encoder\..*\.relative_position_index",
    pictures=True,
)
