"""When a faster form answers in place of the exact one: the decision, and the record that it is read from."""

import json
import shutil

import pytest

from read_models import BERT, write_reader
from regard.commands import bench
from regard.commands.run import prepare
from regard.directory import ModelDirectory
from regard.engines.choose import settled
from regard.engines.ctranslate2 import precision
from regard.engines.ctranslate2.precision import EXACT, Form, Tried, fastest, is_as_good, kept
from regard.errors import RegardError
from regard.tasks.base import Judgement

INT8, LISTED, BOTH = Form("int8"), Form(shortlist=True), Form("int8", shortlist=True)
FASTER, SLOWER = 20.0, 5.0
SAME = Judgement("accuracy", True, 90.0, 90.0, 1.0)


def tried(form, per_second, score=90.0, p=1.0):
    return Tried(form=form, score=score, p=p, per_second=per_second)


def keep(model, judged, per_second):
    """The record of a judgement of int8, beside a float32 that gives ten answers a second."""
    forms = [tried(EXACT, 10.0, judged.first), tried(INT8, per_second, judged.second, judged.p)]
    return precision.keep(model, forms, metric=judged.metric, higher=judged.higher, examples=7)


@pytest.mark.parametrize(
    ("judged", "good"),
    [
        (SAME, True),
        (Judgement("bleu", True, 30.0, 30.5, 0.01), True),  # better is no loss, however sure
        (Judgement("bleu", True, 30.0, 29.95, 0.4), True),
        (Judgement("bleu", True, 30.0, 29.95, 0.04), False),  # a small loss that is no chance
        (Judgement("bleu", True, 30.0, 29.8, 0.4), False),  # a loss of more than 0.1
        (Judgement("word_error", False, 5.0, 5.05, 0.4), True),
        (Judgement("word_error", False, 5.0, 5.2, 0.4), False),
        (Judgement("word_error", False, 5.0, 4.0, 0.01), True),
    ],
)
def test_int8_is_as_good_if_it_loses_little_and_by_chance(judged, good):
    assert is_as_good(judged) is good


@pytest.mark.parametrize(
    ("speeds", "scores", "chosen"),
    [
        ((10, 15, 14, 30), (40.0, 39.95, 40.0, 39.95), BOTH),
        ((10, 15, 14, 30), (40.0, 39.95, 40.0, 39.8), INT8),
        ((10, 15, 14, 30), (40.0, 39.8, 40.1, 39.8), LISTED),
        ((10, 15, 14, 30), (40.0, 39.8, 39.8, 39.8), EXACT),
        ((40, 15, 14, 30), (40.0, 40.0, 40.0, 40.0), EXACT),
    ],
)
def test_the_fastest_form_that_is_as_good_answers(speeds, scores, chosen):
    measured = zip((EXACT, INT8, LISTED, BOTH), speeds, scores, strict=True)
    forms = [tried(form, speed, score, 0.5) for form, speed, score in measured]
    assert fastest("bleu", forms, higher=True) == chosen


@pytest.fixture
def model(tmp_path):
    path = write_reader(tmp_path / "model", "classify", labels=("bad", "good"), **BERT)
    return ModelDirectory(path)


def test_without_a_record_the_precision_is_float32(model):
    assert kept(model) is None
    assert settled(model, "measured") == EXACT


@pytest.mark.parametrize(
    ("judged", "per_second", "chosen"),
    [
        (SAME, FASTER, INT8),
        (SAME, SLOWER, EXACT),
        (Judgement("accuracy", True, 90.0, 80.0, 0.2), FASTER, EXACT),
    ],
)
def test_a_record_is_read_back_and_decides(model, judged, per_second, chosen):
    record = keep(model, judged, per_second)
    assert kept(model) == record
    assert ([each.score for each in record.tried], record.examples) == ([judged.first, judged.second], 7)
    assert settled(model, "measured") == chosen
    assert [settled(model, each) for each in ("float32", "int8", "auto")] == [EXACT, INT8, Form("auto")]
    engine = prepare(model.path, {}).engine
    assert (engine.compute_type, "int8" in engine.why) == (chosen.compute_type, chosen == INT8)
    assert prepare(model.path, {"compute_type": "float32"}).engine.compute_type == "float32"


