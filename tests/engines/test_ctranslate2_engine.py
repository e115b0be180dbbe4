"""Answers of CTranslate2 are those of the torch model: text, score and alignment."""

import random

import pytest

import regard
from made_models import WORDS, write_model
from regard.decoding import DecodingConfig
from regard.directory import ModelDirectory
from regard.engines.ctranslate2 import plans as measure
from regard.engines.ctranslate2.engine import CTranslate2Engine
from regard.engines.ctranslate2.offers import reason_for_torch
from regard.errors import RegardError
from regard.tasks.base import RunOptions

MODELS = {
    "sinusoidal": {"ending": 4.0},
    "shaw": {"ending": 1.5, "position": "shaw", "wiring": "pre_norm", "activation": "swiglu"},
    "rotary": {"ending": 3.0, "position": "rotary", "wiring": "deep_norm"},
    "alibi": {"ending": 1.25, "position": "alibi", "activation": "gelu", "shared": True},
    "learned": {"ending": 0.25, "position": "learned", "tied": False},
}
SEARCHES = {
    "greedy": {"beam": 1},
    "beam": {"beam": 5},
    "n_best": {"beam": 4, "n_best": 3},
    "no length penalty": {"beam": 6, "n_best": 3, "length_penalty": 0.0},
    "another length penalty": {"beam": 3, "length_penalty": 0.6},
    "coverage": {"beam": 3, "n_best": 2, "coverage_penalty": 0.3},
    "min_length": {"beam": 1, "min_length": 9},
    "no_repeat_ngram": {"beam": 1, "no_repeat_ngram": 2},
    "no token twice": {"beam": 1, "no_repeat_ngram": 1},
    "small batches": {"beam": 2, "batch_tokens": 20},
}
DRAW = random.Random(1)
TEXTS = [" ".join(DRAW.choices(WORDS, k=length)) for length in (5, 1, 11, 3, 7)]
TEXTS[2:2] = ["", "   "]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The directory of each of MODELS, made once."""
    return {name: write_model(tmp_path_factory.mktemp(name), **settings) for name, settings in MODELS.items()}


def open_both(directory):
    model = regard.load(directory)
    stored = ModelDirectory(directory)
    return model, CTranslate2Engine(stored, stored.tables()["model"], model.task.tokenizers)


def answer(translator, texts, request, **options):
    return list(translator.answer_all(texts, request, **options))


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("name", MODELS)
def test_text_score_and_alignment_are_those_of_torch(made, name, search):
    model, translator = open_both(made[name])
    decoding = DecodingConfig(max_length=12, **SEARCHES[search])
    settings = ModelDirectory(made[name]).tables()["model"]
    assert reason_for_torch(settings, decoding, vocabulary=model.task.tokenizers.target.size) is None
    found = answer(translator, TEXTS, RunOptions(decoding, alignment=True, scores=True))
    for text, ours, theirs in zip(TEXTS, model.answers(TEXTS, decoding=decoding), found, strict=True):
        assert [each.text for each in theirs] == [each.text for each in ours]
        assert [each.tokens for each in theirs] == [each.tokens for each in ours]
        assert [each.score for each in theirs] == pytest.approx([each.score for each in ours], abs=1e-4)
        assert [each.alignment for each in theirs] == [tuple(model.word_alignment(text, each)) for each in ours]


@pytest.mark.parametrize("name", MODELS)
def test_answers_of_these_models_end_at_various_places(made, name):
    _, translator = open_both(made[name])
    found = answer(translator, TEXTS, RunOptions(DecodingConfig(beam=5, n_best=5, max_length=12)))
    lengths = {len(each.tokens) for several in found for each in several}
    assert len(lengths) > 3
    assert lengths & set(range(1, 12))


def test_without_length_penalty_the_search_does_not_stop_at_the_first_answers(made):
    model, translator = open_both(made["shaw"])
    draw, decoding = random.Random(3), DecodingConfig(beam=6, n_best=3, length_penalty=0.0, max_length=12)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(20)]
    found = answer(translator, texts, RunOptions(decoding))
    expected = model.answers(texts, decoding=decoding)
    assert [[each.tokens for each in f] for f in found] == [[each.tokens for each in e] for e in expected]


def test_a_prefix_begins_every_greedy_answer(made):
    model, translator = open_both(made["rotary"])
    decoding = DecodingConfig(beam=1, max_length=9)
    found = answer(translator, TEXTS, RunOptions(decoding, "w3 w5", scores=True))
    expected = model.answers(TEXTS, decoding=decoding, prefix="w3 w5")
    assert [each[0].text for each in found] == [each[0].text for each in expected]
    assert [each[0].score for each in found] == pytest.approx([each[0].score for each in expected], abs=1e-4)
    assert found[0][0].text.startswith("w3 w5")


def test_unknown_words_are_copied_from_where_the_model_looked(made):
    model, translator = open_both(made["learned"])
    strange = [text.replace("w3", "zebra").replace("w1", "yak") for text in TEXTS]
    decoding = DecodingConfig(beam=4, n_best=4, max_length=15, replace_unknown=True)
    found = answer(translator, strange, RunOptions(decoding))
    plain = answer(translator, strange, RunOptions(decoding.model_copy(update={"replace_unknown": False})))
    texts = [[each.text for each in several] for several in found]
    assert texts == [[each.text for each in several] for several in model.answers(strange, decoding=decoding)]
    assert any("<unk>" in each.text for several in plain for each in several)
    assert not any("<unk>" in text for several in texts for text in several)


@pytest.mark.parametrize("together", [1, 2, 3, 100])
def test_lines_are_answered_in_order_however_many_together(made, together):
    _, translator = open_both(made["shaw"])
    request = RunOptions(DecodingConfig(beam=2, max_length=8))
    expected = [answer(translator, [text], request)[0] for text in TEXTS]
    rows = list(translator.answer_all(iter(TEXTS), request, together=together))
    assert len(rows) == len(TEXTS)
    assert [[each.text for each in found] for found in rows] == [[e.text for e in f] for f in expected]


def test_someone_who_types_is_answered_before_the_next_line_is_read(made):
    _, translator = open_both(made["sinusoidal"])
    read = []

    def typed():
        for text in ("w1 w2", "w3", "w4"):
            read.append(text)
            yield text

    options = RunOptions(DecodingConfig(max_length=5))
    for number, _ in enumerate(translator.answer_all(typed(), options, together=1), start=1):
        assert len(read) == number


def test_a_text_longer_than_the_tables_gets_longer_ones(made):
    model, translator = open_both(made["alibi"])
    texts = ["w1 w2 w3", " ".join(random.Random(2).choices(WORDS, k=1100)), "w4 w5"]
    decoding = DecodingConfig(beam=1, max_length=6)
    rows = list(translator.answer_all(texts, RunOptions(decoding), together=1))
    assert [found[0].text for found in rows] == [found[0].text for found in model.answers(texts, decoding=decoding)]


def test_learned_positions_are_not_made_up(made):
    _, translator = open_both(made["learned"])
    with pytest.raises(RegardError, match=r"a text has 61 tokens with its end, and the model 53 learned positions"):
        answer(translator, [" ".join(["w1"] * 60)], RunOptions(DecodingConfig(max_length=5)))


def test_many_lines_are_measured_by_once_and_answered_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "cores", lambda: 2)
    monkeypatch.setattr(measure, "MANY", 4)
    directory = write_model(tmp_path, **MODELS["shaw"])
    request = RunOptions(DecodingConfig(beam=2, max_length=8))
    model, translator = open_both(directory)
    expected = [found[0].text for found in model.answers(TEXTS, decoding=request.decoding)]
    assert [found[0].text for found in answer(translator, TEXTS, request)] == expected
    (note,) = directory.glob(f"runtime/*/{measure.NOTE}")
    before = note.stat().st_mtime_ns
    assert [found[0].text for found in answer(open_both(directory)[1], TEXTS, request)] == expected
    assert note.stat().st_mtime_ns == before


def test_the_plan_of_one_text_is_left_when_more_come(made, monkeypatch):
    monkeypatch.setattr(measure, "cores", lambda: 2)
    _, translator = open_both(made["rotary"])
    request = RunOptions(DecodingConfig(beam=1, max_length=8))
    one = answer(translator, TEXTS[:1], request)
    assert translator._engine.num_translators == 1
    assert answer(translator, TEXTS, request)[:1] == one
    assert translator._engine.num_translators == 2
    answer(translator, TEXTS[:1], request)
    assert translator._engine.num_translators == 2
