import pytest

from regard.engines.ctranslate2 import plans as measure
from regard.engines.ctranslate2.plans import MANY, Plan, plan, plans


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(measure, "cores", lambda: 4)


def never(_candidate):
    raise AssertionError("nothing was to be measured")


def chosen(lines, *, seconds=never, compute_type="float32", beam=5, kept_in=None):
    return plan(lines, compute_type=compute_type, beam=beam, kept_in=kept_in, seconds=seconds)


def test_one_text_is_answered_by_one_thread_without_measuring():
    assert chosen(1) == Plan("float32", workers=1, threads=1)


def test_a_few_texts_have_workers_of_one_thread_each():
    assert chosen(3) == Plan("float32", workers=3, threads=1)
    assert chosen(MANY - 1, compute_type="int8") == Plan("int8", workers=4, threads=1)


def test_many_texts_have_the_plan_that_took_the_least_time_and_it_is_remembered(tmp_path):
    best = Plan("float32", workers=1, threads=4)
    assert chosen(MANY, seconds=lambda each: float(each != best), kept_in=tmp_path) == best
    assert chosen(MANY, kept_in=tmp_path) == best


def test_one_disturbed_measurement_does_not_decide():
    taken = {4: iter([9.0, 1.0, 1.0]), 1: iter([2.0, 2.0, 2.0])}
    assert chosen(MANY, seconds=lambda each: next(taken[each.workers])) == Plan("float32", workers=4, threads=1)


@pytest.mark.parametrize("change", [{"beam": 1}, {"compute_type": "auto"}])
def test_what_was_measured_holds_for_what_it_was_measured_with(tmp_path, change):
    chosen(MANY, seconds=lambda each: each.threads, kept_in=tmp_path)
    with pytest.raises(AssertionError, match="nothing was to be measured"):
        chosen(MANY, kept_in=tmp_path, **change)


def test_another_number_of_cores_is_another_machine(tmp_path, monkeypatch):
    chosen(MANY, seconds=lambda each: each.threads, kept_in=tmp_path)
    monkeypatch.setattr(measure, "cores", lambda: 2)
    with pytest.raises(AssertionError, match="nothing was to be measured"):
        chosen(MANY, kept_in=tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", "3", '{"2 cores, float32, beam": [1]}', "[" * 100_000])
def test_a_damaged_note_is_measured_again(tmp_path, content):
    (tmp_path / measure.NOTE).write_text(content)
    assert chosen(MANY, seconds=lambda each: each.threads, kept_in=tmp_path).threads == 1


def test_auto_is_float32_until_it_was_measured(tmp_path):
    assert chosen(1, compute_type="auto", kept_in=tmp_path).compute_type == "float32"
    chosen(MANY, compute_type="auto", seconds=lambda each: float(each.compute_type != "int8"), kept_in=tmp_path)
    assert chosen(1, compute_type="auto", kept_in=tmp_path) == Plan("int8", workers=1, threads=1)


def test_a_single_core_leaves_nothing_to_measure(monkeypatch):
    monkeypatch.setattr(measure, "cores", lambda: 1)
    assert chosen(MANY) == Plan("float32", workers=1, threads=1)


def test_int8_is_never_given_several_threads_in_one_worker():
    assert all(each.threads == 1 for each in plans("auto", 8) if each.compute_type == "int8")
    assert plans("int8", 8) == [Plan("int8", workers=8, threads=1)]