def test_a_record_goes_with_a_copy_of_the_model(model, tmp_path):
    keep(model, SAME, FASTER)
    assert kept(ModelDirectory(shutil.copytree(model.path, tmp_path / "copy"))) is not None


def test_a_record_of_other_weights_does_not_count(model, tmp_path):
    keep(model, SAME, FASTER)
    other = write_reader(tmp_path / "other", "classify", labels=("bad", "good"), seed=4, **BERT)
    shutil.copy(other / "weights.safetensors", model.path)
    assert kept(model) is None
    assert settled(model, "measured") == EXACT


def test_a_record_of_another_instruction_set_does_not_count_and_stays(model, monkeypatch):
    first = keep(model, SAME, FASTER)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(precision, "instruction_set", lambda: "another one")
        assert kept(model) is None
        second = keep(model, SAME, SLOWER)
        assert kept(model) == second
    assert kept(model) == first


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"{}", b'[{"identity": 3}]', b"\xff"])
def test_a_damaged_record_does_not_count(model, content):
    (model.path / "runtime").mkdir()
    (model.path / "runtime" / "precision.json").write_bytes(content)
    assert kept(model) is None


def test_bench_judges_int8_on_examples_and_keeps_the_record(model, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "TOGETHER", (2,))
    monkeypatch.setattr(bench, "SINGLE", 2)
    monkeypatch.setattr(bench, "_start", lambda *_: {"seconds": 1.0, "megabytes": None})
    file = tmp_path / "valid.tsv"
    file.write_text("the small dog\tgood\na red house\tbad\nan old fox\tgood\n", encoding="utf-8")
    found = bench.measure(model.path, data=file)["forms"]
    assert (found["metric"], found["examples"]) == ("accuracy", 3)
    assert [each["form"] for each in found["tried"]] == [EXACT, INT8]
    exact = found["tried"][0]["score"]
    assert exact == pytest.approx(100 * round(exact * 3 / 100) / 3)
    assert min(each["per_second"] for each in found["tried"]) > 0
    (stored,) = json.loads((model.path / "runtime" / "precision.json").read_text())
    assert stored["identity"]["instructions"] == precision.instruction_set()
    assert kept(model).verdict == Form(**found["used"])
    assert "examples" in found["told"]


def test_bench_says_why_int8_was_not_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "TOGETHER", (2,))
    monkeypatch.setattr(bench, "SINGLE", 2)
    monkeypatch.setattr(bench, "_start", lambda *_: {"seconds": 1.0, "megabytes": None})
    (tmp_path / "texts").write_text("a dog\na fox\n")
    path = write_reader(tmp_path / "vectors", "embed", **BERT)
    assert "no comparison of vectors" in bench.measure(path, data=tmp_path / "texts")["forms"]["reason"]
    path = write_reader(tmp_path / "labels", "classify", labels=("bad", "good"), **BERT)
    assert "texts" in bench.measure(path, data=tmp_path / "texts")["forms"]["reason"]
    assert (
        "CTranslate2 does not answer"
        in bench.measure(path, data=tmp_path / "texts", runtime="torch")["forms"]["reason"]
    )


def test_a_place_that_cannot_be_written_is_told(model):
    (model.path / "runtime").write_text("a file")
    with pytest.raises(RegardError, match="runtime"):
        keep(model, SAME, FASTER)


def test_tags_are_judged_by_entities_or_by_words(tmp_path):
    for labels, metric, score in ((("B-X", "I-X", "O"), "f1", 200 / 3), (("N", "V"), "accuracy", 50.0)):
        path = write_reader(tmp_path / metric, "tag", labels=labels, **BERT)
        reading = prepare(path, {}).engine.reading
        tags = ("B-X", "O", "B-X", "I-X") if metric == "f1" else ("N", "V", "N", "V")
        answer = [
            {"entity": "B-X" if metric == "f1" else "N", "score": 1.0, "index": n, "word": "w", "start": 0, "end": 1}
            for n in ((1,) if metric == "f1" else (1, 2, 3, 4))
        ]
        count, total = reading.counted(answer, ("a", "b", "c", "d"), tags)
        assert 100 * count / total == pytest.approx(score)
