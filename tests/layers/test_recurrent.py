from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from regard.attention import recording
from regard.errors import RegardError
from regard.layers import Gates, Recurrent, RecurrentState, gate_weights

CELLS: list[Any] = ["rnn", "lstm", "gru"]
GATED: list[Any] = ["lstm", "gru"]
TORCH = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
LENGTHS = torch.tensor([5, 11, 1, 7])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def numpy_recurrence(cell: str, x: Any, parameters: list[Any], hidden: Any, memory: Any) -> Any:
    """One direction of one layer, a step at a time, as the equations have it: x (T, I) → (T, D)."""
    weight_x, weight_h, bias_x, bias_h = parameters
    outputs = []
    for now in x:
        a, b = weight_x @ now + bias_x, weight_h @ hidden + bias_h
        if cell == "rnn":
            hidden = np.tanh(a + b)
        elif cell == "lstm":
            i, f, g, o = np.split(a + b, 4)
            memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
            hidden = sigmoid(o) * np.tanh(memory)
        else:
            (ar, az, an), (br, bz, bn) = np.split(a, 3), np.split(b, 3)
            z = sigmoid(az + bz)
            hidden = z * hidden + (1 - z) * np.tanh(an + sigmoid(ar + br) * bn)
        outputs.append(hidden)
    return np.stack(outputs)


def like_torch(ours: Recurrent, layers: int, inputs: int, width: int) -> nn.RNNBase:
    """One torch module of all layers, with the weights of ours."""
    theirs = TORCH[ours.cell](inputs, width, layers, batch_first=True, bidirectional=ours.directions[0] == 2)
    theirs.load_state_dict(
        {
            name.replace("_l0", f"_l{index}"): value
            for index, layer in enumerate(ours.layers)
            for name, value in layer.state_dict().items()
        }
    )
    return theirs


def random_state(module: Recurrent, rows: int) -> RecurrentState:
    parts = sum(module.directions)
    hidden = tuple(torch.randn(rows, module.width).tanh() for _ in range(parts))
    cell = tuple(torch.randn(rows, module.width) for _ in range(parts)) if module.cell == "lstm" else ()
    return RecurrentState(hidden, cell)


def as_torch(state: RecurrentState) -> Tensor | tuple[Tensor, Tensor]:
    return (torch.stack(state.hidden), torch.stack(state.cell)) if state.cell else torch.stack(state.hidden)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_stack_equals_the_packed_module_of_torch(cell: Any, bidirectional: bool) -> None:
    ours = Recurrent(cell, 3, width=7, layers=2, bidirectional=bidirectional)
    theirs, x, state = like_torch(ours, 2, 3, 7), torch.randn(4, 11, 3), random_state(ours, 4)
    output, end = ours(x, LENGTHS, state)
    packed, expected_end = theirs(
        pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False), as_torch(state)
    )
    assert_close(output, pad_packed_sequence(packed, batch_first=True)[0])
    assert_close(as_torch(end), expected_end)


