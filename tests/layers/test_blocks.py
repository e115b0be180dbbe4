from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard.attention import Cache, MultiHead
from regard.attention.patterns import Causal, Padding
from regard.errors import RegardError
from regard.layers import Block, FeedForward, PostNorm, PreNorm, Stack, Wiring, blocks

WIRINGS: list[Any] = [PostNorm(), PreNorm()]
ACTIVATIONS: list[Any] = ["relu", "gelu"]
WIDTH, HEADS, HIDDEN = 21, 3, 23
LENGTHS = torch.tensor([7, 5])


def of_torch(theirs: Any, wiring: Wiring, activation: Any) -> Block:
    """A block with the weights of torch's encoder or decoder layer."""
    feed_forward = FeedForward(WIDTH, hidden=HIDDEN, activation=activation)
    feed_forward.inner.load_state_dict(theirs.linear1.state_dict())
    feed_forward.outer.load_state_dict(theirs.linear2.state_dict())
    decoder = isinstance(theirs, nn.TransformerDecoderLayer)
    ours = Block(
        attention=MultiHead.from_torch(theirs.self_attn),
        cross=MultiHead.from_torch(theirs.multihead_attn) if decoder else None,
        feed_forward=feed_forward,
        wiring=wiring,
        width=WIDTH,
    )
    around: list[Any] = [ours.around_attention, ours.around_cross, ours.around_feed_forward]
    norms = [theirs.norm1, theirs.norm2, theirs.norm3] if decoder else [theirs.norm1, None, theirs.norm2]
    for residual, norm in zip(around, norms, strict=True):
        if norm is not None:
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)
            residual.norm.load_state_dict(norm.state_dict())
    return ours


def make_theirs(kind: type[nn.Module], wiring: Wiring, activation: str) -> nn.Module:
    return kind(
        WIDTH,
        HEADS,
        HIDDEN,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=isinstance(wiring, PreNorm),
    )


def assert_same_gradients(ours: nn.Module, theirs: nn.Module, x: Tensor, output: Tensor, expected: Tensor) -> None:
    upstream = torch.randn_like(output)
    (mine,) = torch.autograd.grad(output, x, upstream, retain_graph=True)
    (yours,) = torch.autograd.grad(expected, x, upstream, retain_graph=True)
    assert_close(mine, yours, atol=1e-5, rtol=1e-4)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_block_equals_the_encoder_layer_of_torch(wiring: Any, activation: Any) -> None:
    theirs = make_theirs(nn.TransformerEncoderLayer, wiring, activation)
    ours, x = of_torch(theirs, wiring, activation), torch.randn(2, 7, WIDTH, requires_grad=True)
    real = (torch.arange(7) < LENGTHS[:, None]).unsqueeze(-1)
    output = ours(x, pattern=Padding(LENGTHS)) * real
    expected = theirs(x, src_key_padding_mask=~real.squeeze(-1)) * real
    assert_close(output, expected, atol=1e-5, rtol=1e-4)
    assert_same_gradients(ours, theirs, x, output, expected)


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_block_with_cross_equals_the_decoder_layer_of_torch(wiring: Any, activation: Any) -> None:
    theirs = make_theirs(nn.TransformerDecoderLayer, wiring, activation)
    ours, x = of_torch(theirs, wiring, activation), torch.randn(2, 5, WIDTH, requires_grad=True)
    memory, forbidden = torch.randn(2, 7, WIDTH), torch.arange(7) >= LENGTHS[:, None]
    output = ours(x, pattern=Causal(), memory=memory, memory_pattern=Padding(LENGTHS))
    expected = theirs(
        x,
        memory,
        tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
        memory_key_padding_mask=forbidden,
    )
    assert_close(output, expected, atol=1e-5, rtol=1e-4)
    assert_same_gradients(ours, theirs, x, output, expected)


def make_block(wiring: Wiring, *, cross: bool = False, dropout: float = 0.0) -> Block:
    return Block(
        attention=MultiHead(WIDTH, heads=HEADS, pattern=Causal()),
        cross=MultiHead(WIDTH, heads=HEADS) if cross else None,
        feed_forward=FeedForward(WIDTH, hidden=HIDDEN),
        wiring=wiring,
        width=WIDTH,
        dropout=dropout,
    )


