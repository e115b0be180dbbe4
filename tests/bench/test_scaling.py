"""The arithmetic of many processes against a ring that is played through, and against torch's own counts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from bench import scaling, simulate
from bench.counted import Blocks, Kept, Model, Pairs
from bench.scaling import Device, Link, Work
from regard import models
from regard.training.flops import flops_per_target

counts = st.integers(1, 9)
numbers = st.floats(1e-3, 1e3)


def ring(processes: int, link: Link, size: float) -> tuple[float, float, bool]:
    """Play an all-reduce: rounds in which every process sends one chunk to the next. → seconds, bytes sent, success"""
    holds = [[{rank} for _ in range(processes)] for rank in range(processes)]  # whose numbers are in each chunk's sum
    seconds = sent = 0.0
    for turn in range(2 * (processes - 1)):
        moved = [(rank, (rank - turn) % processes) for rank in range(processes)]
        passed = [holds[rank][chunk] for rank, chunk in moved]
        for (rank, chunk), held in zip(moved, passed, strict=True):
            holds[(rank + 1) % processes][chunk] = holds[(rank + 1) % processes][chunk] | held
        seconds += size / processes / link.bandwidth + link.latency
        sent += size / processes
    everyone = set(range(processes))
    return seconds, sent, all(held == everyone for chunks in holds for held in chunks)


@given(processes=counts, size=numbers, bandwidth=numbers, latency=numbers)
def test_an_all_reduce_takes_as_long_as_a_ring_that_is_played(processes, size, bandwidth, latency):
    link = Link("", bandwidth, latency)
    seconds, sent, whole = ring(processes, link, size)
    assert whole
    assert scaling.all_reduce(size, processes, link) == pytest.approx(seconds)
    assert scaling.sent(size, processes, sharded=False) == pytest.approx(sent)
    assert scaling.sent(size, processes, sharded=True) == pytest.approx(1.5 * sent)


@given(processes=st.integers(2, 9), bandwidth=numbers, latency=numbers)
def test_a_link_is_found_from_two_measurements(processes, bandwidth, latency):
    link, sizes = Link("", bandwidth, latency), (1.0, 100.0)
    seconds = tuple(scaling.all_reduce(size, processes, link) for size in sizes)
    found = scaling.line(sizes, seconds, processes, name="")
    assert (found.bandwidth, found.latency) == pytest.approx((bandwidth, latency), rel=1e-6, abs=1e-6)


WORK = Work(parameters=10_000_000, targets=500, flops=6e12, operations=1000, activations=7e6)
SLOW, FAST = Device("", 1e12, 1e9), Device("", 1e12, 1e9, launch=0.01, overlap=0.5)
WIRE = Link("", 1e7, 1e-3)


def test_a_step_is_the_sum_of_its_parts():
    alone = scaling.step(WORK, SLOW, WIRE, 1)
    assert (alone.products, alone.update, alone.exchange, alone.sent) == pytest.approx((6.0, 0.32, 0.0, 0.0))
    both = scaling.step(WORK, SLOW, WIRE, 2)
    assert both.exchange == both.exposed == pytest.approx(4e7 / 1e7 + 2e-3)
    assert both.seconds == pytest.approx(6.0 + 0.32 + 4.002)
    assert scaling.throughput(WORK, both, 2) == pytest.approx(1000 / 10.322)
    assert scaling.step(WORK, SLOW, WIRE, 4, slower=2).products == pytest.approx(12.0)


def test_an_exchange_hides_behind_products_except_for_its_last_bucket():
    assert scaling.step(WORK, FAST, WIRE, 1).products == pytest.approx(10.0)  # a thousand starts of 10 ms
    hidden = scaling.step(WORK, FAST, WIRE, 2)
    assert hidden.exposed == pytest.approx(4.002 * 25 / 40)  # 3.33 s could hide, and 25 of 40 MB come last
    assert scaling.step(WORK, FAST, Link("", 1e6, 0), 2).exposed == pytest.approx(40 - 10 / 3)


def test_shards_divide_what_is_kept_and_exchange_half_as_much_again():
    whole, shard = (scaling.memory(WORK, SLOW, 4, sharded=sharded) for sharded in (False, True))
    assert whole == {"weights": 4e7, "gradients": 4e7, "Adam's moments": 8e7, "activations": 7e6}
    assert scaling.memory(WORK, simulate.A100, 4)["activations"] == 3.5e6
    assert shard == {name: each if name == "activations" else each / 4 for name, each in whole.items()}
    both, sharded = (scaling.step(WORK, SLOW, WIRE, 4, sharded=sharded) for sharded in (False, True))
    assert sharded.exchange == pytest.approx(1.5 * both.exchange)
    assert sharded.update == pytest.approx(both.update / 4)


@settings(max_examples=30)
@given(seconds=st.floats(0.5, 50), traffic=st.floats(1e9, 1e11))
def test_the_device_that_was_measured_predicts_its_own_step(seconds, traffic):
    device = simulate.calibrated(WORK, seconds, traffic)
    assert scaling.step(WORK, device, WIRE, 1).seconds == pytest.approx(seconds)


def test_work_grows_with_the_targets():
    assert WORK.of(1500) == Work(10_000_000, 1500, pytest.approx(1.8e13), 1000, pytest.approx(2.1e7))


SMALL = {"width": 8, "heads": 2, "hidden": 16, "dropout": 0.0}


@pytest.mark.parametrize(
    ("kind", "settings_of", "task"),
    [("transformer", SMALL, Pairs()), ("gpt", {"width": 8, "heads": 2, "dropout": 0.0, "maximum": 6}, Blocks())],
)
def test_the_cost_of_many_layers_and_rows_follows_from_two(kind, settings_of, task):
    model = Model("", kind, {**settings_of, "layers": 5}, 23, 6)
    whole, batch = models.build(kind, vocabulary=23, layers=5, **settings_of), task.batch(7, 6, 23)
    kept, before = Kept(whole.parameters()), Kept(whole.parameters())
    with kept.hooks():
        task.loss(whole, batch).backward()
    with before.hooks():
        task.loss(whole, task.batch(3, 6, 23)).backward()
    work = model.work(batch.targets)
    assert work.parameters == sum(parameter.numel() for parameter in whole.parameters())
    assert work.activations * 4 / 7 == pytest.approx(kept.bytes - before.bytes, rel=0.01)
    assert work.flops == pytest.approx(counted_flops(whole, task, batch), rel=0.01)


def counted_flops(model: nn.Module, task: Pairs | Blocks, batch) -> float:
    return flops_per_target(model, task, [batch]) * batch.targets


def test_an_estimate_has_the_hours_and_bytes_of_its_plan():
    plan = simulate.PLANS[-1]
    found = simulate.estimated(plan, Work(350_000_000, 1, 2.5e9, 0, 1e6))
    assert found["hours"] == pytest.approx(plan.steps * found["seconds_per_step"] / 3600)
    assert found["step"]["products"] == pytest.approx(2**19 / 64 * 2.5e9 / (0.45 * 312e12))
    assert found["memory"]["weights"] == pytest.approx(4 * 350e6 / 64)
    assert found["memory"]["activations"] == pytest.approx(0.5e6 * 2**19 / 64)
    assert found["step"]["sent"] == pytest.approx(3 * 63 / 64 * 4 * 350e6)
