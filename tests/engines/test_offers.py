import pytest

from regard.decoding import DecodingConfig
from regard.engines.ctranslate2.offers import reason_for_torch
from regard.models.seq2seq import Seq2SeqConfig
from regard.models.transformer import TransformerConfig

MODEL = TransformerConfig(position="learned", maximum=300).model_dump(exclude_none=True)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"beam": 1},
        {"beam": 8, "n_best": 8, "length_penalty": 0.0, "coverage_penalty": 0.2, "max_length": 300},
        {"beam": 1, "no_repeat_ngram": 3},
        {"beam": 1, "min_length": 3},
        {"replace_unknown": True},
    ],
)
def test_what_ctranslate2_does_alike_is_left_to_it(settings):
    assert reason_for_torch(MODEL, DecodingConfig(**settings), vocabulary=100) is None


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"sample": True}, "random numbers"),
        ({"sample": True, "beam": 1}, "random numbers"),
        ({"early_stopping": False}, "early_stopping = false"),
        ({"min_length": 2}, "min_length = 2"),
        ({"no_repeat_ngram": 3}, "no_repeat_ngram = 3"),
        ({"beam": 1, "no_repeat_ngram": 1, "min_length": 2}, "min_length and no_repeat_ngram"),
        ({"max_length": 301}, "300 learned positions"),
        ({"beam": 98}, "vocabulary of 100"),
    ],
)
def test_what_it_does_differently_is_left_to_torch_with_a_reason(settings, told):
    assert told in reason_for_torch(MODEL, DecodingConfig(**settings), vocabulary=100)


def test_a_prefix_is_for_greedy_and_must_fit():
    assert reason_for_torch(MODEL, DecodingConfig(beam=1), vocabulary=100, prefix=[7, 8]) is None
    assert "prefix" in reason_for_torch(MODEL, DecodingConfig(), vocabulary=100, prefix=[7, 8])
    short = DecodingConfig(beam=1, max_length=1)
    assert "prefix has 2 tokens" in reason_for_torch(MODEL, short, vocabulary=100, prefix=[7, 8])


def test_a_model_that_cannot_be_expressed_is_the_first_reason():
    model = Seq2SeqConfig().model_dump()
    assert "seq2seq" in reason_for_torch(model, DecodingConfig(sample=True), vocabulary=100)
