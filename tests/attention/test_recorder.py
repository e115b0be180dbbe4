"""What is shown is what was used, and nothing is shown that was not asked for."""

import threading
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from random_patterns import Scene, scenes
from torch import Tensor, nn
from torch.testing import assert_close

from regard.attention import Cache, MultiHead, attend, deliver, formula, positions, scores, watching
from regard.attention.patterns import (
    All,
    Blocks,
    Causal,
    Edges,
    Global,
    Matrix,
    Padding,
    Pattern,
    Random,
    Window,
)
from regard.attention.scores import LeakySum
from regard.look import Recorder, recording

BATCH, LENGTH, WIDTH, HEADS = 2, 37, 12, 3


@pytest.fixture(autouse=True, scope="module")
def every_kernel_at_short_lengths() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"FEW_PAIRS": 0, "TILE_SIZES": (4,), "TILE_OVERHEAD": 0, "NEIGHBOUR_COST": 3}.items():
            patch.setattr(formula, name, value)
        yield


class Attention(nn.Module):
    """`attend` as a module, so that it can be recorded."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, pattern: Pattern | None = None) -> Tensor:
        return attend(query, key, value, pattern=pattern)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.look = MultiHead(WIDTH, heads=HEADS)
        self.again = nn.ModuleList([MultiHead(WIDTH, heads=HEADS, pattern=Causal())])

    def forward(self, x: Tensor) -> Tensor:
        return self.again[0](self.look(x))


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), Layer(), Layer())


def sequence() -> Tensor:
    return torch.randn(BATCH, LENGTH, WIDTH)


def assert_weights(weights: Tensor) -> None:
    """No weight is negative, and those of a row sum to one, or to zero where there is nothing to look at."""
    assert (weights >= 0).all()
    assert_close(weights.sum(-1), weights.any(-1).to(weights.dtype))


PATTERNS: list[Pattern] = [
    *(All(), Causal(), Padding(torch.tensor([5, 0])), Matrix(torch.arange(LENGTH * LENGTH).view(LENGTH, -1) % 5 == 0)),
    *(Window(3), Window(5) & Padding(torch.tensor([20, 0])), Window(3) | Global(1), Blocks(5, Window(1) | Random(1))),
    *(Window(3, dilation=5), Random(2), Random(0), Window(3) & Padding(torch.tensor([9, 30])), Blocks(4, ~All())),
    *(Edges(torch.tensor([[0, 3], [36, 1], [0, 4]])), Edges(torch.empty(0, 2).long()), ~Causal()),
]


def test_these_patterns_take_every_kernel() -> None:
    taken = [formula.choose(pattern, LENGTH, LENGTH) for pattern in PATTERNS]
    names = [getattr(kernel, "func", kernel).__name__ for kernel in taken]
    assert {name: names.count(name) for name in names} == {"dense": 7, "blocks": 3, "neighbours": 4, "edges": 2}


@pytest.mark.parametrize("scheme", ["none", "shaw", "rotary", "alibi"])
@pytest.mark.parametrize("score", ["scaled_dot", "additive", "cosine"])
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_the_weights_that_are_shown_are_those_that_were_used(pattern: Pattern, score: str, scheme: str) -> None:
    torch.manual_seed(1)
    position = positions.build(scheme, width=WIDTH, heads=HEADS)
    module = MultiHead(WIDTH, heads=HEADS, key_value_heads=1, score=score, position=position)
    x = sequence()
    before = module(x, pattern=pattern)
    with recording(module) as record:
        out = module(x, pattern=pattern)
    weights = record[""]
    assert weights.shape == (BATCH, HEADS, LENGTH, LENGTH)
    assert_weights(weights)
    assert not (weights * ~pattern.dense(LENGTH, LENGTH)).any()
    value = module.value(x).unsqueeze(1)
    assert_close(out, module.output((weights @ value).transpose(1, 2).flatten(2)))
    assert_close(out, before)


@settings(max_examples=50, deadline=None)
@given(scenes())
def test_recording_changes_no_output_and_no_gradient(scene: Scene) -> None:
    torch.manual_seed(2)
    shapes = [(2, 3, length, 5) for length in (scene.queries, scene.keys, scene.keys)]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    module = Attention()
    out = module(*inputs, pattern=scene.pattern)
    with recording(module) as record:
        same = module(*inputs, pattern=scene.pattern)
    assert_close(same, out)
    assert_weights(record[""])
    assert_close(record[""] @ inputs[2].detach(), out.detach())
    downstream = torch.randn_like(out)
    assert_close(torch.autograd.grad(same, inputs, downstream), torch.autograd.grad(out, inputs, downstream))


def test_weights_are_named_by_the_path_of_the_module(model: nn.Module) -> None:
    with recording(model) as record:
        model(sequence())
    assert list(record) == ["1.look", "1.again.0", "2.look", "2.again.0"]
    assert len(record) == 4
    assert set(record) <= {path for path, _ in model.named_modules()}
    for weights in record.values():
        assert_weights(weights)
    assert not record["2.again.0"].triu(1).any()


def test_only_what_is_asked_for_is_recorded(model: nn.Module) -> None:
    x = sequence()
    with recording(model, only="*.look") as record:
        out = model(x)
    assert list(record) == ["1.look", "2.look"]
    assert_close(out, model(x))


def test_queries_and_keys_are_shown_as_they_were_compared(model: nn.Module) -> None:
    with recording(model) as record:
        model(sequence())
    ((query, key),) = record.vectors("1.look")
    assert_close((query @ key.transpose(-1, -2)).softmax(-1), record["1.look"])
    with pytest.raises(KeyError, match="no queries and keys were delivered by '0'"):
        record.vectors("0")


@pytest.mark.parametrize("scheme", ["none", "shaw", "alibi"])
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_one_head_is_what_it_is_among_all(pattern: Pattern, score: str, scheme: str) -> None:
    torch.manual_seed(1)
    position = positions.build(scheme, width=WIDTH, heads=HEADS)
    module = MultiHead(WIDTH, heads=HEADS, key_value_heads=1, score=score, position=position)
    x = sequence()
    with recording(module) as everything:
        expected = module(x, pattern=pattern)
    with recording(module, head=1) as record:
        out = module(x, pattern=pattern)
    assert record[""].shape == (BATCH, 1, LENGTH, LENGTH)
    assert_close(record[""], everything[""][:, 1:2])
    assert_close(out, expected)
    (gradient,) = torch.autograd.grad(out.square().sum(), [module.query.weight])
    assert_close(gradient, torch.autograd.grad(expected.square().sum(), [module.query.weight])[0], rtol=1e-4, atol=1e-4)
    if everything.has_vectors(""):
        ((query, key),) = record.vectors("")
        ((queries, keys),) = everything.vectors("")
        assert_close((query, key), (queries[:, 1:2], keys[:, 1:2]))


def test_a_pattern_of_its_own_for_each_head_goes_with_its_head() -> None:
    allowed = torch.rand(BATCH, HEADS, LENGTH, LENGTH, generator=torch.Generator().manual_seed(5)) < 0.4
    for pattern in (Matrix(allowed), Matrix(allowed) & Window(9), Matrix(allowed) & Window(3, dilation=5)):
        module, query = Attention(), torch.randn(BATCH, HEADS, LENGTH, WIDTH)
        with recording(module, head=2) as record:
            module(query, query, query, pattern=pattern)
        shown = pattern.dense(LENGTH, LENGTH).expand(BATCH, HEADS, LENGTH, LENGTH)[:, 2:]
        assert torch.equal(record[""] > 0, shown)


@pytest.mark.parametrize("only", ["*", "2.*"])
@pytest.mark.parametrize("head", [None, 2])
def test_no_weights_are_computed_but_those_asked_for(
    model: nn.Module, only: str, head: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[tuple[int, ...]] = []
    matrix = scores.Score.matrix

    def counted(self: scores.Score, query: Tensor, key: Tensor) -> Tensor:
        computed.append(tuple(query.shape[:-1]))
        return matrix(self, query, key)

    monkeypatch.setattr(scores.Score, "matrix", counted)
    with recording(model, only=only, head=head) as record:
        model(sequence())
    assert len(record) == (4 if only == "*" else 2)
    assert computed == [(BATCH, HEADS if head is None else 1, LENGTH)] * len(record)


def test_a_head_that_a_module_does_not_have_is_not_recorded(model: nn.Module) -> None:
    x = sequence()
    with recording(model, head=HEADS) as record:
        out = model(x)
    assert len(record) == 0
    assert_close(out, model(x))


def test_every_call_is_kept_and_the_latest_is_shown() -> None:
    module, x = MultiHead(WIDTH, heads=HEADS, pattern=Causal()), sequence()
    cache = Cache()
    with recording(module) as record:
        for step in x[:, :5].split(1, 1):
            module(step, cache=cache)
    assert [weights.shape[-1] for weights in record.calls("")] == [1, 2, 3, 4, 5]
    assert torch.equal(record[""], record.calls("")[-1])
    record.clear()
    assert len(record) == 0


def test_a_path_that_delivered_nothing_is_named(model: nn.Module) -> None:
    with recording(model) as record:
        model(sequence())
    assert "1.look" in record
    assert "0" not in record
    with pytest.raises(KeyError, match=r"no weights were delivered by '0'; there are weights from \['1\.again\.0'"):
        record["0"]


def test_outside_of_the_with_nothing_is_kept(model: nn.Module) -> None:
    x = sequence()
    assert not watching()
    with recording(model) as record:
        assert watching()
        model(x)
    model(x)
    assert not watching()
    assert [len(record.calls(path)) for path in record] == [1, 1, 1, 1]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_weights_are_kept_without_the_graph_that_made_them(model: nn.Module) -> None:
    with recording(model) as record:
        model(sequence())
    assert not any(weights.requires_grad for path in record for weights in record.calls(path))


def test_a_sparse_kernel_keeps_no_more_than_its_pairs() -> None:
    query = torch.randn(1, 2, 2048, 4)
    module = Attention()
    with recording(module) as record:
        module(query, query, query, pattern=Window(64))
    (weights,) = record.calls("")
    assert weights.is_sparse
    assert weights._nnz() <= 2 * 2048 * 64


def test_any_module_may_deliver_weights() -> None:
    class Gate(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            deliver(x.softmax(-1))
            return x

    model = nn.Sequential(nn.Identity(), Gate())
    x = torch.randn(2, 3, 5, 7)
    model(x)
    with recording(model) as record:
        model(x)
    assert list(record) == ["1"]
    assert_close(record["1"], x.softmax(-1))


def test_another_thread_is_not_recorded(model: nn.Module) -> None:
    seen: list[bool] = []

    def elsewhere() -> None:
        seen.append(watching())
        model(sequence())

    with recording(model) as record:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert len(record) == 0
        model(sequence())
    assert seen == [False]
    assert [len(record.calls(path)) for path in record] == [1, 1, 1, 1]


def test_threads_that_record_one_model_at_once_each_get_their_own(model: nn.Module) -> None:
    lengths, records = (3, 5, 7, 11), {}
    together = threading.Barrier(len(lengths))

    def work(length: int) -> None:
        with recording(model) as record:
            together.wait()
            for _ in range(5):
                model(torch.randn(1, length, WIDTH))
            records[length] = record

    threads = [threading.Thread(target=work, args=(length,)) for length in lengths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for length in lengths:
        record = records[length]
        assert list(record) == ["1.look", "1.again.0", "2.look", "2.again.0"]
        for path in record:
            assert [weights.shape[-1] for weights in record.calls(path)] == [length] * 5


def test_a_recording_inside_a_recording_is_its_own(model: nn.Module) -> None:
    with recording(model) as outer:
        with recording(model[1]) as inner:
            model(sequence())
        model(sequence())
    assert "look" in inner
    assert [len(outer.calls(path)) for path in outer] == [1, 1, 1, 1]


class Fails(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] == 1:
            raise RuntimeError("on purpose")
        deliver(x)
        return x


def test_an_exception_inside_leaves_the_names_right() -> None:
    model = nn.Sequential(nn.Sequential(nn.Identity(), Fails()), Fails())
    with recording(model) as record:
        with pytest.raises(RuntimeError, match="on purpose"):
            model(torch.randn(1, 1, 1, 1))
        assert len(record) == 0
        model(torch.randn(2, 1, 1, 1))
    assert list(record) == ["0.1", "1"]


def test_an_exception_that_ends_the_with_stops_the_recording(model: nn.Module) -> None:
    def interrupted() -> Iterator[Recorder]:
        with recording(model) as record:
            yield record
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        list(interrupted())
    assert not watching()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_score_that_is_no_dot_product_is_recorded_too() -> None:
    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score = LeakySum(WIDTH, heads=HEADS)

        def forward(self, x: Tensor, pattern: Pattern) -> Tensor:
            return attend(x, x, x, score=self.score, pattern=pattern)

    model, x = Graph(), torch.randn(1, HEADS, LENGTH, WIDTH)
    pattern = Edges(torch.randint(0, LENGTH, (99, 2)))
    with recording(model) as record:
        out = model(x, pattern)
    assert_weights(record[""])
    assert_close(record[""] @ x, out)
