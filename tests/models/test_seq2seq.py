"""The recurrent encoder-decoder: against NumPy one step at a time, against itself by other roads, and learning."""

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

import regard
from regard.attention.recorder import recording
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.recipes.presets import PRESETS
from regard.special import BOS, EOS, PAD
from seq2seq_numbers import Numbers
from small_models import QUICK, reversing_recipe

WIDTH, EMBEDDING, LAYERS, SOURCES, TARGETS, MAXIMUM = 10, 7, 2, 13, 17, 11
SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 4, 12, PAD, PAD], [7, PAD, PAD, PAD, PAD]])
LENGTHS = torch.tensor([5, 3, 1])
TARGET_IN = torch.tensor([[BOS, 4, 16, 9], [BOS, 5, 4, PAD], [BOS, 11, PAD, PAD]])

SCORES = ("none", "cosine", "additive", "location", "general", "dot", "scaled_dot")
ORDERS = {
    "bahdanau": {"order": "bahdanau"},
    "luong": {"order": "luong"},
    "fed": {"order": "luong", "input_feeding": True},
}
DECODERS = [(score, order) for score in SCORES for order in ORDERS if (score, order) != ("none", "fed")]
every_decoder = pytest.mark.parametrize(("score", "order"), DECODERS)
every_cell = pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])


def tiny(*, score: str = "additive", order: str = "bahdanau", cell: str = "gru", **others: object) -> Seq2Seq:
    torch.manual_seed(23)
    sizes = {"layers": LAYERS, "width": WIDTH, "embedding": EMBEDDING, "maximum": MAXIMUM}
    config = Seq2SeqConfig(**{**sizes, **others}, score=score, cell=cell, **ORDERS[order])
    return Seq2Seq(config, vocabulary=SOURCES, target_vocabulary=TARGETS).eval()


@every_cell
@every_decoder
def test_the_model_equals_numpy_step_by_step(score, order, cell):
    model = tiny(score=score, order=order, cell=cell)
    numbers = Numbers(model, score=score, order=order, cell=cell)
    with torch.no_grad(), recording(model) as record:
        hidden = model(SOURCE, LENGTHS, TARGET_IN)
    for row, length in enumerate(LENGTHS.tolist()):
        expected, weights = numbers.decode(SOURCE[row, :length].tolist(), TARGET_IN[row].tolist())
        assert_close(hidden[row].double(), torch.from_numpy(expected), rtol=1e-4, atol=1e-5)
        if score != "none":
            shown = torch.cat(record.calls(model.alignment), dim=2)[row, 0]  # (T, S)
            assert_close(shown[:, :length].double(), torch.from_numpy(weights), rtol=1e-4, atol=1e-5)
            assert not shown[:, length:].any()


@every_cell
@every_decoder
def test_teacher_forcing_equals_the_step_protocol(score, order, cell):
    model = tiny(score=score, order=order, cell=cell)
    with torch.no_grad():
        expected = model.output(model(SOURCE, LENGTHS, TARGET_IN))
        state = model.start(model.encode(SOURCE, LENGTHS))
        for t, token in enumerate(TARGET_IN.unbind(1)):
            logits, state = model.step(token, state)
            assert_close(logits, expected[:, t])


@pytest.mark.parametrize("bidirectional", [True, False])
@every_decoder
def test_a_batch_equals_its_rows_one_by_one(score, order, bidirectional):
    model = tiny(score=score, order=order, bidirectional=bidirectional)
    with torch.no_grad():
        together = model(SOURCE, None, TARGET_IN)
        for row, length in enumerate(LENGTHS.tolist()):
            alone = model(SOURCE[row : row + 1, :length], None, TARGET_IN[row : row + 1])
            assert_close(together[row : row + 1], alone)


