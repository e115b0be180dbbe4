"""The protocol between the benchmark and its systems, with scripts made up here: no peer is installed."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import alternate, peers, worker
from bench.alternate import ready
from bench.worker import PeerError, System, Worker

SCRIPT = f"""
import sys
sys.path.insert(0, {str(peers.FOLDER)!r})
from answering import answer

def prepare(settings):
    print("a library that talks")
    if settings.get("refuses"):
        raise ValueError("not with these settings")
    runs = 0
    def run(asked):
        nonlocal runs
        runs += 1
        if settings.get("dies_at") == runs:
            sys.exit("gone")
        if settings.get("fails_at") == runs:
            raise RuntimeError("no more")
        return {{"seconds": settings["seconds"] * asked["steps"], "runs": runs, "threads": settings["threads"]}}
    return run

answer(prepare, packages=("pip",))
"""

Make = Callable[..., System]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    path = tmp_path / "fake.py"
    path.write_text(SCRIPT)
    monkeypatch.setattr(worker, "command_of", lambda _: [sys.executable, str(path)])
    return lambda name, ours=False, **settings: System(name, "regard_fake" if ours else "torch_fake", settings)


def test_a_worker_answers_what_it_is_asked_whatever_its_libraries_print(fake: Make):
    with Worker(fake("peer"), threads=1) as process:
        assert "pip" in process.ask("prepare", seconds=2.0, threads=1)["versions"]
        first, second = process.ask("run", steps=3), process.ask("run", steps=4)
    assert (first["seconds"], second["seconds"], second["runs"]) == (6.0, 8.0, 2)
    assert first["peak_mb"] > 1


def test_what_a_worker_cannot_do_is_told_and_the_worker_lives_on(fake: Make):
    with Worker(fake("peer"), threads=1) as process:
        with pytest.raises(PeerError, match="not with these settings"):
            process.ask("prepare", refuses=True)
        assert process.ask("prepare", seconds=1.0, threads=1)


def test_a_worker_that_dies_leaves_its_last_words(fake: Make):
    with Worker(fake("peer"), threads=1) as process:
        process.ask("prepare", seconds=1.0, threads=1, dies_at=1)
        with pytest.raises(PeerError, match="ended with code 1: gone"):
            process.ask("run", steps=1)


def test_systems_are_run_in_turn_with_common_and_own_settings(fake: Make):
    systems = [fake("ours", ours=True, seconds=1.0), fake("peer", seconds=3.0)]
    with ready(systems, {"seconds": 0.0}, threads=7, limit=False) as field:
        answers = field.repeat(3, steps=2)
    assert [answer["seconds"] for answer in answers["ours"]] == [2.0, 2.0, 2.0]
    assert [answer["runs"] for answer in answers["peer"]] == [1, 2, 3]
    assert answers["peer"][0]["threads"] == 7
    assert not field.notes


def test_a_peer_that_fails_is_left_out_and_noted(fake: Make):
    systems = [
        fake("ours", ours=True, seconds=1.0),
        fake("refuser", refuses=True),
        fake("quitter", seconds=1.0, fails_at=2),
    ]
    with ready(systems, {}, threads=1, limit=False) as field:
        answers = field.repeat(3, steps=1)
    assert list(answers) == ["ours"]
    assert len(answers["ours"]) == 3
    assert field.notes == [
        "refuser did not start: ValueError: not with these settings",
        "quitter did not run: RuntimeError: no more",
    ]


def test_a_measurement_without_ours_is_none(fake: Make):
    with (
        pytest.raises(PeerError, match=r"ours: RuntimeError: no more"),
        ready([fake("ours", ours=True, seconds=1.0, fails_at=1)], {}, threads=1, limit=False) as field,
    ):
        field.repeat(1, steps=1)


def test_each_repeat_begins_with_another_system(fake: Make, monkeypatch: pytest.MonkeyPatch):
    order: list[str] = []
    ask = Worker.ask

    def noted(self: Worker, do: str, **settings: object) -> dict[str, object]:
        if do == "run":
            order.append(self.system.name)
        return ask(self, do, **settings)

    monkeypatch.setattr(alternate.Worker, "ask", noted)
    with ready([fake(name, seconds=1.0) for name in "abc"], {}, threads=1, limit=False) as field:
        field.repeat(3, steps=1)
    assert "".join(order) == "abcbcacab"


def test_every_script_has_an_environment_and_peers_do_not_see_ours(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", "src")
    scripts = [path.stem for path in peers.FOLDER.glob("*_*.py") if "answer(prepare" in path.read_text()]
    assert len(scripts) >= 12
    for script in scripts:
        seen = worker.surroundings(System("a system", script), threads=2)
        assert ("PYTHONPATH" in seen) == (peers.environment_of(script) == peers.OURS)
        assert seen["OMP_NUM_THREADS"] == "2"
    assert peers.environment_of("x_transformers_train") == "x_transformers"
