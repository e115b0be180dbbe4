"""The openai client works unchanged: completions, streams, embeddings, models and errors."""

from __future__ import annotations

import base64
import struct
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import openai
import pytest
import torch
from serving import Running, in_a_thread, serving

import regard
import tiny_bert
from regard import Model
from regard.api.exchange import import_model
from regard.api.writer import Writer
from regard.serve.failures import ServeError
from regard.serve.protocols.openai import _after
from written_models import written

PROMPTS = ["the cat", "a big red", "the dog sat on"]
TEXTS = ["the cat sat", "a happy dog ran in paris"]


@pytest.fixture(scope="module")
def writer() -> Writer:
    return written("gpt")


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("models")
    tiny_bert.save(folder / "theirs", initializer_range=0.4)
    import_model(folder / "theirs", folder / "vectors")
    return regard.load(folder / "vectors")


@pytest.fixture(scope="module")
def server(writer: Writer, embedder: Model) -> Iterator[Running]:
    with serving(f"gpt={writer.path}", f"vectors={embedder.path}", "--workers", "1", "--max-batch", "20") as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


def greedy(writer: Writer, prompt: str, length: int = 16, **options: Any) -> str:
    return str(writer(prompt, beam=1, max_length=length, **options))


def test_completions_without_chance_are_those_of_run(client: openai.OpenAI, writer: Writer) -> None:
    found = client.completions.create(model="gpt", prompt=PROMPTS, temperature=0)
    assert [choice.text for choice in found.choices] == [greedy(writer, prompt) for prompt in PROMPTS]
    assert [choice.index for choice in found.choices] == [0, 1, 2]
    assert found.object == "text_completion"
    assert found.model == "gpt"
    assert found.id.startswith("cmpl-")
    assert {choice.finish_reason for choice in found.choices} == {"length"}
    assert found.usage is not None
    assert found.usage.prompt_tokens == sum(map(len, PROMPTS))  # a token is a character
    assert found.usage.completion_tokens == 3 * 16
    assert found.usage.total_tokens == found.usage.prompt_tokens + 3 * 16


def test_draws_are_those_of_run_with_the_same_seed(client: openai.OpenAI, writer: Writer) -> None:
    drawn = [client.completions.create(model="gpt", prompt="the", n=3, seed=seed, max_tokens=20) for seed in (5, 5, 6)]
    texts = [[choice.text for choice in each.choices] for each in drawn]
    assert texts[0] == texts[1] != texts[2]
    offline = writer.answers(["the"], sample=True, seed=5, n_best=3, max_length=20)[0]
    assert texts[0] == [answer.text for answer in offline]
    best = client.completions.create(model="gpt", prompt="the", n=1, best_of=3, seed=5, max_tokens=20)
    assert [choice.text for choice in best.choices] == texts[0][:1]
    warm = client.completions.create(model="gpt", prompt="the", seed=5, temperature=0.5, top_p=0.9, max_tokens=20)
    assert warm.choices[0].text == writer("the", sample=True, seed=5, temperature=0.5, top_p=0.9, max_length=20)


def test_stop_and_echo(client: openai.OpenAI, writer: Writer) -> None:
    whole = greedy(writer, "the cat")
    stop = whole[5:7]
    cut = client.completions.create(model="gpt", prompt="the cat", temperature=0, stop=stop).choices[0]
    assert cut.text == whole[: whole.index(stop)]
    assert cut.finish_reason == "stop"
    echoed = client.completions.create(model="gpt", prompt="the cat", temperature=0, echo=True, stop=[stop]).choices[0]
    assert echoed.text == f"the cat{cut.text}"


