"""The product by oneDNN is that of torch, and it is chosen where it may be."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.attention.heads import MultiHead
from regard.kernels import products
from regard.kernels.linear import Linear
from regard.kernels.products import PAYS, fits_onednn, onednn_is_faster, product
from regard.layers.step_maps import LARGE, linear

there = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch is built without oneDNN")


@pytest.fixture
def chosen(monkeypatch):
    """A machine on which oneDNN is the faster one."""
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)


@there
@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(64, 128), (4, 16, 128), (1, 128), (3000, 128)])
def test_products_are_those_of_torch(shape, bias):
    torch.manual_seed(0)
    own, x = Linear(128, 257, bias=bias), torch.randn(shape)
    with torch.inference_mode():
        assert_close(own(x), nn.functional.linear(x, own.weight, own.bias), atol=1e-5, rtol=1e-5)


@there
@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("outputs", [3, 130, LARGE // 64])
@pytest.mark.parametrize("rows", [1, 2, 64, 1000])
def test_a_map_of_steps_is_that_of_torch(rows, outputs, bias):
    torch.manual_seed(rows)
    torch_s, x = nn.Linear(64, outputs, bias=bias), torch.randn(rows, 64)
    with torch.inference_mode():
        step = linear(torch_s.weight, torch_s.bias)
        for _ in range(2):
            assert_close(step(x), torch_s(x), atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("chosen")
def test_small_products_weights_of_other_kinds_and_gradients_stay_with_torch(monkeypatch):
    weight = torch.randn(64, 64)
    assert fits_onednn(weight)
    assert not fits_onednn(weight.double())
    assert not fits_onednn(weight.to("meta"))

    class Share(torch.Tensor):
        pass

    assert not fits_onednn(weight.as_subclass(Share))
    few = torch.randn(PAYS // 64**2 - 1, 64)
    assert torch.equal(product(few, weight, None), few @ weight.T)
    own, x = Linear(64, 64), torch.randn(5000, 64, requires_grad=True)
    own(x).sum().backward()
    assert_close(x.grad, own.weight.sum(0).expand(5000, -1))
    monkeypatch.setattr(products, "onednn_is_faster", lambda: False)
    assert not fits_onednn(weight)


def test_where_torch_chooses_well_it_is_left_alone(monkeypatch):
    onednn_is_faster.cache_clear()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert not onednn_is_faster()
    onednn_is_faster.cache_clear()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(products, "_is_by_intel", lambda: True)
    assert not onednn_is_faster()
    onednn_is_faster.cache_clear()


@there
def test_attention_is_the_same_by_both(monkeypatch):
    torch.manual_seed(1)
    layer, x = MultiHead(64, heads=4).eval(), torch.randn(40, 33, 64)
    with torch.inference_mode():
        monkeypatch.setattr(products, "onednn_is_faster", lambda: False)
        plain = layer(x)
        monkeypatch.setattr(products, "onednn_is_faster", lambda: True)
        assert_close(layer(x), plain, atol=1e-5, rtol=1e-5)
