"""Runs with a budget of minutes, on a clock that the test moves: what is computed moves it, and nothing else."""

import io
import os
import signal
from itertools import pairwise

import pytest
import toy_run
from crews import run_together
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from toy_run import Cycle, Following, Predictor, config, toy

from regard.directory import WEIGHTS
from regard.tasks.base import Objective
from regard.training import schedule, train
from regard.training.config import TrainingConfig
from regard.training.distribution import Crew
from regard.training.loop import fit
from regard.training.plan import Knot, Plan
from regard.training.planning import Planner, Timing
from regard.training.watchers import Interrupted, Validation

pytestmark = pytest.mark.usefixtures("unsynced")

STEP, PAUSE, FINAL, BEFORE = 0.25, 0.5, 1.5, 1.0  # seconds
SCHEDULES = ["noam", "inverse_sqrt", "cosine", "linear", "constant"]


class Clock:
    """Time that passes where something is computed."""

    def __init__(self, *, step=STEP):
        self.now, self.step = 100.0, step

    def __call__(self):
        return self.now


class Slow(Following):
    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def loss(self, model, batch):
        self.clock.now += self.clock.step / 2  # there are two batches in a step
        return super().loss(model, batch)


def learn(directory, clock=None, *, console=None, poke=None, **changes):
    """A run of the toy with a budget; `poke` is called with the model at every validation."""
    clock = clock or Clock()

    def validate(model):
        clock.now += PAUSE
        if poke:
            poke(clock)
        return toy_run.validate(model)

    def score(model):
        clock.now += FINAL
        return toy_run.validate(model)

    clock.now += BEFORE
    given = {"steps": 1000, "minutes": 0.5, "validate_every": 25, "checkpoint_every": 15, "record_every": 1, **changes}
    return train.train(
        Predictor(),
        Slow(clock),
        Cycle(),
        config=config(**given),
        directory=directory,
        names={"task": "follow", "kind": "toy"},
        width=7,
        objective=Objective("accuracy", higher=True),
        validate=validate,
        score=score,
        console=console or Console(file=io.StringIO()),
        timing=Timing(clock, preparing=BEFORE, scoring=FINAL / PAUSE),
    )


def test_all_parts_of_a_run_fit_into_its_minutes(tmp_path):
    clock, said = Clock(), io.StringIO()
    found = learn(tmp_path, clock, console=Console(file=said, width=300))
    steps = found["steps"]
    assert 0.9 * 30 < clock.now - 100 <= 1.04 * 30
    assert steps == found["plan"]["knots"][-1]["steps"]
    assert found["ended"] == f"all {steps} steps that were planned for 0.5 minutes are made"
    assert found["history"][-1]["learning_rate"] < 0.03 * max(each["learning_rate"] for each in found["history"])
    first = found["plan"]["knots"][0]["steps"]
    assert f"plan: {first:,} steps in 0.5 minutes, 0.25 s each; 7 steps of warm-up" in said.getvalue()


@pytest.mark.parametrize("pace", [0.5, 2.0])
def test_a_plan_follows_a_machine_that_becomes_faster_or_slower(tmp_path, pace):
    clock, seen = Clock(), []

    def poke(clock):
        seen.append(clock.now)
        if len(seen) == 2:
            clock.step = STEP * pace

    found = learn(tmp_path, clock, poke=poke)
    knots = found["plan"]["knots"]
    assert len(knots) > 1
    assert (knots[-1]["steps"] > knots[0]["steps"]) == (pace < 1)
    assert 0.9 * 30 < clock.now - 100 <= 1.07 * 30
    assert found["history"][-1]["learning_rate"] < 0.03 * max(each["learning_rate"] for each in found["history"])


def test_a_warmup_is_never_more_than_a_fifth_of_the_plan(tmp_path):
    plan = learn(tmp_path, warmup=4000)["plan"]
    assert plan["warmup"] == plan["knots"][0]["steps"] // 5


def test_a_planned_run_is_validated_a_few_times_at_least(tmp_path):
    found = learn(tmp_path, validate_every=5000, checkpoint_every=5000, average_of="best", average=2)
    assert 5 <= len(found["validations"]) <= 7
    assert found["plan"]["checkpoint_every"] % found["plan"]["validate_every"] == 0


def test_the_steps_of_the_recipe_are_never_exceeded(tmp_path):
    said = io.StringIO()
    assert learn(tmp_path, steps=50, console=Console(file=said, width=300))["steps"] == 50
    assert "50 steps, all that training.steps allows, in less than 0.5 minutes" in said.getvalue()


def test_a_budget_that_is_used_up_at_once_ends_after_a_step(tmp_path):
    found = learn(tmp_path, minutes=1e-9)
    assert found["steps"] == 1
    assert [each["step"] for each in found["validations"]] == [1]
    assert learn(tmp_path, minutes=1e-9) == found
    assert learn(tmp_path, minutes=None, steps=40)["steps"] == 40


def test_more_minutes_are_another_plan(tmp_path):
    first = learn(tmp_path)
    more = learn(tmp_path, minutes=1)
    assert more["steps"] > 1.5 * first["steps"]
    assert more["plan"]["minutes"] == 1
    assert more["history"][-1]["learning_rate"] < 0.03 * max(each["learning_rate"] for each in more["history"])


