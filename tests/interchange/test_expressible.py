import pytest

from regard.interchange.expressible import EXPRESSED, obstacle, reach
from regard.models.bert import BertConfig
from regard.models.feeding import Feeding
from regard.models.gpt import GPTConfig
from regard.models.long import LongAttention
from regard.models.seq2seq import Seq2SeqConfig
from regard.models.transformer import TransformerConfig

COMPLETE = TransformerConfig().model_dump(exclude_none=True)


@pytest.mark.parametrize("config", [TransformerConfig, GPTConfig, BertConfig])
def test_every_setting_of_a_kind_was_considered(config):
    complete = config().model_dump(exclude_none=True)
    expressed = EXPRESSED[complete["kind"]]
    foreign = {"decoder_heads", "decoder_hidden", "vocabulary", "target_vocabulary"}  # of imported transformers alone
    foreign = foreign & set(config.model_fields) - expressed.known()
    foreign |= {*LongAttention.model_fields, *Feeding.model_fields} - expressed.fixed.keys()  # what is not expressed
    assert expressed.known() | foreign == set(config.model_fields)
    assert obstacle(complete) is None
    assert all(obstacle({**complete, key: 7}) for key in foreign | expressed.fixed.keys())


def test_only_the_kinds_that_are_asked_for_are_expressed():
    assert obstacle(COMPLETE, ["bert"]) == 'CTranslate2 cannot express model.kind = "transformer" here, only bert'


def test_a_transformer_can_be_expressed():
    assert obstacle(COMPLETE) is None
    assert obstacle({**COMPLETE, "encoder_layers": 12, "position": "alibi", "wiring": "deep_norm"}) is None


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Seq2SeqConfig().model_dump(), 'model.kind = "seq2seq"'),
        ({**COMPLETE, "position": "spiral"}, "model.position = 'spiral', only none, sinusoidal"),
        ({**COMPLETE, "attention": "linformer"}, "cannot express model.attention = 'linformer'"),
        ({**COMPLETE, "decoder": "ssru"}, "CTranslate2 cannot express model.decoder = 'ssru'"),
        ({key: value for key, value in COMPLETE.items() if key != "tied"}, "does not say model.tied"),
        ({}, 'model.kind = "None"'),
        ({**COMPLETE, "heads": 0}, "model.heads = 0 is not a whole number of at least 1"),
        ({**COMPLETE, "layers": "x"}, "model.layers = 'x' is not a whole number"),
        ({**COMPLETE, "width": True}, "model.width = True is not a whole number"),
        ({**COMPLETE, "heads": 7}, "model.width = 512 cannot be divided among model.heads = 7"),
        ({**COMPLETE, "tied": 3}, "model.tied = 3 is not true or false"),
    ],
)
def test_what_cannot_be_expressed_is_told_in_a_sentence(model, told):
    assert told in obstacle(model)


def test_only_learned_positions_end_somewhere():
    assert reach({**COMPLETE, "position": "learned", "maximum": 77}) == 77
    assert reach({**COMPLETE, "position": "rotary", "maximum": 77}) is None
