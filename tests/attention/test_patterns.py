"""Every pattern against its definition, worked out one pair at a time, and what patterns state of themselves."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from random_patterns import BATCH, HEADS, Scene, scenes

from regard.attention.patterns import (
    All,
    And,
    Blocks,
    Causal,
    Delay,
    Edges,
    Global,
    Matrix,
    Not,
    Or,
    Padding,
    Pattern,
    Random,
    Window,
)
from regard.errors import RegardError

quick = settings(max_examples=50, deadline=None)


def in_window(window: Window, i: int, j: int, keys: int) -> bool:
    """By coordinates: along every axis the key is `offset` steps of `dilation` from where the query stands."""
    shape = window.shape or (keys,)
    widths = window.width if isinstance(window.width, tuple) else [window.width] * len(shape)
    places = [-(-length // window.stride) for length in shape]
    if window.shape is None:
        places = [i + 1]  # a line has as many queries as one likes
    here = np.unravel_index(i, places)
    there = np.unravel_index(j, shape)
    for width, query_at, key_at in zip(widths, here, there, strict=True):
        steps = [offset * window.dilation for offset in range(-(width // 2), width - width // 2)]
        if key_at - query_at * window.stride not in steps:
            return False
    return True


def may_look(pattern: Pattern, b: int, h: int, i: int, j: int, keys: int) -> bool:
    match pattern:
        case All():
            return True
        case Causal():
            return not j > i
        case Padding():
            return j < pattern.lengths[b]
        case Matrix():
            matrix = pattern.matrix
            matrix = matrix[None, None] if matrix.dim() == 2 else matrix[:, None] if matrix.dim() == 3 else matrix
            return bool(matrix[min(b, len(matrix) - 1), min(h, matrix.shape[1] - 1), i, j])
        case Window():
            return in_window(pattern, i, j, keys)
        case Global():
            return min(i, j) < pattern.count
        case Random():  # which keys is its own affair: see below how many and how they differ
            return j < keys and bool(pattern.dense(i + 1, keys)[i, j])
        case Edges():
            return [i, j] in pattern.pairs.tolist()
        case Blocks():
            blocks = -(-keys // pattern.size)
            return may_look(pattern.pattern, b, h, i // pattern.size, j // pattern.size, blocks)
        case And():
            sides = ((pattern.left, pattern.right), (pattern.right, pattern.left))
            return all(may_look(side, b, h, i, j, counted(side, other, b, keys)) for side, other in sides)
        case Or():
            return may_look(pattern.left, b, h, i, j, keys) or may_look(pattern.right, b, h, i, j, keys)
        case Not():
            return not may_look(pattern.pattern, b, h, i, j, keys)
    raise AssertionError(pattern)


def counted(pattern: Pattern, other: Pattern, b: int, keys: int) -> int:
    """How many keys a pattern counts beside another one, which may say how many there are."""
    said = length_of(other, b)
    return keys if said is None or not pattern.counts_keys else min(said, keys)


def length_of(pattern: Pattern, b: int) -> int | None:
    match pattern:
        case Padding():
            return int(pattern.lengths[b])
        case And():
            said = [length_of(pattern.left, b), length_of(pattern.right, b)]
            return min((each for each in said if each is not None), default=None)
    return None


def by_definition(scene: Scene) -> NDArray[np.bool_]:
    shape = (BATCH, HEADS, scene.queries, scene.keys)
    answer = np.zeros(shape, dtype=bool)
    for index in np.ndindex(shape):
        answer[index] = may_look(scene.pattern, *index, scene.keys)
    return answer


def dense(pattern: Pattern, queries: int, keys: int) -> torch.Tensor:
    return pattern.dense(queries, keys).expand(BATCH, HEADS, queries, keys)


@quick
@given(scenes().filter(lambda scene: scene.queries * scene.keys < 400))
def test_the_dense_form_is_the_definition(scene: Scene) -> None:
    assert scene.pattern.dense(scene.queries, scene.keys).dtype == torch.bool
    np.testing.assert_array_equal(dense(scene.pattern, scene.queries, scene.keys).numpy(), by_definition(scene))


def assert_tiles_cover(scene: Scene, size: int) -> None:
    tiles = scene.pattern.blocks(size, scene.queries, scene.keys)
    if tiles is not None:
        assert tiles.shape == (-(-scene.queries // size), -(-scene.keys // size))
        covered = tiles.repeat_interleave(size, 0).repeat_interleave(size, 1)[: scene.queries, : scene.keys]
        assert not (dense(scene.pattern, scene.queries, scene.keys) & ~covered).any()


def assert_neighbours_cover(scene: Scene) -> None:
    table = scene.pattern.neighbours(scene.queries, scene.keys)
    if table is not None:
        assert table.shape[1] == scene.pattern.neighbours(1, scene.keys).shape[1]
        for row, allowed in zip(table, dense(scene.pattern, scene.queries, scene.keys).movedim(2, 0), strict=True):
            named = row[row >= 0].tolist()
            assert len(set(named)) == len(named)
            assert set(allowed.nonzero()[:, -1].tolist()) <= set(named) <= set(range(scene.keys))


@quick
@given(scenes(), st.integers(1, 9))
def test_tiles_never_leave_out_an_allowed_pair(scene: Scene, size: int) -> None:
    assert_tiles_cover(scene, size)


@quick
@given(scenes())
def test_neighbours_never_leave_out_an_allowed_pair_and_name_none_twice(scene: Scene) -> None:
    assert_neighbours_cover(scene)


@quick
@given(scenes())
def test_edges_never_leave_out_an_allowed_pair_and_name_none_twice(scene: Scene) -> None:
    pairs = scene.pattern.edges()
    if pairs is not None:
        named = [tuple(pair) for pair in pairs.tolist()]
        assert len(set(named)) == len(named)
        allowed = dense(scene.pattern, scene.queries, scene.keys).nonzero()[:, 2:]
        assert {tuple(pair) for pair in allowed.tolist()} <= set(named)


STATEMENTS = {
    "blocks": [
        *(Causal(), Window(3), Window(3, shape=(4, 5)), Global(1), Random(2), Edges(torch.tensor([[0, 1]]))),
        *(Blocks(3, Window(3) | Global(1)), Window(3) | Random(1), ~Causal() & Window(5), Window(4).shift(8)),
    ],
    "neighbours": [
        Window(3, dilation=2),
        Window(3, shape=(4, 5)),
        Random(2),
        Random(2) & ~Causal(),
        Window(3).shift(8),
    ],
    "edges": [Edges(torch.tensor([[0, 1]])), Edges(torch.tensor([[0, 1]])) & Causal()],
}


@pytest.mark.parametrize("pattern", STATEMENTS["blocks"], ids=str)
def test_these_state_fewer_tiles_than_there_are(pattern: Pattern) -> None:
    tiles = pattern.blocks(4, 12, 20)
    assert tiles is not None
    assert not tiles.all()


@pytest.mark.parametrize("pattern", STATEMENTS["neighbours"], ids=str)
def test_these_state_fewer_neighbours_than_there_are_keys(pattern: Pattern) -> None:
    table = pattern.neighbours(12, 20)
    assert table is not None
    assert table.shape[0] == 12
    assert table.shape[1] < 20


@pytest.mark.parametrize("pattern", STATEMENTS["edges"], ids=str)
def test_these_state_their_edges(pattern: Pattern) -> None:
    pairs = pattern.edges()
    assert pairs is not None
    assert pairs.tolist() == [[0, 1]]


@quick
@given(st.integers(0, 13), st.integers(-3, 10**20), st.integers(1, 29), st.integers(1, 29))
def test_random_gives_every_query_so_many_different_keys(count: int, seed: int, queries: int, keys: int) -> None:
    looked_at = Random(count, seed).dense(queries, keys).sum(1)
    assert looked_at.tolist() == [min(count, keys)] * queries


def test_random_depends_on_the_seed_and_on_nothing_else() -> None:
    first, again, other = (Random(5, seed).dense(97, 101) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert (first & other).sum() < 0.2 * first.sum()


def test_random_looks_everywhere_about_equally_often() -> None:
    looked_at = Random(7, seed=3).dense(4000, 100).sum(0)  # 280 expected of each key
    assert looked_at.min() > 200
    assert looked_at.max() < 400


@quick
@given(scenes(), st.data())
def test_a_shifted_pattern_is_the_rest_of_the_pattern(scene: Scene, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, scene.queries))
    shifted = scene.pattern.shift(start)
    rest = scene.queries - start
    expected = dense(scene.pattern, scene.queries, scene.keys)[:, :, start:]
    assert torch.equal(dense(shifted, rest, scene.keys), expected)
    once = shifted.shift(rest // 2)
    assert torch.equal(dense(once, rest - rest // 2, scene.keys), expected[:, :, rest // 2 :])


@quick
@given(scenes(), st.integers(0, 3), st.integers(1, 5))
def test_what_a_shifted_pattern_states_never_leaves_out_an_allowed_pair(scene: Scene, tiles: int, size: int) -> None:
    start = min(tiles * size, scene.queries)
    rest = Scene(scene.queries - start, scene.keys, scene.pattern.shift(start))
    assert_tiles_cover(rest, size)
    assert_neighbours_cover(rest)


def test_all_disappears_from_an_and() -> None:
    assert All() & Causal() == Causal() == Causal() & All()


def test_patterns_are_values() -> None:
    assert Window(3) | Global(1) == Or(Window(3), Global(1))
    assert hash(Blocks(4, Window(3))) == hash(Blocks(4, Window(3)))


SENTENCES = {
    "width=0": lambda: Window(0),
    "width=-3": lambda: Window(-3),
    "width=(3, 0)": lambda: Window((3, 0), shape=(4, 5)),
    "stride=0": lambda: Window(3, stride=0),
    "dilation=-1": lambda: Window(3, dilation=-1),
    "shape=(4, 0)": lambda: Window(3, shape=(4, 0)),
    "width=(3, 5), shape=None": lambda: Window((3, 5)),
    "width=(3, 5), shape=(2, 3, 5)": lambda: Window((3, 5), shape=(2, 3, 5)),
    "Global(count=-1)": lambda: Global(-1),
    "Random(count=-2)": lambda: Random(-2),
    "Blocks(size=0)": lambda: Blocks(0, Causal()),
    "Padding(lengths): expected whole numbers of shape (batch,), got (2, 3)": lambda: Padding(torch.ones(2, 3).long()),
    "got (3,) of torch.float32": lambda: Padding(torch.ones(3)),
    "got (3,) of torch.bool": lambda: Padding(torch.ones(3).bool()),
    "got shape (7,)": lambda: Matrix(torch.ones(7)),
    "got other numbers": lambda: Matrix(torch.tensor([[0.0, -torch.inf]])),
    "got (3, 4) of torch.int64": lambda: Edges(torch.zeros(3, 4).long()),
    "got (3, 2) of torch.float32": lambda: Edges(torch.zeros(3, 2)),
    "positions start at 0, got -1": lambda: Edges(torch.tensor([[0, -1]])),
}


@pytest.mark.parametrize("part", SENTENCES)
def test_a_pattern_that_cannot_be_says_which_argument_is_wrong(part: str) -> None:
    with pytest.raises(RegardError) as error:
        SENTENCES[part]()
    assert part in str(error.value)
    assert "expected" in str(error.value) or "start at 0" in str(error.value)


def test_edges_may_be_given_twice_and_in_any_whole_type() -> None:
    pairs = torch.tensor([[1, 2], [0, 3], [1, 2]], dtype=torch.int32)
    assert Edges(pairs).pairs.tolist() == [[0, 3], [1, 2]]
    assert Edges(pairs).dense(2, 4).sum() == 2


def test_rows_that_begin_later_count_from_there_in_any_order() -> None:
    missing, lengths = torch.tensor([0, 2, 5]), torch.tensor([8, 4, 2])
    alone = [(Causal() & Window(3)).dense(int(n), int(n)) for n in lengths]
    one = (Causal() & Window(3) & Padding(lengths) & Delay(missing)).dense(8, 8)
    other = (Causal() & Window(3) & Delay(missing) & Padding(lengths + missing)).dense(8, 8)
    for row, (begin, length) in enumerate(zip(missing.tolist(), lengths.tolist(), strict=True)):
        wanted = torch.zeros(8, 8, dtype=torch.bool)
        wanted[begin : begin + length, begin : begin + length] = alone[row]
        inside = slice(begin, begin + length)
        assert torch.equal(one[row, 0, inside], wanted[inside])
        assert torch.equal(other[row, 0, inside], wanted[inside])