def weights(directory):
    return (directory / WEIGHTS).read_bytes()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("moment", [12, 60, 80])
@pytest.mark.parametrize("how", ["killed", "asked"])
def test_a_run_that_was_stopped_goes_on_with_its_plan(tmp_path, monkeypatch, moment, how):
    """On another machine, whose pace is another. The final weights are those of a run that has this plan from the
    beginning and is never stopped."""

    def stop(run):
        if run.step == moment:
            if how == "killed":
                raise Killed
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(train.watchers, "update_moving_average", stop)
    with pytest.raises((Killed, Interrupted)):
        learn(tmp_path / "stopped", warmup=40)
    monkeypatch.undo()
    found = learn(tmp_path / "stopped", Clock(step=0.8 * STEP), warmup=40)
    plan = Plan.model_validate(found["plan"])
    assert plan.begin < 12

    class Given(Planner):
        def __call__(self, run):
            if knots := [knot for knot in plan.knots if knot.step <= run.step]:
                run.plan = plan.model_copy(update={"knots": knots})
                run.config = run.plan.applied(self.config)

    monkeypatch.setattr(train, "Planner", Given)
    learn(tmp_path / "whole", warmup=40)
    assert weights(tmp_path / "whole") == weights(tmp_path / "stopped")


def test_the_plan_is_written_when_it_is_made(tmp_path, monkeypatch):
    """A run that is killed one step later has the same plan, however fast it is then."""

    def die(run):
        if run.plan and run.step == run.plan.begin + 1:
            raise Killed

    monkeypatch.setattr(train.watchers, "give_memory_back", die)
    with pytest.raises(Killed):
        learn(tmp_path)
    monkeypatch.undo()
    whole = learn(tmp_path / "whole")["plan"]
    assert learn(tmp_path, Clock(step=0.2))["plan"]["knots"][0] == whole["knots"][0]


def test_processes_agree_on_the_plan_of_the_first(tmp_path):
    def work(crew: Crew) -> None:
        clock = Clock(step=STEP * (1 + crew.rank))
        run = toy(steps=1000, minutes=0.5, validate_every=20)
        validation = Validation(toy_run.validate, clock=clock)
        planner = Planner(run.config, validation=validation, crew=crew)
        watchers = [planner, validation]
        rate = schedule.build(run.config)
        fit(run, Slow(clock), schedule=rate, watchers=watchers, crew=crew, clock=clock)
        assert run.plan is not None
        said = crew.gathered([run.step, run.plan.model_dump()])
        assert said[0] == said[1]
        assert 0.9 * 30 < said[0][0] * STEP <= 30

    run_together(work, world=2, folder=tmp_path)


@st.composite
def planned(draw):
    """A plan that was changed at some of its steps."""
    first = draw(st.integers(1, 40))
    wish = TrainingConfig(
        schedule=draw(st.sampled_from(SCHEDULES)), warmup=draw(st.integers(1, 500)), learning_rate=0.01, minutes=3,
        lowest_rate=draw(st.sampled_from([0.0, 1e-6])),
    )  # fmt: skip
    plan = Plan.made(wish, step=first, steps=first + draw(st.integers(0, 500)))
    for _ in range(draw(st.integers(0, 4))):
        last = plan.knots[-1]
        if last.steps <= last.step + 1:
            break
        step = draw(st.integers(last.step + 1, last.steps - 1))
        plan = plan.changed(step=step, steps=step + draw(st.integers(1, 300)))
    return wish, plan


@given(planned())
@settings(max_examples=200, deadline=None)
def test_rates_under_a_plan_rise_once_fall_once_and_end_at_the_lowest(both):
    wish, plan = both
    rate = schedule.under(plan, wish, width=64)
    rates = [rate(step) for step in range(plan.begin + 1, plan.steps + 1)]
    after = rates[max(plan.warmup - plan.begin - 1, 0) :]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(after))
    if after and plan.steps > plan.warmup:
        assert after[-1] == pytest.approx(wish.lowest_rate, abs=1e-12)
    peak = schedule.build(wish, width=64)(wish.warmup)
    assert max(rates, default=0) <= peak * (1 + 1e-12)


@given(planned())
@settings(max_examples=100, deadline=None)
def test_a_change_of_a_plan_leaves_the_steps_before_it_alone(both):
    _, plan = both
    if len(plan.knots) == 1:
        return
    before = plan.model_copy(update={"knots": plan.knots[:-1]})
    for step in range(1, plan.knots[-1].step + 1):
        assert before.progress(step) == plan.progress(step)


@pytest.mark.parametrize(("name", "middle"), [("cosine", 0.5), ("linear", 0.5), ("constant", 1.0)])
def test_the_rate_halfway_through_a_plan(name, middle):
    wish = TrainingConfig(schedule=name, warmup=10, learning_rate=0.01, minutes=1)
    plan = Plan(
        minutes=1,
        most=10_000,
        warmup=10,
        validate_every=0,
        checkpoint_every=5,
        knots=[Knot(step=3, progress=0, steps=210)],
    )
    rate = schedule.under(plan, wish)
    assert rate(10) == pytest.approx(0.01)
    assert rate(110) == pytest.approx(0.01 * middle)
    assert rate(190) == pytest.approx({"cosine": 0.01 * 0.0244717, "linear": 0.001, "constant": 0.005}[name], rel=1e-5)
