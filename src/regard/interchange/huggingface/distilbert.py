"""DistilBERT is `bert` without segments and without a pooler."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from regard.interchange.huggingface.architecture import (
    Architecture,
    HeadClass,
    Name,
    Settings,
    linear,
    refuse,
    tokens_and_spans,
    written_activation,
)
from regard.interchange.huggingface.bert import has
from regard.models.bert import BertConfig
from regard.special import Special

EPSILON = 1e-12  # not a setting there


def read(settings: Settings, tensors: Collection[str], special: Special) -> BertConfig:
    masked_words = has(tensors, "vocab_")
    if masked_words:
        settings.require(tie_word_embeddings=True)
    # sinusoidal positions are stored as a table, as learned ones are
    return BertConfig(
        layers=settings.layers("n_layers", tensors, "transformer.layer."),
        width=settings.number("dim"),
        heads=settings.heads("n_heads", width="dim"),
        hidden=settings.number("hidden_dim"),
        dropout=settings.share("dropout", 0.1),
        maximum=settings.number("max_position_embeddings"),
        segments=0,
        activation=settings.activation("activation", "gelu"),
        epsilon=EPSILON,
        pooler=False,
        masked_words=masked_words,
        next_sentence=False,
        special=special,
        vocabulary=settings.number("vocab_size"),
    )


def write(config: BertConfig) -> dict[str, Any]:
    refuse(config, "DistilBERT", segments=0, pooler=False, next_sentence=False, epsilon=EPSILON, offset=0)
    refuse(config, "DistilBERT", wiring="post_norm", position="learned", attention="exact", experts=None)
    return {
        "architectures": ["DistilBertForMaskedLM" if config.masked_words else "DistilBertModel"],
        "n_layers": config.layers,
        "dim": config.width,
        "n_heads": config.heads,
        "hidden_dim": config.hidden or 4 * config.width,
        "dropout": config.dropout,
        "attention_dropout": config.dropout,
        "max_position_embeddings": config.maximum,
        "activation": written_activation(config.activation),
        "pad_token_id": config.special.pad,
        "vocab_size": config.vocabulary,
    }


def names(config: BertConfig) -> list[Name]:
    table = [
        Name("embeddings.word_embeddings.weight", ("embedding.table.weight",)),
        Name("embeddings.position_embeddings.weight", ("embedding.position.table",)),
        *linear("embeddings.LayerNorm", "norm"),
    ]
    for layer in range(config.layers):
        theirs, ours = f"transformer.layer.{layer}", f"body.blocks.{layer}"
        table += [
            *linear(f"{theirs}.attention.q_lin", f"{ours}.attention.query"),
            *linear(f"{theirs}.attention.k_lin", f"{ours}.attention.key"),
            *linear(f"{theirs}.attention.v_lin", f"{ours}.attention.value"),
            *linear(f"{theirs}.attention.out_lin", f"{ours}.attention.output"),
            *linear(f"{theirs}.sa_layer_norm", f"{ours}.around_attention.norm"),
            *linear(f"{theirs}.ffn.lin1", f"{ours}.feed_forward.inner"),
            *linear(f"{theirs}.ffn.lin2", f"{ours}.feed_forward.outer"),
            *linear(f"{theirs}.output_layer_norm", f"{ours}.around_feed_forward.norm"),
        ]
    if config.masked_words:
        table += [
            *linear("vocab_transform", "transform.linear"),
            *linear("vocab_layer_norm", "transform.norm"),
            Name("vocab_projector.bias", ("output.bias",)),
        ]
    return table


def copies(_config: BertConfig) -> Mapping[str, str]:
    return {"vocab_projector.weight": "embeddings.word_embeddings.weight"}


DISTILBERT = Architecture(
    model_type="distilbert",
    kind="bert",
    accepted=("DistilBertModel", "DistilBertForMaskedLM"),
    prefix="distilbert.",
    heads=("vocab_", "pre_classifier.", "classifier.", "qa_outputs."),
    read=read,
    write=write,
    names=names,
    constant=r"embeddings\.position_ids",
    copies=copies,
    tops=(
        HeadClass(
            "DistilBertForSequenceClassification",
            "text",
            (*linear("pre_classifier", "encoder.pooler"), *linear("classifier", "output")),
            {"pooler": True, "pooler_activation": "relu"},
        ),
        *tokens_and_spans("DistilBert"),
    ),
)
