import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard import models
from regard.attention import MultiHead
from regard.errors import RegardError
from regard.layers import Block, DeepNorm, FeedForward, PostNorm, PreNorm, Stack, Wiring
from regard.layers.wiring import build, build_pair


def layer_norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def rms_norm(x: Any) -> Any:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)


NORMS: list[Any] = [("layer", layer_norm), ("rms", rms_norm)]


@pytest.mark.parametrize(("name", "norm"), NORMS)
def test_each_scheme_is_its_equation(name: Any, norm: Any) -> None:
    x, weight = torch.randn(3, 5, 7, dtype=torch.float64), torch.randn(7, 7, dtype=torch.float64)

    def sublayer(y: Any) -> Any:
        return y @ weight if isinstance(y, Tensor) else y @ weight.numpy()

    expected = {
        PostNorm(): norm(x.numpy() + sublayer(x.numpy())),
        PreNorm(): x.numpy() + sublayer(norm(x.numpy())),
        DeepNorm(alpha=1.7, beta=0.3): norm(1.7 * x.numpy() + sublayer(x.numpy())),
    }
    for wiring, answer in expected.items():
        residual = wiring.around(7, norm=name).double()
        assert_close(residual(x, sublayer), torch.from_numpy(answer))


@pytest.mark.parametrize("wiring", [PostNorm(), PreNorm(), DeepNorm.encoder(3)])
def test_what_norms_add_before_dividing_can_be_chosen(wiring: Wiring) -> None:
    for name in ("layer", "rms"):
        assert wiring.around(7, norm=name, epsilon=0.25).norm.eps == 0.25
    assert isinstance(wiring, PreNorm) == (getattr(wiring.final(7, epsilon=0.25), "eps", None) == 0.25)


@pytest.mark.parametrize(("name", "norm"), NORMS)
def test_only_pre_norm_ends_its_stack_with_a_norm(name: Any, norm: Any) -> None:
    x = torch.randn(3, 7)
    expected = torch.from_numpy(norm(x.numpy()))
    assert_close(PreNorm().final(7, norm=name)(x), expected, atol=1e-6, rtol=1e-5)
    assert PostNorm().final(7, norm=name)(x) is x
    assert DeepNorm.encoder(5).final(7, norm=name)(x) is x


@pytest.mark.parametrize("wiring", [PostNorm(), PreNorm(), DeepNorm.encoder(3)])
def test_dropout_falls_on_what_the_sublayer_gives(wiring: Wiring) -> None:
    """A sublayer that is dropped altogether leaves the residual alone."""
    torch.manual_seed(0)
    residual, x = wiring.around(7, dropout=0.999), torch.randn(2, 7)
    assert_close(residual(x, torch.ones_like), residual(x, torch.zeros_like))
    residual.eval()
    assert not torch.equal(residual(x, torch.sin), residual(x, torch.zeros_like))


@pytest.mark.parametrize("layers", [1, 6, 18, 100])
def test_alone_alpha_and_beta_are_those_of_the_paper(layers: int) -> None:
    for wiring in (DeepNorm.encoder(layers), DeepNorm.decoder(layers)):
        assert wiring.alpha**4 == pytest.approx(2 * layers)
        assert wiring.beta**-4 == pytest.approx(8 * layers)


@pytest.mark.parametrize(("encoder_layers", "decoder_layers"), [(6, 6), (18, 6), (3, 100)])
def test_together_alpha_and_beta_are_those_of_the_paper(encoder_layers: int, decoder_layers: int) -> None:
    encoder, decoder = DeepNorm.encoder_decoder(encoder_layers, decoder_layers)
    depth = math.exp((4 * math.log(encoder_layers) + math.log(decoder_layers)) / 16)
    assert encoder.alpha == pytest.approx(0.81 * depth)
    assert encoder.beta == pytest.approx(0.87 / depth)
    assert decoder.alpha == pytest.approx(math.sqrt(math.sqrt(3 * decoder_layers)))
    assert decoder.beta == pytest.approx(1 / math.sqrt(math.sqrt(12 * decoder_layers)))


