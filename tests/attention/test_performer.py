"""Performer as a module: recording, the schedule of its features, its state while decoding, what it refuses."""

from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close

from regard.attention import recording
from regard.attention.patterns import Causal, Delay, Padding, Window
from regard.attention.performer import Performer, default_features
from regard.errors import RegardError


def made(**options):
    torch.manual_seed(0)
    return Performer(16, heads=2, **{"features": 12, **options}).double().eval()


def x_of(batch, length, seed=1):
    return torch.randn(batch, length, 16, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("options", [{}, {"pattern": Causal()}, {"key_value_heads": 1, "hyperbolic": True}])
def test_recorded_weights_are_those_of_the_output(options):
    model, x = made(**options), x_of(2, 9)
    padding = Padding(torch.tensor([9, 4]))
    plain = model(x, pattern=padding)
    with recording(model) as record:
        watched = model(x, pattern=padding)
    weights = record[""]
    assert_close(watched, plain)
    assert weights.shape == (2, 2, 9, 9)
    assert_close(weights.sum(-1), torch.ones(2, 2, 9, dtype=weights.dtype))
    assert not weights[1, :, :, 4:].any()
    if "pattern" in options:
        assert not weights.triu(1).any()


def test_a_padded_batch_equals_its_rows_alone():
    model, x, lengths = made(), x_of(3, 40), torch.tensor([40, 7, 1])
    together = model(x, pattern=Padding(lengths))
    for row, length in enumerate(lengths.tolist()):
        assert_close(together[row : row + 1, :length], model(x[row : row + 1, :length]))


@pytest.mark.parametrize("missing", [None, torch.tensor([0, 3, 6])])
def test_steps_equal_one_pass_and_rows_can_be_reordered(missing):
    model, x = made(pattern=Causal()), x_of(3, 12)
    pattern = None if missing is None else Delay(missing)
    whole = model(x, pattern=pattern)
    state, found = model.past(), []
    for part in (x[:, :7], x[:, 7:8], x[:, 8:9]):
        found.append(model(part, pattern=pattern, cache=state))
    assert_close(torch.cat(found, 1), whole[:, :9])
    rows = torch.tensor([2, 0, 0, 1])
    moved = state.reorder(rows)
    pattern = None if missing is None else Delay(missing[rows])
    assert_close(model(x[rows, 9:], pattern=pattern, cache=moved), whole[rows, 9:])
    assert (state.length, moved.length) == (9, 12)


def test_a_state_keeps_as_much_after_many_positions_as_after_one():
    model, state = made(pattern=Causal()), made().past()
    model(x_of(1, 1), cache=state)
    size = [x.shape for x in state.sums]
    model(x_of(1, 300), cache=state)
    assert [x.shape for x in state.sums] == size


def test_steps_can_be_recorded():
    model, x = made(pattern=Causal()), x_of(2, 5)
    with recording(model) as record:
        state = model.past()
        model(x[:, :4], cache=state)
        model(x[:, 4:], cache=state)
        whole = model(x)
        calls = record.calls("")
    assert_close(calls[1], calls[2][:, :, 4:])
    assert_close(whole, model(x))
    state = model.past()
    with recording(model), pytest.raises(RegardError, match="begin recording before"):
        model(x, cache=state)


def test_features_are_drawn_anew_on_a_schedule_that_the_weights_carry():
    model, x = made(redraw=3).train(), x_of(1, 4)
    seen = [model.directions(x).of_keys for _ in range(7)]
    assert [torch.equal(a, b) for a, b in pairwise(seen)] == [True, True, False, True, True, False]
    stored = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(9)
    other = Performer(16, heads=2, features=12, redraw=3).double().train()
    assert not torch.equal(other.directions(x).of_keys, seen[0])
    other.load_state_dict(stored)
    for _ in range(5):
        assert torch.equal(other.directions(x).of_keys, model.directions(x).of_keys)
    model.eval()
    assert torch.equal(model.directions(x).of_keys, model.directions(x).of_keys)
    assert model.drawing[1] == 12
    assert torch.equal(model.float().directions(x.float()).of_keys, model.directions(x).of_keys.float())


def test_evaluation_has_the_features_of_the_last_pass_of_training():
    """A model that is judged right before new features are due has learned nothing about those."""
    model, x = made(redraw=3), x_of(1, 4)
    for _ in range(7):
        learned = model.train().directions(x).of_keys
        assert torch.equal(model.eval().directions(x).of_keys, learned)


def test_layers_have_features_of_their_own():
    torch.manual_seed(0)
    first = Performer(16, heads=2, seed=0)
    torch.manual_seed(0)
    second = Performer(16, heads=2, seed=1)
    assert not torch.equal(first.directions(x_of(1, 1)).of_keys, second.directions(x_of(1, 1)).of_keys)
    assert first.features == default_features(8) == 17


def test_what_cannot_be_is_refused():
    with pytest.raises(RegardError, match="pattern Window cannot be; take exact attention"):
        made(pattern=Window(3))(x_of(1, 4))
    with pytest.raises(RegardError, match="even number"):
        made(features=7, hyperbolic=True)