@pytest.mark.parametrize("wiring", WIRINGS)
def test_a_stack_is_its_blocks_and_the_final_norm(wiring: Any) -> None:
    stack, x = Stack(3, lambda: make_block(wiring), wiring=wiring, width=WIDTH), torch.randn(2, 5, WIDTH)
    y = x
    for block in stack.blocks:
        y = block(y)
    y = nn.functional.layer_norm(y, (WIDTH,)) if isinstance(wiring, PreNorm) else y
    assert_close(stack(x), y)
    first, second = (next(block.parameters()) for block in stack.blocks[:2])
    assert not torch.equal(first, second)


def test_a_stack_one_position_at_a_time_equals_all_at_once() -> None:
    wiring = PreNorm()
    stack = Stack(2, lambda: make_block(wiring, cross=True), wiring=wiring, width=WIDTH)
    x, memory, pattern = torch.randn(2, 5, WIDTH), torch.randn(2, 7, WIDTH), Padding(LENGTHS)
    whole = stack(x, memory=memory, memory_pattern=pattern)
    caches, remembered = [Cache(), Cache()], stack.remember(memory)
    steps = [
        stack(x[:, t : t + 1], memory=remembered, memory_pattern=pattern, caches=caches) for t in range(x.shape[1])
    ]
    assert_close(torch.cat(steps, dim=1), whole, atol=1e-5, rtol=1e-4)


def test_every_parameter_learns() -> None:
    block = make_block(PreNorm(), cross=True, dropout=0.1)
    block(torch.randn(2, 5, WIDTH), memory=torch.randn(2, 7, WIDTH)).square().sum().backward()
    assert [name for name, parameter in block.named_parameters() if parameter.grad is None] == []


def test_a_memory_and_attention_over_it_come_together() -> None:
    x = torch.randn(2, 5, WIDTH)
    with pytest.raises(RegardError, match="cross but no memory"):
        make_block(PostNorm(), cross=True)(x)
    with pytest.raises(RegardError, match="a memory but no cross"):
        make_block(PostNorm())(x, memory=x)


def test_a_stack_needs_a_layer() -> None:
    with pytest.raises(RegardError, match="layers=0"):
        Stack(0, lambda: make_block(PostNorm()), wiring=PostNorm(), width=WIDTH)


def test_rms_norm_can_replace_layer_norm() -> None:
    block = Block(
        attention=MultiHead(WIDTH, heads=HEADS),
        feed_forward=FeedForward(WIDTH, hidden=HIDDEN, activation="swiglu"),
        wiring=PreNorm(),
        width=WIDTH,
        norm="rms",
    )
    assert [type(m) for m in block.modules() if "Norm" in type(m).__name__ and "eps" in vars(m)] == [nn.RMSNorm] * 2


@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_blocks_that_are_computed_again_have_the_same_gradients(
    monkeypatch: pytest.MonkeyPatch, dropout: float
) -> None:
    wiring = PreNorm()

    def block() -> Block:
        parts = {"attention": MultiHead(8, heads=2), "feed_forward": FeedForward(8, hidden=16)}
        return Block(**parts, wiring=wiring, width=8, dropout=dropout)

    torch.manual_seed(0)
    stack, x = Stack(2, block, wiring=wiring, width=8), torch.randn(2, 6, 8)
    calls: list[int] = []
    stack.blocks[0].register_forward_pre_hook(lambda *_: calls.append(1))

    def gradients() -> list[torch.Tensor]:
        torch.manual_seed(3)
        return list(torch.autograd.grad(stack(x).square().sum(), list(stack.parameters())))

    kept = gradients()
    assert len(calls) == 1
    monkeypatch.setattr(blocks, "RECOMPUTED", 6)
    for one, other in zip(gradients(), kept, strict=True):
        assert_close(one, other, rtol=0, atol=0)
    assert len(calls) == 3
    with torch.no_grad():
        stack(x)
    assert len(calls) == 4
