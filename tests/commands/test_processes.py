"""`regard train --processes`: two processes, one of which is killed, learn what one process learns."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import safetensors.torch
from torch.testing import assert_close

from regard.cli import _without
from regard.commands import processes
from small_models import words, write_pairs

SETTINGS = {
    "data.valid": "[]",
    "data.test": "[]",
    "model.layers": 1,
    "model.width": 16,
    "model.heads": 2,
    "model.dropout": 0,
    "training.steps": 60,
    "training.batch_tokens": 64,
    "training.warmup": 10,
    "training.epsilon": 1e-4,  # or Adam makes steps of gradients that are only rounding
    "training.validate_every": 0,
    "training.checkpoint_every": 10,
    "training.threads": 1,
    "training.precision": "float32",  # bfloat16 rounds what is added up in another order differently
    "decoding.max_length": 4,
}


def start(folder: Path, out: str, *more: str) -> subprocess.Popen[bytes]:
    changes = [f"{key}={value}" for key, value in {**SETTINGS, "data.train": folder / "lexicon.tsv"}.items()]
    options = [part for change in changes for part in ("--set", change)]
    command = [sys.executable, "-m", "regard", "train", "demo", "-o", str(folder / out), *options, *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(number) for number in found.split()]


def workers(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes that learn: those that were forked from the one that has loaded torch."""
    return [worker for child in children(process.pid) for worker in children(child)]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the children of a process are found in /proc")
def test_a_killed_process_changes_nothing(tmp_path: Path) -> None:
    write_pairs(tmp_path / "lexicon.tsv", [(word, " ".join(word.upper())) for word in words(200)])
    together = start(tmp_path, "two", "--processes", "2")
    while not list((tmp_path / "two" / "checkpoints").glob("step-*")):
        assert together.poll() is None
        time.sleep(0.05)
    os.kill(workers(together)[1], signal.SIGKILL)
    _, told = together.communicate()
    assert together.returncode == 0, told.decode()
    assert b"ended with signal 9; all start again from the last checkpoint" in told
    alone = start(tmp_path, "one", "--set", "training.accumulate=2")
    alone.communicate()
    assert alone.returncode == 0
    one, two = (safetensors.torch.load_file(tmp_path / name / "weights.safetensors") for name in ("one", "two"))
    for name, weights in one.items():
        assert_close(two[name], weights, atol=1e-5, rtol=1e-4)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the children of a process are found in /proc")
def test_a_signal_to_all_processes_at_once_saves_the_run(tmp_path: Path) -> None:
    """systemd and SLURM signal the processes and the one that started them, which passes the signal on."""
    write_pairs(tmp_path / "lexicon.tsv", [(word, " ".join(word.upper())) for word in words(200)])
    together = start(tmp_path, "two", "--processes", "2", "--set", "training.steps=1000000")
    while not list((tmp_path / "two" / "checkpoints").glob("step-*")):
        assert together.poll() is None
        time.sleep(0.05)
    for process in (*workers(together), *children(together.pid), together.pid):
        os.kill(process, signal.SIGTERM)
    _, told = together.communicate()
    assert together.returncode == 75, told.decode()
    assert b"all is saved in" in told


def test_processes_of_which_one_asks_for_it_start_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 75 asks for a start, unless this process was itself asked to stop; 2 would come again."""
    for codes, asked, wanted, starts in (([75, 75, 0], False, 0, 3), ([75, 0], True, 75, 1), ([2, 0], False, 2, 1)):
        left = iter(codes)
        monkeypatch.setattr(
            processes._Together, "__enter__", lambda self, asked=asked: setattr(self, "asked", asked) or self
        )
        monkeypatch.setattr(processes._Together, "wait", lambda _, left=left: next(left))
        assert processes.train_together([], 2) == wanted
        assert len(codes) - len(list(left)) == starts
    assert capsys.readouterr().err.count("ended with exit code 75; all start again") == 2


def test_numbers_that_are_not_finite_end_with_a_sentence(tmp_path: Path) -> None:
    write_pairs(tmp_path / "lexicon.tsv", [(word, " ".join(word.upper())) for word in words(50)])
    changes = ("training.learning_rate=1e38", "training.warmup=1", "training.max_skips=2", "training.schedule=constant")
    process = start(tmp_path, "out", *(part for change in changes for part in ("--set", change)))
    _, told = process.communicate()
    last = told.decode().splitlines()[-1]
    assert process.returncode == 2, told.decode()
    assert b"Traceback" not in told
    assert last.startswith("regard: the loss is nan after step ")
    (described,) = json.loads((tmp_path / "out" / "not-learned-0.json").read_text())
    assert f"{tmp_path / 'out' / 'not-learned-0.json'} and not-learned-0.safetensors show the batches" in last
    assert len(described["texts"]) == len(described["rows"])
    lexicon = {tuple(line.split("\t")) for line in (tmp_path / "lexicon.tsv").read_text().splitlines()}
    assert all((pair["source"], pair["target"]) in lexicon for pair in described["texts"])


def test_an_option_is_left_out_with_its_value() -> None:
    assert _without(["demo", "--processes", "2", "--set", "a=1"], "--processes") == ["demo", "--set", "a=1"]
    assert _without(["demo", "--processes=2", "-o", "x"], "--processes") == ["demo", "-o", "x"]