@pytest.mark.parametrize("rows", [[2, 0, 1], [0, 0, 1, 1, 2, 2], [1], [2, 2, 0]], ids=str)
@pytest.mark.parametrize("order", ORDERS)
def test_reordered_rows_go_on_as_if_they_had_always_been_there(rows, order):
    model, rows = tiny(order=order, cell="lstm"), torch.tensor(rows)
    with torch.no_grad():
        expected = model.output(model(SOURCE[rows], LENGTHS[rows], TARGET_IN[rows]))
        state = model.start(model.encode(SOURCE, LENGTHS))
        _, state = model.step(TARGET_IN[:, 0], state)
        _, state = model.step(TARGET_IN[:, 1], state)
        state = state.reorder(rows)
        logits, state = model.step(TARGET_IN[rows, 2], state)
        assert_close(logits, expected[:, 2])
        state = state.reorder(torch.arange(len(rows)).flip(0))
        logits, _ = model.step(TARGET_IN[rows, 3].flip(0), state)
        assert_close(logits, expected[:, 3].flip(0))


def test_beams_that_change_places_share_the_memory():
    model = tiny()
    state = model.start(model.encode(SOURCE, LENGTHS)).reorder(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert state.reorder(torch.tensor([1, 0, 2, 2, 3, 3])).memory is not state.memory
    assert state.reorder(torch.tensor([1, 0, 2, 2, 5, 4])).memory is state.memory


def test_recording_a_hard_choice_shows_the_place_that_was_read():
    model = tiny(choice="hard")
    with torch.no_grad():
        expected = model(SOURCE, LENGTHS, TARGET_IN)
        with recording(model) as record:
            assert_close(model(SOURCE, LENGTHS, TARGET_IN), expected)
    shown = torch.cat(record.calls(model.alignment), dim=2)  # (B, 1, T, S)
    assert shown.shape == (3, 1, 4, 5)
    assert_close(shown.sum(-1), torch.ones(3, 1, 4))
    assert set(shown.unique().tolist()) == {0.0, 1.0}


def test_a_hard_choice_steps_as_it_is_taught():
    model = tiny(choice="hard", order="luong")
    with torch.no_grad():
        expected = model.output(model(SOURCE, LENGTHS, TARGET_IN))
        state = model.start(model.encode(SOURCE, LENGTHS))
        for t, token in enumerate(TARGET_IN.unbind(1)):
            logits, state = model.step(token, state)
            assert_close(logits, expected[:, t])


def test_without_a_score_there_is_no_alignment():
    assert tiny(score="none").alignment == ""
    assert isinstance(tiny().get_submodule(tiny().alignment), torch.nn.Module)


def test_an_empty_source_is_read_as_one_padding_token():
    model = tiny()
    with torch.no_grad():
        nothing = model(torch.empty(1, 0, dtype=torch.int64), None, TARGET_IN[:1])
        assert_close(nothing, model(torch.tensor([[PAD, PAD]]), torch.tensor([0]), TARGET_IN[:1]))
    assert nothing.isfinite().all()


def test_a_tied_output_is_the_embedding_of_the_target():
    model = tiny(tied=True)
    assert model.output.weight is model.target.table.weight
    assert model.output(model(SOURCE, LENGTHS, TARGET_IN)).shape == (3, 4, TARGETS)


def test_a_tied_model_with_one_vocabulary_has_one_embedding():
    shared = Seq2Seq(Seq2SeqConfig(width=WIDTH, tied=True), vocabulary=SOURCES)
    assert shared.source is shared.target
    apart = Seq2Seq(Seq2SeqConfig(width=WIDTH), vocabulary=SOURCES)
    assert apart.source.table.weight is not apart.target.table.weight


@pytest.mark.parametrize(
    ("score", "order", "choice"), [(*pair, "soft") for pair in DECODERS] + [("dot", order, "hard") for order in ORDERS]
)
def test_gradients_reach_every_parameter(score, order, choice):
    model = tiny(score=score, order=order, choice=choice).train()
    loss_of(model, (SOURCE, LENGTHS, TARGET_IN, TARGET_IN.roll(-1, 1))).backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


# GNMT: deep, residual, the first layer of the encoder in both directions, attention from the lowest decoder layer

GNMT = {"layers": 4, "cell": "lstm", "bidirectional": "first", "residual": True, "attend_from": "bottom"}


def lstm_cell(layer: torch.nn.LSTM) -> torch.nn.LSTMCell:
    """torch's cell with the weights of a layer."""
    made = torch.nn.LSTMCell(layer.input_size, layer.hidden_size)
    made.load_state_dict({name.removesuffix("_l0"): weight for name, weight in layer.state_dict().items()})
    return made


def gnmt(model: Seq2Seq, source: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
    """One sentence from torch's own LSTM and LSTMCell: source (S,), target_in (T,) → o (T, E), weights (T, S)."""
    x, starts = EMBEDDING**0.5 * model.source.table.weight[source].unsqueeze(0), []
    for number, mine in enumerate(model.encoder.layers):
        layer = torch.nn.LSTM(mine.input_size, mine.hidden_size, batch_first=True, bidirectional=number == 0)
        layer.load_state_dict(mine.state_dict())
        output, last = layer(x)
        starts.append(tuple(part.flatten().unsqueeze(0) for part in last))
        x = output + x if number >= 2 else output
    memory, score = x[0], model.decoder.attention.score
    states, outputs, weights = starts, [], []
    cells = [lstm_cell(layer) for layer in model.decoder.cells.layers]
    for token in target_in:
        y = EMBEDDING**0.5 * model.target.table.weight[token]
        a = score(states[0][0], memory).softmax(-1)[0]  # (S,)
        c, below, kept = a @ memory, y, []
        for number, cell in enumerate(cells):
            state = cell(torch.cat([below, c]).unsqueeze(0), states[number])
            kept.append(state)
            below = state[0][0] + below if number >= 2 else state[0][0]
        states = kept
        outputs.append(torch.tanh(model.decoder.readout(torch.cat([below, c]))))
        weights.append(a)
    return torch.stack(outputs), torch.stack(weights)


def test_gnmt_is_a_composition_of_torchs_lstms():
    model = tiny(**GNMT)
    with torch.no_grad(), recording(model) as record:
        hidden = model(SOURCE, LENGTHS, TARGET_IN)
    shown = torch.cat(record.calls(model.alignment), dim=2)  # (B, 1, T, S)
    for row, length in enumerate(LENGTHS.tolist()):
        with torch.no_grad():
            expected, weights = gnmt(model, SOURCE[row, :length], TARGET_IN[row])
        assert_close(hidden[row], expected)
        assert_close(shown[row, 0, :, :length], weights)
    assert {path for path in record if path.startswith("encoder")} == {
        "encoder.layers.0.reverse",
        *(f"encoder.layers.{layer}.forward" for layer in range(4)),
    }


def test_gnmt_steps_as_it_is_taught_and_reads_rows_alike():
    model = tiny(**GNMT)
    with torch.no_grad():
        expected = model.output(model(SOURCE, LENGTHS, TARGET_IN))
        state = model.start(model.encode(SOURCE, LENGTHS))
        for t, token in enumerate(TARGET_IN.unbind(1)):
            logits, state = model.step(token, state)
            assert_close(logits, expected[:, t])
        for row, length in enumerate(LENGTHS.tolist()):
            alone = model.output(model(SOURCE[row : row + 1, :length], None, TARGET_IN[row : row + 1]))
            assert_close(expected[row : row + 1], alone)


def test_gradients_reach_every_parameter_of_gnmt():
    model = tiny(**GNMT).train()
    loss_of(model, (SOURCE, LENGTHS, TARGET_IN, TARGET_IN.roll(-1, 1))).backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_the_preset_gnmt_is_the_published_size():
    config = Seq2SeqConfig(**PRESETS["seq2seq"]["gnmt"])
    with torch.device("meta"):
        model = Seq2Seq(config, vocabulary=32_000)
    assert len(model.encoder.layers) == len(model.decoder.cells.layers) == 8
    assert [layer.hidden_size for layer in model.encoder.layers] == [512] + [1024] * 7
    assert [layer.input_size for layer in model.decoder.cells.layers] == [2048] * 8


def test_gnmt_goes_the_whole_road(tmp_path: Path):
    sizes = ["model.layers=3", "model.width=16", "model.embedding=12"]
    changes = [*QUICK, "model.preset=gnmt", *sizes]
    model = regard.train(reversing_recipe(tmp_path, kind="seq2seq"), out=tmp_path / "out", changes=changes)
    assert model.recipe.model.attend_from == "bottom"
    loaded = regard.load(tmp_path / "out")
    assert loaded("abc") == model("abc")
    assert {each.name: each.kind for each in loaded.look("abc").maps} == {
        "encoder.layers.0.forward": "gates",
        "encoder.layers.0.reverse": "gates",
        "encoder.layers.1.forward": "gates",
        "encoder.layers.2.forward": "gates",
        "decoder.attention": "cross",
    }


Pairs = tuple[Tensor, Tensor, Tensor, Tensor]


def reversals(count: int) -> Pairs:
    """Random words of 3 to 6 symbols and the same words read backwards: source, lengths, target_in, target_out."""
    lengths = torch.randint(3, 7, (count,))
    source, target = torch.zeros(count, 6, dtype=torch.int64), torch.zeros(count, 8, dtype=torch.int64)
    for row, length in enumerate(lengths.tolist()):
        word = torch.randint(4, SOURCES, (length,))
        source[row, :length] = word
        target[row, : length + 2] = torch.cat([torch.tensor([BOS]), word.flip(0), torch.tensor([EOS])])
    return source, lengths, target[:, :-1], target[:, 1:]


def loss_of(model: Seq2Seq, pairs: Pairs) -> Tensor:
    """The loss of a training step, hard choices included."""
    source, lengths, target_in, target_out = pairs
    counted = target_out != PAD
    rollout = model.rollout(source, lengths, target_in)
    losses = F.cross_entropy(model.output(rollout.hidden).transpose(1, 2), target_out, reduction="none") * counted
    return (losses.sum() + rollout.surrogate(losses, counted)) / counted.sum()


def answers(model: Seq2Seq, source: Tensor, lengths: Tensor, steps: int) -> Tensor:
    """Greedy, by the step protocol."""
    token, state = torch.full((len(source),), BOS), model.start(model.encode(source, lengths))
    tokens = []
    for _ in range(steps):
        logits, state = model.step(token, state)
        token = logits.argmax(-1)
        tokens.append(token)
    return torch.stack(tokens, 1)


@pytest.mark.parametrize(
    ("order", "choice", "steps"),
    [("bahdanau", "soft", 60), ("luong", "soft", 60), ("fed", "soft", 60), ("luong", "hard", 150)],
)
def test_it_learns_to_reverse_words(order, choice, steps):
    torch.manual_seed(29)
    pairs = reversals(36)
    config = Seq2SeqConfig(width=32, cell="gru", choice=choice, dropout=0.0, **ORDERS[order])
    model = Seq2Seq(config, vocabulary=SOURCES)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        optimiser.zero_grad()
        loss_of(model, pairs).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    source, lengths, _, target_out = pairs
    with torch.no_grad():
        given = answers(model.eval(), source, lengths, target_out.shape[1])
    right = ((given == target_out) | (target_out == PAD)).all(1).float().mean()
    assert right > 0.9


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"width": 11}, "width=11 must be even"),
        ({"score": "none", "choice": "hard"}, "choice='hard' has nothing to choose from"),
        ({"order": "bahdanau", "input_feeding": True}, "input_feeding=true belongs to order='luong'"),
        ({"attend_from": "bottom", "order": "luong"}, "attend_from='bottom' belongs to order='bahdanau'"),
        ({"attend_from": "bottom", "score": "none"}, "attend_from='bottom' belongs to order='bahdanau'"),
        ({"bidirectional": "first", "width": 11}, "width=11 must be even"),
        ({"score": "addtive"}, "additive"),
        ({"widht": 12}, "widht"),
        ({"dropout": 1.0}, "less than 1"),
    ],
    ids=str,
)
def test_a_config_that_makes_no_sense_is_refused(wrong, said):
    with pytest.raises(ValidationError, match=said):
        Seq2SeqConfig(**wrong)


def test_a_source_longer_than_a_location_score_can_see_is_refused():
    with pytest.raises(ValueError, match="maximum=11 cannot look at 12 keys"):
        tiny(score="location").encode(torch.full((1, 12), 4))
