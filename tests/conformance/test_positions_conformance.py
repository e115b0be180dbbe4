"""Position schemes against those of the transformers package."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import LlamaConfig, Wav2Vec2BertConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gptj import modeling_gptj
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertSelfAttention

from regard.attention.positions import Alibi, Rotary, Shaw, Sinusoidal

BATCH, HEADS, KEY_HEADS, LENGTH, HEAD_WIDTH = 2, 6, 3, 13, 10


def random_heads(heads: int) -> Tensor:
    return torch.randn(BATCH, heads, LENGTH, HEAD_WIDTH)


@pytest.mark.parametrize("start", [0, 500])
def test_rotary_equals_llama(start: int):
    query, key, at = random_heads(HEADS), random_heads(KEY_HEADS), torch.arange(start, start + LENGTH)
    config = LlamaConfig(hidden_size=HEADS * HEAD_WIDTH, num_attention_heads=HEADS, head_dim=HEAD_WIDTH)
    cos, sin = LlamaRotaryEmbedding(config)(query, at.expand(BATCH, -1))
    expected = apply_rotary_pos_emb(query, key, cos, sin)
    for ours, theirs in zip(Rotary().on_heads(query, key, at, at), expected, strict=True):
        assert_close(ours, theirs, rtol=0, atol=1e-3 if start else 1e-5)


def test_rotary_equals_gpt_j_with_the_features_in_another_order():
    query, key, at = random_heads(HEADS), random_heads(HEADS), torch.arange(LENGTH)
    sin, cos = modeling_gptj.create_sinusoidal_positions(LENGTH, HEAD_WIDTH).expand(BATCH, -1, -1).chunk(2, dim=-1)
    neighbours = torch.arange(HEAD_WIDTH).view(2, -1).T.flatten()  # 0, D/2, 1, D/2 + 1, …
    turned = Rotary().on_heads(query, key, at, at)
    for x, ours in zip((query, key), turned, strict=True):
        by_row = x[..., neighbours].transpose(1, 2)
        theirs = modeling_gptj.apply_rotary_pos_emb(by_row, sin, cos).transpose(1, 2)
        assert_close(ours[..., neighbours], theirs)


@pytest.mark.parametrize("heads", [1, 3, 6, 8, 11, 12, 16])
def test_alibi_weighs_the_past_as_bloom_and_mpt_do(heads: int):
    """Theirs depend on the key alone, and so differ by a constant in every row, which softmax does not see."""
    at = torch.arange(LENGTH)
    scores = torch.randn(BATCH, heads, LENGTH, LENGTH)
    future = at > at.unsqueeze(-1)
    ours = Alibi().on_scores(torch.randn(BATCH, heads, LENGTH, HEAD_WIDTH), at.unsqueeze(-1), at)
    bloom = build_alibi_tensor(torch.ones(BATCH, LENGTH), heads, torch.float32).view(BATCH, heads, 1, LENGTH)
    mpt = build_mpt_alibi_tensor(heads, LENGTH)

    def weights(bias: Tensor) -> Tensor:
        return (scores + bias).masked_fill(future, -math.inf).softmax(-1)

    assert_close(weights(ours), weights(bloom))
    assert_close(weights(ours), weights(mpt))


@pytest.mark.parametrize("clip", [3, 64])
def test_shaw_attends_as_wav2vec2_bert_with_relative_keys(clip: int):
    config = Wav2Vec2BertConfig(
        hidden_size=HEADS * HEAD_WIDTH,
        num_attention_heads=HEADS,
        position_embeddings_type="relative_key",
        left_max_position_embeddings=clip,
        right_max_position_embeddings=clip,
        attention_dropout=0.0,
        attn_implementation="eager",
    )
    theirs = Wav2Vec2BertSelfAttention(config)
    ours = Shaw(clip, width=HEAD_WIDTH)
    ours.load_state_dict({"table": theirs.distance_embedding.weight})

    x, at = torch.randn(BATCH, LENGTH, HEADS * HEAD_WIDTH), torch.arange(LENGTH)
    query, key = (
        project(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for project in (theirs.linear_q, theirs.linear_k)
    )
    scores = query @ key.mT / math.sqrt(HEAD_WIDTH) + ours.on_scores(
        query / math.sqrt(HEAD_WIDTH), at.unsqueeze(-1), at
    )
    _, expected = theirs(x)
    assert_close(scores.softmax(-1), expected)


@pytest.mark.parametrize("width", [22, 13])
def test_sinusoidal_equals_marian_with_the_sines_first(width: int):
    length = 61
    theirs = MarianSinusoidalPositionalEmbedding(length, width).create_weight()
    ours = Sinusoidal().on_input(torch.zeros(1, length, width), torch.arange(length))[0]
    sines_first = torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))
    assert_close(ours[:, sines_first], theirs, rtol=0, atol=1e-5)
    halves = Sinusoidal(halves=True).on_input(torch.zeros(1, length, width), torch.arange(length))[0]
    assert_close(halves, theirs, rtol=0, atol=1e-5)
