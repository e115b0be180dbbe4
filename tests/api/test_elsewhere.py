"""Lists answered in a process of their own: the same answers as torch's, and torch wherever the files say less."""

import copy
import gc
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import regard
from made_models import WORDS, write_model
from read_models import BERT, GPT, TEXT, write_reader
from regard import RegardError
from regard.api import elsewhere
from regard.api.unchanged import Unchanged
from regard.engines.ctranslate2.apart import Apart, EndedError
from regard.look import recording

DRAW = random.Random(5)
TEXTS = [" ".join(DRAW.choices(WORDS, k=DRAW.randint(1, 9))) for _ in range(9)] + [""]
WAY = {"runtime": "ctranslate2"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("pairs"), decoding={"beam": 3, "max_length": 12}, ending=4.0)


@pytest.fixture(scope="module")
def shared(folder):
    """A model that no test changes."""
    return regard.load(folder)


@pytest.fixture
def model(folder):
    return regard.load(folder)


def state_of(pid):
    """The letter that Linux gives the state of a process; None once it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def ends(pid, *, reaped=True):
    """Whether a process ends; `reaped`: whether this process is its parent, and has to wait for it."""
    deadline = time.monotonic() + 60
    while (state := state_of(pid)) not in ((None,) if reaped else (None, "Z")) and time.monotonic() < deadline:
        time.sleep(0.01)
    return state is None or (state == "Z" and not reaped)


def pid_of(model):
    return model._elsewhere._apart.pid


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"n_best": 2}, {"alignment": True}, {"beam": 1, "prefix": "w3"}])
def test_answers_are_those_of_torch(shared, options):
    found, wanted = shared.answers(TEXTS, **WAY, **options), shared.answers(TEXTS, runtime="torch", **options)
    assert [[each.text for each in several] for several in found] == [[each.text for each in s] for s in wanted]
    assert [[each.tokens for each in several] for several in found] == [[each.tokens for each in s] for s in wanted]
    for ours, theirs in zip(found, wanted, strict=True):
        assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-4)
        assert [each.truncated for each in ours] == [each.truncated for each in theirs]
        for our, their in zip(ours, theirs, strict=True):
            assert our.logprobs == pytest.approx(their.logprobs, abs=1e-4)
    assert shared(TEXTS, **WAY, **options) == [several[0].text for several in wanted]


@pytest.mark.parametrize(
    ("task", "settings", "asked"),
    [
        ("classify", {"labels": ("bad", "good"), **BERT}, ["the small dog", "an old fox"]),
        ("embed", BERT, ["the small dog", "an old fox sleeps"]),
        ("tag", {"labels": ("B-X", "I-X", "O"), **BERT}, ["the small dog", "an old fox"]),
    ],
)
def test_readers_answer_there_too(tmp_path, task, settings, asked):
    model = regard.load(write_reader(tmp_path, task, **settings))
    found, wanted = model.answers(asked, **WAY), model.answers(asked, runtime="torch")
    if task == "embed":
        assert [list(each) for each in found] == [pytest.approx(list(each), abs=1e-5) for each in wanted]
        return
    for ours, theirs in zip(found, wanted, strict=True):
        assert [each.get("label", each.get("entity")) for each in ours] == [
            each.get("label", each.get("entity")) for each in theirs
        ]
        assert [each["score"] for each in ours] == pytest.approx([each["score"] for each in theirs], abs=1e-5)


@pytest.mark.parametrize("options", [{}, {"beam": 2}, {"stop": ["dog"]}])
def test_a_language_model_continues_there_too(tmp_path, options):
    model = regard.load(write_reader(tmp_path, "write", decoding={"beam": 1, "max_length": 30}, **GPT))
    prompts = ["the small", "an old fox", TEXT[:30], ""]
    assert model(prompts, **WAY, **options) == model(prompts, runtime="torch", **options)


def test_a_short_list_starts_no_process_and_a_long_one_does(model, monkeypatch):
    model(TEXTS)
    assert not model._elsewhere.runs
    monkeypatch.setattr(elsewhere, "STARTS", len(TEXTS))
    found = model(TEXTS)
    assert model._elsewhere.runs
    assert model("w1 w2 w3") == model("w1 w2 w3", runtime="torch")
    assert found == model(TEXTS, runtime="torch")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"sample": True, "beam": 1, "seed": 3}, "draws other random numbers"),
        ({"no_repeat_ngram": 2}, "ranks hypotheses differently"),
    ],
)
def test_torch_answers_what_the_other_engine_would_not(model, monkeypatch, options, reason):
    with pytest.raises(RegardError, match=reason):
        model(TEXTS, **WAY, **options)
    monkeypatch.setattr(elsewhere, "STARTS", 1)
    assert model(TEXTS, **options) == model(TEXTS, runtime="torch", **options)


def test_torch_answers_where_scores_would_be_missing(shared):
    decoding = shared.decoding({"coverage_penalty": 0.2})
    with pytest.raises(RegardError, match="no log p"):
        shared.answers(TEXTS, decoding=decoding, **WAY)


@pytest.mark.parametrize(
    "options", [{"runtime": "jax"}, {"compute_type": "int4"}, {"runtime": "torch", "compute_type": "int8"}]
)
def test_a_choice_that_cannot_be_is_a_sentence(shared, options):
    with pytest.raises(RegardError, match=r"runtime|compute_type|compute-type"):
        shared(TEXTS, **options)


CHANGES = {
    "a weight in place": lambda module: torch.no_grad()(lambda: next(module.parameters()).mul_(1.5))(),
    "a weight through its data": lambda module: next(module.parameters()).data.mul_(1.5),
    "other data": lambda module: setattr(next(module.parameters()), "data", next(module.parameters()).data * 1.5),
    "another part": lambda module: setattr(module, "output", torch.nn.Linear(30, 33)),
    "a hook": lambda module: module.decoder.register_forward_hook(lambda *_: None),
    "a setting": lambda module: setattr(module, "flag", 3),
    "training": lambda module: module.train(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_module_that_was_changed_is_noticed(model, change):
    was = Unchanged(model.module)
    assert was.holds(model.module)
    CHANGES[change](model.module)
    assert not was.holds(model.module)


def test_answering_changes_nothing(shared):
    was = Unchanged(shared.module)
    shared(TEXTS, runtime="torch")
    shared.look(TEXTS[0])
    assert was.holds(shared.module)


def test_torch_answers_for_a_module_that_was_changed(model, monkeypatch):
    monkeypatch.setattr(elsewhere, "STARTS", 1)
    before = model(TEXTS)
    model.module.output.weight.data.neg_()
    assert model(TEXTS) == model(TEXTS, runtime="torch") != before
    with pytest.raises(RegardError, match="the module was changed"):
        model(TEXTS, **WAY)


def test_torch_answers_while_weights_are_recorded(model, monkeypatch):
    monkeypatch.setattr(elsewhere, "STARTS", 1)
    with recording(model.module) as record:
        model(TEXTS)
    assert len(record) > 0


def test_torch_answers_if_the_files_have_changed(tmp_path):
    folder = write_model(tmp_path / "model", decoding={"beam": 1, "max_length": 9})
    model = regard.load(folder)
    before = model(TEXTS)
    write_model(folder, decoding={"beam": 1, "max_length": 9}, seed=7)
    with pytest.raises(RegardError, match="files of the model have changed"):
        model(TEXTS, **WAY)
    assert model(TEXTS) == before


def test_a_copy_is_answered_by_torch(shared):
    wanted = shared(TEXTS, **WAY)
    other = copy.deepcopy(shared)
    assert other._elsewhere is None
    assert other(TEXTS) == wanted


def test_the_process_ends_with_the_model(folder):
    model = regard.load(folder)
    model(TEXTS, **WAY)
    pid = pid_of(model)
    assert state_of(pid) is not None
    del model
    gc.collect()
    assert ends(pid)


def test_a_process_that_died_is_replaced(model):
    wanted = model(TEXTS, **WAY)
    first = pid_of(model)
    os.kill(first, signal.SIGKILL)
    assert model(TEXTS, **WAY) == wanted
    assert pid_of(model) != first
    assert ends(first)


def test_torch_answers_if_processes_keep_dying(model, monkeypatch):
    monkeypatch.setattr(elsewhere, "STARTS", 1)
    ask = Apart.ask

    def killing(apart, message):
        if message.get("call"):
            os.kill(apart.pid, signal.SIGKILL)
        return ask(apart, message)

    monkeypatch.setattr(Apart, "ask", killing)
    with pytest.warns(UserWarning, match="torch answers from now on"):
        found = model(TEXTS)
    assert found == model(TEXTS)
    assert not model._elsewhere.runs


def test_an_interrupted_wait_ends_the_process_and_the_next_call_starts_another(model, monkeypatch):
    wanted = model(TEXTS, **WAY)
    first = pid_of(model)

    def interrupted(_apart):
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(Apart, "_receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model(TEXTS)
    assert ends(first)
    assert model(TEXTS, **WAY) == wanted


def test_an_error_of_the_other_side_is_told_and_the_process_lives(model):
    model(TEXTS, **WAY)
    apart = model._elsewhere._apart
    with pytest.raises(RuntimeError):
        apart.open("Translator", "/nowhere", workers=1)
    assert apart.alive
    apart.end()
    with pytest.raises(EndedError):
        apart.open("Translator", "/nowhere", workers=1)


PROGRAM = """
import os, sys, time
from pathlib import Path
from regard.commands.run import prepare
from regard.engines.ctranslate2.apart import Apart

