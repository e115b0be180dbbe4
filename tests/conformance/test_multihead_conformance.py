"""MultiHead against torch's own attention and against Llama's, with their weights."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close
from transformers.models.llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

from regard.attention import MultiHead, positions
from regard.attention.patterns import Causal, Matrix, Padding, Pattern
from regard.errors import RegardError
from regard.look import recording

BATCH, QUERIES, KEYS, WIDTH, HEADS, MEMORY_WIDTH = 2, 11, 13, 21, 3, 17


def theirs_and_ours(memory_width: int, bias: bool) -> tuple[nn.MultiheadAttention, MultiHead]:
    torch.manual_seed(11)
    theirs = nn.MultiheadAttention(
        WIDTH, HEADS, bias=bias, kdim=memory_width, vdim=memory_width, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) / 5)  # biases begin at zero
    return theirs, MultiHead.from_torch(theirs)


def gradients_of(theirs: nn.MultiheadAttention) -> dict[str, Tensor]:
    """Torch's gradients under our names."""
    if theirs.in_proj_weight is not None:
        weights = theirs.in_proj_weight.grad.chunk(3)
    else:
        weights = [p.grad for p in (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)]
    found = {f"{name}.weight": x for name, x in zip(("query", "key", "value"), weights, strict=True)}
    found["output.weight"] = theirs.out_proj.weight.grad
    if theirs.in_proj_bias is not None:
        biases = theirs.in_proj_bias.grad.chunk(3)
        found |= {f"{name}.bias": x for name, x in zip(("query", "key", "value"), biases, strict=True)}
        found["output.bias"] = theirs.out_proj.bias.grad
    return found


ALLOWED = torch.rand(QUERIES, KEYS, generator=torch.Generator().manual_seed(1)) < 0.5
ALLOWED[:, 0] = True  # torch gives NaN where nothing is allowed
BY_HEAD = torch.rand(BATCH, HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(2)) < 0.5
BY_HEAD[..., 1] = True
LENGTHS = torch.tensor([KEYS, 5])
HIDDEN = torch.arange(KEYS) >= LENGTHS.unsqueeze(1)
AHEAD = torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(1)

