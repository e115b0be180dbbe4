"""POST /run answers every task as the model itself does: texts, pictures, sets, graphs and series."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import safetensors.torch
import tomli_w
from huggingface_hub import InferenceClient
from PIL import Image
from rich.console import Console
from serving import PATIENCE, Running, in_a_thread, serving

import regard
from bench.same_cases import write_data
from regard import Model, recipes
from regard.api.body import completed
from regard.api.training import prepare, settle
from regard.commands.serve import WORKER
from regard.directory import WEIGHTS, ModelDirectory
from regard.serve.process import python
from regard.serve.running import describe
from regard.serve.server import Server
from regard.serve.settings import Settings
from regard.tasks import TASKS
from regard.training.distribution import Crew
from regard.training.weights import weights_of

BERT = {"kind": "bert", "layers": 1, "width": 16, "heads": 2, "maximum": 64}
QUESTION = {"question": "where is the dog ?", "context": "the dog is in Paris . the fox is in Rome ."}
SENTENCE = "the small dog sees a red house near Paris"


def picture() -> bytes:
    file = io.BytesIO()
    Image.fromarray(numpy.arange(12 * 12 * 3, dtype=numpy.uint8).reshape(12, 12, 3)).save(file, "PNG")
    return file.getvalue()


PICTURE = {"picture": base64.b64encode(picture()).decode()}
SERIES = {"unique_id": "a", "ds": [f"202{at // 12}-{1 + at % 12:02}" for at in range(24)], "y": [3, 5, 4, 6] * 6}
# what a request holds for each task, and its [data] and [model]
CASES: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any]]] = {
    "write": (["the small", "a"], {"train": "text.txt", "block": 16}, {"kind": "gpt", **{**BERT, "kind": "gpt"}}),
    "fill": (["the small [MASK] sees a house ."], {"train": "documents.txt", "hold_out": 8}, BERT),
    "embed": ([SENTENCE, "a fox"], {"train": "similar.tsv", "hold_out": 9}, BERT),
    "classify": ([SENTENCE, "a fox"], {"train": "labels.tsv", "hold_out": 9}, BERT),
    "tag": ([SENTENCE, ["Anna", "sleeps"]], {"train": "tags.txt", "hold_out": 9}, BERT),
    "answer": ([QUESTION, ["who?", "nobody ."]], {"train": "questions.jsonl", "hold_out": 9, "max_length": 40}, BERT),
    "rank": ([{"query": "a fox", "texts": ["a dog", "the fox"]}], {"train": "ranked.tsv", "hold_out": 4}, BERT),
    "see": (
        [PICTURE, f"data:image/png;base64,{PICTURE['picture']}"],
        {"train": "seen", "hold_out": 2},
        {"kind": "vit", "layers": 1, "width": 16, "heads": 2},
    ),
    "caption": (
        [PICTURE],
        {f"{name}": f"drawn:{name}?examples=9&objects=1" for name in ("train", "valid")},
        {"kind": "caption", "width": 12, "filters": 4, "stride": 8},
    ),
    "sets": (
        [["honey", "tea"], {"set": ["salt"]}],
        {"train": "sets.jsonl", "hold_out": 9},
        {"kind": "deep_sets", "width": 8},
    ),
    "nodes": ([17, "3", {"node": 5}], {"train": "graph.npz"}, {"kind": "gat", "width": 8, "heads": 2}),
    "forecast": (
        [SERIES],
        {"train": "series.csv", "horizon": 3, "season_length": 4},
        {"kind": "forecaster", "width": 8},
    ),
}


def write_more(folder: Path) -> None:
    """The data of tasks that are not about texts."""
    random = numpy.random.default_rng(0)
    rows = [f"a {one}\tthe {other}\t{int(one == other)}\n" for one in ("fox", "dog") * 6 for other in ("fox", "dog")]
    (folder / "ranked.tsv").write_text("".join(rows))
    for label, shade in (("dark", 30), ("light", 200)):
        (folder / "seen" / label).mkdir(parents=True)
        for number in range(6):
            pixels = random.integers(shade, shade + 50, (12, 12, 3), dtype=numpy.uint8)
            Image.fromarray(pixels).save(folder / "seen" / label / f"{number}.png")
    things = ["bread", "milk", "honey", "salt", "tea"]
    sets = [random.choice(things, random.integers(1, 5)).tolist() for _ in range(40)]
    labelled = [{"set": each, "label": "sweet" if "honey" in each else "plain"} for each in sets]
    (folder / "sets.jsonl").write_text("".join(json.dumps(each) + "\n" for each in labelled))
    labels, order = random.integers(0, 2, 30), random.permutation(30)
    numpy.savez(
        folder / "graph.npz",
        features=random.random((30, 4)).astype(numpy.float32),
        edges=random.integers(0, 30, (90, 2)),
        labels=labels,
        train_idx=order[:15],
        val_idx=order[15:22],
        test_idx=order[22:],
        classes=numpy.array(["red", "blue"]),
    )
    days = [
        f"a,{2000 + at // 12}-{1 + at % 12:02},{10 + at % 7 + 3 * math.sin(at * math.pi / 2):.3f}\n" for at in range(96)
    ]
    (folder / "series.csv").write_text("unique_id,ds,y\n" + "".join(days))


def untrained(task: str, folder: Path) -> Model:
    """A model of random weights, with what a run learns from the data before its first step."""
    _, data, model = CASES[task]
    named = {
        key: str(folder / "data" / each) if key == "train" and ":" not in str(each) else each
        for key, each in data.items()
    }
    table = {"task": task, "data": named, "model": model, "training": {"threads": 1, "precision": "float32"}}
    if task in ("write", "caption"):
        table["decoding"] = {"beam": 1, "max_length": 8}
    recipe, body = completed(recipes.parse(tomli_w.dumps(table), where="test"))
    directory, crew = ModelDirectory(folder / task), Crew.here()
    directory.path.mkdir()
    settle(directory, recipe, crew)
    prepared = prepare(recipe, body, directory, crew, begun=False, console=Console(quiet=True))
    safetensors.torch.save_file(weights_of(prepared.module), directory.path / WEIGHTS)
    return regard.load(directory.path)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    folder = tmp_path_factory.mktemp("tasks")
    write_data(folder / "data")
    write_more(folder / "data")
    return {task: untrained(task, folder) for task in CASES}


@pytest.fixture(scope="module")
def server(models: dict[str, Model]) -> Iterator[Running]:
    with serving(
        *(model.path for model in models.values()), "--workers", "1", errors="(regard: [^\n]*unknown[^\n]*\n)*"
    ) as each:
        yield each


@pytest.mark.parametrize("task", CASES)
def test_answers_are_those_of_the_model(server: Running, models: dict[str, Model], task: str):
    model, inputs = models[task], CASES[task][0]
    asked = [model.surface.from_request(each) for each in inputs]
    options = model.options()
    expected = [model.surface.to_json(each) for each in model.task.answer(model.module, asked, options)]
    found = [row["answers"] for row in server.run(task, inputs)]
    close(found, json.loads(json.dumps(expected)))
    alone = [server.client.post(f"/run/{task}", json={"input": each}).json() for each in inputs]
    assert [row["input"] for row in alone] == inputs
    close([row["answers"] for row in alone], found)


def close(found: Any, expected: Any) -> None:
    """Equal, numbers up to rounding; a server tells more of a text than was asked for here."""
    if isinstance(expected, dict):
        assert found.keys() >= expected.keys()
        for key, value in expected.items():
            close(found[key], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            close(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-4, rel=1e-4)
    else:
        assert found == expected


def test_every_task_is_asked():
    assert set(TASKS) - set(CASES) == {"translate", "transcribe"}  # which the other tests ask


@pytest.mark.parametrize(
    ("task", "given"),
    [
        *(("see", each) for each in ("photo.png", {"path": "/etc/passwd"}, {"picture": "eHg="}, {"picture": 3}, "")),
        *(("forecast", each) for each in ("series.csv", "/etc/passwd", {"y": "series.csv"}, {"y": []}, [1, "a"])),
        *(("caption", each) for each in ("scene:red star 20 20 9", {"path": "photo.png"})),
        *(("answer", "no passage"), ("rank", {"query": "a"}), ("sets", {"set": 3}), ("nodes", "none"), ("tag", [3])),
    ],
)
def test_what_is_no_input_of_a_task_is_refused(server: Running, task: str, given: object):
    response = server.client.post(f"/run/{task}", json={"input": given})
    assert response.status_code == 400
    assert list(response.json()) == ["error"]
    assert "No such file" not in response.text
    assert "does not exist" not in response.text


@pytest.mark.parametrize("task", ["classify", "see", "forecast", "nodes"])
def test_every_task_is_looked_at(server: Running, task: str):
    given = CASES[task][0][0]
    body = {"text" if task == "classify" else "input": given, "model": task}
    (record,) = server.client.post("/look", json=body).json()
    assert record["maps"]


def test_a_picture_is_sent_as_it_is(server: Running):
    """huggingface_hub sends bytes without parameters as they are, and otherwise in JSON."""
    expected = server.run("see", PICTURE)["answers"]
    client = InferenceClient(f"{server.url}/models/see", timeout=PATIENCE)
    found = client.image_classification(picture())
    close([{"label": each.label, "score": each.score} for each in found], expected)
    assert [each.label for each in client.image_classification(picture(), top_k=1)] == [expected[0]["label"]]
    for kind in ("image/png", "application/octet-stream"):
        headers = {"Content-Type": kind}
        close(server.client.post("/models/see", content=picture(), headers=headers).json(), expected)
        refused = server.client.post("/models/see", content=b"no picture", headers=headers)
        assert (refused.status_code, refused.json()["error_type"]) == (422, "Validation")
    told = InferenceClient(f"{server.url}/models/caption", timeout=PATIENCE).image_to_text(picture())
    assert told.generated_text == server.run("caption", PICTURE)["answers"][0]["text"]


def test_a_text_comes_in_pieces_and_a_client_that_leaves_stops_it(models: dict[str, Model]):
    model, options = models["write"], {"max_length": 8}

    async def ask() -> None:
        server = Server.started(Settings(workers=1), [*python(WORKER), "auto", "float32", "{}"])
        server.pool.follow()
        try:
            await describe({"write": model.path}, server)
            pieces = [piece async for piece in server.stream("write", "the small", options)]
            assert pieces == list(model.pieces("the small", model.options(**options)))
            (tokens,) = await server.tokenize("write", ["the small"])
            assert [each.number for each in tokens] == model.task.tokenizer.encode(["the small"])[0]
            endless = server.stream("write", "the", {"max_length": 4000, "sample": True})
            await anext(endless)
            await endless.aclose()
            (found,) = await asyncio.wait_for(server.ask("write", ["a"], {"max_length": 2}), PATIENCE)
            assert found.said <= 3
        finally:
            await server.pool.end()

    in_a_thread(ask())
