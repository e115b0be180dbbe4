"""The live page answers on this machine, and refuses what it must."""

import http.client
import json
import threading
from collections.abc import Iterator

import pytest
import torch

from regard.errors import RegardError
from regard.look import live
from regard.look.record import Map, Record, Side


def looker(text: str) -> Record:
    if text == "bad":
        raise RegardError("this text cannot be looked at")
    side = Side(tuple(text))
    return Record(text, {"source": side}, (Map("m", "self", "source", "source", torch.eye(len(text))[None], (0,)),))


@pytest.fixture
def port() -> Iterator[int]:
    server = live.server([looker, looker])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def ask(port: int, method: str, path: str, body: str | None = None, host: str = "127.0.0.1") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, body, {"Host": f"{host}:{port}"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_the_page_and_the_records_of_every_model(port: int):
    status, page = ask(port, "GET", "/")
    assert status == 200
    assert "data-live" in page
    status, found = ask(port, "POST", "/look", json.dumps({"text": "abc"}))
    assert status == 200
    assert [record["title"] for record in json.loads(found)] == ["abc", "abc"]


@pytest.mark.parametrize("body", ["", "{", "[]", '{"text": 3}', '{"text": " "}', '{"text": "bad"}'])
def test_a_bad_request_is_told_what_is_wrong(port: int, body: str):
    status, found = ask(port, "POST", "/look", body)
    assert status == 400
    assert json.loads(found)["error"]


def test_other_places_and_names_are_refused(port: int):
    assert ask(port, "GET", "/etc/passwd")[0] == 404
    assert ask(port, "GET", "/", host="evil.example")[0] == 403
    assert ask(port, "POST", "/look", json.dumps({"text": "abc"}), host="evil.example")[0] == 403
