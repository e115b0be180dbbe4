"""CTranslate2 with a head in NumPy answers as torch does, for every task that reads rows of text."""

import pytest
import safetensors.numpy

import regard
from read_models import BERT, TEXT, write_reader
from regard import tasks
from regard.directory import ModelDirectory
from regard.engines.choose import without_torch
from regard.engines.ctranslate2.encoder import EncoderEngine
from regard.errors import RegardError
from regard.tasks.base import RunOptions

WORDS = TEXT.split()
TEXTS = [" ".join(WORDS[first : first + length]) for first, length in ((0, 5), (4, 1), (3, 11), (2, 7))]
TASKS = {
    "classify": {"labels": ("bad", "good", "so so")},
    "embed": {},
    "tag": {"labels": ("B-LOC", "I-LOC", "O"), "data": {"max_length": 12}},
    "answer": {"labels": ("start", "end"), "data": {"max_length": 16, "stride": 4, "max_answer": 3}},
    "rank": {"labels": ("relevance",)},
    "fill": {"mask": True},
}
LINES = {  # of tasks whose inputs are no single texts
    "answer": [f"{TEXTS[1]}\t{TEXT}", *(f"{TEXTS[0]}\t{text}" for text in TEXTS), f"\t{TEXTS[0]}", "fox\t"],
    "rank": ["\t".join([TEXTS[1], *TEXTS]), "\t".join(TEXTS), f"\t{TEXTS[0]}\t", f"{TEXTS[0]}\tfox\tdog\tfox"],
    "fill": [f"{TEXTS[0]} [MASK] .", "[MASK]", "a [MASK] sees [MASK]", f"[MASK] house\t{TEXTS[2]} [MASK]"],
}
SETTINGS = [
    *({"position": position} for position in ("none", "sinusoidal", "learned", "shaw", "rotary", "alibi")),
    *({"wiring": wiring} for wiring in ("post_norm", "pre_norm", "deep_norm")),
    {"wiring": "deep_norm", "position": "sinusoidal"},
    *({"activation": activation} for activation in ("relu", "gelu", "gelu_tanh", "silu")),
    *({"segments": segments} for segments in (0, 1, 2)),
    {"offset": 2, "epsilon": 1e-3},
    {"offset": 2, "position": "sinusoidal"},
    {"pooler_activation": "relu"},
    {"pooling": "first"},
    {"pooling": "mean", "hidden": None},
]


def engine_of(path, **given):
    stored = ModelDirectory(path)
    surface = tasks.surface(stored.tables()["task"])
    chosen = {"wanted": "auto", "compute_type": "float32", **given}
    return without_torch(stored, surface, RunOptions(), stored.codec(stored.special()), **chosen)


def inputs(task):
    surface = tasks.surface(task)
    lines = [*TEXTS, "", f"{TEXTS[0]}\t{TEXTS[3]}" if surface.two_texts else "fox"]
    return [surface.parse(line) for line in LINES.get(task, lines)]


def assert_same(ours, theirs):
    """Equal but for the last digits of numbers."""
    if isinstance(ours, float):
        assert theirs == pytest.approx(ours, abs=1e-4)
    elif isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for key in ours:
            assert_same(ours[key], theirs[key])
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for first, second in zip(ours, theirs, strict=True):
            assert_same(first, second)
    else:
        assert ours == theirs


def both(path, task):
    engine, model = engine_of(path), regard.load(path)
    assert isinstance(engine, EncoderEngine)
    asked = inputs(task)
    ours = model.task.answer(model.module, asked, RunOptions())
    return ours, list(engine.answer_all(asked, RunOptions(), together=4))


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_answered_as_by_torch(tmp_path, task):
    assert_same(*both(write_reader(tmp_path, task, **TASKS[task], **BERT), task))


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: ",".join(f"{k}={v}" for k, v in s.items()))
def test_every_setting_of_a_body_is_expressed(tmp_path, settings):
    path = write_reader(tmp_path, "classify", **TASKS["classify"], **{**BERT, **settings})
    assert_same(*both(path, "classify"))


@pytest.mark.parametrize(
    "settings",
    [
        {"position": "none"},
        {"wiring": "deep_norm"},
        {"activation": "relu"},
        {"segments": 1},
        {"offset": 2},
        {"epsilon": 0.1},
        {"pooler_activation": "relu"},
        {"pooling": "mean"},
    ],
)
def test_what_a_setting_does_is_large_enough_to_be_seen_above(tmp_path, settings):
    path = write_reader(tmp_path, "classify", **TASKS["classify"], **BERT)
    asked = inputs("classify")
    other = write_reader(tmp_path / "other", "classify", **TASKS["classify"], **{**BERT, **settings})
    first, second = (list(engine_of(each).answer_all(asked, RunOptions(), together=6)) for each in (path, other))
    with pytest.raises(AssertionError):
        assert_same(first, second)


@pytest.mark.parametrize("pooling", ["pooler", "first", "mean"])
def test_a_vector_is_pooled_as_the_recipe_says(tmp_path, pooling):
    ours, theirs = both(write_reader(tmp_path, "embed", **{**BERT, "pooling": pooling}), "embed")
    assert_same(ours, theirs)
    assert sum(x * x for x in theirs[0]) == pytest.approx(1)


