"""The live page answers on this machine, refuses what it must, and never with a traceback."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pytest
import torch

from regard.errors import RegardError
from regard.look.record import Map, Record
from regard.serve import live
from regard.serve.settings import Limits
from regard.tasks.base import Side

going_on = threading.Event()  # what "slow" waits for
begun = threading.Semaphore(0)  # released when a look begins


def looker(text: str, _first: int | None) -> Record:
    begun.release()
    if text == "bad":
        raise RegardError("this text cannot be looked at")
    if text == "broken":
        raise RuntimeError("shapes do not fit")
    if text == "slow":
        going_on.wait(60)
    side = Side(tuple(text))
    return Record(text, {"source": side}, (Map("m", "self", "source", "source", torch.eye(len(text))[None], (0,)),))


@contextmanager
def live_page(*lookers: live.Looker, sending: float = 20.0) -> Iterator[int]:
    """The port of a live page, served in another thread; nobody's mistake is a traceback there."""
    page = live.LivePage(lookers, sending=sending)
    thread = threading.Thread(target=page.run, daemon=True)
    thread.start()
    yield page.port
    going_on.set()
    page.stop()
    thread.join()


@pytest.fixture
def port(capfd: pytest.CaptureFixture[str]) -> Iterator[int]:
    going_on.clear()
    while begun.acquire(blocking=False):
        pass
    with live_page(looker, looker) as number:
        yield number
    assert capfd.readouterr().err == ""


def ask(
    port: int, method: str, path: str, body: str | None = None, host: str = "127.0.0.1", **headers: str
) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, {"Host": f"{host}:{port}", "Content-Type": "application/json", **given})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def look(port: int, text: str, **headers: str) -> tuple[int, Any]:
    status, found = ask(port, "POST", "/look", json.dumps({"text": text}), **headers)
    return status, json.loads(found)


def raw(port: int, request: str) -> bytes:
    """What comes back for bytes that no library would send."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(request.format(host=f"127.0.0.1:{port}").encode())
        found = b""
        while part := connection.recv(1 << 16):
            found += part
        return found


def test_the_page_and_the_records_of_every_model(port: int):
    status, page = ask(port, "GET", "/")
    assert status == 200
    assert "data-live" in page
    status, found = look(port, "abc")
    assert status == 200
    assert [record["title"] for record in found] == ["abc", "abc"]


@pytest.mark.parametrize(
    "body", ["", "{", "[]", '{"text": 3}', '{"text": " "}', '{"text": "bad"}', '{"input": "a"}', "[" * 60_000]
)
def test_a_bad_request_is_told_what_is_wrong(port: int, body: str):
    status, found = ask(port, "POST", "/look", body)
    assert status in (400, 422)
    assert json.loads(found)["error"]


def test_a_text_that_is_too_long_or_half_a_character_is_refused(port: int):
    longest = Limits().looked
    status, found = look(port, "x" * (longest + 1))
    assert (status, found["error"]) == (413, "the request has 20,001 characters; at most 20,000 are read")
    assert look(port, "x" * (live.LARGEST + 1))[0] == 413
    status, found = look(port, "\ud800")
    assert (status, "is not JSON in UTF-8" in found["error"]) == (400, True)


def test_a_model_that_fails_is_answered_with_what_failed(port: int):
    status, found = look(port, "broken")
    assert (status, found["error"]) == (500, "looking at this text failed (RuntimeError: shapes do not fit)")
    assert look(port, "abc")[0] == 200


def test_other_places_and_names_are_refused(port: int):
    assert ask(port, "GET", "/etc/passwd")[0] == 404
    assert ask(port, "GET", "/", host="evil.example")[0] == 403
    assert look(port, "abc", host="evil.example")[0] == 403


def test_pages_of_other_origins_are_refused(port: int):
    assert look(port, "abc", Origin=f"http://127.0.0.1:{port}")[0] == 200
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{port + 1}", "http://[::1"):
        assert look(port, "abc", Origin=origin)[0] == 403
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert look(port, "abc", Content_Type=kind)[0] == 415
    assert look(port, "abc", Content_Type="application/json; charset=utf-8")[0] == 200


@pytest.mark.parametrize("length", ["abc", "1e3", "9" * 5000, "-5", "+7", "²", "999999999"])
def test_a_length_that_is_none_is_told_so(port: int, length: str):
    head = "POST /look HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    found = raw(port, f'{head}Content-Length: {length}\r\n\r\n{{{{"text": "abc"}}}}')
    assert found.startswith((b"HTTP/1.1 400", b"HTTP/1.1 413"))


def test_a_client_that_leaves_is_not_looked_for(port: int):
    body = json.dumps({"text": "slow"})
    head = f"POST /look HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    waiting = []
    for _ in range(3):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        waiting.append(connection)
    assert begun.acquire(timeout=60)
    for connection in waiting:  # with a reset, so that whoever writes to them finds nobody
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
    time.sleep(1)  # the server takes notice of those who left while it is still busy with the first
    going_on.set()
    assert look(port, "abc")[0] == 200
    looks = 0
    while begun.acquire(blocking=False):
        looks += 1
    assert looks == 1 + 2  # the second model for the first client, both models for the last: none for those who left


def test_fifty_at_once_are_all_answered(port: int):
    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(lambda number: look(port, f"text {number}"), range(200)))
    assert [status for status, _ in found] == [200] * 200
    assert [records[0]["title"] for _, records in found] == [f"text {number}" for number in range(200)]


def test_beyond_a_number_of_waiting_texts_others_are_told_to_come_again(port: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "PATIENCE", 0.2)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(look, port, "slow")
        assert begun.acquire(timeout=60)
        status, found = look(port, "abc")
        assert status == 503
        assert "kept the model busy" in found["error"]
        monkeypatch.setattr(live, "PATIENCE", 60)
        with ThreadPoolExecutor(live.WAITING + 3) as others:
            asked = [others.submit(look, port, "abc") for _ in range(live.WAITING + 3)]
            crowded = list(islice(as_completed(asked), 3))
            going_on.set()
            waiting = [each for each in asked if each not in crowded]
            assert {each.result()[0] for each in waiting} == {200}
        for each in crowded:
            status, found = each.result()
            assert status == 503
            assert "texts are waiting already" in found["error"]
        assert first.result()[0] == 200


def test_a_connection_that_falls_silent_is_given_up(capfd: pytest.CaptureFixture[str]):
    head = "POST /look HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    with live_page(looker, sending=0.2) as port:
        for begin in ("", "GET / HT", head):
            assert raw(port, begin) == b""
        said = raw(port, f"{head}Connection: close\r\nContent-Length: 9\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 408")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("port_number", [-1, 65536, 99999])
def test_a_port_that_there_is_not_is_refused(port_number: int):
    with pytest.raises(RegardError, match="there is no port"):
        live.LivePage([looker], port=port_number)


def test_a_long_text_is_asked_for_from_a_token_on() -> None:
    asked: list[tuple[str, int | None]] = []

    def keep(text: str, first: int | None) -> Record:
        asked.append((text, first))
        return looker(text, first)

    with live_page(keep) as port:
        found = [
            ask(port, "POST", "/look", json.dumps({"text": "abc", **more}))[0]
            for more in ({}, {"from": 7}, {"from": -1}, {"from": "7"}, {"from": True}, {"from": 1 << 40})
        ]
    assert found == [200, 200, 422, 422, 422, 422]
    assert asked == [("abc", None), ("abc", 7)]
