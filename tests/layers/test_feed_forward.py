import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP

from regard.errors import RegardError
from regard.layers import FeedForward


def affine(layer: nn.Linear, x: Any) -> Any:
    return x @ layer.weight.detach().double().numpy().T + layer.bias.detach().double().numpy()


NUMPY = {
    "relu": lambda h, _: np.maximum(h, 0),
    "gelu": lambda h, _: h * 0.5 * (1 + np.vectorize(math.erf)(h / math.sqrt(2))),
    "gelu_tanh": lambda h, _: h * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3))),
    "silu": lambda h, _: h / (1 + np.exp(-h)),
    "swiglu": lambda h, gate: gate / (1 + np.exp(-gate)) * h,
}


@pytest.mark.parametrize("activation", NUMPY)
def test_feed_forward_is_its_equation(activation: Any) -> None:
    layer, x = FeedForward(7, hidden=19, activation=activation), torch.randn(3, 5, 7)
    gate = affine(layer.gate, x.double().numpy()) if layer.gate is not None else None
    expected = affine(layer.outer, NUMPY[activation](affine(layer.inner, x.double().numpy()), gate))
    assert_close(layer(x).double(), torch.from_numpy(expected), atol=1e-6, rtol=1e-5)


def test_swiglu_equals_the_mlp_of_llama() -> None:
    theirs = LlamaMLP(LlamaConfig(hidden_size=14, intermediate_size=23, num_attention_heads=1))
    ours = FeedForward(14, hidden=23, activation="swiglu", bias=False)
    assert ours.gate is not None
    ours.gate.weight, ours.inner.weight, ours.outer.weight = (
        theirs.gate_proj.weight,
        theirs.up_proj.weight,
        theirs.down_proj.weight,
    )
    x = torch.randn(2, 5, 14)
    assert_close(ours(x), theirs(x))


@pytest.mark.parametrize("activation", NUMPY)
def test_every_parameter_learns_and_the_gradient_is_right(activation: Any) -> None:
    torch.manual_seed(0)
    layer = FeedForward(3, hidden=5, activation=activation).double()
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,))
    layer(x).sum().backward()
    assert [name for name, parameter in layer.named_parameters() if parameter.grad is None] == []


def test_dropout_falls_on_what_enters_the_second_map() -> None:
    layer = FeedForward(7, hidden=19, dropout=0.5, bias=False)
    nn.init.ones_(layer.inner.weight)
    nn.init.eye_(layer.outer.weight)
    y = layer(torch.ones(101, 7))
    assert set(y.unique().tolist()) == {0.0, 14.0}
    assert set(layer.eval()(torch.ones(101, 7)).unique().tolist()) == {7.0}


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_long_text_is_computed_in_parts_and_gives_the_same(dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = FeedForward(6, hidden=9, activation="gelu", dropout=dropout).double()
    x = torch.randn(2, 24, 6, dtype=torch.float64, requires_grad=True)
    above = torch.randn(2, 24, 6, dtype=torch.float64)

    def learned(part: int) -> list[torch.Tensor]:
        monkeypatch.setattr("regard.layers.feed_forward.PART", part)
        torch.manual_seed(1)
        pieces = x.split(10, -2) if part == 24 else [x]  # the same draws of dropout in both
        out = torch.cat([layer(piece) for piece in pieces], -2)
        return [out, *torch.autograd.grad(out, [x, *layer.parameters()], above)]

    assert_close(learned(10), learned(24))


def test_bias_can_be_left_out() -> None:
    assert all(not name.endswith("bias") for name, _ in FeedForward(3, hidden=5, bias=False).named_parameters())


def test_an_unknown_activation_names_the_nearest() -> None:
    wrong: Any = "swiglue"
    with pytest.raises(RegardError, match="activation 'swiglue' is unknown; did you mean 'swiglu'"):
        FeedForward(3, hidden=5, activation=wrong)


def test_an_input_of_another_width_is_refused() -> None:
    with pytest.raises(RegardError, match="last dimension must be 3"):
        FeedForward(3, hidden=5)(torch.randn(2, 7))


def test_sizes_must_be_positive() -> None:
    with pytest.raises(RegardError, match="hidden=0"):
        FeedForward(3, hidden=0)