asking = prepare(Path(sys.argv[1]), {})
asking.engine.apart = apart = Apart()
list(asking.engine.answer_all(["w1 w2"], asking.options, together=1))
assert "torch" not in sys.modules
print(apart.pid, flush=True)
if len(sys.argv) > 2:
    if os.fork() == 0:  # which keeps the socket open
        print(int(apart.alive), flush=True)
        time.sleep(60)
    time.sleep(60)
"""


def started(*arguments):
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def test_the_process_ends_with_the_program(folder):
    with started(folder) as program:
        pid = int(program.stdout.readline())
        assert program.wait(60) == 0
    assert ends(pid, reaped=False)


def test_no_process_survives_a_program_that_was_killed_even_if_a_forked_one_lives(folder):
    with started(folder, "fork") as program:
        pid, alive_in_the_fork = int(program.stdout.readline()), int(program.stdout.readline())
        assert not alive_in_the_fork
        program.kill()
        program.wait(60)
        assert ends(pid, reaped=False)
        os.killpg(program.pid, signal.SIGKILL)


def test_a_forked_copy_starts_a_process_of_its_own(model):
    wanted = model(TEXTS, **WAY)
    first = pid_of(model)
    model._elsewhere._owner = model._elsewhere._apart._owner = -1  # as after a fork
    assert not model._elsewhere._apart.alive
    assert model(TEXTS, **WAY) == wanted
    assert pid_of(model) != first


def test_it_listens_at_no_port(shared):
    shared(TEXTS, **WAY)
    sockets = {str(link.readlink()) for link in Path(f"/proc/{pid_of(shared)}/fd").iterdir() if link.is_symlink()}
    numbers = {each[8:-1] for each in sockets if each.startswith("socket:[")}
    rows = Path(f"/proc/{pid_of(shared)}/net/tcp").read_text() + Path(f"/proc/{pid_of(shared)}/net/udp").read_text()
    assert numbers
    assert not numbers & {row.split()[9] for row in rows.splitlines() if len(row.split()) > 9}
