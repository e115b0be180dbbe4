"""When int8 answers in place of float32: the decision, and the record that it is read from."""

import json
import shutil

import pytest

from read_models import BERT, write_reader
from regard.commands import bench
from regard.commands.run import prepare
from regard.directory import ModelDirectory
from regard.engines.choose import settled
from regard.engines.ctranslate2 import precision
from regard.engines.ctranslate2.precision import Speeds, is_as_good, keep, kept
from regard.errors import RegardError
from regard.tasks.base import Judgement

FASTER, SLOWER = Speeds(float32=10.0, int8=20.0), Speeds(float32=20.0, int8=10.0)
SAME = Judgement("accuracy", True, 90.0, 90.0, 1.0)


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


@pytest.fixture
def model(tmp_path):
    path = write_reader(tmp_path / "model", "classify", labels=("bad", "good"), **BERT)
    return ModelDirectory(path)


def test_without_a_record_the_precision_is_float32(model):
    assert kept(model) is None
    assert settled(model, "measured") == "float32"


@pytest.mark.parametrize(
    ("judged", "speeds", "chosen"),
    [
        (SAME, FASTER, "int8"),
        (SAME, SLOWER, "float32"),
        (Judgement("accuracy", True, 90.0, 80.0, 0.2), FASTER, "float32"),
    ],
)
def test_a_record_is_read_back_and_decides(model, judged, speeds, chosen):
    record = keep(model, judged, speeds, examples=7)
    assert kept(model) == record
    assert (record.float32, record.int8, record.examples) == (judged.first, judged.second, 7)
    assert settled(model, "measured") == chosen
    assert [settled(model, each) for each in ("float32", "int8", "auto")] == ["float32", "int8", "auto"]
    engine = prepare(model.path, {}).engine
    assert (engine.compute_type, "int8" in engine.why) == (chosen, chosen == "int8")
    assert prepare(model.path, {"compute_type": "float32"}).engine.compute_type == "float32"


def test_a_record_goes_with_a_copy_of_the_model(model, tmp_path):
    keep(model, SAME, FASTER, examples=7)
    assert kept(ModelDirectory(shutil.copytree(model.path, tmp_path / "copy"))) is not None


def test_a_record_of_other_weights_does_not_count(model, tmp_path):
    keep(model, SAME, FASTER, examples=7)
    other = write_reader(tmp_path / "other", "classify", labels=("bad", "good"), seed=4, **BERT)
    shutil.copy(other / "weights.safetensors", model.path)
    assert kept(model) is None
    assert settled(model, "measured") == "float32"


def test_a_record_of_another_instruction_set_does_not_count_and_stays(model, monkeypatch):
    first = keep(model, SAME, FASTER, examples=7)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(precision, "instruction_set", lambda: "another one")
        assert kept(model) is None
        second = keep(model, SAME, SLOWER, examples=7)
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
    found = bench.measure(model.path, data=file)["int8"]
    assert (found["metric"], found["examples"]) == ("accuracy", 3)
    assert found["float32"] == pytest.approx(100 * round(found["float32"] * 3 / 100) / 3)
    assert min(found["float32_per_second"], found["int8_per_second"]) > 0
    (stored,) = json.loads((model.path / "runtime" / "precision.json").read_text())
    assert stored["identity"]["instructions"] == precision.instruction_set()
    assert kept(model).verdict == ("int8" if found["used"] else "float32")
    assert "examples" in found["told"]


def test_bench_says_why_int8_was_not_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "TOGETHER", (2,))
    monkeypatch.setattr(bench, "SINGLE", 2)
    monkeypatch.setattr(bench, "_start", lambda *_: {"seconds": 1.0, "megabytes": None})
    (tmp_path / "texts").write_text("a dog\na fox\n")
    path = write_reader(tmp_path / "vectors", "embed", **BERT)
    assert "no comparison of vectors" in bench.measure(path, data=tmp_path / "texts")["int8"]["reason"]
    path = write_reader(tmp_path / "labels", "classify", labels=("bad", "good"), **BERT)
    assert "texts" in bench.measure(path, data=tmp_path / "texts")["int8"]["reason"]
    assert (
        "CTranslate2 does not answer" in bench.measure(path, data=tmp_path / "texts", runtime="torch")["int8"]["reason"]
    )


def test_a_place_that_cannot_be_written_is_told(model):
    (model.path / "runtime").write_text("a file")
    with pytest.raises(RegardError, match="runtime"):
        keep(model, SAME, FASTER, examples=7)


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
