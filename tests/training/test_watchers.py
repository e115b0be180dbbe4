import math
import os
import signal
import sys
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_run import Following, toy, validate

from regard.errors import RegardError
from regard.tasks.base import Objective, Score
from regard.training import watchers
from regard.training.checkpoint import Checkpoints
from regard.training.loop import fit
from regard.training.watchers import Interrupted, Interruption
from regard.training.weights import to_bytes, weights_of


def rate(_):
    return 0.01


def test_a_point_of_the_curve_is_the_mean_since_the_last():
    run, losses = toy(steps=9, record_every=3), []
    fit(run, Following(), schedule=rate, watchers=[lambda run: losses.append(float(run.loss)), watchers.record])
    assert [point["step"] for point in run.history] == [3, 6, 9]
    for number, point in enumerate(run.history):
        assert point["loss"] == pytest.approx(sum(losses[3 * number : 3 * number + 3]) / 3)
        assert point["tokens_per_second"] > 0
    assert run.history[-1]["tokens"] == run.tokens


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_validating_more_often_trains_the_same_model(ema):
    weights = []
    for every in (0, 1, 5):
        run = toy(validate_every=every, ema=ema)
        torch.manual_seed(1)
        usual = [watchers.update_moving_average, watchers.Validation(validate)]
        fit(run, Following(noise=0), schedule=rate, watchers=usual)
        assert len(run.validations) == (40 // every if every else 0)
        weights.append(to_bytes(weights_of(run.model)))
    assert len(set(weights)) == 1


def test_validation_is_without_dropout_and_with_the_moving_average():
    def look(model):
        seen.append((model.training, torch.is_grad_enabled(), model.hidden.weight.clone()))
        return {"loss": Score(1.0)}

    run, seen = toy(steps=5, ema=0.9), []
    fit(run, Following(), schedule=rate, watchers=[watchers.update_moving_average, watchers.Validation(look)])
    training, gradients, weights = seen[0]
    assert not training
    assert not gradients
    assert torch.equal(weights, run.moving.weights["hidden.weight"])
    assert run.model.training


def test_a_score_to_rank_by_must_be_there():
    run = toy()
    run.objective = Objective("bleu", higher=True)
    with pytest.raises(RegardError, match='no score "bleu" to compare models by; there is loss, accuracy'):
        fit(run, Following(), schedule=rate, watchers=[watchers.Validation(validate)])


@pytest.mark.parametrize(
    ("scores", "higher", "end", "best"),
    [
        ([1, 2, 3, 3, 3, 9, 9], True, 25, 15),  # two without anything better than at 15
        ([9, 8, 7, 6, 5, 4, 3, 2], False, 40, 40),
        ([5, math.nan, 6, 7], False, 15, 5),
        ([math.nan, math.nan, 4, 9, 9], False, 25, 15),
    ],
)
def test_patience_counts_validations_since_the_best(scores, higher, end, best):
    replies = iter(scores)
    run = toy(patience=2)
    run.objective = Objective("bleu", higher=higher)
    fit(run, Following(), schedule=rate, watchers=[watchers.Validation(lambda _: {"bleu": Score(next(replies))})])
    assert (run.step, run.ranked()[0]) == (end, best)
    assert bool(run.ending())


def test_of_equal_scores_the_lower_loss_is_better():
    run = toy()
    run.objective = Objective("bleu", higher=True)
    run.validations = [{"step": 5, "loss": 7.0, "bleu": 0.0}, {"step": 10, "loss": 6.0, "bleu": 0.0}]
    assert run.ranked() == [10, 5]
    run.validations.append({"step": 15, "loss": 9.0, "bleu": 1.0})
    assert run.ranked() == [15, 10, 5]


def with_loss(validations, patience):
    """GAT's rule, written down directly: the step that is kept, and the step at which training ends."""
    kept, highest, lowest, waited = 0, -math.inf, math.inf, 0
    for step, (accuracy, loss) in enumerate(validations, 1):
        if accuracy >= highest and loss <= lowest:
            kept = step
        waited = 0 if accuracy >= highest or loss <= lowest else waited + 1
        highest, lowest = max(accuracy, highest), min(loss, lowest)
        if waited == patience:
            break
    return kept, step


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30), st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_with_the_loss_a_step_is_kept_if_both_are_as_good_and_patience_waits_for_either(validations, patience):
    replies = iter(validations)

    def reply(_):
        accuracy, loss = next(replies)
        return {"accuracy": Score(accuracy), "loss": Score(loss)}

    run, bests = toy(steps=len(validations), validate_every=1, patience=patience, accumulate=1), []
    run.objective = Objective("accuracy", higher=True, with_loss=True)
    watching = [watchers.Validation(reply), lambda run: bests.append(run.step) if run.is_best() else None]
    fit(run, Following(), schedule=rate, watchers=watching)
    assert (run.ranked()[0], run.step) == with_loss(validations, patience)
    assert run.ranked()[: len(bests)] == bests[::-1]
    assert sorted(run.ranked()) == list(range(1, run.step + 1))


