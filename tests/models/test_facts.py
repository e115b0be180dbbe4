"""Every kind states its own facts, and its module does what they say."""

import subprocess
import sys
from fnmatch import fnmatch
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard import models
from regard.errors import RegardError
from regard.look import recording
from regard.models import KINDS, config_class, from_config, kinds
from regard.models.bert import BertConfig
from regard.models.body import Body
from regard.models.facts import BodyConfig, ModelConfig, Pooling, Use
from regard.models.heads import Headed, headed
from regard.special import OWN, Special
from regard.tasks.modules import Carries, Continues, Draws
from regard.training.depth import Layered

READING = [*kinds("causal"), *kinds("encoder")]
VOCABULARY = 19
THEIRS = Special(pad=1, bos=0, eos=2)
DEFAULTS = {  # width and dropout
    "seq2seq": (256, 0.1),
    "transformer": (512, 0.1),
    "conv_seq2seq": (256, 0.1),
    "rnn": (650, 0.5),
    "gpt": (768, 0.1),
    "transformer_xl": (410, 0.1),
    "bert": (768, 0.1),
    "elmo": (512, 0.1),
    "universal": (512, 0.1),
    "universal_encoder": (512, 0.1),
    "universal_decoder": (512, 0.1),
    "xlnet": (768, 0.1),
    "vit": (192, 0.1),
    "deep_sets": (64, 0.0),
    "swin": (48, 0.0),
    "non_local": (16, 0.1),
    "local_attention": (16, 0.1),
    "glimpse": (256, 0.0),
    "caption": (128, 0.1),
    "gat": (64, 0.6),
    "forecaster": (32, 0.1),
}


def settings_of(kind: str, **more: Any) -> dict[str, Any]:
    sizes: dict[str, Any] = {"layers": 2, "width": 12, "dropout": 0.0, "heads": 3}
    usual = {name: getattr(config_class(kind)(), name) for name in sizes if name in config_class(kind).model_fields}
    return {**{name: sizes[name] if isinstance(usual[name], int | float) else usual[name] for name in usual}, **more}


def tiny(kind: str, **more: Any) -> Any:
    torch.manual_seed(0)
    return models.build(kind, vocabulary=VOCABULARY, **settings_of(kind, **more)).eval()


def texts() -> tuple[Tensor, Tensor]:
    tokens = torch.randint(4, VOCABULARY, (3, 7), generator=torch.Generator().manual_seed(1))
    tokens[0, 3:] = tokens[1, 5:] = OWN.pad
    return tokens, torch.tensor([3, 5, 7])


@pytest.mark.parametrize("kind", KINDS)
def test_every_config_states_what_is_asked_of_all(kind: str):
    config: Any = config_class(kind)()
    assert isinstance(config, ModelConfig)
    assert (config.kind, config.ids(), config.vocabularies()) == (kind, OWN, (None, None))
    assert (config.width, config.dropout) == DEFAULTS[kind]
    assert config.block() > 0
    assert config.model_config["extra"] == "forbid"
    assert config.model_config["frozen"]
    assert isinstance(config, BodyConfig) == (kind in READING)


@pytest.mark.parametrize("kind", [kind for kind, row in KINDS.items() if row.form in ("pairs", "causal", "encoder")])
def test_every_module_offers_what_its_config_says(kind: str):
    module = tiny(kind)
    if KINDS[kind].form in ("pairs", "causal", "encoder"):
        assert isinstance(module.special, Special)
    assert isinstance(module, Body) == isinstance(module, Layered) == (kind in READING)
    assert isinstance(module, Carries) == config_class(kind).carries == (kind in ("rnn", "transformer_xl"))
    assert isinstance(module, Continues) == config_class(kind).continues == (kind == "transformer_xl")
    assert config_class(kind).adjustable <= config_class(kind).model_fields.keys()
    assert isinstance(module, Draws) == (kind == "seq2seq")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "special" in config_class(kind).model_fields])