def test_log_probabilities_are_those_of_the_model(client: openai.OpenAI, writer: Writer) -> None:
    found = client.completions.create(model="gpt", prompt="the cat", temperature=0, echo=True, logprobs=3, max_tokens=6)
    choice = found.choices[0]
    assert choice.logprobs is not None
    assert "".join(choice.logprobs.tokens or []) == choice.text
    assert choice.logprobs.text_offset == list(range(len(choice.text)))
    ids = torch.tensor(writer.task.tokenizer.encode([choice.text]))
    with torch.no_grad():
        expected = writer.module.output(writer.module(ids[:, :-1]))[0].log_softmax(-1)
    told = choice.logprobs.token_logprobs or []
    assert told[0] is None
    assert told[1:] == pytest.approx(expected.gather(-1, ids[0, 1:, None])[:, 0].tolist(), abs=1e-4)
    top = choice.logprobs.top_logprobs or []
    assert sorted(top[1].values()) == pytest.approx(sorted(expected[0].topk(3).values.tolist()), abs=1e-4)
    alone = client.completions.create(model="gpt", prompt="the cat", temperature=0, logprobs=0, max_tokens=6).choices[0]
    assert alone.logprobs is not None
    assert alone.logprobs.token_logprobs == pytest.approx(told[7:], abs=1e-4)
    assert alone.logprobs.text_offset == list(range(6))
    scored = client.completions.create(model="gpt", prompt="the cat", echo=True, logprobs=0, max_tokens=0).choices[0]
    assert scored.text == "the cat"
    assert scored.logprobs is not None
    again = scored.logprobs.token_logprobs or []
    assert again[0] is None
    assert again[1:] == pytest.approx(told[1:7], abs=1e-4)


def test_streams(client: openai.OpenAI, writer: Writer) -> None:
    options: Any = {"model": "gpt", "prompt": PROMPTS[:2], "temperature": 0, "max_tokens": 12, "stream": True}
    chunks = list(client.completions.create(**options, stream_options={"include_usage": True}, echo=True))
    *pieces, last = chunks
    for place, prompt in enumerate(PROMPTS[:2]):
        own = [chunk.choices[0] for chunk in pieces if chunk.choices[0].index == place]
        assert "".join(choice.text for choice in own) == prompt + greedy(writer, prompt, 12)
        assert len(own) > 3
        assert [choice.finish_reason for choice in own] == [None] * (len(own) - 1) + ["length"]
    assert last.choices == []
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (len("".join(PROMPTS[:2])), 24)
    assert {chunk.id for chunk in chunks} == {last.id}
    drawn = {"model": "gpt", "prompt": "the", "seed": 3, "max_tokens": 9}
    whole = client.completions.create(**drawn).choices[0].text
    assert "".join(chunk.choices[0].text for chunk in client.completions.create(**drawn, stream=True)) == whole
    several = [chunk.choices[0].text for chunk in client.completions.create(**drawn, n=2, stream=True)]
    assert several == [choice.text for choice in client.completions.create(**drawn, n=2).choices]


def test_the_events_of_a_stream(server: Running) -> None:
    fields = {"model": "gpt", "prompt": "the", "max_tokens": 2, "stream": True}
    response = server.client.post("/v1/completions", json=fields)
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, done, rest = response.text.split("\n\n")
    assert all(event.startswith("data: {") for event in events)
    assert (done, rest) == ("data: [DONE]", "")


def test_what_fails_in_a_stream_is_an_event_that_the_client_raises() -> None:
    async def others() -> AsyncIterator[str]:
        yield "data: {}\n\n"
        raise ServeError(503, "unavailable", "the worker ended")

    async def collected() -> str:
        return "".join([event async for event in _after("data: {}\n\n", others())])

    said = in_a_thread(collected())
    header = {"content-type": "text/event-stream"}
    transport = httpx.MockTransport(lambda _request: httpx.Response(200, text=said, headers=header))
    broken = openai.OpenAI(base_url="http://test/v1", api_key="x", http_client=httpx.Client(transport=transport))
    with pytest.raises(openai.APIError, match="the worker ended"):
        list(broken.completions.create(model="gpt", prompt="a", stream=True))


def test_embeddings(server: Running, client: openai.OpenAI, embedder: Model) -> None:
    expected = [embedder(text) for text in TEXTS]
    found = client.embeddings.create(model="vectors", input=TEXTS)
    assert [row.index for row in found.data] == [0, 1]
    for row, vector in zip(found.data, expected, strict=True):
        assert row.embedding == pytest.approx(vector, abs=1e-5)
    assert found.usage.prompt_tokens == found.usage.total_tokens > 0
    one = client.embeddings.create(model="vectors", input=TEXTS[0], encoding_format="float")
    assert one.data[0].embedding == pytest.approx(expected[0], abs=1e-5)
    raw = server.client.post("/v1/embeddings", json={"model": "vectors", "input": "a", "encoding_format": "base64"})
    packed = base64.b64decode(raw.json()["data"][0]["embedding"])
    assert struct.unpack(f"<{len(packed) // 4}f", packed) == pytest.approx(embedder("a"), abs=1e-5)


