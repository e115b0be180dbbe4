"""RoBERTa is `bert` whose first position comes after that of padding."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from regard.errors import RegardError
from regard.interchange.huggingface import bert
from regard.interchange.huggingface.architecture import (
    Architecture,
    HeadClass,
    Name,
    Settings,
    linear,
    refuse,
    tokens_and_spans,
)
from regard.models.bert import BertConfig
from regard.special import Special


def read(settings: Settings, tensors: Collection[str], special: Special) -> BertConfig:
    config = bert.read(settings, tensors, special)
    masked_words = bert.has(tensors, "lm_head.")
    if special.pad is None:
        raise RegardError(f"{settings.where}: pad_token_id is missing, and RoBERTa counts positions from it")
    if special.pad + 1 >= config.maximum:
        reason = f"positions are counted from it, of which there are {config.maximum} (max_position_embeddings)"
        raise settings.wrong("pad_token_id", reason)
    if masked_words and config.activation != "gelu":
        settings.require(hidden_act="gelu")  # its lm_head has no other
    return config.model_copy(update={"offset": special.pad + 1, "masked_words": masked_words, "next_sentence": False})


def write(config: BertConfig) -> dict[str, Any]:
    refuse(config, "RoBERTa", next_sentence=False, offset=(config.special.pad or 0) + 1)
    if not config.segments:
        refuse(config, "RoBERTa", segments=1)
    if config.masked_words:
        refuse(config, "RoBERTa", activation="gelu")
    name = "RobertaForMaskedLM" if config.masked_words else "RobertaModel"
    ends = {"bos_token_id": config.special.bos, "eos_token_id": config.special.eos}
    return {**bert.sizes(config), **ends, "architectures": [name]}


def names(config: BertConfig) -> list[Name]:
    table = bert.body(config)
    if config.masked_words:
        table += [
            *linear("lm_head.dense", "transform.linear"),
            *linear("lm_head.layer_norm", "transform.norm"),
            Name("lm_head.bias", ("output.bias",)),
        ]
    return table


def copies(_config: BertConfig) -> Mapping[str, str]:
    return {"lm_head.decoder.weight": "embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"}


ROBERTA = Architecture(
    model_type="roberta",
    kind="bert",
    accepted=("RobertaModel", "RobertaForMaskedLM"),
    prefix="roberta.",
    heads=("lm_head.", "classifier.", "qa_outputs."),
    read=read,
    write=write,
    names=names,
    constant=bert.BERT.constant,
    copies=copies,
    tops=(
        HeadClass(
            "RobertaForSequenceClassification",
            "text",
            (*linear("classifier.dense", "encoder.pooler"), *linear("classifier.out_proj", "output")),
            {"pooler": True, "pooler_activation": "tanh"},
        ),
        *tokens_and_spans("Roberta"),
    ),
)
