"""Rankings: losses and scores against their equations, reading, errors, and tiny models that learn to rank."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

import regard
from regard import models, recipes
from regard.commands.run import run
from regard.data.rows.batches import in_order_of_length
from regard.data.rows.framing import Framing
from regard.data.tokenizers import Tokenizer
from regard.errors import RegardError
from regard.models.heads import headed
from regard.special import OWN
from regard.tasks.rank.task import Candidate, Query, Rank, RankData, ndcg
from regard.tasks.rows import Rows

COLOURS, THINGS = ["red", "blue", "green", "black"], ["cat", "dog", "bird", "fish"]
TOKENIZER = Tokenizer.train([" ".join("abcdefgh")], kind="words", vocabulary=20)


def made(labels: int) -> tuple[Rank, nn.Module]:
    """The task with a random model; with one label, texts are read together."""
    torch.manual_seed(labels)
    body = models.config_class("bert")(layers=1, width=12, heads=3, dropout=0.0)
    model = headed(body, classes=labels, pooled=True, vocabulary=TOKENIZER.size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    names = ("relevance",) if labels == 1 else tuple(f"vector {number}" for number in range(labels))
    return Rank(Rows(TOKENIZER, Framing(OWN, 13)), names, relevant=2.0), model


EXAMPLES = [
    Candidate("a b", "c", 2, ""),
    Candidate("a b", "d e f", 0, ""),
    Candidate("a b", "g", 3, ""),
    Candidate("h", "g", 0, ""),  # relevant for a b, and so no negative of its other text
    Candidate("h", "a a", 2, ""),
    Candidate("c c c", "b", 1, ""),
    Candidate("d", "c", 2, ""),
]


def outputs(model: nn.Module, *texts: str) -> Tensor:
    """What the head says of one row, made by hand."""
    first, *second = ([*ids, OWN.eos] for ids in TOKENIZER.encode(list(texts)))
    row = [OWN.bos, *first, *(second[0] if second else [])]
    segments = [0] * (len(first) + 1) + [1] * (len(row) - len(first) - 1)
    with torch.no_grad():
        return model(torch.tensor([row]), torch.tensor([len(row)]), torch.tensor([segments]))[0]


def test_the_loss_of_texts_read_together_is_the_binary_cross_entropy():
    task, model = made(1)
    (batch,) = in_order_of_length(task.encode(EXAMPLES), batch_tokens=1000, special=OWN)
    expected = 0.0
    for each in EXAMPLES:
        share = 1 / (1 + math.exp(-float(outputs(model, each.query, each.text))))
        expected -= math.log(share if each.label >= 2 else 1 - share)
    assert batch.targets == len(EXAMPLES)
    assert task.loss(model, batch).item() == pytest.approx(expected, rel=1e-4)


def test_the_loss_of_texts_read_apart_is_that_of_each_relevant_text_among_those_that_are_not():
    task, model = made(5)
    (batch,) = in_order_of_length(task.encode(EXAMPLES), batch_tokens=1000, special=OWN)

    def vector(text: str) -> numpy.ndarray[Any, Any]:
        found = outputs(model, text).double().numpy()
        return found / numpy.linalg.norm(found)

    relevant = {(each.query, each.text) for each in EXAMPLES if each.label >= 2}
    expected = 0.0
    for number, each in enumerate(EXAMPLES):
        if each.label < 2:
            continue
        others = [o.text for at, o in enumerate(EXAMPLES) if at != number and (each.query, o.text) not in relevant]
        scores = [20 * vector(each.query) @ vector(text) for text in (each.text, *others)]
        expected -= scores[0] - math.log(sum(map(math.exp, scores)))
    assert task.loss(model, batch).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("labels", [1, 5])
def test_scores_of_a_batch_are_those_of_each_text_alone(labels: int):
    task, model = made(labels)
    pairs = [(each.query, each.text) for each in EXAMPLES]
    together = task.judged(model, pairs)
    assert together == pytest.approx([task.judged(model, [pair])[0] for pair in pairs], abs=1e-5)
    if labels == 1:
        assert together == pytest.approx([float(outputs(model, *pair).sigmoid()) for pair in pairs], abs=1e-5)
    assert task.judged(model, []) == []


class Fixed(Rank):
    """The task with scores that are given."""

    given: dict[tuple[str, str], float]

    def judged(self, model: nn.Module, pairs: Any) -> list[float]:  # noqa: ARG002
        return [self.given[pair] for pair in pairs]


def test_scores_of_rankings_are_those_of_their_definitions():
    generator = numpy.random.default_rng(5)
    task = Fixed(made(1)[0].rows, relevant=2.0)
    reciprocal, gains, firsts = [], [], []
    examples = []
    task.given = {}
    for query in range(200):
        size = int(generator.integers(1, 25))
        labels = generator.choice([0, 0, 0, 1, 2, 3, 0.5], size)
        scores = generator.choice(numpy.arange(40) / 40, size)  # equal scores are frequent
        for number in range(size):
            examples.append(Candidate(f"q{query}", f"t{number}", float(labels[number]), ""))
            task.given[f"q{query}", f"t{number}"] = float(scores[number])
        if labels.max() < 2:
            continue
        # of equal scores, the lower label stands before: no model gains by giving every text the same score
        ranks = [1 + sum((scores > scores[i]) | ((scores == scores[i]) & (labels < labels[i]))) for i in range(size)]
        first = min(rank for rank, label in zip(ranks, labels, strict=True) if label >= 2)
        reciprocal.append(1 / first)
        firsts.append(first == 1)
        order = numpy.lexsort((labels, -scores))
        discount = 1 / numpy.log2(numpy.arange(2, 12))[: min(size, 10)]
        gain, ideal = 2 ** labels[order][:10] - 1, 2 ** numpy.sort(labels)[::-1][:10] - 1
        gains.append((gain * discount).sum() / (ideal * discount).sum())
    assert len(gains) > 100
    found = task.scores(nn.Identity(), [examples[at] for at in generator.permutation(len(examples))])
    assert found["mrr"].value == pytest.approx(100 * numpy.mean(reciprocal))
    assert found["ndcg@10"].value == pytest.approx(100 * numpy.mean(gains))
    assert found["accuracy"].value == pytest.approx(100 * numpy.mean(firsts))
    with pytest.raises(RegardError, match="no query has a relevant text"):
        task.scores(nn.Identity(), [Candidate("q0", "t0", 1, "")])


def test_ndcg_of_examples_worked_by_hand():
    assert ndcg([3, 2, 0]) == 1
    assert ndcg([0, 1]) == pytest.approx(1 / math.log2(3))
    assert ndcg([0] * 10 + [1]) == 0
    assert ndcg([-1, 0]) == 0


def test_validation_takes_whole_queries():
    task = made(1)[0]
    examples = [
        Candidate(f"q{at // 9}", f"t{at}", 2.0 if at % 9 == 4 and at // 9 % 2 else 0.0, "") for at in range(900)
    ]
    some = task.some(examples, 100)
    queries = {each.query for each in some}
    assert len(some) == 9 * len(queries) == 99
    assert all(int(query[1:]) % 2 for query in queries)  # the others have no relevant text
    assert task.some(examples, 100) == some
    assert len(task.some(examples, 10_000)) == 450


# files


ROWS = [("red", "a red cat", 1.0), ("red", "a blue cat", 0.0), ("blue", "sky", 0.5)]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
def test_candidates_are_read_from_every_form(tmp_path: Path, name: str):
    path = tmp_path / name
    if name == "a.tsv":
        path.write_text("".join(f"{q}\t{t}\t{label}\n" for q, t, label in ROWS) + "\n", encoding="utf-8")
    elif name == "a.csv":
        lines = ['query,"text",label', *(f'{q},"{t}",{label}' for q, t, label in ROWS)]
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        lines = [json.dumps({"query": q, "text": t, "label": label}) for q, t, label in ROWS]
        path.write_text("\n\n".join(lines), encoding="utf-8")
    found = list(Rank.examples(str(path), RankData()))
    assert [(each.query, each.text, each.label) for each in found] == ROWS
    assert list(Rank.lines(found)) == ["red\ta red cat\ta blue cat", "blue\tsky"]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.tsv", "red\ta cat\thigh\n", "a.tsv:1 has the label 'high', and a number up to 100 is expected"),
        ("a.tsv", "red\ta cat\tnan\n", "a.tsv:1 has the label 'nan'"),
        ("a.tsv", "red\ta cat\t101\n", "a.tsv:1 has the label '101'"),
        ("a.tsv", "red\ta cat\t1\nred\t \t1\n", "a.tsv:2 has no text; fill it in, or leave the line out"),
        ("a.tsv", "\ta cat\t1\n", "a.tsv:1 has no query"),
        ("a.tsv", "\t\t1\n", "a.tsv:1 has no query"),
        ("a.tsv", "red\ta cat\n", "a.tsv:1 has 2 columns and column 3 is wanted"),
        ("a.csv", "query,label\nred,1\n", "a.csv has no column 'text'"),
        ("a.jsonl", '{"query": "red", "label": 1}\n', "a.jsonl:1"),
    ],
)
def test_rows_that_cannot_be_right_are_named(tmp_path: Path, name: str, text: str, sentence: str):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(RegardError) as error:
        list(Rank.examples(str(tmp_path / name), RankData()))
    assert sentence in str(error.value)


# learning


def rows() -> Iterator[tuple[str, str, int]]:
    """The text that answers a query names the same colour."""
    for at, colour in enumerate(COLOURS):
        for thing in THINGS:
            for other in COLOURS[at + 1 :] + COLOURS[:at]:
                yield f"something {colour}", f"the {other} {thing}", 0
            yield f"something {colour}", f"the {colour} {thing}", 1


def recipe(folder: Path, *changes: str) -> recipes.Recipe:
    (folder / "a.tsv").write_text("".join(f"{q}\t{t}\t{label}\n" for q, t, label in rows()), encoding="utf-8")
    text = f"""
