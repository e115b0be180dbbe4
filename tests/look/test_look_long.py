"""Long texts: what is kept of their weights is what the whole weights say, and every record tells that it is a part."""

from pathlib import Path

import pytest
import torch
from torch import nn

from regard.attention import MultiHead
from regard.attention.patterns import Causal, Pattern, Window
from regard.look import Record, long, recording
from regard.look.capture import capture
from regard.look.show import main_map, notes
from regard.tasks.base import Side, Sight

LENGTH, SIZE = 75, 32


class Reader(nn.Module):
    """Two layers of attention over vectors that are given."""

    alignment = "layers.1"

    def __init__(self, pattern: Pattern | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(MultiHead(8, heads=2, pattern=pattern) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x[:, :1]


def sight_of(model: Reader, *, places: tuple[int, ...] = (), inputs: tuple[str, ...] | None = None) -> Sight:
    torch.manual_seed(1)
    x = torch.randn(1, LENGTH, 8)
    return Sight(
        title="numbers",
        source=Side(tuple(map(str, range(LENGTH)))),
        logits=lambda _places: model(x)[0],
        given=(x,),
        read=model,
        sides=lambda _path: ("source", "source"),
        embedding=None,
        outcome=lambda chosen: (Side(tuple(map(str, chosen))), "said"),
        names=lambda _, numbers: [str(number) for number in numbers],
        places=places,
        inputs=inputs,
    )


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of 75 tokens is long, and 32 rows and columns are kept."""
    monkeypatch.setattr(long, "MOST_TOKENS", 70)
    monkeypatch.setattr(long, "MOST_KEPT", 1)


@pytest.fixture(params=[None, Window(9), Causal() & Window(17)], ids=["exact", "window", "causal window"])
def model(request: pytest.FixtureRequest) -> Reader:
    torch.manual_seed(0)
    return Reader(request.param).eval()


def whole_weights(model: Reader, sight: Sight) -> dict[str, torch.Tensor]:
    with torch.no_grad(), recording(model) as seen:
        sight.read(*sight.given)
    return {path: seen[path][0] for path in seen}


def test_a_coarse_map_has_means_of_rows_and_sums_of_columns(model: Reader) -> None:
    sight = sight_of(model)
    record = capture(model, sight)
    for path, weights in whole_weights(model, sight).items():
        found = record.map(path)
        assert found.weights.shape == (2, 25, 25)  # three at a time
        expected = weights.unflatten(2, (25, 3)).sum(3).unflatten(1, (25, 3)).mean(2)
        torch.testing.assert_close(found.weights, expected)
        assert (found.query, found.key, found.kind, found.sums) == (*["source, 3 at a time"] * 2, "self", "one")
        torch.testing.assert_close(found.weights.sum(-1), torch.ones(2, 25))
        assert record.sides[found.query].items[1] == "3–5 3"
        assert "mean of the rows of 3 items" in found.part


@pytest.mark.parametrize(("first", "begins"), [(None, 0), (20, 20), (70, 43)])
def test_a_window_has_every_weight_between_its_tokens(model: Reader, first: int | None, begins: int) -> None:
    sight = sight_of(model)
    record = capture(model, sight, first=first)
    end = begins + SIZE
    for path, weights in whole_weights(model, sight).items():
        found = record.map(f"{path}, window")
        torch.testing.assert_close(found.weights, weights[:, begins:end, begins:end])
        assert found.query == found.key == f"source {begins} to {end - 1}"
        assert record.sides[found.key].items == tuple(map(str, range(begins, end)))
        assert found.sums == "any"
    assert f"the tokens {begins} to {end - 1}" in record.notes[-1]


def test_the_rows_behind_the_answer_are_whole(model: Reader) -> None:
    sight = sight_of(model, places=(0, 40))
    record = capture(model, sight)
    for path, weights in whole_weights(model, sight).items():
        found = record.map(f"{path}, places")
        torch.testing.assert_close(found.weights, weights[:, [0, 40]])
        assert (record.sides[found.query].items, found.key) == (("0", "40"), "source")


def test_a_window_of_a_causal_map_ends_with_the_text_and_names_what_was_read() -> None:
    model = Reader(Causal()).eval()
    read = tuple(f"read {number}" for number in range(LENGTH))
    sight = sight_of(model, inputs=read)
    sight = Sight(**{**vars(sight), "sides": lambda _path: ("target", "target"), "outcome": lambda _: (Side(read), "")})
    found = capture(model, sight).map("layers.0, window")
    assert found.inputs == read[-SIZE:]
    assert found.query == f"target {LENGTH - SIZE} to {LENGTH - 1}"


def test_heads_one_after_the_other_give_the_same_maps(model: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    sight = sight_of(model)
    together = capture(model, sight)
    monkeypatch.setattr(long, "TOGETHER", 1)
    alone = capture(model, sight)
    assert [each.heads for each in alone.maps] == [each.heads for each in together.maps] == [(0, 1)] * 4
    for one, other in zip(alone.maps, together.maps, strict=True):
        assert one.name == other.name
        torch.testing.assert_close(one.weights, other.weights)


def test_one_layer_and_one_head_of_a_long_text(model: Reader) -> None:
    sight = sight_of(model)
    record = capture(model, sight, only="layers.1", head=1)
    whole = capture(model, sight)
    assert [(each.name, each.heads) for each in record.maps] == [("layers.1", (1,)), ("layers.1, window", (1,))]
    torch.testing.assert_close(record.maps[0].weights, whole.map("layers.1").weights[1:])


def test_the_coarse_map_is_shown_first_and_says_so_and_the_parts_are_saved(model: Reader, tmp_path: Path) -> None:
    record = capture(model, sight_of(model))
    shown = main_map(record)
    assert shown.name == "layers.1"
    assert any("coarse" in note for note in notes(record, shown))
    record.save(tmp_path / "look.json")
    again = Record.load(tmp_path / "look.json")
    assert [each.part for each in again.maps] == [each.part for each in record.maps]


def test_what_is_not_long_is_whole(model: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long, "MOST_TOKENS", LENGTH)
    record = capture(model, sight_of(model))
    assert [(each.name, each.weights.shape, each.part) for each in record.maps] == [
        (f"layers.{layer}", (2, LENGTH, LENGTH), "") for layer in range(2)
    ]
    assert record.notes == ()


def test_no_dense_map_of_a_sparse_kernel_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: torch.Tensor) -> torch.Tensor:
        raise AssertionError("sparse weights became dense")

    monkeypatch.setattr(torch.Tensor, "to_dense", refuse)
    model = Reader(Window(9)).eval()
    assert len(capture(model, sight_of(model)).maps) == 4


def test_a_step_of_a_decoder_is_kept_whole() -> None:
    reduced = long.Reduced()
    rule = long.Long(LENGTH, SIZE, 0, (), (None,))
    steps = torch.rand(3, 1, 2, 1, LENGTH)
    for step in steps:
        reduced.add(step, rule)
    assert reduced.shape == (3, LENGTH)
    torch.testing.assert_close(reduced.parts["whole"], steps[:, 0, :, 0].transpose(0, 1))
