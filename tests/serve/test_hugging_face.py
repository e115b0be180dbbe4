"""huggingface_hub.InferenceClient and clients of text-embeddings-inference work unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError
from serving import Running, serving

import regard
import tiny_bert
from made_models import write_model
from regard import Model, recipes
from regard.api.exchange import import_model
from regard.serve.protocols.pipelines import entities_of

TEXT, OTHER = "the happy cat sat on a mat in paris", "a sad dog"
MASKED = "the [MASK] sat on a mat"
QUESTION = {"question": "who sat ?", "context": "the red cat sat on the mat in london ."}
NAMES = ["good", "bad", "so so"]
TAGS = ["O", "B-LOC", "I-LOC"]
HEADS: dict[str, tuple[str, dict[str, Any]]] = {
    "labels": ("BertForSequenceClassification", {"id2label": dict(enumerate(NAMES))}),
    "tags": ("BertForTokenClassification", {"id2label": dict(enumerate(TAGS))}),
    "spans": ("BertForQuestionAnswering", {}),
    "words": ("BertForMaskedLM", {}),
    "vectors": ("BertModel", {}),
}
RANKING = """
task = "rank"
[data]
train = "{folder}/ranked.tsv"
hold_out = 4
[model]
kind = "bert"
layers = 1
width = 16
heads = 2
[training]
steps = 2
warmup = 1
validate_every = 0
threads = 1
"""


def ranking(folder: Path) -> Path:
    rows = [f"a {one}\tthe {other}\t{int(one == other)}\n" for one in ("cat", "dog") * 6 for other in ("cat", "dog")]
    (folder / "ranked.tsv").write_text("".join(rows))
    regard.train(recipes.parse(RANKING.format(folder=folder), where="test"), out=folder / "order")
    return folder / "order"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    folder = tmp_path_factory.mktemp("models")
    paths = {"texts": write_model(folder / "texts", ending=4.0, decoding={"beam": 2, "max_length": 12}, seed=0)}
    for name, (architecture, changes) in HEADS.items():
        tiny_bert.save(folder / "theirs" / name, architecture, initializer_range=0.4, **changes)
        import_model(folder / "theirs" / name, folder / name)
        paths[name] = folder / name
    paths["order"] = ranking(folder)
    return {name: regard.load(path) for name, path in paths.items()}


@pytest.fixture(scope="module")
def server(models: dict[str, Model]) -> Iterator[Running]:
    with serving(*(model.path for model in models.values()), "--workers", "1", "--max-batch", "20") as running:
        yield running


def client(server: Running, model: str | None = None) -> InferenceClient:
    return InferenceClient(f"{server.url}/models/{model}" if model else server.url, timeout=60)


def near(found: Any, expected: Any) -> bool:
    """Whether two JSON values are equal up to rounding."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(near(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(near, found, expected))
    return bool(found == pytest.approx(expected, abs=1e-5)) if isinstance(expected, float) else bool(found == expected)


def test_translation(server: Running, models: dict[str, Model]) -> None:
    assert client(server).translation("w0 w1 w2").translation_text == models["texts"]("w0 w1 w2")  # the first model
    assert client(server, "texts").translation("w5").translation_text == models["texts"]("w5")
    short = client(server).translation("w0 w1 w2", generate_parameters={"max_new_tokens": 2, "num_beams": 1})
    assert short.translation_text == models["texts"]("w0 w1 w2", max_length=2, beam=1)
    several = server.client.post("/", json={"inputs": ["w0", "w1 w2"]}).json()
    assert [row["translation_text"] for row in several] == [models["texts"](text) for text in ("w0", "w1 w2")]


def test_text_classification(server: Running, models: dict[str, Model]) -> None:
    found = client(server, "labels").text_classification(TEXT)
    assert near([dict(label) for label in found], models["labels"](TEXT))
    assert len(client(server, "labels").text_classification(TEXT, top_k=2)) == 2


