"""Attention over few keys against torch's own, forward and backward."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from regard.attention.short import attend_short

sizes = st.integers(1, 40)


def make(batch: int, heads: int, length: int, width: int, seed: int) -> Tensor:
    """Heads as a projection leaves them: a view that is not contiguous."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(batch, length, heads * width, generator=generator)
    return rows.unflatten(-1, (heads, width)).transpose(1, 2).requires_grad_()


@settings(max_examples=30, deadline=None)
@given(queries=sizes, keys=sizes, seed=st.integers(0, 99), masked=st.booleans())
def test_output_and_gradients_are_those_of_torch(queries: int, keys: int, seed: int, masked: bool) -> None:
    q, k, v = (make(3, 2, length, 5, seed + part) for part, length in enumerate((queries, keys, keys)))
    bias = torch.randn(3, 1, queries, keys, generator=torch.Generator().manual_seed(seed)) if masked else None
    if bias is not None:
        bias[1, :, :, keys // 2 + 1 :] = -torch.inf
    ours, theirs = attend_short(q, k, v, bias), F.scaled_dot_product_attention(q, k, v, bias, scale=1.0)
    assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    above = torch.randn(theirs.shape, generator=torch.Generator().manual_seed(seed + 9))
    found, wanted = (torch.autograd.grad(out, (q, k, v), above) for out in (ours, theirs))
    assert_close(found, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("keys", [3, 16, 17])
def test_a_query_that_may_look_at_nothing_gives_zeros_and_no_gradient(keys: int) -> None:
    q, k, v = make(1, 1, 2, 4, 0), make(1, 1, keys, 4, 1), make(1, 1, keys, 4, 2)
    bias = torch.zeros(2, keys)
    bias[0] = -torch.inf
    out = attend_short(q, k, v, bias)
    assert out[0, 0, 0].eq(0).all()
    assert out[0, 0, 1].ne(0).all()
    to_q, to_k, to_v = torch.autograd.grad(out.sum(), (q, k, v))
    assert to_q[0, 0, 0].eq(0).all()
    assert torch.stack([to_k.isfinite().all(), to_v.isfinite().all()]).all()


@pytest.mark.parametrize(
    ("batch", "queries", "keys"), [(0, 2, 3), (0, 2, 0), (2, 3, 0), (2, 0, 3), (2, 0, 0), (0, 0, 0)]
)
@pytest.mark.parametrize("masked", [False, True])
def test_without_keys_the_output_is_zero_and_without_a_batch_it_is_empty(
    batch: int, queries: int, keys: int, masked: bool
) -> None:
    q, k, v = make(batch, 2, queries, 5, 0), make(batch, 2, keys, 5, 1), make(batch, 2, keys, 7, 2)
    out = attend_short(q, k, v, torch.zeros(queries, keys) if masked else None)
    assert torch.equal(out, torch.zeros(batch, 2, queries, 7))
    for x, gradient in zip((q, k, v), torch.autograd.grad(out.sum(), (q, k, v)), strict=True):
        assert torch.equal(gradient, torch.zeros_like(x))


@pytest.mark.parametrize("part", [0, 1, 2], ids=["query", "key", "value"])
@pytest.mark.parametrize("masked", [False, True])
def test_nan_in_the_inputs_is_not_hidden_by_a_mask(part: int, masked: bool) -> None:
    """Query 0 may look at nothing, the others at all keys."""
    inputs = [make(1, 1, length, 5, seed).detach() for seed, length in enumerate((3, 4, 4))]
    inputs[part][0, 0, 1, 2] = torch.nan
    bias = torch.zeros(3, 4)
    bias[0] = -torch.inf
    found = attend_short(*inputs, bias if masked else None).isnan()
    expected = F.scaled_dot_product_attention(
        *(x.double() for x in inputs), torch.zeros(3, 4).double(), scale=1.0
    ).isnan()
    assert torch.equal(found[:, :, 1:], expected[:, :, 1:])
    assert found[0, 0, 1].any()
