from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.layers import packed
from regard.layers.packed import Halves, Packed


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 5, 64, 130])
def test_the_product_is_that_of_torch(rows, bias):
    torch.manual_seed(rows)
    linear, x = nn.Linear(256, 1030, bias=bias), torch.randn(rows, 256)
    with torch.inference_mode():
        product = Packed(linear.weight, linear.bias)
        assert (product.weight is not None) == torch.backends.mkldnn.is_available()
        assert_close(product(x), linear(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("why", ["few", "many", "double", "no oneDNN"])
def test_weights_that_cannot_be_packed_are_used_as_they_are(why, monkeypatch):
    linear, x = nn.Linear(8, 30), torch.randn(3, 8)
    monkeypatch.setattr(packed, "FEWEST", 1000 if why == "few" else 1)
    if why == "many":
        monkeypatch.setattr(packed, "MOST", 100)
    elif why == "double":
        linear, x = linear.double(), x.double()
    elif why == "no oneDNN":
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    with torch.inference_mode():
        product = Packed(linear.weight, linear.bias)
        assert product.weight is None
        assert_close(product(x), linear(x), rtol=0, atol=0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("outputs", [1, 2, 3, 7, 10, 1001])
def test_the_halves_of_a_product_are_that_of_torch(outputs, bias, monkeypatch):
    monkeypatch.setattr(packed, "FEWEST", 1)
    torch.manual_seed(outputs)
    linear, x = nn.Linear(5, outputs, bias=bias), torch.randn(1, 5)
    with torch.inference_mode():
        assert_close(Halves(linear.weight, linear.bias)(x), linear(x))
