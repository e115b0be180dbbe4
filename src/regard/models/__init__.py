"""One short file per system: its config and its module.

`build(kind="transformer", vocabulary=8000, layers=4)` makes any of them; `KINDS` is the whole list.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from regard.errors import RegardError, unknown_name
from regard.models.facts import BodyConfig, ModelConfig

if TYPE_CHECKING:
    from torch import nn

    from regard.models.body import Body


Form = Literal["pairs", "causal", "encoder", "pictures", "captions", "graphs", "sets", "series"]


class Kind(NamedTuple):
    """The module, config and class of a system, by name so that they are imported only when needed, and what it is.

    Its form is how it is called: `pairs` reads a source and writes a target, `causal` continues a prompt, `encoder`
    turns a text into a vector for each token, `pictures` turns a picture into numbers, `captions` writes a text about a
    picture, `graphs` turns the nodes of a graph into numbers, `sets` a set, and `series` continues series of numbers.
    """

    module: str
    config: str
    model: str
    summary: str
    form: Form = "pairs"


KINDS = {
    "seq2seq": Kind(
        "regard.models.seq2seq", "Seq2SeqConfig", "Seq2Seq", "recurrent encoder-decoder, with or without attention"
    ),
    "transformer": Kind(
        "regard.models.transformer", "TransformerConfig", "Transformer", "encoder-decoder made of attention alone"
    ),
    "universal": Kind(
        "regard.models.universal",
        "UniversalConfig",
        "UniversalTransformer",
        "encoder-decoder of one block each, applied until every position has pondered enough",
    ),
    "universal_encoder": Kind(
        "regard.models.universal",
        "UniversalEncoderConfig",
        "UniversalEncoder",
        "encoder of one block, applied again and again",
        "encoder",
    ),
    "universal_decoder": Kind(
        "regard.models.universal",
        "UniversalDecoderConfig",
        "UniversalDecoder",
        "causal language model of one block, applied again and again",
        "causal",
    ),
    "conv_seq2seq": Kind(
        "regard.models.conv_seq2seq", "ConvSeq2SeqConfig", "ConvSeq2Seq", "convolutional encoder-decoder with attention"
    ),
    "rnn": Kind("regard.models.rnn", "RNNConfig", "RNN", "recurrent causal language model", "causal"),
    "gpt": Kind("regard.models.gpt", "GPTConfig", "GPT", "causal language model made of attention alone", "causal"),
    "transformer_xl": Kind(
        "regard.models.transformer_xl",
        "TransformerXLConfig",
        "TransformerXL",
        "causal language model that remembers the segments before",
        "causal",
    ),
    "bert": Kind("regard.models.bert", "BertConfig", "Bert", "encoder that reads a text from both sides", "encoder"),
    "elmo": Kind(
        "regard.models.elmo",
        "ElmoConfig",
        "Elmo",
        "two recurrent language models, one in each direction, as features",
        "encoder",
    ),
    "forecaster": Kind(
        "regard.models.forecaster",
        "ForecasterConfig",
        "Forecaster",
        "recurrent network or causal Transformer that continues series of numbers",
        "series",
    ),
    "xlnet": Kind(
        "regard.models.xlnet", "XLNetConfig", "XLNet", "encoder that learns to predict words in any order", "encoder"
    ),
    "vit": Kind("regard.models.vit", "ViTConfig", "ViT", "Transformer over the patches of a picture", "pictures"),
    "swin": Kind(
        "regard.models.swin", "SwinConfig", "Swin", "attention in windows that shift, on a pyramid", "pictures"
    ),
    "non_local": Kind(
        "regard.models.non_local",
        "NonLocalConfig",
        "NonLocalNetwork",
        "residual convolutional network in which every place looks at all places",
        "pictures",
    ),
    "local_attention": Kind(
        "regard.models.local_attention",
        "LocalAttentionConfig",
        "LocalAttentionNetwork",
        "residual network with attention over neighbourhoods instead of convolutions",
        "pictures",
    ),
    "glimpse": Kind(
        "regard.models.glimpse", "GlimpseConfig", "Glimpse", "recurrent network that learns where to look", "pictures"
    ),
    "deep_sets": Kind(
        "regard.models.deep_sets", "DeepSetsConfig", "DeepSets", "sets: Deep Sets and the Set Transformer", "sets"
    ),
    "caption": Kind(
        "regard.models.caption",
        "CaptionConfig",
        "captioner",
        "picture to text, with attention over the picture",
        "captions",
    ),
    "gat": Kind("regard.models.gat", "GATConfig", "GAT", "graph attention network, GAT and GATv2", "graphs"),
}

# sizes that the data decides, by form, and what `build` takes where none are given
SIZES: dict[Form, dict[str, int]] = {
    "pictures": {"channels": 3, "rows": 32, "columns": 32, "outputs": 10},
    "sets": {"features": 1, "outputs": 1},
    "graphs": {"features": 16, "outputs": 2},
    "series": {"season": 12, "calendar": 2},
}


def kinds(form: Form | None = None) -> list[str]:
    """The names of all systems, or of those of one form."""
    return [name for name, kind in KINDS.items() if form in (None, kind.form)]


def config_class(kind: str) -> type[ModelConfig]:
    """The config class of `kind`."""
    return _parts(kind)[0]


@overload
def from_config(config: BodyConfig, *, vocabulary: int | None = None) -> Body: ...
@overload
def from_config(
    config: ModelConfig, *, vocabulary: int | None = None, target_vocabulary: int | None = None, **sizes: int
) -> nn.Module: ...
def from_config(
    config: ModelConfig, *, vocabulary: int | None = None, target_vocabulary: int | None = None, **sizes: int
) -> nn.Module:
    """The module that `config` describes; without a target vocabulary both sides share one.

    A vocabulary that the config states (its weights are imported) has precedence over the one given. A kind
    that reads no tokens needs none. `sizes` are those that the data decides, such as the channels of pictures.
    """
    stated, stated_target = config.vocabularies()
    if stated is not None:
        vocabulary, target_vocabulary = stated, stated_target
    texts = {"vocabulary": vocabulary, "target_vocabulary": target_vocabulary}
    known = {name: size for name, size in texts.items() if size is not None}
    return _parts(config.kind)[1](config, **known, **sizes)


def build(kind: str, *, vocabulary: int = 8000, target_vocabulary: int | None = None, **settings: Any) -> nn.Module:
    """Any system by name, with the settings of its config class: `build("transformer", layers=4, width=128)`.

    A kind that reads no tokens takes sizes of the data instead of a vocabulary: `build("vit", rows=28, columns=28)`.
    """
    config = config_class(kind)
    sizes = {name: settings.pop(name, size) for name, size in SIZES.get(KINDS[kind].form, {}).items()}
    known = [*(field.alias or name for name, field in config.model_fields.items()), *sizes]
    for name in settings:
        if name not in known:
            raise unknown_name(f"models.build(kind={kind!r}): setting", name, known)
    try:
        made = config(**settings)
    except ValueError as error:
        raise RegardError(f"models.build(kind={kind!r}): {error}") from None
    if sizes:
        return from_config(made, **sizes)
    return from_config(made, vocabulary=vocabulary, target_vocabulary=target_vocabulary)


def _parts(kind: str) -> tuple[type[ModelConfig], Callable[..., nn.Module]]:
    if kind not in KINDS:
        raise unknown_name("kind", kind, KINDS)
    found = importlib.import_module(KINDS[kind].module)
    return getattr(found, KINDS[kind].config), getattr(found, KINDS[kind].model)
