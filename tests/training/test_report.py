import json
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from toy_run import SYMBOLS, WIDTH, Cycle, Following, Predictor, toy

from regard.kernels.linear import Linear
from regard.kernels.r_drop import r_drop_loss
from regard.kernels.vocabulary_loss import vocabulary_loss
from regard.tasks.base import Score
from regard.training import report
from regard.training.flops import flops_per_target
from regard.training.loop import fit


class Sum:
    """A task whose loss is the sum of what a function makes of a batch."""

    def __init__(self, function):
        self.function = function

    def loss(self, _, batch):
        return self.function(batch.x).sum()


class Examples:
    def __init__(self, x, targets):
        self.x, self.targets = x.requires_grad_(), targets

    def to(self, _):
        return self


def counted(function):
    counter = FlopCounterMode(display=False)
    with counter:
        function()
    return counter.get_total_flops()


def test_linear_maps_cost_six_operations_per_weight_and_target():
    """Two forward, four backward, for the hidden and the (shared) output layer."""
    batches = [batch for batch, _ in zip(Cycle().stream(), range(4), strict=False)]
    cost = flops_per_target(Predictor(), Following(), batches)
    assert cost == 6 * (WIDTH * WIDTH + WIDTH * SYMBOLS)


@pytest.mark.parametrize("products", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [64, 1152])
def test_the_vocabulary_loss_costs_six_operations_per_weight_and_target(products, rows):
    """Logits forward, and backward the gradients of hidden vectors and of weights: 2MV operations each."""
    output = Linear(11, 127)
    output.products = products
    target = torch.randint(127, (rows,))
    task = Sum(lambda x: vocabulary_loss(x, output, target, smoothing=0.1)[0])
    assert flops_per_target(output, task, [Examples(torch.randn(rows, 11), rows)]) == 6 * 11 * 127


@pytest.mark.parametrize("products", [torch.float32, torch.bfloat16], ids=str)
def test_two_passes_of_r_drop_cost_twice_that(products):
    output = Linear(11, 127)
    output.products = products
    target = torch.randint(127, (192,))
    task = Sum(lambda x: r_drop_loss(x, 2 * x, output, target, weight=5.0)[0])
    cost = flops_per_target(output, task, [Examples(torch.randn(192, 11), 192)])
    assert cost == 2 * 6 * 11 * 127


def test_fused_attention_costs_what_it_costs_by_hand_and_its_scores_once_more():
    def by_hand(x):
        return (x @ x.transpose(-1, -2)).softmax(-1) @ x

    task = Sum(lambda x: F.scaled_dot_product_attention(x, x, x))
    fused = flops_per_target(nn.Linear(1, 1), task, [Examples(torch.randn(2, 3, 5, 16), 1)])
    x = torch.randn(2, 3, 5, 16, requires_grad=True)
    once = 2 * 2 * 3 * 5 * 5 * 16
    assert fused == counted(lambda: by_hand(x).sum().backward()) + once == 7 * once


@pytest.mark.parametrize("layers", [1, 2])
def test_a_recurrent_layer_costs_what_its_cells_cost(layers):
    lstm = nn.LSTM(11, 13, num_layers=layers)
    x = torch.randn(5, 3, 11)
    forward = 2 * 5 * 3 * 4 * 13 * (11 + 13) + (layers - 1) * 2 * 5 * 3 * 4 * 13 * (13 + 13)
    found = flops_per_target(lstm, Sum(lambda x: lstm(x)[0]), [Examples(x, 15)])
    assert found == 3 * forward / 15

    cell = nn.LSTMCell(11, 13)

    def unrolled():
        state = None
        for row in x:
            state = cell(row, state)

    if layers == 1:
        assert counted(unrolled) == forward


def test_counting_leaves_weights_and_random_state_alone():
    model = Predictor()
    before, state = {name: p.clone() for name, p in model.named_parameters()}, torch.get_rng_state()
    flops_per_target(model, Following(noise=0), [next(Cycle().stream())])
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(p, before[name]) and p.grad is None for name, p in model.named_parameters())


def test_a_report_has_the_keys_of_the_design():
    run = toy(steps=6)
    fit(run, Following(), schedule=lambda _: 0.01)
    found = report.build(
        run, task="translate", kind="toy", kept=[6], scores={"bleu": Score(31.5)}, flops_per_target=840.0
    )
    keys = [
        "task",
        "kind",
        "parameters",
        "steps",
        "tokens",
        "seconds",
        "tokens_per_second",
        "flops",
        "scores",
        "seed",
        "versions",
    ]
    assert list(found)[: len(keys)] == keys
    assert (found["task"], found["kind"], found["steps"], found["seed"]) == ("translate", "toy", 6, 1)
    assert found["parameters"] == SYMBOLS * WIDTH + WIDTH * WIDTH + WIDTH + 2 * WIDTH + SYMBOLS
    assert found["flops"] == 840.0 * found["tokens"]
    assert found["scores"] == {"bleu": 31.5}
    assert found["seconds"] >= run.learning_seconds
    assert found["tokens_per_second"] == pytest.approx(run.tokens / run.learning_seconds)
    assert found["versions"]["torch"] == torch.__version__


def test_what_is_no_number_is_null_in_json():
    text = report.dump({"scores": {"bleu": math.nan, "ter": math.inf, "chrf": 1.5}, "list": [math.nan, 2]})
    assert json.loads(text) == {"scores": {"bleu": None, "ter": None, "chrf": 1.5}, "list": [None, 2]}
