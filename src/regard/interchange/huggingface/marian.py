"""Marian is `transformer` with sines before cosines, a bias on the logits, and answers that begin with padding."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import torch

from regard.errors import RegardError
from regard.interchange.huggingface.architecture import (
    Architecture,
    Name,
    Settings,
    Tensors,
    linear,
    refuse,
    said_and_not_said,
    written_activation,
)
from regard.models.transformer import TransformerConfig
from regard.special import Special

# parameters whose first axis are the features of the model; of other matrices it is the second, of other vectors none
WRITES = r"\.(attention|cross)\.output\.|\.feed_forward\.outer\.|norm\."
ATTENTION = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output"}


def read(settings: Settings, tensors: Collection[str], special: Special) -> TransformerConfig:
    # what Marian can be trained to do and its checkpoints from elsewhere may state
    settings.require(normalize_before=False, normalize_embedding=False, add_final_layer_norm=False)
    settings.require(static_position_embeddings=True, extra_pos_embeddings=0)
    shared = settings.flag("share_encoder_decoder_embeddings", True)
    tied = settings.flag("tie_word_embeddings", True)
    if shared and not tied:
        raise RegardError(
            f"{settings.where}: both sides share their embeddings but not with the output "
            f"(tie_word_embeddings = False), which regard does not compute"
        )
    vocabulary = settings.number("vocab_size")
    return TransformerConfig(
        encoder_layers=settings.layers("encoder_layers", tensors, "encoder.layers."),
        decoder_layers=settings.layers("decoder_layers", tensors, "decoder.layers."),
        width=settings.number("d_model"),
        heads=settings.heads("encoder_attention_heads", width="d_model"),
        decoder_heads=settings.heads("decoder_attention_heads", width="d_model"),
        hidden=settings.number("encoder_ffn_dim"),
        decoder_hidden=settings.number("decoder_ffn_dim"),
        dropout=settings.share("dropout", 0.1),
        position="sinusoidal_halves",
        maximum=settings.number("max_position_embeddings", stored=False),
        activation=settings.activation("activation_function", "gelu"),
        tied=tied,
        scale=settings.flag("scale_embedding", False),
        output_bias="final_logits_bias" in tensors,
        special=special,
        vocabulary=vocabulary,
        target_vocabulary=None if shared else settings.number("decoder_vocab_size", vocabulary),
    )


def write(config: TransformerConfig) -> dict[str, Any]:
    refuse(config, "Marian", decoder="attention", wiring="post_norm", position="sinusoidal_halves")
    refuse(config, "Marian", attention="exact", decoder_attention="exact", experts=None)
    shared = config.target_vocabulary is None
    if shared:
        refuse(config, "Marian", tied=True)
    return {
        "architectures": ["MarianMTModel"],
        "encoder_layers": config.encoder_layers or config.layers,
        "decoder_layers": config.decoder_layers or config.layers,
        "d_model": config.width,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.decoder_heads or config.heads,
        "encoder_ffn_dim": config.hidden,
        "decoder_ffn_dim": config.decoder_hidden or config.hidden,
        "dropout": config.dropout,
        "max_position_embeddings": config.maximum,
        "activation_function": written_activation(config.activation),
        "tie_word_embeddings": config.tied,
        "scale_embedding": config.scale,
        "share_encoder_decoder_embeddings": shared,
        "is_encoder_decoder": True,
        "pad_token_id": config.special.pad,
        "bos_token_id": None,
        "eos_token_id": config.special.eos,
        "forced_eos_token_id": config.special.eos,
        "decoder_start_token_id": config.special.bos,
        "vocab_size": config.vocabulary,
        "decoder_vocab_size": config.target_vocabulary or config.vocabulary,
    }


def generation(config: TransformerConfig) -> dict[str, Any]:
    ends = {"decoder_start_token_id": config.special.bos, "forced_eos_token_id": config.special.eos}
    return {**said_and_not_said(config.special), **ends, "max_length": config.maximum}


def sines_first(config: TransformerConfig, weights: Tensors) -> tuple[TransformerConfig, Tensors]:
    """The same model with its features in another order: those with a sine before those with a cosine."""
    if config.position != "sinusoidal":
        return config, weights
    order = torch.cat((torch.arange(0, config.width, 2), torch.arange(1, config.width, 2)))
    moved = {}
    for name, tensor in weights.items():
        if re.search(WRITES, name):
            moved[name] = tensor[order]
        else:
            moved[name] = tensor[:, order] if tensor.dim() == 2 else tensor
    return config.model_copy(update={"position": "sinusoidal_halves"}), moved


def names(config: TransformerConfig) -> list[Name]:
    if config.target_vocabulary is None:
        table = [Name("shared.weight", ("source.table.weight",))]
    else:
        table = [
            Name("encoder.embed_tokens.weight", ("source.table.weight",)),
            Name("decoder.embed_tokens.weight", ("target.table.weight",)),
        ]
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for layer in range(layers or config.layers):
            table += _layer(f"{side}.layers.{layer}", f"{side}.blocks.{layer}", cross=side == "decoder")
    if not config.tied:
        table.append(Name("lm_head.weight", ("output.weight",)))
    if config.output_bias:
        table.append(Name("final_logits_bias", ("output.bias",), "row"))
    return table


def _layer(theirs: str, ours: str, *, cross: bool) -> list[Name]:
    table = [
        *linear(f"{theirs}.self_attn_layer_norm", f"{ours}.around_attention.norm"),
        *linear(f"{theirs}.fc1", f"{ours}.feed_forward.inner"),
        *linear(f"{theirs}.fc2", f"{ours}.feed_forward.outer"),
        *linear(f"{theirs}.final_layer_norm", f"{ours}.around_feed_forward.norm"),
    ]
    table += [
        name
        for part, own in ATTENTION.items()
        for name in linear(f"{theirs}.self_attn.{part}", f"{ours}.attention.{own}")
    ]
    if cross:
        table += linear(f"{theirs}.encoder_attn_layer_norm", f"{ours}.around_cross.norm")
        table += [
            name
            for part, own in ATTENTION.items()
            for name in linear(f"{theirs}.encoder_attn.{part}", f"{ours}.cross.{own}")
        ]
    return table


def copies(config: TransformerConfig) -> Mapping[str, str]:
    if config.target_vocabulary is not None:
        return {"lm_head.weight": "decoder.embed_tokens.weight"} if config.tied else {}
    repeated = ("lm_head.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    return dict.fromkeys(repeated, "shared.weight")


MARIAN = Architecture(
    model_type="marian",
    kind="transformer",
    accepted=("MarianMTModel",),
    prefix="model.",
    heads=("lm_head.", "final_logits_bias"),
    read=read,
    write=write,
    names=names,
    constant=r"(encoder|decoder)\.embed_positions\.weight",
    bare=False,
    copies=copies,
    prepare=sines_first,
    generation=generation,
)
