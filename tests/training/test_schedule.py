import math
from itertools import pairwise

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import RegardError
from regard.training import schedule
from regard.training.config import TrainingConfig

STEPS, WARMUP, RATE = 97, 13, 0.007


def theirs(build, **options):
    """What a transformers schedule makes of RATE, at the steps 1 to STEPS."""
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    scheduler = build(optimiser, num_warmup_steps=WARMUP, **options)
    rates = []
    for _ in range(STEPS):
        optimiser.step()
        scheduler.step()
        rates.append(scheduler.get_last_lr()[0])
    return rates


def ours(name):
    rate = schedule.build(TrainingConfig(steps=STEPS, warmup=WARMUP, learning_rate=RATE, schedule=name), width=512)
    return [rate(step) for step in range(1, STEPS + 1)]


@pytest.mark.parametrize(
    ("name", "build", "options"),
    [
        ("cosine", transformers.get_cosine_schedule_with_warmup, {"num_training_steps": STEPS}),
        ("linear", transformers.get_linear_schedule_with_warmup, {"num_training_steps": STEPS}),
        ("inverse_sqrt", transformers.get_inverse_sqrt_schedule, {}),
        ("constant", transformers.get_constant_schedule_with_warmup, {}),
    ],
)
def test_schedules_equal_those_of_transformers(name, build, options):
    assert ours(name) == pytest.approx(theirs(build, **options), rel=1e-12, abs=1e-18)


def test_cosine_without_warmup_equals_torch():
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=STEPS)
    for step in range(1, STEPS + 1):
        optimiser.step()
        scheduler.step()
        expected = scheduler.get_last_lr()[0]
        assert schedule.cosine(step, learning_rate=RATE, warmup=0, steps=STEPS) == pytest.approx(expected, abs=1e-12)


def test_noam_is_equation_3_of_the_paper():
    """d_model^−0.5 · min(step^−0.5, step · warmup^−1.5), for the base model: 512 wide, 4 000 steps of warm-up."""
    rate = schedule.build(TrainingConfig(schedule="noam", learning_rate=1, warmup=4000, steps=100_000), width=512)
    for step in (1, 2, 3999, 4000, 4001, 100_000):
        assert rate(step) == pytest.approx(min(1 / math.sqrt(step), step / 4000 / math.sqrt(4000)) / math.sqrt(512))
    assert rate(4000) == pytest.approx(6.98771e-4, rel=1e-5)


@given(
    name=st.sampled_from(["noam", "inverse_sqrt", "cosine", "linear", "constant"]),
    warmup=st.integers(1, 300),
    after=st.integers(1, 300),
)
@settings(max_examples=50, deadline=None)
def test_rates_rise_to_the_end_of_the_warmup_and_never_after(name, warmup, after):
    config = TrainingConfig(schedule=name, warmup=warmup, steps=warmup + after, learning_rate=RATE)
    rate = schedule.build(config, width=64)
    rates = [rate(step) for step in range(1, config.steps + 1)]
    assert rates[:warmup] == sorted(rates[:warmup])
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(rates[warmup - 1 :]))
    if name != "noam":
        assert rates[warmup - 1] == pytest.approx(RATE)
    if name in ("cosine", "linear"):
        assert rates[-1] == pytest.approx(0, abs=1e-12)


def test_noam_asks_for_a_width():
    with pytest.raises(RegardError, match="width of the model"):
        schedule.build(TrainingConfig(schedule="noam"))


@pytest.mark.parametrize("name", ["cosine", "linear"])
def test_a_rate_can_end_above_zero(name):
    settings = {"steps": STEPS, "warmup": WARMUP, "learning_rate": RATE, "schedule": name}
    zero, above = (schedule.build(TrainingConfig(**settings, lowest_rate=rate)) for rate in (0.0, 0.002))
    assert above(WARMUP) == pytest.approx(RATE)
    assert above(STEPS) == pytest.approx(0.002)
    middle = (WARMUP + STEPS) // 2
    assert above(middle) == pytest.approx(0.002 + zero(middle) * (RATE - 0.002) / RATE)
    with pytest.raises(ValueError, match=r"lowest_rate=1 exceeds learning_rate=0\.007"):
        TrainingConfig(**settings, lowest_rate=1.0)