def test_deep_norm_of_a_hundred_layers_in_numbers() -> None:
    """200^¼ and 800^−¼; for 18 + 18 layers, 18^(5/16) = 2.4675 and 54^¼ = 2.7108."""
    assert DeepNorm.encoder(100).alpha == pytest.approx(3.7606, abs=1e-4)
    assert DeepNorm.encoder(100).beta == pytest.approx(0.18803, abs=1e-5)
    encoder, decoder = DeepNorm.encoder_decoder(18, 18)
    assert (encoder.alpha, encoder.beta) == pytest.approx((1.9987, 0.35258), abs=1e-4)
    assert (decoder.alpha, decoder.beta) == pytest.approx((2.7108, 0.26085), abs=1e-4)


# torchscale 0.3.0, architecture/encoder.py and decoder.py: α, and 1 / init_scale as β
TORCHSCALE_ALONE = {
    6: (1.86121, 0.379918),
    24: (2.632148, 0.268642),
    100: (3.760603, 0.18803),
    1000: (6.687403, 0.105737),
}
TORCHSCALE_PAIR = {
    (6, 6): (1.417938, 0.65694, 2.059767, 0.343295),
    (18, 6): (1.866112, 0.499166, 2.059767, 0.343295),
    (100, 100): (3.415742, 0.272708, 4.161791, 0.169904),
}


@pytest.mark.parametrize("layers", TORCHSCALE_ALONE)
def test_alone_alpha_and_beta_are_those_of_torchscale(layers: int) -> None:
    wiring = DeepNorm.encoder(layers)
    assert (wiring.alpha, wiring.beta) == pytest.approx(TORCHSCALE_ALONE[layers], abs=1e-6)


@pytest.mark.parametrize("layers", TORCHSCALE_PAIR)
def test_together_they_are_those_of_torchscale_but_for_the_side_of_a_fraction(layers: tuple[int, int]) -> None:
    """The paper's β of an encoder beside a decoder is 0.87 (N⁴M)^(−1/16), and 0.87 ≈ 1/1.15. torchscale divides weights
    by (N⁴M)^(1/16) / 1.15, which makes it 1.15 (N⁴M)^(−1/16). Here it is the paper's."""
    encoder, decoder = DeepNorm.encoder_decoder(*layers)
    alpha, beta, *of_decoder = TORCHSCALE_PAIR[layers]
    assert encoder.alpha == pytest.approx(alpha, abs=1e-6)
    assert encoder.beta == pytest.approx(beta / 1.15 * 0.87, abs=1e-6)
    assert [decoder.alpha, decoder.beta] == pytest.approx(of_decoder, abs=1e-6)


@pytest.mark.parametrize("kind", ["gpt", "bert"])
def test_language_models_keep_the_weights_that_deep_norm_starts_from(kind: Any) -> None:
    """Their own first weights, normal with 0.02, are for the embeddings and for query and key of no block."""
    torch.manual_seed(0)
    model = models.build(kind, vocabulary=50, layers=3, width=96, heads=3, hidden=200, wiring="deep_norm")
    gains = {"value": DeepNorm.encoder(3).beta, "output": DeepNorm.encoder(3).beta, "query": 1.0, "key": 1.0}
    for number, block in enumerate(model.body.blocks):
        assert block.around_attention.alpha == block.around_feed_forward.alpha == DeepNorm.encoder(3).alpha, number
        for name, gain in gains.items():
            linear = getattr(block.attention, name)
            assert linear.weight.std().item() == pytest.approx(xavier(linear, gain), rel=0.05), name
        for linear in (block.feed_forward.inner, block.feed_forward.outer):
            assert linear.weight.std().item() == pytest.approx(xavier(linear, gains["value"]), rel=0.05)
    assert model.embedding.table.weight[1:].std().item() == pytest.approx(0.02, rel=0.1)


def test_deep_norm_reaches_every_expert() -> None:
    torch.manual_seed(0)
    model = models.build("gpt", vocabulary=50, layers=2, width=96, heads=3, experts=3, wiring="deep_norm")
    for expert in model.body.blocks[1].feed_forward.experts:
        assert expert.outer.weight.std().item() == pytest.approx(xavier(expert.outer, 16**-0.25), rel=0.05)