def test_a_run_that_ends_says_what_it_waited_for():
    run = toy(patience=2)
    run.objective = Objective("accuracy", higher=True, with_loss=True)
    run.validations = [{"step": step, "accuracy": 9.0 - step, "loss": float(step)} for step in (1, 2, 3)]
    assert run.ending().startswith("validation was best at step 1, and neither accuracy nor loss was as good again in")


def test_a_new_best_is_saved_between_the_regular_checkpoints(tmp_path):
    replies = iter([5.0, 4.0, 6.0, 7.0])
    run, checkpoints = toy(steps=8, validate_every=2, checkpoint_every=8), Checkpoints(tmp_path)
    usual = [watchers.Validation(lambda _: {"loss": Score(next(replies))}), watchers.Saving(checkpoints)]
    fit(run, Following(), schedule=rate, watchers=usual)
    assert checkpoints.steps() == [4, 8]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_saves_and_says_how_to_go_on(tmp_path, number, capfd):
    run, checkpoints = toy(), Checkpoints(tmp_path / "checkpoints")
    before = signal.getsignal(number)

    def poke(run):
        if run.step == 3:
            os.kill(os.getpid(), number)

    with Interruption(checkpoints) as interruption, pytest.raises(Interrupted) as caught:
        fit(run, Following(), schedule=rate, watchers=[poke, interruption])
    assert run.step == 3
    assert checkpoints.steps() == [3]
    assert str(caught.value) == (f"stopped at step 3 of 40; all is saved in {tmp_path}; run the same command to resume")
    assert signal.getsignal(number) is before
    assert "once more to stop at once" in capfd.readouterr().err


@pytest.fixture
def listening():
    """Python's own answer to Ctrl-C, which a process started in the background does not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_a_second_signal_acts_at_once_unless_it_is_the_same(tmp_path, monkeypatch):
    """The terminal sends Ctrl-C to all processes, and the one that started the others passes it on to them."""
    now = 100.0
    monkeypatch.setattr(watchers.time, "monotonic", lambda: now)
    with Interruption(Checkpoints(tmp_path)) as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.asked
        now = 100.9
        os.kill(os.getpid(), signal.SIGINT)
        now = 101.1
        with pytest.raises(KeyboardInterrupt) as caught:
            os.kill(os.getpid(), signal.SIGINT)
    assert caught.type is KeyboardInterrupt


def test_in_another_thread_signals_are_left_alone(tmp_path):
    def enter():
        with Interruption(Checkpoints(tmp_path)):
            seen.append(signal.getsignal(signal.SIGINT))

    seen = []
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_tensorboard_has_the_curve_and_the_validations(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = toy(steps=20)
    with watchers.TensorBoard(tmp_path, step=0) as board:
        usual = [watchers.record, watchers.Validation(validate), board]
        fit(run, Following(), schedule=rate, watchers=usual)
    events = EventAccumulator(str(tmp_path)).Reload()
    tags = {"train/loss", "train/tokens_per_second", "train/learning_rate", "valid/loss", "valid/accuracy"}
    assert set(events.Tags()["scalars"]) == tags
    assert [event.step for event in events.Scalars("train/loss")] == [4, 8, 12, 16, 20]
    found = [event.value for event in events.Scalars("valid/loss")]
    assert found == pytest.approx([scores["loss"] for scores in run.validations])


def test_without_tensorboard_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(RegardError, match=r'pip install "regard\[tensorboard\]"'):
        watchers.TensorBoard(tmp_path, step=0)
