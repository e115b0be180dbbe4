"""Soft, hard and no reading of a memory, and the gradient of a hard choice."""

import itertools

import numpy
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard.attention.patterns import Padding
from regard.attention.recorder import recording
from regard.attention.scores import Additive, Dot
from regard.models.choice import Hard, Nowhere, Rollout, Soft
from regard.models.seq2seq import Bahdanau, InputFeeding, Seq2Seq, Seq2SeqConfig
from regard.special import BOS, EOS

BATCH, QUERIES, KEYS, WIDTH = 2, 3, 5, 7


def sight() -> tuple[Tensor, Tensor, Padding]:
    torch.manual_seed(11)
    return torch.randn(BATCH, QUERIES, WIDTH), torch.randn(BATCH, 1, KEYS, WIDTH), Padding(torch.tensor([5, 2]))


def test_soft_reads_the_average_of_the_memory():
    query, memory, pattern = sight()
    attention = Soft(Dot())
    context, draw = attention(query, attention.keys(memory), memory, pattern)
    for row, length in enumerate([5, 2]):
        weights = (query[row] @ memory[row, 0, :length].T).softmax(-1)
        assert_close(context[row], weights @ memory[row, 0, :length])
    assert_close(draw, torch.zeros(BATCH, QUERIES, 2))


def test_hard_reads_the_likeliest_place_in_evaluation():
    query, memory, pattern = sight()
    attention = Hard(Additive(WIDTH), width=WIDTH).eval()
    keys = attention.keys(memory)
    context, draw = attention(query, keys, memory, pattern)
    for row, length in enumerate([5, 2]):
        weights = attention.score(query[row], memory[row, 0, :length]).softmax(-1)
        assert_close(context[row], memory[row, 0, weights.argmax(-1)])
        assert_close(draw[row, :, 0], weights.amax(-1).log())


def test_hard_draws_each_place_as_often_as_its_weight_says():
    query, memory, pattern = sight()
    attention = Hard(Dot(), width=WIDTH)
    times = 5000
    many = Padding(pattern.lengths.repeat(times))
    torch.manual_seed(13)
    with recording(attention) as record:
        attention(query.repeat(times, 1, 1), memory.repeat(times, 1, 1, 1), memory.repeat(times, 1, 1, 1), many)
    choices = record[""].view(times, BATCH, QUERIES, KEYS)
    assert ((choices == 0) | (choices == 1)).all()
    assert (choices.sum(-1) == 1).all()
    for row, length in enumerate([5, 2]):
        weights = (query[row] @ memory[row, 0, :length].T).softmax(-1)
        assert_close(choices[:, row, :, :length].mean(0), weights, rtol=0, atol=0.03)


def test_hard_finds_zeros_where_there_is_nothing_to_look_at():
    query, memory, _ = sight()
    context, draw = Hard(Dot(), width=WIDTH)(query, memory, memory, Padding(torch.tensor([5, 0])))
    assert_close(context[1], torch.zeros(QUERIES, WIDTH))
    assert draw.isfinite().all()


def test_a_choice_is_replaced_by_its_expected_value_the_more_often_the_less_sure_it_is():
    query, memory, pattern = sight()
    attention, soft = Hard(Dot(), width=WIDTH, averaged=True), Soft(Dot())(query, memory, memory, pattern).context
    logits = (query @ memory[:, 0].mT).masked_fill(~pattern.dense(QUERIES, KEYS)[:, 0], -torch.inf)
    weights = logits.softmax(-1).numpy()
    entropy = -(weights * numpy.log(weights, where=weights > 0, out=numpy.zeros_like(weights))).sum(-1)
    share = entropy / numpy.log(numpy.maximum((weights > 0).sum(-1), 2))
    times = 2000
    torch.manual_seed(13)
    many = Padding(pattern.lengths.repeat(times))
    found = attention(query.repeat(times, 1, 1), *2 * [memory.repeat(times, 1, 1, 1)], many)
    means = found.draw[..., 0] == 0  # the mean has no log-probability to learn from
    close = (found.context - soft.repeat(times, 1, 1)).abs().amax(-1) < 1e-5
    assert close[means].all()
    assert_close(means.float().unflatten(0, (times, -1)).mean(0), torch.from_numpy(share).float(), rtol=0, atol=0.05)
    assert not (attention.eval()(query, memory, memory, pattern).draw[..., 0] == 0).any()


def test_nowhere_finds_a_context_of_width_zero():
    query, memory, pattern = sight()
    context, draw = Nowhere()(query, memory, memory, pattern)
    assert context.shape == (BATCH, QUERIES, 0)
    assert_close(draw, torch.zeros(BATCH, QUERIES, 2))


@pytest.mark.parametrize("lasting", [True, False])
def test_the_surrogate_equals_its_equation_worked_out_by_hand(lasting):
    draw = torch.tensor([[[-0.5, 2.0], [-1.5, 1.0], [-0.7, 9.0]]], requires_grad=True)
    losses, counted = torch.tensor([[3.0, 5.0, 99.0]]), torch.tensor([[True, True, False]])
    surrogate = Rollout(torch.empty(0), draw, lasting).surrogate(losses, counted)
    surrogate.backward()
    assert surrogate.item() == 0.0
    if lasting:  # R = 8, 5 and n = 2, 1
        expected = [[8 - 2 * 2.0, 2.0 - 8 / 2], [5 - 1.0, 1.0 - 5], [0, 0]]
    else:
        expected = [[3 - 2.0, 2.0 - 3], [5 - 1.0, 1.0 - 5], [0, 0]]
    assert_close(draw.grad, torch.tensor([expected]))