def xavier(linear: nn.Linear, gain: float) -> float:
    return gain * math.sqrt(2 / (linear.in_features + linear.out_features))


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_deep_norm_starts_from_weights_scaled_by_beta(activation: Any) -> None:
    torch.manual_seed(0)
    attention, feed_forward = MultiHead(154, heads=7), FeedForward(154, hidden=311, activation=activation)
    wiring = DeepNorm(alpha=2.0, beta=0.25)
    wiring.initialise(nn.ModuleList([attention, feed_forward]))
    small = [attention.value, attention.output, feed_forward.inner, feed_forward.outer]
    if feed_forward.gate is not None:
        small.append(feed_forward.gate)
    for linear in small:
        assert linear.weight.std().item() == pytest.approx(xavier(linear, 0.25), rel=0.05)
    for linear in (attention.query, attention.key):
        assert linear.weight.std().item() == pytest.approx(xavier(linear, 1.0), rel=0.05)
    assert not any(linear.bias.any() for linear in [*small, attention.query, attention.key])


@pytest.mark.parametrize("wiring", [PostNorm(), PreNorm()])
def test_the_others_leave_the_weights_alone(wiring: Wiring) -> None:
    module = FeedForward(7, hidden=11)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    wiring.initialise(module)
    assert_close(module.state_dict(), before, rtol=0, atol=0)


def effect_of_one_update(wiring: Wiring, layers: int) -> float:
    """How far the output moves when every matrix takes one small step along its gradient."""
    torch.manual_seed(0)

    def make() -> Block:
        return Block(attention=MultiHead(16, heads=2), feed_forward=FeedForward(16, hidden=32), wiring=wiring, width=16)

    stack = Stack(layers, make, wiring=wiring, width=16)
    x, direction = torch.randn(3, 11, 16), torch.randn(3, 11, 16)
    before = stack(x)
    (before * direction).mean().backward()
    with torch.no_grad():
        for part in stack.modules():
            if isinstance(part, nn.Linear):
                assert part.weight.grad is not None
                assert part.weight.grad.isfinite().all()
                part.weight -= 0.01 * part.weight.grad
        return (stack(x) - before).norm(dim=-1).mean().item()


def test_one_update_moves_a_deep_norm_stack_as_far_at_any_depth() -> None:
    """The claim of the paper; with post-norm the same update moves ever deeper stacks ever further."""
    effects = [effect_of_one_update(DeepNorm.encoder(layers), layers) for layers in (5, 25, 100)]
    assert 0 < max(effects) < 2 * min(effects)
    assert effect_of_one_update(PostNorm(), 25) > 3 * effect_of_one_update(PostNorm(), 5) > 30 * max(effects)


def test_names_build_wirings() -> None:
    assert build("post_norm", layers=5) == PostNorm()
    assert build("pre_norm", layers=5) == PreNorm()
    assert build("deep_norm", layers=5) == DeepNorm.encoder(5) == DeepNorm.decoder(5)
    assert build_pair("pre_norm", encoder_layers=3, decoder_layers=5) == (PreNorm(), PreNorm())
    assert build_pair("deep_norm", encoder_layers=3, decoder_layers=5) == DeepNorm.encoder_decoder(3, 5)


def test_an_unknown_name_names_the_nearest() -> None:
    wrong: Any = "prenorm"
    with pytest.raises(RegardError, match="wiring 'prenorm' is unknown; did you mean 'pre_norm'"):
        build(wrong, layers=5)
    with pytest.raises(RegardError, match="did you mean 'pre_norm'"):
        build_pair(wrong, encoder_layers=3, decoder_layers=5)
    with pytest.raises(RegardError, match="norm 'layers' is unknown; did you mean 'layer'"):
        PostNorm().around(7, norm="layers")  # type: ignore[arg-type]


def test_deep_norm_needs_a_depth() -> None:
    with pytest.raises(RegardError, match="layers=0"):
        DeepNorm.encoder(0)
    with pytest.raises(RegardError, match="layers=-1"):
        DeepNorm.encoder_decoder(3, -1)
