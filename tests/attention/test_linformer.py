"""Linformer against exact attention, its equation, and its rows one by one."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.attention import MultiHead, recording
from regard.attention.linformer import Linformer
from regard.attention.patterns import Causal, Padding
from regard.attention.positions import Rotary
from regard.errors import RegardError

KINDS = ["per_head", "shared", "key_value"]


def made(projections="shared", *, rank=5, maximum=12, **options):
    torch.manual_seed(0)
    model = Linformer(16, heads=2, maximum=maximum, rank=rank, projections=projections, **options).double()
    for linear in (model.query, model.key, model.value, model.output):
        if linear.bias is not None:
            torch.nn.init.normal_(linear.bias)
    return model


def x_of(batch, length, seed=1):
    return torch.randn(batch, length, 16, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("projections", KINDS)
@pytest.mark.parametrize("position", [None, Rotary()])
def test_identity_projections_are_exact(projections, position):
    model = made(projections, rank=12, position=position)
    with torch.no_grad():
        for table in filter(lambda table: table is not None, (model.keys_to, model.values_to)):
            table.copy_(torch.eye(12).expand_as(table))
    exact = MultiHead(16, heads=2, position=position).double()
    exact.load_state_dict(model.state_dict(), strict=False)
    x = x_of(2, 12)
    assert_close(model(x), exact(x))


@pytest.mark.parametrize("projections", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_attention_is_its_equation(projections, bias):
    model, x = made(projections, bias=bias), x_of(2, 9)
    query, key, value = (
        linear(x).unflatten(-1, (2, 8)).transpose(1, 2) for linear in (model.query, model.key, model.value)
    )
    to_values = model.keys_to if model.values_to is None else model.values_to
    key = torch.einsum("hkn,bhnd->bhkd", model.keys_to[:, :, :9].expand(2, -1, -1), key)
    value = torch.einsum("hkn,bhnd->bhkd", to_values[:, :, :9].expand(2, -1, -1), value)
    out = (query @ key.mT / 8**0.5).softmax(-1) @ value
    assert_close(model(x), model.output(out.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("projections", KINDS)
@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_a_padded_batch_equals_its_rows_alone(projections, lengths, seed):
    model, x = made(projections), x_of(len(lengths), max(lengths), seed)
    together = model(x, pattern=Padding(torch.tensor(lengths)))
    for row, length in enumerate(lengths):
        assert_close(together[row : row + 1, :length], model(x[row : row + 1, :length]))


def test_padding_has_no_effect_and_no_gradient():
    model, x = made(), x_of(1, 8).requires_grad_()
    out = model(x, pattern=Padding(torch.tensor([5])))
    (gradient,) = torch.autograd.grad(out[:, :5].sum(), x)
    assert not gradient[:, 5:].any()
    assert gradient[:, :5].any()


@pytest.mark.parametrize("projections", KINDS)
def test_recorded_weights_are_over_projected_keys(projections):
    model, x = made(projections), x_of(2, 9)
    with recording(model) as record:
        watched = model(x)
    assert_close(watched, model(x))
    assert record[""].shape == (2, 2, 9, 5)
    assert record.columns("") == "projected"


@pytest.mark.parametrize("projections", KINDS)
def test_what_cannot_be_is_refused(projections):
    model = made(projections)
    with pytest.raises(RegardError, match="has 13 positions, but the projections are made for at most 12"):
        model(x_of(1, 13))
    with pytest.raises(RegardError, match="pattern Causal cannot be; take Performer"):
        model(x_of(1, 4), pattern=Causal())
    with pytest.raises(RegardError, match="looks at x itself"):
        model(x_of(1, 4), x_of(1, 4))
