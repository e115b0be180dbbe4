"""Steps against the stack itself, computed all at once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from regard.attention import MultiHead
from regard.attention.patterns import Causal, Padding
from regard.attention.positions import Rotary
from regard.attention.recorder import recording
from regard.errors import RegardError
from regard.layers.blocks import Block, Stack
from regard.layers.feed_forward import FeedForward
from regard.layers.low_rank import add_low_rank
from regard.layers.ssru import SSRU
from regard.layers.step_maps import FEW_HEADS
from regard.layers.steps import Steps, steps_of
from regard.layers.wiring import build

WIDTH, HEADS = 12, 3


def stack_of(
    wiring: str = "post_norm",
    *,
    own: str = "attention",
    cross: bool = True,
    activation: str = "relu",
    norm: str = "layer",
) -> Stack:
    torch.manual_seed(0)
    chosen = build(wiring, layers=2)
    make = lambda: Block(  # noqa: E731
        attention=SSRU(WIDTH) if own == "ssru" else MultiHead(WIDTH, heads=HEADS, pattern=Causal()),
        cross=MultiHead(WIDTH, heads=HEADS) if cross else None,
        feed_forward=FeedForward(WIDTH, hidden=7, activation=activation),
        wiring=chosen,
        width=WIDTH,
        norm=norm,
    )
    return Stack(2, make, wiring=chosen, width=WIDTH, norm=norm).eval()


@torch.no_grad()
def whole(stack: Stack, x: Tensor, memory: Tensor | None, lengths: Tensor | None) -> Tensor:
    """The last position, with all before it: (N, T, M) → (N, M)"""
    pattern = None if lengths is None else Padding(lengths)
    return stack(x, memory=memory, memory_pattern=pattern)[:, -1]


@torch.no_grad()
def begin(stack: Stack, rows: int, memory: Tensor | None, lengths: Tensor | None) -> Steps:
    steps = steps_of(stack, rows=rows, memory=memory, lengths=lengths)
    assert steps is not None
    return steps


@pytest.mark.parametrize("rows", [2, FEW_HEADS])
@pytest.mark.parametrize("wiring", ["post_norm", "pre_norm", "deep_norm"])
@pytest.mark.parametrize(("activation", "norm"), [("relu", "layer"), ("gelu", "rms"), ("swiglu", "layer")])
@pytest.mark.parametrize(("own", "cross"), [("attention", True), ("attention", False), ("ssru", True), ("ssru", False)])
def test_every_position_is_that_of_the_stack(
    rows: int, wiring: str, activation: str, norm: str, own: str, cross: bool
) -> None:
    stack = stack_of(wiring, own=own, cross=cross, activation=activation, norm=norm)
    memory = torch.randn(rows, 5, WIDTH) if cross else None
    x = torch.randn(rows, 19, WIDTH)  # more than a register holds
    steps = begin(stack, rows, memory, None)
    for end in range(1, 20):
        with torch.no_grad():
            found = steps.step(x[:, end - 1])
        assert_close(found, whole(stack, x[:, :end], memory, None), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows", [2, FEW_HEADS])
def test_rotary_positions_are_those_of_the_stack(rows: int) -> None:
    stack = stack_of("pre_norm", cross=False)
    for block in stack.blocks:
        block.attention.position = Rotary()
    x = torch.randn(rows, 7, WIDTH)
    steps = begin(stack, rows, None, None)
    for end in range(1, 8):
        with torch.no_grad():
            found = steps.step(x[:, end - 1])
        assert_close(found, whole(stack, x[:, :end], None, None), atol=1e-5, rtol=1e-5)


@settings(max_examples=30, deadline=None)
@given(data=st.data(), own=st.sampled_from(["attention", "ssru"]), sentences=st.integers(1, 4), many=st.booleans())
def test_rows_go_where_they_are_sent(data: st.DataObject, own: str, sentences: int, many: bool) -> None:
    """Repeated, permuted and dropped in every way, a row goes on from its own past and looks at its own memory."""
    sentences = sentences + FEW_HEADS if many else sentences
    stack = stack_of(own=own)
    memory, lengths = torch.randn(sentences, 6, WIDTH), torch.arange(sentences) % 6 + 1
    steps = begin(stack, sentences, memory, lengths)
    owner, past = torch.arange(sentences), torch.empty(sentences, 0, WIDTH)
    for _ in range(6):
        x = torch.randn(len(owner), WIDTH)
        past = torch.cat([past, x.unsqueeze(1)], 1)
        with torch.no_grad():
            found = steps.step(x)
        assert_close(found, whole(stack, past, memory[owner], lengths[owner]), atol=1e-5, rtol=1e-5)
        if data.draw(st.booleans()):  # as a beam search does: each sentence its best so many
            beams = data.draw(st.integers(1, 3))
            starts = [(owner == sentence).nonzero().squeeze(1) for sentence in owner.unique_consecutive()]
            kept = [start for start in starts if data.draw(st.integers(0, 3))] or starts[:1]
            rows = torch.cat([start[torch.randint(len(start), (beams,))] for start in kept])
        else:
            rows = torch.randint(len(owner), (data.draw(st.integers(1, 5)),))
        steps, owner, past = steps.reorder(rows), owner[rows], past[rows]


def test_what_it_does_not_compute_it_leaves_to_the_stack() -> None:
    stack, memory = stack_of(), torch.randn(2, 5, WIDTH)
    assert steps_of(stack, rows=2, memory=memory) is None  # gradients are wanted
    with torch.no_grad():
        assert steps_of(stack, rows=2, memory=memory, lengths=torch.tensor([5, 0])) is None
        with recording(stack, only="*.cross"):
            assert steps_of(stack, rows=2, memory=memory) is None
        steps = begin(stack, 2, memory, None)
        with recording(stack), pytest.raises(RegardError, match="begin recording before"):
            steps.step(torch.randn(2, WIDTH))
        for changed in (["query"], ["inner"], ["outer"], ["output"]):
            with_more = stack_of()
            add_low_rank(with_more.blocks[1], rank=2, names=tuple(changed))
            assert steps_of(with_more, rows=2, memory=memory) is None
        gated = stack_of(activation="swiglu")
        add_low_rank(gated.blocks[0], rank=2, names=("gate",))
        assert steps_of(gated, rows=2, memory=memory) is None
        recurrent = stack_of(own="ssru")
        add_low_rank(recurrent.blocks[1], rank=2, names=("candidate",))
        assert steps_of(recurrent, rows=2, memory=memory) is None
        mixed = stack_of()
        mixed.blocks[1].attention = SSRU(WIDTH)
        assert steps_of(mixed, rows=2, memory=memory) is None
        stack.blocks[1].attention.score = torch.nn.Identity()
        assert steps_of(stack, rows=2, memory=memory) is None