def test_token_classification(server: Running, models: dict[str, Model]) -> None:
    found = client(server, "tags").token_classification(TEXT)
    expected = models["tags"](TEXT)
    assert expected
    assert [(each.word, each.start, each.end) for each in found] == [
        (e["word"], e["start"], e["end"]) for e in expected
    ]
    grouped = client(server, "tags").token_classification(TEXT, aggregation_strategy="simple")
    assert {each.entity_group for each in grouped} == {"LOC"}
    assert len(grouped) <= len(found)


def test_question_answering(server: Running, models: dict[str, Model]) -> None:
    found: Any = client(server, "spans").question_answering(**QUESTION)
    expected = models["spans"](QUESTION)
    assert (found.answer, found.start, found.end) == (expected["answer"], expected["start"], expected["end"])
    assert found.score == pytest.approx(expected["score"], abs=1e-5)


def test_fill_mask(server: Running, models: dict[str, Model]) -> None:
    found = client(server, "words").fill_mask(MASKED, top_k=3)
    expected = models["words"](MASKED)[:3]
    assert [(each.token_str, each.sequence) for each in found] == [(e["token_str"], e["sequence"]) for e in expected]


def test_feature_extraction(server: Running, models: dict[str, Model]) -> None:
    vector = models["vectors"](TEXT)
    found = client(server, "vectors").feature_extraction(TEXT)
    assert numpy.allclose(found, [vector], atol=1e-5)
    unit = client(server, "vectors").feature_extraction([TEXT, OTHER], normalize=True)
    assert numpy.allclose(numpy.linalg.norm(unit, axis=1), 1.0)
    assert numpy.allclose(unit[0], vector / numpy.linalg.norm(vector), atol=1e-5)
    alike = client(server, "vectors").sentence_similarity(TEXT, other_sentences=[TEXT, OTHER])
    assert alike == pytest.approx([1.0, float(unit[0] @ unit[1])], abs=1e-5)


def test_predict(server: Running, models: dict[str, Model]) -> None:
    def predicted(inputs: Any) -> Any:
        return server.client.post("/predict", json={"inputs": inputs}).json()

    assert near(predicted(TEXT), models["labels"](TEXT))
    assert near(predicted([TEXT, OTHER]), models["labels"]((TEXT, OTHER)))
    assert near(predicted([[TEXT], [TEXT, OTHER]]), [models["labels"](TEXT), models["labels"]((TEXT, OTHER))])


def test_embed_and_similarity(server: Running, models: dict[str, Model]) -> None:
    found = server.client.post("/embed", json={"inputs": [TEXT, OTHER], "truncate": True}).json()
    assert numpy.allclose(numpy.linalg.norm(found, axis=1), 1.0)
    as_it_is = server.client.post("/embed", json={"inputs": TEXT, "normalize": False, "dimensions": 5}).json()
    assert near(as_it_is, [models["vectors"](TEXT)[:5]])
    asked = {"inputs": {"source_sentence": TEXT, "sentences": [OTHER]}}
    cosine = float(numpy.dot(*found))
    assert server.client.post("/similarity", json=asked).json() == pytest.approx([cosine], abs=1e-5)


def test_a_text_of_which_a_part_would_not_be_read_is_refused_unless_it_may_be_cut(server: Running) -> None:
    long = "the cat sat on a mat " * 40
    asked = {
        "/predict": {"inputs": long},
        "/embed": {"inputs": [TEXT, long]},
        "/rerank": {"query": "a cat", "texts": [long]},
        "/models/labels": {"inputs": long},
        "/run/labels": {"inputs": [TEXT, long]},
    }
    for path, body in asked.items():
        refused = server.client.post(path, json=body)
        assert refused.status_code == (400 if path.startswith("/run") else 422), path
        assert "only their beginning is read; shorten it" in refused.json()["error"]
        assert server.client.post(path, json={**body, "truncate": True}).status_code == 200
    alone = server.client.post("/embed", json={"inputs": long, "truncate": True}).json()
    assert near(server.client.post("/embed", json={"inputs": [TEXT, long], "truncate": True}).json()[1:], alone)


def test_a_field_of_a_wrong_kind_is_told_every_kind_that_it_may_have(server: Running) -> None:
    error = server.client.post("/embed", json={"inputs": 3}).json()["error"]
    assert error == "inputs: Input should be a valid string, or: Input should be a valid array"