def test_the_mean_of_the_other_rows_is_a_second_baseline():
    draw = torch.tensor([[[-0.5, 2.0], [-0.9, 3.0]], [[-0.1, 7.0], [-0.8, 1.0]], [[-1.5, 1.0], [-0.2, 9.0]]])
    draw.requires_grad_()
    losses, counted = (
        torch.tensor([[3.0, 7.0], [9.0, 3.0], [5.0, 0.0]]),
        torch.tensor([[True, True]] * 2 + [[True, False]]),
    )
    Rollout(torch.empty(0), draw, lasting=True, weight=0.1, compared=True).surrogate(losses, counted).backward()
    errors = torch.tensor([[5.0 - 2, 7 - 3], [6.0 - 7, 3 - 1], [5.0 - 1, 0]])  # R = 10 7, 12 3, 5 and n = 2 1, 2 1, 1
    others = torch.tensor([[(4 - 1) / 2, 2], [(3 + 4) / 2, 4], [(3 - 1) / 2, 0]])
    numbers = torch.tensor([[2, 1], [2, 1], [1, 0]])
    assert_close(draw.grad, torch.stack([0.1 * numbers * (errors - others), -errors], -1))


SOURCE, TARGET_IN, TARGET_OUT = torch.tensor([[4, 5, 6]]), torch.tensor([[BOS, 4]]), torch.tensor([[4, EOS]])


def small(**choices: object) -> Seq2Seq:
    torch.manual_seed(17)
    config = Seq2SeqConfig(width=4, embedding=3, cell="gru", score="additive", choice="hard", dropout=0.0, **choices)
    model = Seq2Seq(config, vocabulary=7).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)  # away from uniform weights and from small differences
    return model


def losses_of(model: Seq2Seq, hidden: Tensor) -> Tensor:
    return F.cross_entropy(model.output(hidden).transpose(1, 2), TARGET_OUT.expand(len(hidden), -1), reduction="none")


def expected_loss(model: Seq2Seq) -> Tensor:
    """Σ over all choices i_1, i_2 of P(i_1, i_2) × loss, each followed on its own."""
    memory = model.encode(SOURCE)
    h, decoder, score = memory.values[0, 0], model.decoder, model.decoder.attention.score
    embedded = model.target(TARGET_IN)[0]
    total = torch.zeros((), dtype=torch.float64)
    for places in itertools.product(range(len(h)), repeat=len(embedded)):
        cells, probability, hidden = memory.last, torch.ones((), dtype=torch.float64), []
        fed = torch.zeros(1, 3, dtype=torch.float64)
        for y, place in zip(embedded, places, strict=True):
            y, c = y.unsqueeze(0), h[place].unsqueeze(0)
            if isinstance(decoder, Bahdanau):
                query = cells.hidden[-1]
                s, cells = decoder.cells.step(torch.cat([y, c], -1), cells)
            else:
                x = torch.cat([y, fed], -1) if isinstance(decoder, InputFeeding) else y
                s, cells = decoder.cells.step(x, cells)
                query = s
            probability = probability * score(query, h).softmax(-1)[0, place]
            fed = torch.tanh(decoder.readout(torch.cat([s, c], -1)))
            hidden.append(fed)
        total = total + probability * losses_of(model, torch.stack(hidden, 1)).sum()
    return total


def gradients(model: nn.Module, loss: Tensor) -> Tensor:
    named = [(name, p) for name, p in model.named_parameters() if "baseline" not in name]
    found = torch.autograd.grad(loss, [p for _, p in named], allow_unused=True, retain_graph=True)
    return torch.cat(
        [torch.zeros_like(p).flatten() if g is None else g.flatten() for (_, p), g in zip(named, found, strict=True)]
    )


def standard_errors(estimates: list[Tensor], exact: Tensor) -> float:
    """How far the mean lies from the exact value, at the worst coordinate, in standard errors."""
    stacked = torch.stack(estimates)
    error = stacked.std(0) / len(estimates) ** 0.5
    return float(((stacked.mean(0) - exact).abs() / (error + 1e-9)).max())


@pytest.mark.parametrize(
    "order", [{"order": "luong"}, {"order": "luong", "input_feeding": True}, {"order": "bahdanau"}], ids=str
)
def test_the_gradient_of_many_draws_approaches_the_gradient_of_the_expected_loss(order):
    model, copies, counted = small(**order), 500, torch.ones(500, 2, dtype=torch.bool)
    exact = gradients(model, expected_loss(model))
    with_surrogate, without = [], []
    for _ in range(60):
        rollout = model.rollout(SOURCE.expand(copies, -1), None, TARGET_IN.expand(copies, -1))
        losses = losses_of(model, rollout.hidden)
        surrogate = rollout.surrogate(losses, counted)
        without.append(gradients(model, losses.sum() / copies))
        with_surrogate.append(without[-1] + gradients(model, surrogate / copies))
    assert standard_errors(with_surrogate, exact) < 5
    assert standard_errors(without, exact) > 20


def test_the_baseline_makes_the_gradient_less_noisy():
    model = small(order="bahdanau")
    spread = []
    for level in (0.0, expected_loss(model).item() / 2):
        nn.init.zeros_(model.decoder.attention.baseline.weight)
        nn.init.constant_(model.decoder.attention.baseline.bias, level)
        torch.manual_seed(19)
        estimates = []
        for _ in range(100):
            rollout = model.rollout(SOURCE, None, TARGET_IN)
            losses = losses_of(model, rollout.hidden)
            estimates.append(
                gradients(model, losses.sum() + rollout.surrogate(losses, torch.ones(1, 2, dtype=torch.bool)))
            )
        spread.append(float(torch.stack(estimates).var(0).sum()))
    assert spread[1] < 0.8 * spread[0]