@pytest.mark.parametrize("cell", CELLS)
def test_both_directions_equal_the_recurrence_in_numpy(cell: Any) -> None:
    module, x = Recurrent(cell, 3, width=7, bidirectional=True), torch.randn(4, 11, 3)
    state = random_state(module, 4)
    output, _ = module(x, LENGTHS, state)
    for direction in range(2):
        layer: Any = module.layers[0]
        parameters = [p.detach().numpy() for p in layer.all_weights[direction]]
        for row, length in enumerate(LENGTHS.tolist()):
            read = x[row, :length].flip(0) if direction == 1 else x[row, :length]
            memory = state.cell[direction][row].numpy() if cell == "lstm" else None
            wrote = numpy_recurrence(cell, read.numpy(), parameters, state.hidden[direction][row].numpy(), memory)
            expected = torch.from_numpy(wrote).float()
            expected = expected.flip(0) if direction == 1 else expected
            own = output[row, :length, 7 * direction : 7 * (direction + 1)]
            assert_close(own, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
@given(lengths=st.lists(st.integers(1, 13), min_size=1, max_size=5), seed=st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_a_padded_batch_equals_one_by_one(cell: Any, bidirectional: bool, lengths: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    module = Recurrent(cell, 3, width=5, layers=2, bidirectional=bidirectional)
    x = torch.randn(len(lengths), 13, 3)
    output, end = module(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        alone, its_end = module(x[row : row + 1, :length])
        assert_close(output[row, :length], alone[0])
        assert not output[row, length:].any()
        for part, its_part in zip(end.hidden + end.cell, its_end.hidden + its_end.cell, strict=True):
            assert_close(part[row], its_part[0])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_what_stands_in_the_padding_does_not_matter(cell: Any, bidirectional: bool) -> None:
    module, x = Recurrent(cell, 3, width=7, layers=2, bidirectional=bidirectional), torch.randn(4, 11, 3)
    spoilt = torch.where(torch.arange(11)[None, :, None] < LENGTHS[:, None, None], x, torch.nan)
    assert torch.equal(module(x, LENGTHS)[0], module(spoilt, LENGTHS)[0])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("started", [False, True])
def test_steps_equal_the_sequence(cell: Any, started: bool) -> None:
    module, x = Recurrent(cell, 3, width=7, layers=2), torch.randn(5, 11, 3)
    start = random_state(module, 5) if started else None
    output, end = module(x, state=start)
    state = start
    for time in range(11):
        now, state = module.step(x[:, time], state)
        assert_close(now, output[:, time])
    assert state is not None
    assert_close(as_torch(state), as_torch(end))


@pytest.mark.parametrize("cell", CELLS)
def test_reordering_the_state_is_reordering_the_rows(cell: Any) -> None:
    module, x, rows = Recurrent(cell, 3, width=7, layers=2), torch.randn(5, 11, 3), torch.tensor([4, 0, 0, 2])
    _, state = module(x)
    next_x = torch.randn(5, 3)
    expected, after = module.step(next_x, state)
    output, reordered = module.step(next_x[rows], state.reorder(rows))
    assert_close(output, expected[rows])
    assert_close(as_torch(reordered), as_torch(after.reorder(rows)))


def test_dropout_falls_between_layers_and_nowhere_else() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 3)
    single, double = Recurrent("gru", 3, width=7, dropout=0.5), Recurrent("gru", 3, width=7, layers=2, dropout=0.5)
    assert torch.equal(single(x)[0], single(x)[0])
    assert not torch.equal(double(x)[0], double(x)[0])
    assert not torch.equal(double(x, torch.tensor([5, 3]))[0], double(x, torch.tensor([5, 3]))[0])
    assert torch.equal(double.eval()(x)[0], double(x)[0])


@pytest.mark.parametrize("cell", GATED)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("started", [False, True])
def test_the_gates_reconstruct_what_torch_gave(cell: Any, bidirectional: bool, started: bool) -> None:
    torch.manual_seed(0)
    module, x = Recurrent(cell, 3, width=7, layers=2, bidirectional=bidirectional), 3 * torch.randn(4, 11, 3)
    state = random_state(module, 4) if started else None
    gates = gate_weights(module, x, LENGTHS, state)
    assert len(gates) == sum(module.directions)
    reconstructed = torch.cat([direction.states() for direction in gates[-module.directions[-1] :]], dim=-1)
    assert_close(reconstructed, module(x, LENGTHS, state)[0], atol=1e-5, rtol=0)
    assert gates[0].weights().shape == (4, 11, 1 + 11, 7)
    assert gates[0].candidates.shape == (4, 11, 7)


@pytest.mark.parametrize("cell", GATED)
def test_the_gates_reconstruct_long_sequences_of_extreme_gates(cell: Any) -> None:
    torch.manual_seed(0)
    module = Recurrent(cell, 3, width=5)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=3.0)
    x = 30 * torch.randn(1, 307, 3)
    (gates,) = gate_weights(module, x)
    assert gates.carry.min() == 0.0
    assert_close(gates.states(), module(x)[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("cell", GATED)
def test_the_weights_are_the_products_of_the_gates(cell: Any) -> None:
    (gates,) = gate_weights(Recurrent(cell, 3, width=5), torch.randn(2, 7, 3))
    weights = gates.weights()
    for t in range(7):
        for i in range(7):
            product = gates.carry[:, i + 1 : t + 1].prod(1) * gates.write[:, i] if i <= t else torch.zeros(2, 5)
            assert_close(weights[:, t, 1 + i], product)
        assert_close(weights[:, t, 0], gates.carry[:, : t + 1].prod(1))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_weights_of_a_gru_sum_to_one_and_those_of_padding_to_nothing(bidirectional: bool) -> None:
    module = Recurrent("gru", 3, width=7, bidirectional=bidirectional)
    valid = torch.arange(11) < LENGTHS[:, None]
    for gates in gate_weights(module, torch.randn(4, 11, 3), LENGTHS):
        weights = gates.weights()
        assert (weights >= 0).all()
        assert_close(weights.sum(2), valid.float().unsqueeze(-1).expand(4, 11, 7))
        assert not weights[:, :, 1:].masked_fill(valid[:, None, :, None], 0).any()


def test_each_direction_looks_only_at_what_it_has_read() -> None:
    module = Recurrent("lstm", 3, width=7, bidirectional=True)
    forward, reverse = (gates.summary() for gates in gate_weights(module, torch.randn(4, 11, 3), LENGTHS))
    both = (torch.arange(11) < LENGTHS[:, None]).float()
    allowed = both.unsqueeze(1) * both.unsqueeze(2)
    assert torch.equal((forward > 0).float(), allowed.tril())
    assert torch.equal((reverse > 0).float(), allowed.triu())


def test_the_summary_is_the_average_over_units() -> None:
    for gates in gate_weights(Recurrent("lstm", 3, width=7, bidirectional=True), torch.randn(4, 11, 3), LENGTHS):
        assert_close(gates.summary(), gates.weights()[:, :, 1:].mean(-1))


@pytest.mark.parametrize("cell", GATED)
@pytest.mark.parametrize("training", [False, True])
def test_recording_shows_each_layer_and_direction_and_changes_nothing(cell: Any, training: bool) -> None:
    module = Recurrent(cell, 3, width=7, layers=2, bidirectional=True, dropout=0.5).train(training)
    model, x = nn.ModuleDict({"reader": module}), torch.randn(4, 11, 3)
    torch.manual_seed(1)
    expected, _ = module(x, LENGTHS)
    torch.manual_seed(1)
    with recording(model) as record:
        output, _ = module(x, LENGTHS)
    torch.manual_seed(1)
    gates = gate_weights(module, x, LENGTHS)
    assert torch.equal(output, expected)
    names = [f"reader.layers.{layer}.{way}" for layer in range(2) for way in ("forward", "reverse")]
    assert list(record) == names
    assert_close([record[name] for name in names], [direction.summary().unsqueeze(1) for direction in gates])
    assert record[names[0]].shape == (4, 1, 11, 11)
    assert_close(torch.cat([direction.states() for direction in gates[2:]], dim=-1), output, atol=1e-5, rtol=0)


def test_one_layer_of_gates_can_be_asked_for_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Recurrent("lstm", 3, width=7, layers=3, bidirectional=True)
    read: list[Gates] = []
    summary = Gates.summary
    monkeypatch.setattr(Gates, "summary", lambda gates: read.append(gates) or summary(gates))
    with recording(model, only="*.1.*") as record:
        model(torch.randn(4, 11, 3), LENGTHS)
    assert list(record) == ["layers.1.forward", "layers.1.reverse"]
    assert len(read) == 2


def test_a_plain_rnn_has_no_gates() -> None:
    module, x = Recurrent("rnn", 3, width=7), torch.randn(4, 11, 3)
    with recording(module) as record:
        module(x)
    assert len(record) == 0
    with pytest.raises(RegardError, match="no gates"):
        gate_weights(module, x)


def test_gates_are_values_of_their_own() -> None:
    (gates,) = gate_weights(Recurrent("gru", 3, width=7), torch.randn(2, 5, 3))
    assert isinstance(gates, Gates)
    assert not gates.weights().requires_grad


def test_an_unknown_cell_names_the_nearest() -> None:
    wrong: Any = "ltsm"
    with pytest.raises(RegardError, match="cell 'ltsm' is unknown; did you mean 'lstm'"):
        Recurrent(wrong, 3, width=7)


@pytest.mark.parametrize("lengths", [[0, 3], [6, 3]])
def test_impossible_lengths_are_refused(lengths: list[int]) -> None:
    with pytest.raises(RegardError, match="between 1 and 5"):
        Recurrent("gru", 3, width=7)(torch.randn(2, 5, 3), torch.tensor(lengths))


@pytest.mark.parametrize("shape", [(5, 3), (2, 0, 3), (2, 5, 4)])
def test_an_input_that_does_not_fit_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(RegardError, match=rf"x has the shape \({', '.join(map(str, shape))}\)"):
        Recurrent("gru", 3, width=7)(torch.randn(shape))


def test_lengths_of_another_batch_are_refused() -> None:
    with pytest.raises(RegardError, match="a length for each of the 2 rows"):
        Recurrent("gru", 3, width=7)(torch.randn(2, 5, 3), torch.tensor([5, 4, 3]))


def test_a_step_that_does_not_fit_is_refused() -> None:
    with pytest.raises(RegardError, match=r"x has the shape \(2, 1, 3\)"):
        Recurrent("gru", 3, width=7).step(torch.randn(2, 1, 3))


def test_two_directions_cannot_take_a_step() -> None:
    with pytest.raises(RegardError, match="bidirectional"):
        Recurrent("gru", 3, width=7, bidirectional=True).step(torch.randn(2, 3))


@pytest.mark.parametrize("cell", [nn.RNN, nn.LSTM, nn.GRU])
def test_a_first_layer_in_both_directions_and_residual_layers_are_torchs_layers_one_by_one(cell: Any) -> None:
    torch.manual_seed(0)
    ours = Recurrent(cell.__name__.lower(), 3, width=8, layers=5, bidirectional="first", residual=True)
    sizes = [(3, 4, True), (8, 8, False), (8, 8, False), (8, 8, False), (8, 8, False)]
    theirs = [cell(inputs, width, batch_first=True, bidirectional=both) for inputs, width, both in sizes]
    for mine, other in zip(ours.layers, theirs, strict=True):
        other.load_state_dict(mine.state_dict())
    x, lengths = torch.randn(4, 11, 3), torch.tensor([11, 7, 1, 4])
    found, last = ours(x, lengths)
    joined = ours.joined(last)
    for row, length in enumerate(lengths.tolist()):
        expected, ends = x[row : row + 1, :length], []
        for number, layer in enumerate(theirs):
            output, end = layer(expected)
            hidden = end[0] if cell is nn.LSTM else end  # (directions, 1, D)
            ends.append(hidden.flatten())
            expected = output + expected if number >= 2 else output
        assert_close(found[row : row + 1, :length], expected)
        assert not found[row, length:].any()
        for mine, end in zip(joined.hidden, ends, strict=True):
            assert_close(mine[row], end)


def test_gates_of_a_residual_stack_reconstruct_the_states_of_each_layer() -> None:
    torch.manual_seed(0)
    module = Recurrent("lstm", 3, width=6, layers=4, bidirectional="first", residual=True)
    x = torch.randn(2, 7, 3)
    gates = gate_weights(module, x)
    assert len(gates) == 5
    expected = gates[2].states()  # the second layer; the two above add to it
    for each in gates[3:]:
        expected = expected + each.states()
    assert_close(module(x)[0], expected, atol=1e-5, rtol=1e-4)
    with recording(module) as record:
        module(x)
    assert list(record) == [
        *(f"layers.0.{way}" for way in ("forward", "reverse")),
        *(f"layers.{n}.forward" for n in (1, 2, 3)),
    ]


def test_a_stack_that_reads_a_vector_beside_takes_steps_only() -> None:
    module = Recurrent("gru", 3, width=5, layers=2, beside=4)
    with pytest.raises(RegardError, match="use step"):
        module(torch.randn(2, 3, 3))
    with pytest.raises(RegardError, match="cannot take a step"):
        Recurrent("gru", 3, width=6, layers=2, bidirectional="first").step(torch.randn(2, 3))
    with pytest.raises(RegardError, match="width=5 must be even"):
        Recurrent("gru", 3, width=5, layers=2, bidirectional="first")