def test_rerank(server: Running, models: dict[str, Model]) -> None:
    asked = {"query": "a cat", "texts": ["the dog", "the cat", "a cat"]}
    expected = models["order"](asked)
    found = server.client.post("/rerank", json={**asked, "return_text": True}).json()
    assert near(found, [{name: row[name] for name in ("index", "score", "text")} for row in expected])
    assert server.client.post("/rerank", json=asked).json()[0].keys() == {"index", "score"}


def test_tokenize(server: Running, models: dict[str, Model]) -> None:
    (found,) = server.client.post("/tokenize", json={"inputs": TEXT, "model": "labels"}).json()
    assert [TEXT[token["start"] : token["stop"]] for token in found] == TEXT.split()
    assert [token["id"] for token in found] == models["labels"].task.rows.tokenizer.encode([TEXT])[0]
    assert not any(token["special"] for token in found)


def test_info(server: Running) -> None:
    found = server.client.get("/info").json()
    assert found["model_id"] == "texts"
    assert found["max_client_batch_size"] == 20
    assert found["auto_truncate"] is False
    assert {"texts", "labels", "words"} <= set(found["models"])
    named = server.client.get("/info", params={"model": "labels"}).json()
    assert (named["model_id"], named["model_pipeline_tag"]) == ("labels", "text-classification")
    assert server.client.get("/info", params={"model": "nowhere"}).status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "kind"),
    [
        ("/embed", {"inputs": []}, 400, "Empty"),
        ("/predict", {"inputs": ""}, 400, "Empty"),
        ("/", {}, 400, "Empty"),
        ("/embed", {}, 422, "Validation"),
        ("/embed", {"inputs": TEXT, "dimensions": 10_000}, 422, "Validation"),
        ("/predict", {"inputs": ["a", "b", "c"]}, 422, "Validation"),
        ("/predict", {"inputs": "a", "raw_scores": True}, 422, "Validation"),
        ("/embed", {"inputs": ["a"] * 21}, 413, "Validation"),
        ("/embed", {"inputs": "a", "model": "labels"}, 422, "Validation"),
        ("/embed", {"inputs": "a", "model": "nowhere"}, 404, "Validation"),
        ("/models/nowhere", {"inputs": "a"}, 404, "Validation"),
        ("/models/words", {"inputs": "no gap"}, 422, "Validation"),
        ("/models/spans", {"inputs": QUESTION, "parameters": {"max_answer_len": 3}}, 422, "Validation"),
        ("/models/labels", {"inputs": "a", "parameters": {"top_k": "many"}}, 422, "Validation"),
        ("/models/texts", {"inputs": "w1", "parameters": {"src_lang": "en", "tgt_lang": "de"}}, 422, "Validation"),
        ("/models/labels/pipeline/translation", {"inputs": "a"}, 422, "Validation"),
    ],
)
def test_errors(server: Running, path: str, body: Any, status: int, kind: str) -> None:
    response = server.client.post(path, json=body)
    assert response.status_code == status, response.text
    assert response.json().keys() == {"error", "error_type"}
    assert response.json()["error_type"] == kind


def test_the_client_raises_what_is_said(server: Running) -> None:
    with pytest.raises(HfHubHTTPError, match="422"):
        client(server, "words").fill_mask("no gap")


def test_words_with_tags_become_entities() -> None:
    def word(index: int, entity: str) -> dict[str, Any]:
        return {"entity": entity, "score": index / 10, "index": index, "word": f"w{index}", "start": index, "end": 9}

    tagged = [word(1, "B-LOC"), word(2, "I-LOC"), word(3, "B-LOC"), word(5, "I-LOC"), word(6, "I-PER"), word(7, "X")]
    found = entities_of(tagged)
    assert [(each["entity_group"], each["word"]) for each in found] == [
        ("LOC", "w1 w2"),
        ("LOC", "w3"),
        ("LOC", "w5"),
        ("PER", "w6"),
        ("X", "w7"),
    ]
    assert found[0]["score"] == pytest.approx(0.15)
