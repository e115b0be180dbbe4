"""Positions as distances, against the equation for each pair."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from regard.attention import Cache, MultiHead, attend, exact, reference
from regard.attention.patterns import Causal, Edges
from regard.attention.relative import Relative, relative_shift
from regard.attention.scores import ScaledDot


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@limits(max_examples=30, deadline=None)
@given(queries=st.integers(1, 7), before=st.integers(0, 6))
def test_the_shift_picks_the_column_of_each_distance(queries: int, before: int):
    keys = before + queries
    place = torch.arange(before, keys).unsqueeze(1) - torch.arange(keys)  # the distance of each pair
    causal, both = random(2, 3, queries, keys), random(2, 3, queries, queries + keys - 1)
    wanted = causal.gather(-1, (keys - 1 - place).clamp(max=keys - 1).expand(2, 3, -1, -1))
    seen = place >= 0
    assert torch.equal(relative_shift(causal, keys=keys)[..., seen], wanted[..., seen])
    assert torch.equal(relative_shift(both, keys=keys), both.gather(-1, (keys - 1 - place).expand(2, 3, -1, -1)))


def made(*, clamp: int | None = None, width: int = 8, heads: int = 2) -> Relative:
    torch.manual_seed(3)
    position = Relative(width, heads=heads, clamp=clamp).double().eval()
    with torch.no_grad():
        for parameter in position.parameters():
            parameter.normal_()
    return position


def equation(position: Relative, query: Tensor, i: int, j: int) -> Tensor:
    """(q_i + v)ᵀ W_R R_{i−j} / √D of one query (H, D), in plain numbers."""
    heads, width = query.shape
    distance = i - j if position.clamp is None else min(i - j, position.clamp)
    rates = [10000 ** (-2 * pair / (heads * width)) for pair in range(heads * width // 2)]
    waves = [math.sin(distance * rate) for rate in rates] + [math.cos(distance * rate) for rate in rates]
    projected = (position.project.weight @ torch.tensor(waves, dtype=torch.float64)).view(heads, width)
    return ((query + position.distance) * projected).sum(-1) / math.sqrt(width)


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("clamp", [None, 3])
def test_scores_are_those_of_the_equation(clamp: int | None, gradients: bool):
    position, query = made(clamp=clamp), random(1, 2, 4, 4)
    with torch.set_grad_enabled(gradients):
        for start in (0, 5, 2):  # a longer table, then a shorter one
            at = torch.arange(start, start + 4)
            moved, _ = position.on_heads(query, query, at, at)
            assert_close(moved, query + position.content.unsqueeze(1))
            found = position.on_scores(moved / 2, at.unsqueeze(1), torch.arange(start + 4).unsqueeze(0))
            for row in range(4):
                for key in range(start + row + 1):
                    wanted = equation(position, query[0, :, row], start + row, key)
                    assert_close(found[0, :, row, key], wanted)


@pytest.mark.parametrize("kernel", ["edges", "blocks"])
def test_sparse_kernels_find_the_same_scores(kernel: str):
    position = made()
    query, key, value = (random(2, 2, 9, 4, seed=seed) for seed in range(3))
    dense = position.on_scores(query / 2, torch.arange(9).unsqueeze(1), torch.arange(9).unsqueeze(0))
    wanted = reference(query, key, value, pattern=Causal(), bias=dense)
    if kernel == "edges":
        pairs = torch.tensor([(i, j) for i in range(9) for j in range(i + 1)])
        found = attend(query, key, value, pattern=Edges(pairs), bias=position.on_scores)
    else:
        score = ScaledDot()
        found = exact.blocks(
            score.queries(query), key, value, score=score, pattern=Causal(), bias=position.on_scores, size=4
        )
    assert_close(found, wanted)


def test_a_cache_that_forgets_goes_on_with_the_last_positions():
    torch.manual_seed(5)
    heads = MultiHead(8, heads=2, pattern=Causal(), position=made()).double()
    x, cache = random(2, 60, 8), Cache(4)
    for place in range(60):
        cache.keep_last(7)
        with torch.no_grad():
            found = heads(x[:, place : place + 1], cache=cache)
            window = heads(x[:, max(place - 7, 0) : place + 1])[:, -1:]
        assert_close(found, window)
        assert cache.held.keys.shape[2] == cache.length == min(place + 1, 8)
    moved = cache.reorder(torch.tensor([1, 1]))
    assert_close(moved.held.keys, cache.held.keys[[1, 1]])
    cache.keep_last(0)
    assert cache.held.values.shape[2] == 0
