"""GPT-2 is `gpt` with its defaults. Their linear maps are stored transposed, and query, key and value as one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from regard.interchange.huggingface.architecture import (
    Architecture,
    Name,
    Settings,
    linear,
    refuse,
    said_and_not_said,
    written_activation,
)
from regard.models.gpt import GPTConfig
from regard.special import Special


def read(settings: Settings, tensors: Collection[str], special: Special) -> GPTConfig:
    settings.require(scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    hidden = None if settings.get("n_inner") is None else settings.number("n_inner")
    headless = "GPT2LMHeadModel" not in settings.get("architectures", []) and "lm_head.weight" not in tensors
    return GPTConfig(
        layers=settings.layers("n_layer", tensors, "h."),
        width=settings.number("n_embd"),
        heads=settings.heads("n_head", width="n_embd"),
        hidden=hidden,
        dropout=settings.share("resid_pdrop", 0.1),
        maximum=settings.number("n_positions"),
        activation=settings.activation("activation_function", "gelu_new"),
        epsilon=settings.epsilon("layer_norm_epsilon", 1e-5),
        tied=headless or settings.flag("tie_word_embeddings", True),
        special=special,
        vocabulary=settings.number("vocab_size"),
    )


def write(config: GPTConfig) -> dict[str, Any]:
    refuse(config, "GPT-2", attention="exact", position="learned", norm="layer", bias=True)
    shared = config.key_value_heads or config.heads
    refuse(config.model_copy(update={"key_value_heads": shared}), "GPT-2", key_value_heads=config.heads)
    return {
        "architectures": ["GPT2LMHeadModel"],
        "n_layer": config.layers,
        "n_embd": config.width,
        "n_head": config.heads,
        "n_inner": config.hidden,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.dropout,
        "n_positions": config.maximum,
        "activation_function": written_activation(config.activation),
        "layer_norm_epsilon": config.epsilon,
        "tie_word_embeddings": config.tied,
        "bos_token_id": config.special.bos,
        "eos_token_id": config.special.eos,
        "pad_token_id": config.special.pad,
        "vocab_size": config.vocabulary,
    }


def generation(config: GPTConfig) -> dict[str, Any]:
    return {**said_and_not_said(config.special), "bos_token_id": config.special.bos}


def names(config: GPTConfig) -> list[Name]:
    table = [
        Name("wte.weight", ("embedding.table.weight",)),
        Name("wpe.weight", ("embedding.position.table",)),
        *linear("ln_f", "body.final"),
    ]
    for layer in range(config.layers):
        theirs, ours = f"h.{layer}", f"body.blocks.{layer}"
        heads = [f"{ours}.attention.{part}" for part in ("query", "key", "value")]
        table += [
            *linear(f"{theirs}.ln_1", f"{ours}.around_attention.norm"),
            *linear(f"{theirs}.attn.c_attn", *heads, form="transposed"),
            *linear(f"{theirs}.attn.c_proj", f"{ours}.attention.output", form="transposed"),
            *linear(f"{theirs}.ln_2", f"{ours}.around_feed_forward.norm"),
            *linear(f"{theirs}.mlp.c_fc", f"{ours}.feed_forward.inner", form="transposed"),
            *linear(f"{theirs}.mlp.c_proj", f"{ours}.feed_forward.outer", form="transposed"),
        ]
    return table if config.tied else [*table, Name("lm_head.weight", ("output.weight",))]


def copies(config: GPTConfig) -> Mapping[str, str]:
    return {"lm_head.weight": "wte.weight"} if config.tied else {}


GPT2 = Architecture(
    model_type="gpt2",
    kind="gpt",
    accepted=("GPT2LMHeadModel", "GPT2Model"),
    prefix="transformer.",
    heads=("lm_head.",),
    read=read,
    write=write,
    names=names,
    constant=r"h\.\d+\.attn\.(bias|masked_bias)",
    bare=False,
    copies=copies,
    generation=generation,
)
