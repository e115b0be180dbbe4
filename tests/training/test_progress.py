import io
import re

import numpy as np
import pytest
from rich.console import Console
from toy_run import Following, toy, validate

from regard.training import watchers
from regard.training.loop import fit
from regard.training.plan import Plan
from regard.training.progress import Progress


def shown(*, terminal, every=0.0, **changes):
    file = io.StringIO()
    run = toy(**changes)
    console = Console(file=file, force_terminal=terminal, width=120, color_system=None)
    with Progress(console=console, every=every) as progress:
        usual = [watchers.Validation(validate), progress]
        fit(run, Following(), schedule=lambda _: 0.0125, watchers=usual)
    return file.getvalue()


def told_steps(text):
    """The lines that tell how far the run is, without those of the validations."""
    return [line for line in text.splitlines() if re.match(r"step [\d,]+/", line)]


def test_a_pipe_gets_plain_lines():
    text = shown(terminal=False, steps=10)
    steps = told_steps(text)
    assert len(steps) == 10
    pace = r"(…|[\d,]+) tokens/s  rate 1\.25e-02  (…|\d\d:\d\d left)"
    for line in steps[:4]:
        assert re.fullmatch(rf"step \d/10  loss \d+\.\d{{3}}  {pace}", line)
    for line in steps[4:]:
        assert re.fullmatch(rf"step \d+/10  loss \d+\.\d{{3}}  validation loss [\d.]+  {pace}", line)
    assert "\x1b" not in text


def test_the_loss_shown_is_the_mean_of_the_last_steps_by_their_targets():
    run, progress = toy(), Progress(console=Console(file=io.StringIO()))
    losses = []
    for step in range(1, 121):
        run.step, run.loss, run.targets = step, float(step % 7), step % 5 + 1
        losses += [(run.loss, run.targets)]
        run.tokens += run.targets
        progress(run)
        values, targets = zip(*losses[-50:], strict=True)
        assert progress.loss() == pytest.approx(np.average(values, weights=targets))


def test_a_pipe_is_not_flooded():
    steps = told_steps(shown(terminal=False, every=1000.0))
    assert [line.split("  ")[0] for line in steps] == ["step 1/40", "step 40/40"]


def test_validations_are_lines_of_their_own_and_say_which_is_best():
    lines = [line for line in shown(terminal=False, steps=10).splitlines() if "  validation  " in line]
    assert re.fullmatch(r"step 5  validation  loss [\d.]+  accuracy [\d.]+  \(best so far\)", lines[0])
    assert len(lines) == 2


def test_a_terminal_gets_a_bar():
    text = shown(terminal=True, steps=10)
    assert "step 10/10" in text
    assert "━" in text
    assert "tokens/s" in text
    assert "validation" in text


def test_a_budget_of_minutes_bounds_the_time_left_until_there_is_a_plan():
    run, progress = toy(steps=10_000, minutes=1), Progress(console=Console(file=io.StringIO()))
    run.step, run.preparing, run.seconds, progress.first = 100, 8.0, 40.0, (1, 0.0)
    assert progress.left(run, now=99.0) == "00:12 left"
    run.plan = Plan.made(run.config, step=50, steps=3700)
    run.config = run.plan.applied(run.config)
    assert progress.left(run, now=99.0) == "1:00:00 left"