def test_whole_entities_are_the_same_too(tmp_path):
    settings = {"labels": ("B-LOC", "I-LOC", "O"), "data": {"entities": "whole", "words": "spaces"}}
    ours, theirs = both(write_reader(tmp_path, "tag", **settings, **BERT), "tag")
    assert_same(ours, theirs)
    assert any("entity_group" in each for answer in ours for each in answer)


@pytest.mark.parametrize("impossible", [False, True])
def test_spans_are_the_best_of_all_parts_by_both(tmp_path, impossible):
    settings = {**TASKS["answer"], "data": {**TASKS["answer"]["data"], "impossible": impossible}}
    path = write_reader(tmp_path, "answer", **settings, **BERT)
    ours, theirs = both(path, "answer")
    assert_same(ours, theirs)
    assert len({span["answer"] for span in theirs}) > 2
    parts = engine_of(path).reading.parts(TEXTS[1], TEXT)
    assert len(list(parts)) > 1
    assert any(span["answer"] == "" for span in theirs[:-1]) == impossible  # the last passage is empty


@pytest.mark.parametrize("pooling", ["pooler", "first", "mean"])
def test_texts_that_are_read_apart_are_ranked_by_both_alike(tmp_path, pooling):
    settings = {"labels": tuple(f"vector {number}" for number in range(5)), "data": {"read": "apart", "vector": 5}}
    path = write_reader(tmp_path, "rank", **settings, **{**BERT, "pooling": pooling})
    ours, theirs = both(path, "rank")
    assert_same(ours, theirs)
    assert min(each["score"] for answer in theirs for each in answer) < 0.99
    assert theirs[0][0]["text"] == TEXTS[1]  # the query itself
    assert theirs[0][0]["score"] == pytest.approx(1)


@pytest.mark.parametrize(
    "settings",
    [
        *({"activation": activation} for activation in ("relu", "gelu", "gelu_tanh", "silu")),
        {"epsilon": 0.1},
        {"next_sentence": False, "pooler": False},
    ],
)
def test_every_setting_of_the_map_to_the_vocabulary_is_expressed(tmp_path, settings):
    ours, theirs = both(write_reader(tmp_path, "fill", mask=True, **{**BERT, **settings}), "fill")
    assert_same(ours, theirs)
    assert len({gap[0]["token_str"] for answer in theirs for gap in answer}) > 1


def test_a_text_without_a_gap_is_refused_by_both_alike(tmp_path):
    path = write_reader(tmp_path, "fill", mask=True, **BERT)
    asked, told = [tasks.surface("fill").parse("a fox")], r"'a fox' has no \[MASK\]"
    with pytest.raises(RegardError, match=told):
        list(engine_of(path).answer_all(asked, RunOptions(), together=4))
    with pytest.raises(RegardError, match=told):
        regard.load(path)("a fox")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"kind": "gpt", "layers": 1, "width": 16, "heads": 2, "maximum": 40}, 'model.kind = "gpt" here, only bert'),
        ({**BERT, "attention": "window", "window": 3}, "cannot express model.attention = 'window'"),
        ({**BERT, "experts": 2}, "cannot express model.experts = 2"),
    ],
)
def test_what_cannot_be_expressed_is_answered_by_torch_for_a_reason(tmp_path, settings, told):
    path = write_reader(tmp_path, "classify", **TASKS["classify"], **settings)
    assert told in engine_of(path)
    with pytest.raises(RegardError, match="--runtime ctranslate2 cannot answer this"):
        engine_of(path, wanted="ctranslate2")


def test_weights_of_low_rank_are_left_to_torch(tmp_path):
    path = write_reader(tmp_path, "classify", **TASKS["classify"], **BERT)
    recipe = (path / "recipe.toml").read_text()
    (path / "recipe.toml").write_text(recipe.replace("[training]", "[training]\nlora = 2", 1).replace("\nlora = 0", ""))
    assert "training.lora" in engine_of(path)


def test_a_head_that_is_missing_is_told(tmp_path):
    path = write_reader(tmp_path, "classify", **TASKS["classify"], **BERT)
    weights = safetensors.numpy.load((path / "weights.safetensors").read_bytes())
    del weights["output.bias"]
    (path / "weights.safetensors").write_bytes(safetensors.numpy.save(weights))
    with pytest.raises(RegardError, match=r"has no output\.bias, so it does not fit"):
        list(engine_of(path).answer_all(inputs("classify"), RunOptions(), together=4))


def test_int8_answers_nearly_the_same(tmp_path):
    path = write_reader(tmp_path, "embed", **BERT)
    exact = list(engine_of(path).answer_all(inputs("embed"), RunOptions(), together=4))
    rounded = list(engine_of(path, compute_type="int8").answer_all(inputs("embed"), RunOptions(), together=4))
    for one, other in zip(exact, rounded, strict=True):
        assert 0.95 < sum(map(float.__mul__, one, other)) < 1 - 1e-9


def test_many_texts_are_answered_by_the_plan_that_was_measured(tmp_path):
    engine = engine_of(write_reader(tmp_path, "classify", **TASKS["classify"], **{**BERT, "layers": 1}))
    asked = inputs("classify") * 100
    answers = list(engine.answer_all(asked, RunOptions(), together=1024))
    assert_same(list(engine.answer_all(asked[:6], RunOptions(), together=1)), answers[:6])
    (note,) = (tmp_path / "runtime").glob("*/plans.json")
    assert "cores, float32, greedy" in note.read_text()
