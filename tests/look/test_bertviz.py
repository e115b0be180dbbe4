"""A BertViz call can be pasted: its tensors, its argument names, its refusals."""

import pytest
import torch
from torch.testing import assert_close
from transformers import BertConfig, BertModel

from regard.errors import RegardError
from regard.look import head_view, model_view

TOKENS = ["[CLS]", "the", "cat", "[SEP]", "it", "sat", "[SEP]"]


def attention() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=31,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=17,
        attn_implementation="eager",
    )
    return BertModel(config).eval()(torch.arange(7).unsqueeze(0), output_attentions=True).attentions


def test_the_attentions_of_transformers_are_taken_as_they_are():
    given = attention()
    record = head_view(given, TOKENS)
    assert record.sides["tokens"].items == tuple(TOKENS)
    for layer, weights in enumerate(given):
        assert_close(record.maps[layer].weights, weights[0].detach())


def test_a_second_sentence_has_a_border_and_the_weights_stay_whole():
    given = attention()
    record = head_view(given, TOKENS, sentence_b_start=4)
    assert record.sides["tokens"].border == 4
    assert_close(record.map("attention.1").weights, given[1][0].detach())
    for border in (0, 7, -1):
        with pytest.raises(ValueError, match="sentence_b_start"):
            head_view(given, TOKENS, sentence_b_start=border)


def test_encoder_decoder_arguments():
    cross = [torch.rand(1, 2, 3, 5).softmax(-1)]
    record = model_view(
        cross_attention=cross, encoder_tokens=list("abcde"), decoder_tokens=list("xyz"), include_heads=[1]
    )
    assert record.maps[0].heads == (1,)
    assert_close(record.maps[0].weights, cross[0][0, 1:])


def test_what_bertviz_refuses_is_refused():
    with pytest.raises(ValueError, match="not both"):
        head_view(attention(), TOKENS, encoder_tokens=TOKENS)
    with pytest.raises(ValueError, match="tokens is missing"):
        head_view(attention())
    with pytest.raises(RegardError, match=r"expected \(1, heads, 2, 2\)"):
        head_view(attention(), TOKENS[:2])
    with pytest.raises(ValueError, match="html_action"):
        head_view(attention(), TOKENS, html_action="show")
