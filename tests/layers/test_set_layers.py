"""Layers on sets: against torch's attention composed by hand, and by the laws of sets."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch import Tensor, nn
from torch.testing import assert_close

from regard.attention import MultiHead
from regard.layers.sets import AttentionBlock, AttentionPool, InducedBlock, Pool, SetBlock
from regard.look import recording

WIDTH, HEADS, INDUCING = 15, 3, 4
LENGTHS = torch.tensor([7, 2, 5])


def shaken(module: nn.Module) -> Any:
    """The module in double precision, with weights of which none is zero or one."""
    generator = torch.Generator().manual_seed(3)
    module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 3)
    return module


def sets(seed: int = 0) -> Tensor:
    return torch.randn(3, 7, WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def theirs(ours: MultiHead) -> nn.MultiheadAttention:
    """Torch's attention with our weights."""
    made = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        linears = (ours.query, ours.key, ours.value)
        made.in_proj_weight.copy_(torch.cat([linear.weight for linear in linears]))
        made.in_proj_bias.copy_(torch.cat([linear.bias for linear in linears]))
        made.out_proj.weight.copy_(ours.output.weight)
        made.out_proj.bias.copy_(ours.output.bias)
    return made.eval()


def mab(block: AttentionBlock, x: Tensor, y: Tensor, hidden: Tensor | None) -> Tensor:
    """Equations 6 and 7 of Lee 2019, composed of torch's parts; `hidden` (B, K) is True where y is padding."""
    first, second = block.norms
    seen = first(x + theirs(block.attention)(x, y, y, key_padding_mask=hidden, need_weights=False)[0])
    forward = block.feed_forward
    inner = (seen @ forward.inner.weight.T + forward.inner.bias).clamp(min=0)
    return second(seen + inner @ forward.outer.weight.T + forward.outer.bias)


PADDED = torch.arange(7) >= LENGTHS.unsqueeze(1)


@pytest.mark.parametrize("norm", ["layer", "none"])
def test_blocks_are_those_of_torchs_attention(norm: Any):
    x = sets()
    full = shaken(SetBlock(WIDTH, heads=HEADS, norm=norm))
    induced = shaken(InducedBlock(WIDTH, heads=HEADS, inducing=INDUCING, norm=norm))
    pool = shaken(AttentionPool(WIDTH, heads=HEADS, norm=norm))
    assert_close(full(x, LENGTHS)[~PADDED], mab(full.block, x, x, PADDED)[~PADDED])
    points = induced.points.weight.expand(3, -1, -1)
    assert_close(induced(x, LENGTHS), mab(induced.spread, x, mab(induced.gather, points, x, PADDED), None))
    seed = pool.seed.weight.expand(3, -1, -1)
    assert_close(pool(x, LENGTHS), mab(pool.block, seed, x, PADDED)[:, 0])


def test_pools_are_those_of_each_set_alone():
    x = sets()
    for how, function in (("sum", Tensor.sum), ("mean", Tensor.mean), ("max", Tensor.amax)):
        expected = torch.stack([function(row[:size], 0) for row, size in zip(x, LENGTHS.tolist(), strict=True)])
        assert_close(Pool(how)(x, LENGTHS), expected)  # type: ignore[arg-type]


EVERY = {
    "sab": lambda: SetBlock(WIDTH, heads=HEADS),
    "isab": lambda: InducedBlock(WIDTH, heads=HEADS, inducing=INDUCING),
    "pma": lambda: AttentionPool(WIDTH, heads=HEADS),
    **{how: lambda how=how: Pool(how) for how in ("sum", "mean", "max")},
}
BLOCKS = ("sab", "isab")


@given(name=some.sampled_from(list(EVERY)), order=some.permutations(range(7)), seed=some.integers(0, 99))
def test_permuting_the_elements_permutes_blocks_and_changes_no_pool(name: str, order: list[int], seed: int):
    layer, x, lengths = shaken(EVERY[name]()), sets(seed), torch.full((3,), 7)
    with torch.no_grad():
        before, after = layer(x, lengths), layer(x[:, order], lengths)
    assert_close(after, before[:, order] if name in BLOCKS else before)


@pytest.mark.parametrize("name", EVERY)
def test_padding_never_counts(name: str):
    layer, x = shaken(EVERY[name]()), sets()
    other = x.masked_fill(PADDED.unsqueeze(-1), 1e3)
    with torch.no_grad():
        found, again = layer(x, LENGTHS), layer(other, LENGTHS)
        alone = [
            layer(row[None, :size], LENGTHS[at : at + 1])[0]
            for at, (row, size) in enumerate(zip(x, LENGTHS.tolist(), strict=True))
        ]
    for at, size in enumerate(LENGTHS.tolist()):
        kept = slice(size) if name in BLOCKS else slice(None)
        assert_close(found[at][kept], again[at][kept])
        assert_close(found[at][kept], alone[at])


def test_shares_of_a_pool_are_what_the_elements_gave():
    x = torch.tensor([[[1.0, 5.0, 2.0, 0.0], [3.0, 1.0, 2.0, -4.0], [9.0, 9.0, 9.0, 9.0]]])
    expected = {"max": [1.5 / 4 + 1 / 4, 1.5 / 4, 0.0], "sum": [8 / 18, 10 / 18, 0.0], "mean": [8 / 18, 10 / 18, 0.0]}
    for how, shares in expected.items():
        pool = Pool(how)  # type: ignore[arg-type]
        with recording(pool) as seen:
            watched = pool(x, torch.tensor([2]))
        assert_close(seen[""], torch.tensor(shares).view(1, 1, 1, 3))
        assert_close(watched, pool(x, torch.tensor([2])))


def test_the_weights_of_attention_pooling_are_those_it_pooled_with():
    pool, x = shaken(AttentionPool(WIDTH, heads=HEADS)), sets()
    with recording(pool) as seen, torch.no_grad():
        pool(x, LENGTHS)
        _, weights = theirs(pool.block.attention)(
            pool.seed.weight.expand(3, -1, -1), x, x, key_padding_mask=PADDED, average_attn_weights=False
        )
    assert_close(seen["block.attention"], weights)
