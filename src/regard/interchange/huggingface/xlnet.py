"""XLNet is `xlnet`: their projections have an axis for the heads, their vector for a text belongs to a head."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from regard.interchange.huggingface.architecture import (
    Architecture,
    HeadClass,
    Name,
    Settings,
    linear,
    tokens_and_spans,
    written_activation,
)
from regard.models.xlnet import XLNetConfig
from regard.special import Special

MAPS = {"q": "queries", "k": "keys", "v": "values", "r": "distances"}
VECTORS = {"r_w_bias": "content_bias", "r_r_bias": "distance_bias", "r_s_bias": "segment_bias", "seg_embed": "segments"}
SUMMARY = {"summary_type": "last", "summary_use_proj": True, "summary_activation": "tanh"}


def read(settings: Settings, tensors: Collection[str], special: Special) -> XLNetConfig:
    settings.require(attn_type="bi", bi_data=False, clamp_len=-1, same_length=False, untie_r=True)
    if any(name.startswith("logits_proj.") for name in tensors):
        settings.require(**SUMMARY)
    if words := any(name.startswith("lm_loss.") for name in tensors):
        settings.require(tie_word_embeddings=True)
    width, heads = settings.number("d_model"), settings.heads("n_head", width="d_model")
    if settings.get("d_head", width // heads) != width // heads:
        raise settings.wrong("d_head", f"must be {width // heads}, which is d_model / n_head")
    return XLNetConfig(
        layers=settings.layers("n_layer", tensors, "layer."),
        width=width,
        heads=heads,
        hidden=settings.number("d_inner"),
        memory=settings.number("mem_len", stored=False) if settings.get("mem_len") else 0,
        dropout=settings.share("dropout", 0.1),
        activation=settings.activation("ff_activation", "gelu"),
        epsilon=settings.epsilon("layer_norm_eps", 1e-12),
        masked_words=words,
        special=special,
        vocabulary=settings.number("vocab_size"),
    )


def write(config: XLNetConfig) -> dict[str, Any]:
    return {
        **SUMMARY,
        "n_layer": config.layers,
        "d_model": config.width,
        "n_head": config.heads,
        "d_head": config.width // config.heads,
        "d_inner": config.hidden or 4 * config.width,
        "mem_len": config.memory or None,
        "dropout": config.dropout,
        "summary_last_dropout": config.dropout,
        "ff_activation": written_activation(config.activation),
        "layer_norm_eps": config.epsilon,
        "pad_token_id": config.special.pad,
        "bos_token_id": config.special.bos,
        "eos_token_id": config.special.eos,
        "vocab_size": config.vocabulary,
        "architectures": ["XLNetLMHeadModel" if config.masked_words else "XLNetModel"],
    }


def names(config: XLNetConfig) -> list[Name]:
    axes = (config.heads, -1)
    table = [Name("word_embedding.weight", ("embedding.table.weight",)), Name("mask_emb", ("mask",), "row")]
    for layer in range(config.layers):
        theirs, ours = f"layer.{layer}", f"body.{layer}"
        attention = f"{theirs}.rel_attn"
        table += [
            *(
                Name(f"{attention}.{their}", (f"{ours}.attention.{our}.weight",), "transposed", axes)
                for their, our in MAPS.items()
            ),
            Name(f"{attention}.o", (f"{ours}.attention.output.weight",), "same", axes),
            *(Name(f"{attention}.{their}", (f"{ours}.attention.{our}",)) for their, our in VECTORS.items()),
            *linear(f"{attention}.layer_norm", f"{ours}.around_attention.norm"),
            *linear(f"{theirs}.ff.layer_1", f"{ours}.feed_forward.inner"),
            *linear(f"{theirs}.ff.layer_2", f"{ours}.feed_forward.outer"),
            *linear(f"{theirs}.ff.layer_norm", f"{ours}.around_feed_forward.norm"),
        ]
    return [*table, Name("lm_loss.bias", ("output.bias",))] if config.masked_words else table


def copies(_config: XLNetConfig) -> Mapping[str, str]:
    return {"lm_loss.weight": "word_embedding.weight"}


TOKENS, SPANS = tokens_and_spans("XLNet")
XLNET = Architecture(
    model_type="xlnet",
    kind="xlnet",
    accepted=("XLNetModel", "XLNetLMHeadModel"),
    prefix="transformer.",
    heads=("lm_loss.", "sequence_summary.", "logits_proj.", "classifier.", "qa_outputs."),
    read=read,
    write=write,
    names=names,
    constant=r"(?!)",
    copies=copies,
    tops=(
        HeadClass(
            "XLNetForSequenceClassification",
            "text",
            (*linear("sequence_summary.summary", "encoder.pooler"), *linear("logits_proj", "output")),
            {"pooler": True},
        ),
        TOKENS,
        HeadClass("XLNetForQuestionAnsweringSimple", SPANS.shape, SPANS.names),
    ),
)
