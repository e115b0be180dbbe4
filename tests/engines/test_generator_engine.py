"""CTranslate2 continues prompts as torch does."""

import pytest

import regard
from read_models import GPT, TEXT, write_reader
from regard import tasks
from regard.decoding.config import DecodingConfig
from regard.directory import ModelDirectory
from regard.engines.choose import without_torch
from regard.engines.ctranslate2.generator import GeneratorEngine
from regard.engines.ctranslate2.offers import reason_for_torch_to_write
from regard.errors import RegardError
from regard.tasks.base import RunOptions

WORDS = TEXT.split()
PROMPTS = [" ".join(WORDS[first : first + length]) for first, length in ((0, 5), (4, 1), (3, 11), (2, 7))]
SETTINGS = [
    *({"position": position} for position in ("none", "sinusoidal", "learned", "rotary", "alibi")),
    *({"wiring": wiring} for wiring in ("post_norm", "pre_norm", "deep_norm")),
    *({"activation": activation} for activation in ("relu", "gelu", "gelu_tanh", "silu", "swiglu")),
    {"norm": "rms", "bias": False, "activation": "swiglu", "position": "rotary", "key_value_heads": 2},
    {"tied": False, "hidden": None},
    {"heads": 3, "position": "alibi", "epsilon": 1e-3},
]


def engine_of(path, options=None, **given):
    stored = ModelDirectory(path)
    surface = tasks.surface(stored.tables()["task"])
    chosen = {"wanted": "auto", "compute_type": "float32", **given}
    return without_torch(stored, surface, options or RunOptions(), stored.codec(stored.special()), **chosen)


def both(path, options, prompts=PROMPTS):
    engine, model = engine_of(path, options), regard.load(path)
    assert isinstance(engine, GeneratorEngine), engine
    ours = model.task.answer(model.module, prompts, options)
    return ours, list(engine.answer_all(prompts, options, together=3))


def assert_same(ours, theirs):
    for first, second in zip(ours, theirs, strict=True):
        assert [(each.text, each.tokens, each.pieces) for each in first] == [
            (each.text, each.tokens, each.pieces) for each in second
        ]
        for one, other in zip(first, second, strict=True):
            assert other.score == pytest.approx(one.score, abs=1e-4)
            assert other.logprobs == pytest.approx(one.logprobs, abs=1e-3)


def options(**decoding):
    more = {key: decoding.pop(key) for key in ("stop",) if key in decoding}
    return RunOptions(DecodingConfig(**{"beam": 1, "max_length": 12, **decoding}), scores=True, tokens=True, **more)


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: ",".join(f"{k}={v}" for k, v in s.items()))
def test_every_setting_of_a_model_is_expressed(tmp_path, settings):
    path = write_reader(tmp_path, "write", **{**GPT, **settings})
    assert_same(*both(path, options(), [*PROMPTS, ""]))


@pytest.mark.parametrize("beam", [2, 5])
def test_a_beam_finds_the_same_continuations(tmp_path, beam):
    path = write_reader(tmp_path, "write", **GPT)
    for penalty in (0.0, 1.0):
        wanted = options(beam=beam, n_best=2, length_penalty=penalty, max_length=9)
        assert_same(*both(path, wanted, [*PROMPTS, ""]))


def test_a_beam_that_says_too_much_is_refused_as_by_torch(tmp_path):
    path = write_reader(tmp_path, "write", **GPT)
    told = []
    for answer in (
        lambda: regard.load(path).answers([PROMPTS[0]], decoding=DecodingConfig(beam=2, max_length=40)),
        lambda: list(engine_of(path).answer_all([PROMPTS[0]], options(beam=2, max_length=40), together=1)),
    ):
        with pytest.raises(RegardError) as error:
            answer()
        told.append(str(error.value))
    assert told[0] == told[1]


def test_a_text_goes_on_beyond_what_the_model_looks_back_on(tmp_path):
    path = write_reader(tmp_path, "write", data={"block": 9}, **{**GPT, "maximum": 16})
    wanted = options(max_length=30)
    ours, theirs = both(path, wanted, PROMPTS[:2])
    assert_same(ours, theirs)
    assert max(len(each.tokens) for (each,) in ours) > 18  # it was read anew twice at least
    with pytest.warns(UserWarning, match="a prompt is too long: only the last 4 of 11"):
        list(engine_of(path).answer_all([PROMPTS[2]], wanted, together=1))


def test_a_text_ends_where_a_stop_string_begins_and_comes_in_pieces(tmp_path):
    path = write_reader(tmp_path, "write", tokenizer="characters", **{**GPT, "maximum": 80})
    model, plain = regard.load(path), options(max_length=25)
    (first,) = model.task.answer(model.module, PROMPTS[:1], plain)
    stop = first[0].text[5:7]
    wanted = options(max_length=25, stop=(stop,))
    ours, theirs = both(path, wanted)
    assert_same(ours, theirs)
    assert len(ours[0][0].text) < len(first[0].text)
    engine = engine_of(path)
    for prompt, (answer,) in zip(PROMPTS, theirs, strict=True):
        assert list(engine.pieces(prompt, wanted)) == list(model.pieces(prompt, wanted))
        assert "".join(engine.pieces(prompt, wanted)) == answer.text
    beam = options(beam=3, max_length=9)
    assert list(engine.pieces(PROMPTS[0], beam)) == list(model.pieces(PROMPTS[0], beam))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"sample": True}, "random numbers"),
        ({"min_length": 2}, "min_length = 2"),
        ({"no_repeat_ngram": 2, "beam": 1}, "no_repeat_ngram = 2"),
        ({"early_stopping": False}, "early_stopping = false"),
        ({"beam": 62}, "too wide"),
    ],
)
def test_what_ctranslate2_does_otherwise_is_left_to_torch_with_a_reason(settings, told):
    assert told in reason_for_torch_to_write(DecodingConfig(**settings), vocabulary=64)


def test_greedy_and_beam_search_are_left_to_ctranslate2():
    assert reason_for_torch_to_write(DecodingConfig(beam=1), vocabulary=64) is None
    assert reason_for_torch_to_write(DecodingConfig(beam=4, n_best=2), vocabulary=64) is None


def test_what_cannot_be_expressed_is_a_reason(tmp_path):
    path = write_reader(tmp_path, "write", **{**GPT, "attention": "window", "window": 4})
    assert "model.attention = 'window'" in engine_of(path)
