"""ConvS2S: against the paper's equations in plain torch, against itself by other roads, and learning."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

import regard
from regard.attention.recorder import recording
from regard.errors import RegardError
from regard.models.conv_seq2seq import ConvSeq2Seq, ConvSeq2SeqConfig
from regard.special import BOS, PAD
from regard.training import optimiser
from regard.training.config import TrainingConfig
from small_models import QUICK, reversing, reversing_recipe, write_pairs

WIDTH, EMBEDDING, SOURCES, TARGETS = 10, 7, 13, 17
SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 4, 12, PAD, PAD], [7, PAD, PAD, PAD, PAD]])
LENGTHS = torch.tensor([5, 3, 1])
TARGET = torch.tensor([[BOS, 4, 16, 9], [BOS, 5, 4, PAD], [BOS, 11, PAD, PAD]])
every_kernel = pytest.mark.parametrize("kernel", [1, 2, 3, 5])


def tiny(**settings: Any) -> ConvSeq2Seq:
    torch.manual_seed(23)
    sizes = {"encoder_layers": 3, "decoder_layers": 2, "width": WIDTH, "embedding": EMBEDDING, "dropout": 0.0}
    config = ConvSeq2SeqConfig(**{**sizes, "maximum": 11, **settings})
    made = ConvSeq2Seq(config, vocabulary=SOURCES, target_vocabulary=TARGETS).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():  # biases and lengths of rows that a wrong equation would not survive
            parameter.add_(0.2 * torch.randn_like(parameter))
    return made


class Equations:
    """One sentence of the same model from the equations, with weights by name and torch's convolution."""

    def __init__(self, weights: dict[str, Tensor], kernel: int) -> None:
        self.weights, self.kernel, self.shown = weights, kernel, list[Tensor]()

    def weight(self, name: str) -> Tensor:
        length, direction = (self.weights[f"{name}.parametrizations.weight.original{part}"] for part in (0, 1))
        return length * direction / direction.square().sum(1, keepdim=True).sqrt()

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.weight(name).T + self.weights[f"{name}.bias"]

    def gated(self, name: str, x: Tensor, before: int) -> Tensor:
        """x (L, M) → (L, M), by a convolution of the channels first."""
        weight = self.weight(f"{name}.windows").view(2 * WIDTH, self.kernel, WIDTH).transpose(1, 2)
        padded = F.pad(x.T.unsqueeze(0), (before, self.kernel - 1 - before))
        both = F.conv1d(padded, weight, self.weights[f"{name}.windows.bias"])[0].T
        return both[:, :WIDTH] / (1 + (-both[:, WIDTH:]).exp())

    def embed(self, side: str, tokens: Tensor) -> Tensor:
        return self.weights[f"{side}.table.weight"][tokens] + self.weights[f"{side}.position.table"][: len(tokens)]

    def encode(self, e: Tensor) -> Tensor:
        h = self.linear("encoder.enter", e)
        for layer in range(3):
            h = (h + self.gated(f"encoder.layers.{layer}", h, (self.kernel - 1) // 2)) / 2**0.5
        return self.linear("encoder.leave", h)

    def decode(self, target: Tensor, z: Tensor, e: Tensor) -> Tensor:
        g = self.embed("target", target)
        h = self.linear("decoder.enter", g)
        for layer in range(2):
            name = f"decoder.layers.{layer}"
            v = self.gated(f"{name}.convolution", h, self.kernel - 1)
            a = ((self.linear(f"{name}.attention.query", v) + g) @ z.T).exp()
            a = a / a.sum(1, keepdim=True)
            self.shown.append(a)
            c = len(z) * (1 / len(z)) ** 0.5 * (a @ (z + e))
            v = (v + self.linear(f"{name}.attention.output", c)) / 2**0.5
            h = (h + v) / 2**0.5
        return self.linear("decoder.leave", h)

    def __call__(self, source: Tensor, target: Tensor, *, through: Callable[[Tensor], Tensor] = lambda z: z) -> Tensor:
        e = self.embed("source", source)
        return self.decode(target, through(self.encode(e)), e)


def equations(model: ConvSeq2Seq, kernel: int = 3) -> Equations:
    weights = {name: value.detach().clone().requires_grad_() for name, value in model.named_parameters()}
    return Equations(weights, kernel)


@every_kernel
def test_the_model_equals_the_equations_of_the_paper(kernel: int):
    model = tiny(kernel=kernel)
    with torch.no_grad(), recording(model) as record:
        hidden = model(SOURCE, LENGTHS, TARGET)
    assert list(record) == ["decoder.layers.0.attention", "decoder.layers.1.attention"]
    assert model.alignment == "decoder.layers.1.attention"
    for row, length in enumerate(LENGTHS.tolist()):
        expected = equations(model, kernel)
        assert_close(hidden[row], expected(SOURCE[row, :length], TARGET[row]).detach())
        for path, weights in zip(record, expected.shown, strict=True):
            assert_close(record[path][row, 0, :, :length], weights.detach())
            assert not record[path][row, 0, :, length:].any()
            assert model.looks(path) == ("target", "source")


class Shrunk(torch.autograd.Function):
    """z → z, whose gradient is a quarter: with two decoder layers, 1/(2 · 2)."""

    @staticmethod
    def forward(_context: Any, z: Tensor) -> Tensor:
        return z.clone()

    @staticmethod
    def backward(_context: Any, gradient: Tensor) -> Tensor:
        return gradient / 4


@pytest.mark.parametrize("training", [False, True])
def test_gradients_are_those_of_the_equations_and_smaller_for_the_encoder_while_training(training: bool):
    model, expected = tiny().train(training), equations(tiny())
    above = torch.randn(1, 4, EMBEDDING, dtype=torch.float64)
    (model(SOURCE[:1], None, TARGET[:1]) * above).sum().backward()
    through = Shrunk.apply if training else lambda z: z
    (expected(SOURCE[0], TARGET[0], through=through) * above[0]).sum().backward()
    for name, parameter in model.named_parameters():
        if not name.startswith("output"):
            assert_close(parameter.grad, expected.weights[name].grad, msg=name)


def test_weight_normalisation_is_torchs_for_a_convolution():
    ours = tiny().encoder.layers[0]
    theirs = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(WIDTH, 2 * WIDTH, 3), dim=0).double()
    length, direction = ours.windows.parametrizations.weight.original0, ours.windows.parametrizations.weight.original1
    with torch.no_grad():
        theirs.parametrizations.weight.original0.copy_(length.unsqueeze(-1))
        theirs.parametrizations.weight.original1.copy_(direction.view(-1, 3, WIDTH).transpose(1, 2))
        theirs.bias.copy_(ours.windows.bias)
    x = torch.randn(2, 9, WIDTH, dtype=torch.float64)
    assert_close(ours(x), F.glu(theirs(x.transpose(1, 2)), dim=1).transpose(1, 2))


def test_first_weights_have_the_variance_of_the_paper():
    torch.manual_seed(0)
    model = ConvSeq2Seq(ConvSeq2SeqConfig(layers=1, width=160, embedding=120, dropout=0.2), vocabulary=3000)
    expected = {
        "source.table": 0.1**2,
        "target.position": 0.1**2,
        "encoder.enter": 0.8 / 120,
        "encoder.layers.0.windows": 4 * 0.8 / (3 * 160),
        "decoder.layers.0.convolution.windows": 4 * 0.8 / (3 * 160),
        "decoder.layers.0.attention.query": 1 / 160,
        "decoder.leave": 1 / 160,
        "output": 0.8 / 120,
    }
    for name, variance in expected.items():
        module: Any = model.get_submodule(name)
        weight = module.table if name.endswith("position") else module.weight
        assert weight.var().item() == pytest.approx(variance, rel=0.05), name
    assert not any(bias.any() for name, bias in model.named_parameters() if name.endswith("bias"))
    assert not model.source.table.weight[PAD].any()


@every_kernel
def test_steps_equal_the_whole(kernel: int):
    model = tiny(kernel=kernel).float()
    with torch.no_grad():
        expected = model.output(model(SOURCE, LENGTHS, TARGET))
        state = model.start(model.encode(SOURCE, LENGTHS))
        for t, token in enumerate(TARGET.unbind(1)):
            logits, state = model.step(token, state)
            assert_close(logits, expected[:, t], atol=1e-5, rtol=1e-5)
            assert {part.shape for part in state.past} == {(3, kernel - 1, WIDTH)}  # however many tokens were read


@pytest.mark.parametrize("rows", [[2, 0, 1], [0, 0, 1, 1, 2, 2], [1], [2, 2, 0]], ids=str)
def test_reordered_rows_go_on_as_if_they_had_always_been_there(rows: list[int]):
    model, chosen = tiny(), torch.tensor(rows)
    with torch.no_grad():
        expected = model.output(model(SOURCE[chosen], LENGTHS[chosen], TARGET[chosen]))
        state = model.start(model.encode(SOURCE, LENGTHS))
        for token in TARGET[:, :2].unbind(1):
            _, state = model.step(token, state)
        state = state.reorder(chosen)
        logits, state = model.step(TARGET[chosen, 2], state)
        assert_close(logits, expected[:, 2])
        logits, _ = model.step(TARGET[chosen, 3].flip(0), state.reorder(torch.arange(len(rows)).flip(0)))
        assert_close(logits, expected[:, 3].flip(0))


def test_beams_that_change_places_share_the_memory():
    state = tiny().start(tiny().encode(SOURCE, LENGTHS)).reorder(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert state.reorder(torch.tensor([1, 0, 2, 2, 3, 3])).memory is not state.memory
    assert state.reorder(torch.tensor([1, 0, 2, 2, 5, 4])).memory is state.memory


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    more=st.integers(0, 2),
    kernel=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_padding_never_leaks(lengths: list[int], more: int, kernel: int, seed: int):
    model, draw = tiny(kernel=kernel), torch.Generator().manual_seed(seed)
    source = torch.randint(4, SOURCES, (len(lengths), max(lengths) + more), generator=draw)
    target = torch.randint(4, TARGETS, (len(lengths), 4), generator=draw)
    with torch.no_grad():
        together = model(source, torch.tensor(lengths), target)  # what stands in the padding are words
        for row, length in enumerate(lengths):
            alone = model(source[row : row + 1, :length], None, target[row : row + 1])
            assert_close(together[row : row + 1], alone)


@every_kernel
def test_the_future_changes_nothing_to_the_bit(kernel: int):
    model = tiny(kernel=kernel).float()
    with torch.no_grad():
        model.target.table.weight[4:6] *= 1000
        plain = model(SOURCE[:1], None, torch.tensor([[BOS, 7, 8, 9, 10, 11, 12, 13]]))
        for place in range(1, 8):
            other = torch.tensor([[BOS, 7, 8, 9, 10, 11, 12, 13]])
            other[:, place:] = 4 + torch.arange(8 - place) % 2
            changed = model(SOURCE[:1], None, other)
            assert torch.equal(changed[:, :place], plain[:, :place])
            assert not torch.equal(changed[:, place], plain[:, place])


def test_an_empty_source_is_read_as_one_padding_token():
    model = tiny()
    with torch.no_grad():
        nothing = model(torch.empty(1, 0, dtype=torch.int64), None, TARGET[:1])
        assert_close(nothing, model(torch.tensor([[PAD, PAD]]), torch.tensor([0]), TARGET[:1]))
    assert nothing.isfinite().all()


def test_a_tied_model_has_one_table_for_each_vocabulary():
    model = tiny(tied=True)
    assert model.output.weight is model.target.table.weight
    shared = ConvSeq2Seq(ConvSeq2SeqConfig(width=WIDTH, tied=True), vocabulary=SOURCES)
    assert shared.source is shared.target


def test_an_answer_beyond_the_learned_positions_is_refused():
    model = tiny()
    state = model.start(model.encode(SOURCE, LENGTHS))
    for _ in range(11):
        _, state = model.step(TARGET[:, 1], state)
    with pytest.raises(RegardError, match="position 11 is beyond the 11 learned positions"):
        model.step(TARGET[:, 1], state)


def test_weight_decay_leaves_normed_weights_alone():
    decayed = optimiser.decays(tiny())
    assert decayed == {"output.weight"}
    made = optimiser.build(tiny(), TrainingConfig(weight_decay=0.1))
    assert sum(len(group["params"]) for group in made.param_groups) == len(list(tiny().parameters()))


def test_it_learns_to_reverse_words_and_a_teacher_can_teach_it(tmp_path: Any):
    model = reversing("conv_seq2seq")
    assert model.report["scores"]["exact"] > 90
    loaded = regard.load(model.path)
    assert loaded(["abc", "edca"]) == ["cba", "acde"]
    record = loaded.look("abcd")
    assert [(each.name, each.kind, each.layer) for each in record.maps] == [("decoder.layers.0.attention", "cross", 0)]
    write_pairs(tmp_path / "few.tsv", [(word, "x") for word in ("abc", "de", "edcb", "aab", "bad", "c")])
    recipe = reversing_recipe(tmp_path, kind="conv_seq2seq")
    changes = [*QUICK, f"data.train={tmp_path}/few.tsv", "data.hold_out=1", f"data.teacher={model.path}"]
    taught = regard.train(recipe, out=tmp_path / "taught", changes=changes)
    assert "x" not in taught.task.tokenizers.target.tokens("x")
