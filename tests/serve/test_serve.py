"""`regard serve`: answers are those of `regard run`, whoever else asks; what is wrong is said in the right shape."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from serving import PATIENCE, Running, offline, serving, until

from made_models import WORDS, write_model

TEXTS = [
    " ".join(WORDS[start : start + length]) for start, length in ((0, 3), (5, 1), (2, 9), (7, 4), (20, 14), (1, 2))
]
DECODING = {"beam": 2, "max_length": 12}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny", ending=4.0, decoding=DECODING)


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[Running]:
    limits = ["--max-body", "20000", "--max-characters", "5000", "--max-batch", "64", "--max-beam", "8"]
    with serving(model, f"again={model}", "--workers", "2", *limits) as running:
        yield running


def same(found: list[Any], expected: list[Any]) -> bool:
    """Whether rows are equal, scores up to rounding: it depends on what is computed together."""
    scores = [[each.pop("score") for row in rows for each in row["answers"]] for rows in (found, expected)]
    return found == expected and scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_answers_are_those_of_run(server: Running, model: Path):
    assert same(server.run("tiny", TEXTS), offline(model, *TEXTS))
    assert same([server.run("tiny", text) for text in TEXTS], offline(model, *TEXTS))
    options = ("--n-best=2", "--beam=3", "--alignment")
    assert same(server.run("again", TEXTS, n_best=2, beam=3, alignment=True), offline(model, *TEXTS, options=options))


def test_an_answer_does_not_depend_on_others_that_are_asked_at_once(server: Running, model: Path):
    before = server.metric("regard_batch_size_count")
    asked = [TEXTS[number % len(TEXTS)] for number in range(192)]
    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(lambda text: server.run("tiny", text), asked))
    assert same(found, offline(model, *asked))
    assert server.metric("regard_batch_size_count") - before < 192  # some were answered together


def test_draws_depend_on_the_seed_alone(server: Running):
    drawn = [server.run("tiny", TEXTS, sample=True, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert server.run("tiny", TEXTS[2], sample=True, seed=1)["answers"][0]["text"] == drawn[0][2]["answers"][0]["text"]


def test_the_front_does_not_import_torch(server: Running):
    server.run("tiny", TEXTS)
    assert "torch" not in Path(f"/proc/{server.process.pid}/maps").read_text()


def test_the_front_imports_little():
    """Workers start only after these imports; numpy and tokenizers alone would take as long as all of them."""
    heavy = "{'torch', 'numpy', 'tokenizers', 'ctranslate2'} & set(sys.modules)"
    code = f"import sys, regard.cli, regard.commands.serve, regard.serve.running; print({heavy})"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.strip() == "set()"


def test_long_texts_are_split_and_joined(server: Running):
    sentences = [f"{' '.join(WORDS[start : start + 30])}." for start in range(7)]
    text = "  " + "\n\n".join(" ".join(sentences) for _ in range(3)) + " \n"
    found = server.run("tiny", text)["answers"][0]["text"]
    assert found.startswith("  ")
    assert found.endswith(" \n")
    assert found.count("\n\n") == 2


def test_sentences_whose_answer_might_not_fit_together_are_answered_one_by_one(server: Running, model: Path):
    sentences = [f"{' '.join(WORDS[start : start + 5])}." for start in (0, 7, 20, 11)]  # of 6 tokens, half of 12
    expected = " ".join(row["answers"][0]["text"] for row in offline(model, *sentences))
    assert server.run("tiny", " ".join(sentences))["answers"][0]["text"] == expected
    short = "w1 w2. w3."  # fits
    assert same([server.run("tiny", short)], offline(model, short))


def test_an_answer_that_is_cut_says_so(tmp_path: Path):
    model = write_model(tmp_path / "endless", ending=-40.0, decoding={"beam": 1, "max_length": 5})
    (row,) = offline(model, "w1 w2")
    assert row["answers"][0]["truncated"] is True
    assert len(row["answers"][0]["tokens"]) == 5
    with serving(model, "--workers", "1", "--languages", "en,de") as server:
        assert server.run("endless", "w1 w2")["answers"][0]["truncated"] is True
        assert server.run("endless", "w1 w2. w3 w4. w5 w6.")["answers"][0]["truncated"] is True
        fields = {"source": "en", "target": "de"}
        assert server.client.post("/translate", json={"q": "w1", **fields}).json()["truncated"] is True
        listed = server.client.post("/translate", json={"q": ["w1", "7"], **fields}).json()
        assert listed["truncated"] == [True, False]
        file = {"file": ("a.txt", b"w1 w2\n")}
        assert server.client.post("/translate_file", data=fields, files=file).json()["truncated"] is True
        assert server.client.post("/", json={"inputs": "w1"}).json()[0]["truncated"] is True


def test_who_watches_over_it_is_told(server: Running):
    for path in ("/health", "/ready", "/v2/health/live", "/v2/health/ready", "/v2/models/tiny/ready"):
        assert server.client.get(path).status_code == 200
    assert server.client.get("/v2/models/other/ready").status_code == 404
    server.run("tiny", "w1")
    for name in ("regard_requests_total", "regard_request_duration_seconds_count", "regard_queue_duration_seconds_sum"):
        assert server.metric(name) > 0
    assert server.metric("regard_model_info") == 2
    assert server.metric("regard_workers") == 2
    assert 'model="tiny",status="200"' in server.client.get("/metrics").text


def test_models_and_documentation_are_shown(server: Running):
    found = server.client.get("/models").json()
    assert [each["name"] for each in found] == ["tiny", "again"]
    assert found[0]["pipeline"] == "translation"
    assert "/run/{model}" in server.client.get("/openapi.json").json()["paths"]
    page = server.client.get("/docs").text
    assert "Content-Security-Policy" in page
    assert all(each in page for each in ("/run/{model}", "/v1/completions", "no_repeat_ngram", "list of string"))
    assert not re.search(r"<script|@import|url\(|(src|href)=.(https?:)?//", page)
    page = server.client.get("/").text
    assert "data-live" in page
    assert "again" in page


def test_a_record_is_looked_at(server: Running):
    found = server.client.post("/look", json={"text": "w1 w2", "model": "again"}).json()
    assert [record["sides"]["source"]["items"][:2] for record in found] == [["w1", "w2"]]
    assert found[0]["model"]["name"] == "again"  # and not where its directory is
    assert server.client.post("/look", json={"text": " "}).status_code == 400
    assert server.client.post("/look", json={"text": "w1", "layer": 77}).status_code == 400


BAD = [
    (b"{", 400),
    (b"", 400),
    (b"[]", 422),
    (b'{"input": "\xff"}', 400),
    (b"[" * 9_000, 400),
    (b'{"input": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", 400),
    (b'{"input": ' + b"[" * 80 + b"]" * 80 + b"}", 400),
    (b'{"input": "w1\\u0000"}', 400),
    (b'{"input": "\\ud800"}', 400),
    (b'{"input": 3}', 400),
    (b'{"inputs": []}', 413),
    (b'{"inputs": ["w1"], "input": "w1"}', 400),
    (b"{}", 400),
    (b'{"input": "w1", "other": 1}', 422),
    (b'{"input": "w1", "options": {"beam": 99}}', 400),
    (b'{"input": "w1", "options": {"beam": 0}}', 422),
    (b'{"input": "w1", "options": {"stop": ["x"]}}', 400),
    (b'{"input": "w1", "options": {"temperature": 1e999}}', 400),
    (b'{"input": "' + b"w" * 5_001 + b'"}', 413),
    (b'{"inputs": [' + b'"w1",' * 64 + b'"w1"]}', 413),
    (b'{"input": "' + b"w" * 20_000 + b'"}', 413),
]


@pytest.mark.parametrize(("body", "status"), BAD, ids=lambda value: repr(value)[:40])
def test_a_bad_request_is_told_what_is_wrong(server: Running, body: bytes, status: int):
    response = server.client.post("/run/tiny", content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, list(response.json())) == (status, ["error"])


def test_other_paths_methods_and_kinds_are_refused(server: Running):
    client = server.client
    assert client.get("/etc/passwd").json() == {"error": "there is nothing at /etc/passwd"}
    for name in ("other", "%2e%2e%2ftiny", "tiny%00", "/tiny"):
        assert client.post(f"/run/{name}", json={"input": "w1"}).status_code in (404, 405)
    assert client.get("/run/tiny").status_code == 405
    assert (
        client.post("/run/tiny", content=b'{"input": "w1"}', headers={"Content-Type": "text/plain"}).status_code == 415
    )
    assert client.post("/admin/reload").status_code == 403  # there are no keys


def test_other_hosts_and_origins_are_refused(server: Running):
    client, own = server.client, f"http://127.0.0.1:{server.port}"
    assert client.get("/health", headers={"Host": "evil.example"}).status_code == 403
    for host in (f"LocalHost:{server.port}", "localhost", "[::1]", f"[::1]:{server.port}"):
        assert client.get("/health", headers={"Host": host}).status_code == 200
    assert client.get("/health", headers={"Host": "[::2]"}).status_code == 403
    for origin, status in ((own, 200), ("https://evil.example", 403), ("null", 403), ("http://[::1", 403)):
        response = client.post("/run/tiny", json={"input": "w1"}, headers={"Origin": origin})
        assert response.status_code == status
        assert "access-control-allow-origin" not in response.headers
    preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    assert client.options("/run/tiny", headers=preflight).status_code == 403


def test_silent_and_slow_connections_do_not_keep_others_waiting(server: Running):
    head = f"POST /run/tiny HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
    for number, connection in enumerate(idle):
        connection.sendall(["", "POST /r", head, f"{head}Content-Length: 99\r\n\r\n{{"][number % 4].encode())
    half = socket.create_connection(("127.0.0.1", server.port))
    half.sendall(f"{head}Content-Length: 99\r\n\r\n{{".encode())
    half.shutdown(socket.SHUT_WR)
    assert server.run("tiny", TEXTS[0])["input"] == TEXTS[0]
    assert half.recv(1) == b""
    for connection in (*idle, half):
        connection.close()


def test_a_hundred_megabytes_are_refused_before_they_are_read(server: Running):
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        head = f"POST /run/tiny HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 104857600\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 413")


def test_a_worker_that_is_killed_comes_back(server: Running):
    before, restarts = server.workers(), server.metric("regard_worker_restarts_total")
    for number in before:
        os.kill(number, signal.SIGKILL)
    until(lambda: server.metric("regard_worker_restarts_total") == restarts + 2)
    assert server.run("tiny", TEXTS[0])["input"] == TEXTS[0]
    assert not set(before) & set(server.workers())


def test_a_port_in_use_and_what_is_no_model_are_one_line(server: Running, model: Path, tmp_path: Path):
    for arguments, said in (
        ([str(model), "--port", str(server.port)], "cannot be used"),
        ([str(tmp_path)], "is not a model directory"),
        ([str(model), str(model)], "two models are called 'tiny'"),
        ([str(model), "--keys", str(tmp_path / "none")], "cannot be read"),
    ):
        command = [sys.executable, "-m", "regard", "serve", *arguments]
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert (found.returncode, found.stderr.count("\n")) == (2, 1)
        assert said in found.stderr