def test_models(client: openai.OpenAI) -> None:
    assert [(model.id, model.object) for model in client.models.list()] == [("gpt", "model"), ("vectors", "model")]
    assert client.models.retrieve("gpt").owned_by == "regard"


@pytest.mark.parametrize(
    ("changes", "sentence", "param"),
    [
        ({"model": "vectors"}, "'vectors' answers with vectors", "model"),
        ({"prompt": [1, 2]}, "prompt: numbers of tokens are not read", "prompt"),
        ({"prompt": []}, "prompt: give a text", "prompt"),
        ({"max_tokens": -1}, "max_tokens", "max_tokens"),
        ({"max_tokens": 0}, "max_tokens: 0", "max_tokens"),
        ({"max_tokens": 100_000}, "max_tokens is 100000", "max_tokens"),
        ({"temperature": 3}, "temperature", "temperature"),
        ({"n": 21}, "21 answers", "n"),
        ({"n": 2, "best_of": 1}, "best_of", "best_of"),
        ({"suffix": "x"}, "suffix is not supported", "suffix"),
        ({"frequency_penalty": 1.0}, "frequency_penalty is not supported", "frequency_penalty"),
        ({"extra_body": {"unheard": 1}}, "unheard", "unheard"),
        ({"logprobs": 9}, "logprobs", "logprobs"),
        ({"stream": True, "prompt": "a\0"}, "NUL", None),
        ({"prompt": "the cat sat " * 9}, "only the last 12 of 108 tokens are read", None),
        ({"prompt": "the cat sat " * 9, "stream": True}, "only the last 12 of 108 tokens are read", None),
    ],
)
def test_errors(client: openai.OpenAI, changes: dict[str, Any], sentence: str, param: str | None) -> None:
    with pytest.raises(openai.BadRequestError, match=sentence) as error:
        client.completions.create(**({"model": "gpt", "prompt": "a"} | changes))
    assert (error.value.type, error.value.param) == ("invalid_request_error", param)


def test_unknown_models_and_bodies(client: openai.OpenAI, server: Running) -> None:
    with pytest.raises(openai.NotFoundError, match="there is no model 'other'") as error:
        client.completions.create(model="other", prompt="a")
    assert (error.value.code, error.value.param) == ("model_not_found", "model")
    response = server.client.post("/v1/completions", content=b"{", headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"].keys() == {"message", "type", "param", "code"}
    response = server.client.post("/v1/embeddings", content=b"{}", headers={"Content-Type": "text/plain"})
    assert (response.status_code, response.json()["error"]["type"]) == (415, "invalid_request_error")


def test_what_there_is_not_is_said_in_the_shape_of_openai(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="there is nothing at /v1/chat/completions") as error:
        client.chat.completions.create(model="gpt", messages=[{"role": "user", "content": "a"}])
    assert error.value.type == "not_found_error"


def test_null_is_as_a_field_that_is_left_out(server: Running, writer: Writer) -> None:
    nulls = dict.fromkeys(
        ("max_tokens", "n", "stop", "top_p", "stream", "stream_options", "echo", "logprobs", "suffix")
    )
    response = server.client.post(
        "/v1/completions", json={"model": "gpt", "prompt": PROMPTS[0], "temperature": 0, **nulls}
    )
    assert response.json()["choices"][0]["text"] == greedy(writer, PROMPTS[0])


def test_keys(embedder: Model) -> None:
    with serving(f"vectors={embedder.path}", "--workers", "1", env={"REGARD_KEYS": "good"}) as server:
        url = f"{server.url}/v1"
        with (
            openai.OpenAI(base_url=url, api_key="bad", max_retries=0) as client,
            pytest.raises(openai.AuthenticationError) as error,
        ):
            client.models.list()
        assert error.value.code == "invalid_api_key"
        with openai.OpenAI(base_url=url, api_key="good") as client:
            assert client.models.list().data[0].id == "vectors"