# Ours, and theirs, where True forbids.
MASKS: dict[str, tuple[Pattern | None, dict[str, Any]]] = {
    "no mask": (None, {}),
    "a matrix": (Matrix(ALLOWED), {"attn_mask": ~ALLOWED}),
    "a matrix for each head": (Matrix(BY_HEAD), {"attn_mask": ~BY_HEAD.flatten(0, 1)}),
    "causal": (Causal(), {"attn_mask": AHEAD, "is_causal": True}),
    "key padding": (Padding(LENGTHS), {"key_padding_mask": HIDDEN}),
    "causal and key padding": (Causal() & Padding(LENGTHS), {"attn_mask": AHEAD, "key_padding_mask": HIDDEN}),
    "a matrix and key padding": (
        Matrix(ALLOWED) & Padding(LENGTHS),
        {"attn_mask": ~ALLOWED, "key_padding_mask": HIDDEN},
    ),
}


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("memory_width", [WIDTH, MEMORY_WIDTH], ids=["same width", "another width"])
@pytest.mark.parametrize("mask", MASKS)
def test_cross_attention_is_that_of_torch(mask: str, memory_width: int, bias: bool) -> None:
    pattern, options = MASKS[mask]
    theirs, ours = theirs_and_ours(memory_width, bias)
    x = torch.randn(BATCH, QUERIES, WIDTH, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(BATCH, KEYS, memory_width, dtype=torch.float64, requires_grad=True)
    same_x, same_memory = (t.detach().clone().requires_grad_() for t in (x, memory))

    expected, weights = theirs(x, memory, memory, average_attn_weights=False, **options)
    found = ours(same_x, same_memory, pattern=pattern)
    with recording(ours) as record:
        recorded = ours(same_x, same_memory, pattern=pattern)
    assert_close(found, expected)
    assert_close(recorded, expected)
    assert_close(record[""], weights.detach())

    downstream = torch.randn_like(expected)
    expected.backward(downstream)
    found.backward(downstream)
    assert_close([same_x.grad, same_memory.grad], [x.grad, memory.grad])
    ours_by_name = {name: parameter.grad for name, parameter in ours.named_parameters()}
    assert_close(ours_by_name, gradients_of(theirs))


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both ways"])
def test_self_attention_is_that_of_torch(causal: bool, bias: bool) -> None:
    theirs, ours = theirs_and_ours(WIDTH, bias)
    x = torch.randn(BATCH, QUERIES, WIDTH, dtype=torch.float64, requires_grad=True)
    same_x = x.detach().clone().requires_grad_()
    mask = AHEAD[:, :QUERIES] if causal else None
    expected, weights = theirs(x, x, x, attn_mask=mask, average_attn_weights=False)
    with recording(ours) as record:
        found = ours(same_x, pattern=Causal() if causal else None)
    assert_close(found, expected)
    assert_close(record[""], weights.detach())
    downstream = torch.randn_like(expected)
    expected.backward(downstream)
    found.backward(downstream)
    assert_close(same_x.grad, x.grad)
    assert_close({name: parameter.grad for name, parameter in ours.named_parameters()}, gradients_of(theirs))


def test_the_precision_of_torchs_weights_is_kept() -> None:
    assert MultiHead.from_torch(nn.MultiheadAttention(6, 2, dtype=torch.bfloat16)).query.weight.dtype == torch.bfloat16


REFUSED: dict[str, Callable[[], nn.MultiheadAttention]] = {
    "a bias for keys and values": lambda: nn.MultiheadAttention(6, 2, add_bias_kv=True),
    "a zero to look at": lambda: nn.MultiheadAttention(6, 2, add_zero_attn=True),
    "keys and values of two widths": lambda: nn.MultiheadAttention(6, 2, kdim=3, vdim=5),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_counterpart_is_refused(case: str) -> None:
    with pytest.raises(RegardError, match="no counterpart"):
        MultiHead.from_torch(REFUSED[case]())


@pytest.mark.parametrize("mask", ["no mask", "a matrix", "causal", "key padding"])
def test_grouped_heads_are_those_of_torch(mask: str) -> None:
    pattern, _ = MASKS[mask]
    torch.manual_seed(3)
    ours = MultiHead(24, heads=6, key_value_heads=2).double()
    x = torch.randn(BATCH, QUERIES, 24, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(BATCH, KEYS, 24, dtype=torch.float64, requires_grad=True)
    query, key, value = (
        projected.unflatten(-1, (-1, 4)).transpose(1, 2)
        for projected in (ours.query(x), ours.key(memory), ours.value(memory))
    )
    allowed = None if pattern is None else pattern.dense(QUERIES, KEYS)
    heads = F.scaled_dot_product_attention(query, key, value, allowed, enable_gqa=True)
    expected = ours.output(heads.transpose(1, 2).flatten(2))
    found = ours(x, memory, pattern=pattern)
    assert_close(found, expected)
    inputs = [x, memory, *ours.parameters()]
    downstream = torch.randn_like(expected)
    assert_close(torch.autograd.grad(found, inputs, downstream), torch.autograd.grad(expected, inputs, downstream))


@pytest.mark.parametrize("key_value_heads", [1, 2, 6])
def test_grouped_heads_with_rotary_positions_are_those_of_llama(key_value_heads: int) -> None:
    torch.manual_seed(5)
    config = LlamaConfig(
        hidden_size=48,
        num_attention_heads=6,
        num_key_value_heads=key_value_heads,
        attn_implementation="eager",
        max_position_embeddings=64,
    )
    theirs = LlamaAttention(config, layer_idx=0).eval()
    ours = MultiHead(
        48, heads=6, key_value_heads=key_value_heads, position=positions.Rotary(), pattern=Causal(), bias=False
    )
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
    with torch.no_grad():
        for name, other in names.items():
            getattr(ours, name).weight.copy_(getattr(theirs, other).weight)
    x = torch.randn(BATCH, QUERIES, 48)
    angles = LlamaRotaryEmbedding(config)(x, torch.arange(QUERIES).unsqueeze(0))
    ahead = torch.full((QUERIES, QUERIES), -torch.inf).triu(1).expand(BATCH, 1, -1, -1)
    expected, weights = theirs(x, position_embeddings=angles, attention_mask=ahead)
    with recording(ours) as record:
        found = ours(x)
    assert_close(found, expected)
    assert_close(ours(x), expected)
    assert_close(record[""], weights.detach())
