"""Keys, origins, limits, signals, replaced models: what a server does when it must not simply answer."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from serving import PATIENCE, Running, serving, until

from made_models import write_model

KEY, OTHER = "a-secret-key", "another-key"
SLOW = {"beam": 1, "max_length": 3000, "min_length": 3000}  # seconds of work
UNREADABLE = "the model cannot be read; the log of the server says why"
BUSY = " ".join(["w1"] * 40)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_model(folder / "quick", decoding={"beam": 1, "max_length": 4})
    write_model(folder / "slow", decoding=SLOW)
    write_model(folder / "third", seed=3, decoding={"beam": 1, "max_length": 4})
    return folder


@pytest.fixture(scope="module")
def keyed(models: Path) -> Iterator[Running]:
    (models / "keys").write_text(f"# who may ask\n{KEY}\n\n")
    arguments = [models / "quick", "--workers", "1", "--keys", models / "keys", "--cors", "https://page.example"]
    told = f"regard: quick: .*{models}.*\nregard: quick: reloaded\n"
    with serving(*arguments, env={"REGARD_KEYS": OTHER}, errors=told) as running:
        running.client.headers["Authorization"] = f"Bearer {KEY}"
        yield running


def test_a_key_is_needed(keyed: Running):
    for key, status in ((KEY, 200), (OTHER, 200), ("wrong", 403), (f"{KEY}x", 403), ("käy", 403)):
        headers = {"Authorization": f"Bearer {key}".encode()}
        assert keyed.client.get("/models", headers=headers).status_code == status
    assert httpx.get(f"{keyed.url}/models").status_code == 401
    headers = {"Authorization": f"Basic {KEY}"}
    assert keyed.client.get("/models", headers=headers).json()["error"].startswith("an API key is needed")
    assert keyed.client.get("/health", headers={"Authorization": ""}).status_code == 200


def test_a_browser_opens_the_pages_without_a_key_and_asks_no_model(keyed: Running):
    for path in ("/", "/docs", "/openapi.json"):
        assert httpx.get(f"{keyed.url}{path}").status_code == 200
    for path, body in (("/", {"inputs": "w1"}), ("/look", {"text": "w1"})):
        assert httpx.post(f"{keyed.url}{path}", json=body).status_code == 401


def test_an_allowed_origin_is_told_so(keyed: Running):
    headers = {"Origin": "https://page.example"}
    found = keyed.client.post("/run/quick", json={"input": "w1"}, headers=headers)
    assert (found.status_code, found.headers["access-control-allow-origin"]) == (200, "https://page.example")
    found = keyed.client.options("/run/quick", headers={**headers, "Access-Control-Request-Method": "POST"})
    assert found.status_code == 204
    assert "Authorization" in found.headers["access-control-allow-headers"]
    headers = {"Origin": "https://evil.example"}
    assert keyed.client.post("/run/quick", json={"input": "w1"}, headers=headers).status_code == 403


def replace(model: Path, other: Path) -> None:
    """Put a copy of another model in the place of one, as a deployment does."""
    shutil.copytree(other, model.with_name("new"))
    model.rename(model.with_name("old"))
    model.with_name("new").rename(model)
    shutil.rmtree(model.with_name("old"))


def test_a_replaced_model_is_taken_over_and_a_damaged_one_is_not(keyed: Running, models: Path):
    before = keyed.run("quick", "w1 w2 w3")
    assert keyed.client.post("/admin/reload").json() == {"quick": "unchanged"}
    shutil.copytree(models / "quick", models / "first")
    replace(models / "quick", models / "third")
    stop, found = threading.Event(), []

    def keep_asking() -> None:
        while not stop.is_set():
            found.append(keyed.run("quick", "w1 w2 w3"))

    thread = threading.Thread(target=keep_asking)
    thread.start()
    until(lambda: len(found) > 3)
    assert keyed.client.post("/admin/reload").json() == {"quick": "reloaded"}
    after = keyed.run("quick", "w1 w2 w3")
    stop.set()
    thread.join()
    assert before != after
    assert all(each in (before, after) for each in found)
    weights = models / "quick" / "weights.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-8])
    assert keyed.client.post("/admin/reload").json() == {"quick": f"refused: {UNREADABLE}"}
    assert keyed.run("quick", "w1 w2 w3") == after
    replace(models / "quick", models / "first")
    keyed.process.send_signal(signal.SIGHUP)
    until(lambda: keyed.run("quick", "w1 w2 w3") == before)


def test_a_key_that_asks_too_often_is_told_when_to_come_again(models: Path):
    keys = {"REGARD_KEYS": f"{KEY},{OTHER}"}
    with serving(models / "quick", "--workers", "1", "--rate", "3", env=keys) as running:
        headers = {"Authorization": f"Bearer {KEY}"}
        answers = [running.client.get("/models", headers=headers) for _ in range(4)]
        assert [each.status_code for each in answers] == [200, 200, 200, 429]
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 20
        assert running.client.get("/models", headers={"Authorization": f"Bearer {OTHER}"}).status_code == 200


@pytest.fixture
def busy(models: Path) -> Iterator[Running]:
    """A server of one worker, whose slow model takes seconds, with room for two more inputs."""
    arguments = ["--workers", "1", "--max-queue", "2", "--drain", "60"]
    with serving(models / "slow", models / "quick", *arguments, errors="(regard: a request failed.*)?") as running:
        running.run("quick", "w1")
        until(lambda: running.metric("regard_queue_length") == 0)
        yield running


def ask_slowly(running: Running, pool: ThreadPoolExecutor) -> httpx.Response:
    """Ask the slow model, and wait until it is being answered."""
    before = running.metric("regard_queue_duration_seconds_count")
    asked = pool.submit(running.client.post, "/run/slow", json={"input": BUSY})
    until(lambda: running.metric("regard_queue_duration_seconds_count") > before)
    return asked


def test_a_full_queue_a_client_that_leaves_and_a_killed_worker(busy: Running):
    with ThreadPoolExecutor(8) as pool:
        first = ask_slowly(busy, pool)
        head = f"POST /run/quick HTTP/1.1\r\nHost: 127.0.0.1:{busy.port}\r\nContent-Type: application/json\r\n"
        leaving = socket.create_connection(("127.0.0.1", busy.port))
        body = '{"input": "w1"}'
        leaving.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        until(lambda: busy.metric("regard_queue_length") == 1)
        waiting = pool.submit(busy.run, "quick", "w2")
        until(lambda: busy.metric("regard_queue_length") == 2)
        refused = busy.client.post("/run/quick", json={"input": "w3"})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert busy.client.post("/run/quick", json={"inputs": ["w1"] * 3}).status_code == 429
        leaving.close()
        until(lambda: busy.metric("regard_queue_length") == 1)
        (worker,) = busy.workers()
        os.kill(worker, signal.SIGKILL)
        lost = first.result(PATIENCE)
        assert lost.status_code == 503
        assert "ended; ask again" in lost.json()["error"]
        assert waiting.result(PATIENCE)["input"] == "w2"


def test_sigterm_lets_requests_finish(busy: Running):
    with ThreadPoolExecutor(1) as pool:
        asked = ask_slowly(busy, pool)
        busy.process.send_signal(signal.SIGTERM)
        assert asked.result(PATIENCE).status_code == 200
    assert busy.process.wait(PATIENCE) == 0
    with pytest.raises(httpx.TransportError):
        busy.client.get("/health")


def test_a_second_signal_ends_it_at_once(busy: Running):
    with ThreadPoolExecutor(1) as pool:
        asked = ask_slowly(busy, pool)
        workers = busy.workers()
        busy.process.send_signal(signal.SIGTERM)
        until(lambda: not _listens(busy.port))
        busy.process.send_signal(signal.SIGTERM)
        assert busy.process.wait(PATIENCE) == 128 + signal.SIGTERM
        assert isinstance(asked.exception(PATIENCE), httpx.TransportError)
    until(lambda: not any(Path(f"/proc/{number}").exists() for number in workers))


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_a_request_that_takes_too_long_is_given_up(models: Path):
    with serving(models / "slow", "--workers", "1", "--max-seconds", "0.2") as running:
        found = running.client.post("/run/slow", json={"input": BUSY})
        assert found.status_code == 504
        assert "within 0.2 seconds" in found.json()["error"]


def test_models_beyond_the_memory_are_unloaded(models: Path):
    size = (models / "quick" / "weights.safetensors").stat().st_size
    for name in ("big", "bigger", "biggest"):
        shutil.copytree(models / "third", models / name, dirs_exist_ok=True)
    room = max(1, (2 * size) >> 20)
    names = ["big", "bigger", "biggest"]
    with serving(*(models / name for name in names), "--workers", "1", "--memory", str(room)) as running:
        answers = [running.run(name, "w1 w2")["answers"] for name in names * 2]
        assert all(each == answers[0] for each in answers)


def test_why_a_model_cannot_be_read_is_logged_and_names_no_file_to_a_client(tmp_path: Path):
    model = write_model(tmp_path / "damaged", decoding={"beam": 1, "max_length": 4})
    weights = model / "weights.safetensors"
    with serving(model, "--workers", "1", errors=f"(regard: damaged: .*{tmp_path}.*\n)+") as server:
        weights.write_bytes(weights.read_bytes()[:-8])
        found = server.client.post("/run/damaged", json={"input": "w1"})
    assert (found.status_code, found.json()) == (503, {"error": UNREADABLE})


def test_other_machines_without_keys_are_warned_of(models: Path):
    with serving(models / "quick", "--host", "0.0.0.0", errors="regard: anybody who reaches 0.0.0.0 may ask.*") as each:
        assert httpx.get(f"http://127.0.0.1:{each.port}/health", headers={"Host": "my.example"}).status_code == 200


def test_without_the_extra_one_line_says_what_to_install(models: Path):
    code = "import sys; sys.modules['uvicorn'] = None; sys.argv = ['regard', *sys.argv[1:]]\n"
    code += "from regard.cli import main; main()"
    for command in ("serve", "look"):
        arguments = [sys.executable, "-c", code, command, str(models / "quick")]
        found = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert (found.returncode, found.stderr.count("\n")) == (2, 1)
        assert "pip install 'regard[serve]'" in found.stderr
