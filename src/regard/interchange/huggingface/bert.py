"""BERT is `bert`; its tensors show which heads it has."""

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
from regard.models.bert import BertConfig
from regard.special import Special


def read(settings: Settings, tensors: Collection[str], special: Special) -> BertConfig:
    settings.require(position_embedding_type="absolute", is_decoder=False)
    if has(tensors, "cls.predictions.") or has(tensors, "lm_head."):
        settings.require(tie_word_embeddings=True)
    return BertConfig(
        layers=settings.layers("num_hidden_layers", tensors, "encoder.layer."),
        width=settings.number("hidden_size"),
        heads=settings.heads("num_attention_heads", width="hidden_size"),
        hidden=settings.number("intermediate_size"),
        dropout=settings.share("hidden_dropout_prob", 0.1),
        maximum=settings.number("max_position_embeddings"),
        segments=settings.number("type_vocab_size"),
        activation=settings.activation("hidden_act", "gelu"),
        epsilon=settings.epsilon("layer_norm_eps", 1e-12),
        pooler=has(tensors, "pooler."),
        masked_words=has(tensors, "cls.predictions."),
        next_sentence=has(tensors, "cls.seq_relationship."),
        special=special,
        vocabulary=settings.number("vocab_size"),
    )


def has(tensors: Collection[str], beginning: str) -> bool:
    """Whether the name of a tensor begins like this."""
    return any(name.startswith(beginning) for name in tensors)


def write(config: BertConfig) -> dict[str, Any]:
    heads = {
        (True, True): "BertForPreTraining",
        (True, False): "BertForMaskedLM",
        (False, True): "BertForNextSentencePrediction",
        (False, False): "BertModel",
    }
    return {**sizes(config), "architectures": [heads[config.masked_words, config.next_sentence]]}


def sizes(config: BertConfig) -> dict[str, Any]:
    """The names that BERT and RoBERTa share."""
    refuse(config, "BERT or RoBERTa", wiring="post_norm", position="learned", attention="exact", experts=None)
    if config.pooler:
        refuse(config, "BERT or RoBERTa", pooler_activation="tanh")
    return {
        "num_hidden_layers": config.layers,
        "hidden_size": config.width,
        "num_attention_heads": config.heads,
        "intermediate_size": config.hidden or 4 * config.width,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.dropout,
        "max_position_embeddings": config.maximum,
        "type_vocab_size": config.segments,
        "hidden_act": written_activation(config.activation),
        "layer_norm_eps": config.epsilon,
        "pad_token_id": config.special.pad,
        "vocab_size": config.vocabulary,
    }


def names(config: BertConfig) -> list[Name]:
    table = body(config)
    if config.masked_words:
        table += [
            *linear("cls.predictions.transform.dense", "transform.linear"),
            *linear("cls.predictions.transform.LayerNorm", "transform.norm"),
            Name("cls.predictions.bias", ("output.bias",)),
        ]
    if config.next_sentence:
        table += linear("cls.seq_relationship", "next_sentence")
    return table


def body(config: BertConfig) -> list[Name]:
    """The settings that BERT and RoBERTa share."""
    table = [
        Name("embeddings.word_embeddings.weight", ("embedding.table.weight",)),
        Name("embeddings.position_embeddings.weight", ("embedding.position.table",)),
        Name("embeddings.token_type_embeddings.weight", ("segments.weight",)),
        *linear("embeddings.LayerNorm", "norm"),
    ]
    for layer in range(config.layers):
        theirs, ours = f"encoder.layer.{layer}", f"body.blocks.{layer}"
        table += [
            *linear(f"{theirs}.attention.self.query", f"{ours}.attention.query"),
            *linear(f"{theirs}.attention.self.key", f"{ours}.attention.key"),
            *linear(f"{theirs}.attention.self.value", f"{ours}.attention.value"),
            *linear(f"{theirs}.attention.output.dense", f"{ours}.attention.output"),
            *linear(f"{theirs}.attention.output.LayerNorm", f"{ours}.around_attention.norm"),
            *linear(f"{theirs}.intermediate.dense", f"{ours}.feed_forward.inner"),
            *linear(f"{theirs}.output.dense", f"{ours}.feed_forward.outer"),
            *linear(f"{theirs}.output.LayerNorm", f"{ours}.around_feed_forward.norm"),
        ]
    return [*table, *linear("pooler.dense", "pooler")] if config.pooler else table


def copies(_config: BertConfig) -> Mapping[str, str]:
    return {
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }


BERT = Architecture(
    model_type="bert",
    kind="bert",
    accepted=("BertModel", "BertForPreTraining", "BertForMaskedLM", "BertForNextSentencePrediction"),
    prefix="bert.",
    heads=("cls.", "classifier.", "qa_outputs."),
    read=read,
    write=write,
    names=names,
    constant=r"embeddings\.(position_ids|token_type_ids)",
    copies=copies,
    tops=(
        HeadClass(
            "BertForSequenceClassification",
            "text",
            tuple(linear("classifier", "output")),
            {"pooler": True, "pooler_activation": "tanh"},
        ),
        *tokens_and_spans("Bert"),
    ),
)