task = "rank"
[data]
train = "{folder / "a.tsv"}"
valid = "{folder / "a.tsv"}"
vector = 7
[tokenizer]
kind = "words"
[model]
kind = "bert"
layers = 1
width = 24
heads = 2
dropout = 0.0
[training]
steps = 80
batch_tokens = 512
learning_rate = 0.01
warmup = 5
schedule = "constant"
validate_every = 40
checkpoint_every = 40
precision = "float32"
"""
    return recipes.parse(text, where="test", changes=list(changes))


TEXTS = ("the red dog", "the blue dog", "the green dog")


@pytest.fixture(scope="module", params=["together", "apart"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp(request.param)
    slow = ["model.layers=2", "training.steps=250", "training.learning_rate=0.003", "training.validate_every=125"]
    changes = slow if request.param == "together" else []
    regard.train(recipe(path, f"data.read={request.param}", *changes), out=path / "model")
    return regard.load(path / "model")


def test_a_tiny_model_learns_to_rank(trained: Any):
    scores = trained.evaluate()
    assert scores["mrr"].value > 95
    assert scores["accuracy"].value > 95
    assert trained.report["scores"]["mrr"] == pytest.approx(scores["mrr"].value)
    found = trained(("something blue", TEXTS))
    assert found[0]["index"] == 1
    assert [each["text"] for each in found] == [TEXTS[each["index"]] for each in found]
    assert [each["score"] for each in found] == sorted((each["score"] for each in found), reverse=True)


def test_every_form_of_an_input_means_the_same(trained: Any):
    expected = trained(("something blue", list(TEXTS)))
    assert trained({"query": "something blue", "texts": TEXTS}) == expected
    assert trained([("something blue", TEXTS)])[0] == expected
    assert trained.surface.parse("\t".join(["something blue", *TEXTS])) == Query("something blue", TEXTS)
    assert trained(("something blue", TEXTS[0]))[0]["text"] == TEXTS[0]
    many = trained([("something blue", TEXTS), ("something red", TEXTS[:2])])
    assert [each["index"] for each in many[0]] == [each["index"] for each in expected]
    assert [each["score"] for each in many[0]] == pytest.approx([each["score"] for each in expected], abs=1e-5)
    for wrong in ("red", ("red",), {"query": "red"}, ("red", []), (1, ["a"]), ("red", ["a", 2]), {"texts": ["a"]}):
        with pytest.raises(RegardError, match="quer"):
            trained(wrong)
    with pytest.raises(RegardError, match="give a query and one or more texts"):
        trained.surface.parse("red")


def test_lines_are_answered_and_printed(trained: Any, capsys: pytest.CaptureFixture[str]):
    lines = ["something blue\tthe red dog\tthe blue dog", "something red\tthe red cat"]
    run(trained.path, [lines], {})
    first, second = trained([("something blue", TEXTS[:2]), ("something red", ("the red cat",))])
    printed = ["\n".join(f"{each['text']}\t{each['score']:.4f}" for each in answer) for answer in (first, second)]
    assert capsys.readouterr().out == "\n\n".join(printed) + "\n"
    run(trained.path, [lines], {}, as_json=True)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["input"] for each in found] == lines
    assert [each["index"] for each in found[0]["answers"]] == [each["index"] for each in first]


def test_a_look_is_at_the_best_text(trained: Any):
    record = trained.look(("something blue", TEXTS))
    assert record.title.startswith("something blue | the blue dog")
    if trained.task.apart:
        assert record.sides["source"].text == "the blue dog"
        assert "read apart" in record.notes[0]
        with pytest.raises(RegardError, match="vectors are no choice"):
            trained.look(("something blue", TEXTS), reference="relevant")
    else:
        assert record.notes == ()
        assert record.sides["target"].items == ("relevant",)
        assert trained.look(("something blue", TEXTS), reference="not relevant").sides["target"].text == "not relevant"


@pytest.mark.parametrize("read", ["together", "apart"])
def test_a_run_that_is_resumed_ends_with_the_same_weights(tmp_path: Path, read: str):
    def weights(name: str, steps: int) -> bytes:
        changes = [f"data.read={read}", f"training.steps={steps}", "training.validate_every=0"]
        changes += ["training.checkpoint_every=3", "model.dropout=0.1"]
        regard.train(recipe(tmp_path, *changes), out=tmp_path / name)
        return (tmp_path / name / "weights.safetensors").read_bytes()

    assert weights("one", 4) != weights("one", 7)
    assert weights("one", 7) == weights("other", 7)


@pytest.mark.parametrize(
    ("label", "changes", "sentence"),
    [
        (0, [], "data.train has no relevant texts"),
        (1, [], "data.train has only relevant texts"),
        (0, ["data.read=apart"], "data.train has no relevant texts"),
    ],
)
def test_texts_of_one_kind_are_refused(tmp_path: Path, label: int, changes: list[str], sentence: str):
    chosen = recipe(tmp_path, "training.steps=1", *changes)
    (tmp_path / "a.tsv").write_text(f"red\ta cat\t{label}\nblue\ta dog\t{label}\n", encoding="utf-8")
    with pytest.raises(RegardError, match=sentence):
        regard.train(chosen, out=tmp_path / "model")


def test_read_apart_relevant_texts_are_enough_and_valid_needs_some(tmp_path: Path):
    chosen = recipe(tmp_path, "training.steps=1", "data.read=apart", f"data.valid={tmp_path / 'valid.tsv'}")
    (tmp_path / "a.tsv").write_text("red\ta cat\t1\nblue\ta dog\t1\n", encoding="utf-8")
    (tmp_path / "valid.tsv").write_text("red\ta cat\t0\n", encoding="utf-8")
    with pytest.raises(RegardError, match=r"no text of data\.valid is relevant"):
        regard.train(chosen, out=tmp_path / "model")
    (tmp_path / "valid.tsv").write_text("red\ta cat\t1\n", encoding="utf-8")
    assert regard.train(chosen, out=tmp_path / "other").report["scores"]["mrr"] == 100
