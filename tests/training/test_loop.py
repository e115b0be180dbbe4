import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from toy_run import Batch, Cycle, Following, Predictor, toy

from regard.errors import RegardError
from regard.training.loop import fit
from regard.training.weights import weights_of


class Merged(Cycle):
    """The same examples, two batches in one."""

    def stream(self, *, epoch, position):
        batches = super().stream(epoch=epoch, position=position)
        for first in batches:
            second = next(batches)
            yield Batch(
                torch.cat([first.symbols, second.symbols]),
                torch.cat([first.following, second.following]),
            )


def steady(_):
    return 0.01


def test_accumulating_equals_one_large_batch():
    several, one = toy(dropout=0, accumulate=2), toy(dropout=0, accumulate=1)
    one.batches = Merged()
    fit(several, Following(noise=0), schedule=steady)
    fit(one, Following(noise=0), schedule=steady)
    assert several.tokens == one.tokens
    for name, weights in weights_of(several.model).items():
        torch.testing.assert_close(weights, weights_of(one.model)[name], rtol=1e-4, atol=1e-6)


def test_the_loop_equals_one_written_out_in_torch():
    run = toy(dropout=0, accumulate=1, clip=0.3, steps=17)
    fit(run, Following(noise=0), schedule=lambda step: 0.01 * step)

    model = Predictor(dropout=0)
    adam = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9)
    rates = torch.optim.lr_scheduler.LambdaLR(adam, lambda done: done + 1)
    batches = Cycle().stream()
    for _ in range(17):
        batch = next(batches)
        F.cross_entropy(model(batch.symbols), batch.following).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        adam.step()
        rates.step()
        adam.zero_grad()
    for name, weights in weights_of(run.model).items():
        torch.testing.assert_close(weights, weights_of(model)[name], rtol=1e-4, atol=1e-6)


def test_watchers_are_called_in_order_after_every_step():
    run, seen = toy(steps=3), []
    fit(
        run,
        Following(),
        schedule=lambda step: step / 100,
        watchers=[
            lambda run: seen.append((run.step, run.learning_rate)),
            lambda run: seen.append(math.isfinite(run.loss)),
        ],
    )
    assert seen == [(1, 0.01), True, (2, 0.02), True, (3, 0.03), True]


def test_tokens_are_the_targets_of_all_batches():
    run = toy(steps=2, accumulate=4)
    fit(run, Following(), schedule=steady)
    assert run.tokens == 2 * (2 + 3 + 5 + 11)
    assert (run.epoch, run.position) == (1, 4)


def test_a_run_that_is_over_makes_no_step():
    run = toy(steps=5)
    run.step = 5
    fit(run, Following(), schedule=steady)
    assert run.tokens == 0


def test_no_batch_at_all_is_said():
    class Nothing:
        def stream(self, **_):
            return iter([])

    run = toy()
    run.batches = Nothing()
    with pytest.raises(RegardError, match="not one batch to train on"):
        fit(run, Following(), schedule=steady)


def test_the_task_is_learned():
    run = toy(dropout=0, steps=150, accumulate=4)
    fit(run, Following(noise=0), schedule=lambda _: 0.03)
    assert run.loss < 0.05