def test_ids_and_vocabularies_from_elsewhere_are_those_of_the_config(kind: str):
    config = config_class(kind)(**settings_of(kind, special=THEIRS, vocabulary=29))
    assert (config.ids(), config.vocabularies()) == (THEIRS, (29, None))
    module: Any = from_config(config, vocabulary=5, target_vocabulary=7)
    assert (module.special, module.output.out_features) == (THEIRS, 29)
    assert isinstance(from_config(config), nn.Module)


@pytest.mark.parametrize(
    ("kind", "settings", "longest"),
    [
        ("bert", {"maximum": 11, "offset": 2}, 9),
        ("gpt", {"maximum": 11}, 11),
        ("gpt", {"maximum": 11, "position": "rotary"}, None),
        ("rnn", {}, None),
        ("transformer_xl", {"memory": 5}, None),
        ("elmo", {}, None),
        ("xlnet", {}, None),
        ("transformer", {"maximum": 11, "position": "learned"}, 11),
        ("transformer", {"maximum": 11}, None),
        ("conv_seq2seq", {"maximum": 11}, 11),
        ("seq2seq", {"maximum": 11, "score": "location"}, 11),
        ("seq2seq", {"maximum": 11}, None),
    ],
)
def test_a_model_reads_as_many_tokens_as_its_config_says_and_no_more(
    kind: str, settings: dict[str, Any], longest: int | None
):
    assert config_class(kind)(**settings_of(kind, **settings)).reads() == longest
    module = tiny(kind, **settings)
    target = (None, torch.full((1, 2), 5)) if kind in kinds("pairs") else ()
    module(torch.full((1, longest or 30), 5), *target)
    if longest is not None:
        with pytest.raises(RegardError, match=r"11 learned positions|maximum=11"):
            module(torch.full((1, longest + 1), 5), *target)


def test_a_block_is_as_long_as_a_gpt_has_positions_and_short_without_any():
    assert [config_class("gpt")(maximum=11).block(), config_class("rnn")().block()] == [11, 64]


@pytest.mark.parametrize(
    ("kind", "way", "words"),
    [
        ("bert", "pooler", True),
        ("elmo", "mean", True),
        ("gpt", "last", False),
        ("rnn", "last", False),
        ("transformer_xl", "last", False),
        ("xlnet", "pooler", True),
    ],
)
def test_facts_of_a_body(kind: str, way: Pooling, words: bool):
    config: Any = config_class(kind)(**settings_of(kind))
    assert (config.pools(), config.says_words(), config.frozen_under_a_head) == (way, words, kind == "elmo")
    assert config.model_copy(update={"pooling": "mean"}).pools() == "mean"
    assert config.segments_told_apart() == (2 if kind in ("bert", "xlnet") else 0)
    assert config.ends_with_bos == (kind == "xlnet")
    assert headed(config, classes=3, pooled=True, vocabulary=VOCABULARY).pooling == way
    assert headed(config, classes=3, pooled=False, vocabulary=VOCABULARY).pooling is None
    if kind not in ("bert", "xlnet"):
        assert config.suited("words") is config


def test_segments_are_none_one_or_two():
    assert [BertConfig(segments=number).segments_told_apart() for number in (0, 1, 2, 3)] == [0, 1, 2, 2]
    assert not BertConfig(masked_words=False).says_words()


@pytest.mark.parametrize(
    ("use", "settings", "wanted"),  # masked_words, next_sentence, pooler
    [
        ("whole", {}, (True, True, True)),
        ("words", {}, (True, True, True)),
        ("words", {"next_sentence": False}, (True, False, False)),
        ("words", {"next_sentence": False, "pooling": "pooler"}, (True, False, False)),
        ("vector", {}, (False, False, False)),
        ("vector", {"pooling": "mean"}, (False, False, False)),
        ("vector", {"pooling": "pooler"}, (False, False, True)),
        ("text", {}, (False, False, True)),
        ("text", {"pooling": "pooler"}, (False, False, True)),
        ("text", {"pooling": "first"}, (False, False, False)),
        ("tokens", {}, (False, False, False)),
        ("span", {"pooling": "pooler"}, (False, False, False)),
    ],
)
def test_a_bert_has_the_heads_that_its_use_needs(use: Use, settings: dict[str, Any], wanted: tuple[bool, ...]):
    before = BertConfig(layers=3, **settings)
    after = before.suited(use)
    assert (after.masked_words, after.next_sentence, after.pooler) == wanted
    heads = {"masked_words", "next_sentence", "pooler"}
    assert after.model_dump(exclude=heads) == before.model_dump(exclude=heads)
    BertConfig.model_validate(after.model_dump())


