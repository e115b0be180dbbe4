"""Every position scheme against its equation, written again in NumPy, and the laws that hold for it."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from regard.attention.positions import Alibi, Learned, Position, Rotary, Shaw, Sinusoidal, Timed, build
from regard.errors import RegardError

BATCH, HEADS, QUERIES, KEYS, HEAD_WIDTH = 2, 3, 5, 7, 22
NAMES = ["none", "sinusoidal", "sinusoidal_halves", "learned", "shaw", "rotary", "alibi", "timed"]
HALVES = [torch.float16, torch.bfloat16]
AT = [0, 1, 2, 19, 1023]

laws = settings(max_examples=30, deadline=None, derandomize=True)


def sine_table(at: list[int], width: int) -> np.ndarray:
    table = np.empty((len(at), width))
    for row, i in enumerate(at):
        for feature in range(width):
            angle = i / 10000 ** (2 * (feature // 2) / width)
            table[row, feature] = math.cos(angle) if feature % 2 else math.sin(angle)
    return table


def scores(position: Position, query: Tensor, key: Tensor, at: Tensor, key_at: Tensor) -> Tensor:
    """Scaled dot product through the two doors that attention has."""
    query, key = position.on_heads(query, key, at, key_at)
    added = position.on_scores(query, at.unsqueeze(-1), key_at)
    products = query @ key.mT / math.sqrt(query.shape[-1])
    return products if added is None else products + added


def query_and_key(seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(BATCH, HEADS, QUERIES, HEAD_WIDTH, generator=generator, dtype=dtype)
    return query, torch.randn(BATCH, HEADS, KEYS, HEAD_WIDTH, generator=generator, dtype=dtype)


# Each scheme is its equation.


def test_no_position_leaves_everything_as_it_is():
    position, (query, key) = Position(), query_and_key()
    x, at, key_at = torch.randn(BATCH, QUERIES, 11), torch.arange(QUERIES), torch.arange(KEYS)
    assert position.on_input(x, at) is x
    assert position.on_heads(query, key, at, key_at) == (query, key)
    assert position.on_scores(query, at.unsqueeze(-1), key_at) is None


@pytest.mark.parametrize("width", [1, 2, 13, 22])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sinusoidal_is_its_equation(width: int, dtype: torch.dtype):
    x = torch.randn(BATCH, len(AT), width, dtype=dtype)
    expected = x.double() + torch.from_numpy(sine_table(AT, width))
    actual = Sinusoidal().on_input(x, torch.tensor(AT))
    assert actual.dtype == dtype
    assert_close(actual.double(), expected, rtol=0, atol=1e-10 if dtype == torch.float64 else 2e-4)


@pytest.mark.parametrize("width", [13, 22])
@pytest.mark.parametrize("time", [1, 2, 17])
def test_timed_is_the_sum_of_a_position_and_a_time_signal(width: int, time: int):
    x = torch.randn(BATCH, len(AT), width, dtype=torch.float64)
    expected = x + torch.from_numpy(sine_table(AT, width) + sine_table([time], width))
    assert_close(Timed().on_input(x, torch.tensor(AT), time=time), expected)


def test_learned_adds_the_row_of_each_position():
    position, x = Learned(19, width=11), torch.randn(BATCH, 3, 11)
    expected = x.numpy() + position.table.detach().numpy()[[4, 0, 18]]
    assert_close(position.on_input(x, torch.tensor([4, 0, 18])).detach().numpy(), expected)


def test_shaw_is_its_equation():
    position, (query, _) = Shaw(2, width=HEAD_WIDTH).double(), query_and_key()
    table, q = position.table.detach().numpy(), query.numpy()
    i, j = [3, 0, 1, 9, 4], [0, 1, 2, 3, 4, 5, 6]
    expected = np.empty((BATCH, HEADS, QUERIES, KEYS))
    for row, at in enumerate(i):
        for column, key_at in enumerate(j):
            vector = table[min(max(key_at - at, -2), 2) + 2]
            expected[:, :, row, column] = q[:, :, row] @ vector
    actual = position.on_scores(query, torch.tensor(i).unsqueeze(-1), torch.tensor(j))
    assert_close(actual.detach().numpy(), expected)


def test_rotary_multiplies_each_pair_by_a_complex_number():
    query, _ = query_and_key()
    half = HEAD_WIDTH // 2
    pairs = query.numpy()[..., :half] + 1j * query.numpy()[..., half:]
    turned = pairs * np.exp(1j * np.outer(AT, 10000.0 ** (-2 * np.arange(half) / HEAD_WIDTH)))
    actual, _ = Rotary().on_heads(query, query, torch.tensor(AT), torch.tensor(AT))
    assert_close(actual.numpy(), np.concatenate((turned.real, turned.imag), -1), rtol=0, atol=1e-9)


def test_rotary_gives_each_side_its_own_positions_and_keys_their_own_number_of_heads():
    query, key = query_and_key()
    at, key_at = torch.arange(2, 2 + QUERIES), torch.arange(KEYS)
    turned_query, turned_key = Rotary().on_heads(query, key[:, :1], at, key_at)
    assert_close(turned_query, Rotary().on_heads(query, query, at, at)[1])
    assert_close(turned_key, Rotary().on_heads(key, key, key_at, key_at)[0][:, :1])


@pytest.mark.parametrize(
    ("heads", "exponents"),
    [
        (1, [8]),
        (2, [4, 8]),
        (3, [4, 8, 2]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
        (7, [2, 4, 6, 8, 1, 3, 5]),
    ],
)
def test_alibi_lowers_a_score_by_distance_times_the_slope_of_the_head(heads: int, exponents: list[float]):
    i, j = np.array([3, 0, 11])[:, None], np.arange(5)
    expected = -(2.0 ** -np.array(exponents))[:, None, None] * np.abs(i - j)
    query = torch.zeros(BATCH, heads, 3, 2, dtype=torch.float64)
    actual = Alibi().on_scores(query, torch.from_numpy(i), torch.from_numpy(j))
    assert_close(actual.expand(BATCH, heads, 3, 5)[1].numpy(), expected)


# Laws.


@laws
@given(at=st.integers(0, 300), key_at=st.integers(0, 300), shift=st.integers(0, 5000), seed=st.integers(0, 99))
def test_a_rotary_score_depends_on_the_distance_only(at: int, key_at: int, shift: int, seed: int):
    query, key = (x[:, :, :1] for x in query_and_key(seed))
    here = scores(Rotary(), query, key, torch.tensor([at]), torch.tensor([key_at]))
    there = scores(Rotary(), query, key, torch.tensor([at + shift]), torch.tensor([key_at + shift]))
    assert_close(here, there, rtol=0, atol=1e-9)


@laws
@given(name=st.sampled_from(["none", "shaw", "rotary", "alibi"]), shift=st.integers(0, 5000), seed=st.integers(0, 99))
def test_moving_everything_alike_changes_no_score(name: str, shift: int, seed: int):
    position, (query, key) = build(name, width=HEADS * HEAD_WIDTH, heads=HEADS).double(), query_and_key(seed)
    at, key_at = torch.arange(2, 2 + QUERIES), torch.arange(KEYS)
    here, there = (scores(position, query, key, at + by, key_at + by) for by in (0, shift))
    assert_close(here, there, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["shaw", "rotary", "alibi"])
def test_moving_the_queries_alone_changes_scores(name: str):
    position, (query, key) = build(name, width=HEADS * HEAD_WIDTH, heads=HEADS).double(), query_and_key()
    at, key_at = torch.arange(QUERIES), torch.arange(KEYS)
    assert not torch.allclose(scores(position, query, key, at, key_at), scores(position, query, key, at + 1, key_at))


@laws
@given(name=st.sampled_from(NAMES), start=st.integers(0, 60), length=st.integers(0, 4))
def test_a_later_part_alone_gets_what_it_gets_within_the_whole(name: str, start: int, length: int):
    position, x = build(name, width=11, heads=1, maximum=64), torch.randn(BATCH, 64, 11)
    part = slice(start, start + length)
    at = torch.arange(64)
    assert_close(position.on_input(x[:, part], at[part]), position.on_input(x, at)[:, part])


@pytest.mark.parametrize("name", ["shaw", "alibi"])
def test_rows_may_be_blocks_or_edges(name: str):
    position = build(name, width=HEADS * HEAD_WIDTH, heads=HEADS)
    blocks, size, columns = 2, 3, 5
    query = torch.randn(BATCH, HEADS, blocks * size, HEAD_WIDTH)
    at, key_at = torch.arange(blocks * size), torch.tensor([[0, 1, 2, 3, 4], [2, 3, 4, 5, 0]])
    dense = position.on_scores(query, at.unsqueeze(-1), at).expand(BATCH, HEADS, -1, -1)

    in_blocks = position.on_scores(query.unflatten(2, (blocks, size)), at.view(blocks, size, 1), key_at.unsqueeze(1))
    picked = key_at.unsqueeze(1).expand(blocks, size, columns).flatten(0, 1)
    expected = dense.gather(-1, picked.expand(BATCH, HEADS, -1, -1)).unflatten(2, (blocks, size))
    assert_close(in_blocks.expand(BATCH, HEADS, blocks, size, columns), expected)

    to, source = torch.tensor([5, 0, 3, 3]), torch.tensor([1, 0, 4, 5])
    on_edges = position.on_scores(query[:, :, to], to.unsqueeze(-1), source.unsqueeze(-1))
    assert_close(on_edges.expand(BATCH, HEADS, 4, 1).squeeze(-1), dense[:, :, to, source])


# What every scheme can do.


def all_doors(position: Position, length: int, dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
    """The tensors that went in, and those that came out."""
    x = torch.randn(BATCH, length, HEADS * HEAD_WIDTH, dtype=dtype, requires_grad=True)
    query, key = (torch.randn(BATCH, HEADS, length, HEAD_WIDTH, dtype=dtype, requires_grad=True) for _ in range(2))
    at = torch.arange(length)
    outputs = [position.on_input(x, at), *position.on_heads(query, key, at, at)]
    added = position.on_scores(query, at.unsqueeze(-1), at)
    return [x, query, key], outputs + ([] if added is None else [added.expand(BATCH, HEADS, length, length)])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("module_too", [True, False])
def test_half_precision_stays_half_and_stays_close(name: str, dtype: torch.dtype, module_too: bool):
    position = build(name, width=HEADS * HEAD_WIDTH, heads=HEADS)
    length = 127
    x = torch.randn(BATCH, length, HEADS * HEAD_WIDTH).to(dtype)
    query = torch.randn(BATCH, HEADS, length, HEAD_WIDTH).to(dtype)
    at = torch.arange(length)

    def doors(x: Tensor, query: Tensor) -> list[Tensor]:
        added = position.on_scores(query, at.unsqueeze(-1), at)
        outputs = [position.on_input(x, at), *position.on_heads(query, query, at, at)]
        return outputs if added is None else [*outputs, added]

    expected = doors(x.float(), query.float())
    if module_too:
        position.to(dtype)
    actual = doors(x, query)
    assert {output.dtype for output in actual} == {dtype}
    for ours, precise in zip(actual, expected, strict=True):
        assert_close(ours.float(), precise, rtol=0.03, atol=0.05)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [0, 1])
def test_short_and_empty_inputs_pass(name: str, length: int):
    inputs, outputs = all_doors(build(name, width=HEADS * HEAD_WIDTH, heads=HEADS), length, torch.float32)
    assert [tuple(output.shape) for output in outputs[:3]] == [tuple(x.shape) for x in inputs]
    assert all(output.isfinite().all() for output in outputs)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_the_inputs_and_every_parameter(name: str):
    position = build(name, width=HEADS * HEAD_WIDTH, heads=HEADS, maximum=QUERIES)
    inputs, outputs = all_doors(position, QUERIES, torch.float32)
    sum(output.square().sum() for output in outputs).backward()
    assert all(x.grad is not None and x.grad.abs().sum() > 0 for x in inputs)
    parameters = dict(position.named_parameters())
    assert (len(parameters) > 0) == (name in {"learned", "shaw"})
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in parameters.values())


def test_gradients_are_those_of_the_equations():
    shaw = Shaw(1, width=4).double()
    query, key = (torch.randn(1, 2, rows, 4, dtype=torch.float64, requires_grad=True) for rows in (3, 5))
    at, key_at = torch.arange(3), torch.arange(5)
    assert torch.autograd.gradcheck(lambda q, _: shaw.on_scores(q, at.unsqueeze(-1), key_at), (query, shaw.table))
    assert torch.autograd.gradcheck(lambda q, k: Rotary().on_heads(q, k, at, key_at), (query, key))


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_holds_what_was_learned_and_nothing_else(name: str):
    position = build(name, width=22, heads=2, maximum=13)
    position.on_input(torch.zeros(1, 5, 22), torch.arange(5))
    shapes = {key: tuple(value.shape) for key, value in position.state_dict().items()}
    assert shapes == {"learned": {"table": (13, 22)}, "shaw": {"table": (33, 11)}}.get(name, {})


def test_shaw_never_builds_queries_by_keys_by_width():
    sizes: list[int] = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), keywords=None):
            result = function(*arguments, **(keywords or {}))
            if isinstance(result, Tensor):
                sizes.append(result.untyped_storage().nbytes() // result.element_size())
            return result

    query, at = torch.randn(1, HEADS, 101, HEAD_WIDTH), torch.arange(101)
    position = Shaw(3, width=HEAD_WIDTH)
    with Watch():
        position.on_scores(query, at.unsqueeze(-1), at)
    assert max(sizes) == HEADS * 101 * 101


# Bad arguments.


@laws
@given(maximum=st.integers(1, 40), beyond=st.integers(0, 9))
def test_a_position_beyond_the_learned_maximum_is_refused_with_advice(maximum: int, beyond: int):
    position, x = Learned(maximum, width=3), torch.zeros(1, 1, 3)
    position.on_input(x, torch.tensor([maximum - 1]))
    with pytest.raises(RegardError) as refusal:
        position.on_input(x, torch.tensor([maximum + beyond]))
    sentence = str(refusal.value)
    assert f"position {maximum + beyond} " in sentence
    assert f"the {maximum} learned positions" in sentence
    assert f"maximum={maximum + beyond + 1}" in sentence


def test_a_negative_position_has_no_learned_vector():
    with pytest.raises(RegardError, match="position -1 is negative"):
        Learned(5, width=3).on_input(torch.zeros(1, 2, 3), torch.tensor([-1, 0]))


def test_rotary_refuses_an_odd_width():
    query, at = torch.zeros(BATCH, HEADS, QUERIES, 11), torch.arange(QUERIES)
    with pytest.raises(ValueError, match="must be even and is 11"):
        Rotary().on_heads(query, query, at, at)


def test_tensors_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r"x has width 3, .* width=5"):
        Learned(7, width=5).on_input(torch.zeros(1, 2, 3), torch.arange(2))
    with pytest.raises(ValueError, match=r"query has width 3, .* width=5"):
        Shaw(7, width=5).on_scores(torch.zeros(1, 1, 2, 3), torch.zeros(2, 1).long(), torch.arange(2))


@pytest.mark.parametrize("sizes", [{"width": 0}, {"heads": -2}, {"maximum": 0}])
def test_sizes_below_one_are_refused(sizes: dict[str, int]):
    ((name, size),) = sizes.items()
    with pytest.raises(ValueError, match=f"{name}={size} must be at least 1"):
        build("shaw", **({"width": 22, "heads": 2, "maximum": 5} | sizes))


def test_shaw_refuses_to_clip_at_nothing():
    with pytest.raises(ValueError, match="clip=0 must be at least 1"):
        Shaw(0, width=5)


@pytest.mark.parametrize(
    ("wrong", "meant"), [("rotery", "rotary"), ("sinusoid", "sinusoidal"), ("ALIBI", "alibi"), ("lerned", "learned")]
)
def test_an_unknown_name_is_answered_with_the_nearest(wrong: str, meant: str):
    with pytest.raises(RegardError, match=f"position '{wrong}' is unknown; did you mean '{meant}'"):
        build(wrong, width=22, heads=2)