@pytest.mark.parametrize("kind", READING)
@pytest.mark.parametrize("pooling", ["first", "last", "mean"])
def test_a_text_is_pooled_without_its_padding(kind: str, pooling: Pooling):
    body, (tokens, lengths) = tiny(kind), texts()
    hidden = body.states(tokens, lengths)
    assert hidden.shape == (3, 7, body.width)
    found = body.pooled(hidden, lengths, pooling)
    for row, length in enumerate(lengths.tolist()):
        alone = body.states(tokens[row : row + 1, :length], lengths[row : row + 1])[0]
        wanted = {"first": alone[0], "last": alone[-1], "mean": alone.mean(0)}[pooling]
        assert_close(found[row], wanted, atol=1e-6, rtol=1e-5)


def test_only_bert_and_xlnet_have_a_pooler_and_tell_segments_apart():
    tokens, lengths = texts()
    second = (torch.arange(7) > 1).long().expand_as(tokens)
    for kind in READING:
        body = tiny(kind)
        same = torch.equal(body.states(tokens, lengths, second), body.states(tokens, lengths))
        assert same == (kind not in ("bert", "universal_encoder", "xlnet"))
        hidden = body.states(tokens, lengths)
        if kind == "bert":
            assert torch.equal(body.pooled(hidden, lengths, "pooler"), body.pool(hidden))
        elif kind == "xlnet":
            with pytest.raises(RegardError, match="no pooler"):
                body.pooled(hidden, lengths, "pooler")
        else:
            with pytest.raises(RegardError, match=r'pooling="pooler" is for the kinds bert and xlnet|has no pooler'):
                body.pooled(hidden, lengths, "pooler")
    unsegmented = tiny("bert", segments=0)
    assert torch.equal(unsegmented.states(tokens, lengths, second), unsegmented.states(tokens, lengths))


@pytest.mark.parametrize("kind", READING)
def test_a_head_stands_on_every_body_and_passes_its_facts_on(kind: str):
    body, (tokens, lengths) = tiny(kind), texts()
    module = Headed(body, classes=5, pooling=None, dropout=0.0)
    assert module(tokens, lengths).shape == (3, 7, 5)
    assert (module.special, module.embedding, module.layers) == (body.special, body.embedding, 2)
    assert (module.layer_paths(1), module.alignment) == (body.layer_paths(1), "")
    assert any("output" in name for name, _ in body.named_modules()) == ("elmo" != kind != "rnn")
    assert not any(name.startswith("embedding") for name in module.state_dict())
    with recording(module, only=module.layer_paths(1)) as record:
        module(tokens, lengths)
    paths = list(record)
    assert {path.split(".").index("1") for path in paths} <= {2, 3}
    assert len(paths) == (2 if kind == "elmo" else 1)
    assert all(fnmatch(path, module.layer_paths(1)) for path in paths)
    backwards = [path for path in paths if module.reads_backwards(path)]
    assert len(backwards) == (kind == "elmo")
    assert all(path.startswith("encoder.backward_layers.") for path in backwards)


@pytest.mark.parametrize("kind", READING)
def test_what_says_words_learns_and_what_does_not_is_frozen(kind: str):
    body = tiny(kind)
    body.freeze_for_words()
    frozen = {name for name, parameter in body.named_parameters() if not parameter.requires_grad}
    assert frozen == ({"mix.weights", "mix.scale"} if kind == "elmo" else set())


def test_the_facts_are_read_without_torch():
    code = "import sys, regard.models.facts; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
