"""A shortlist in CTranslate2: answers are made of what it lists."""

import numpy

from made_models import WORDS, write_model
from regard.data.pairs.shortlist import NAME, Shortlist
from regard.data.tokenizers import Tokenizers
from regard.decoding import DecodingConfig
from regard.directory import ModelDirectory
from regard.engines.ctranslate2.engine import BULK, CTranslate2Engine
from regard.engines.ctranslate2.plans import cores
from regard.engines.ctranslate2.precision import EXACT, Form
from regard.tasks.base import RunOptions

TEXTS = [" ".join(WORDS[:5]), WORDS[7]]


def answers(directory, *, shortlist, form=EXACT, asked=TEXTS):
    stored = ModelDirectory(directory)
    engine = CTranslate2Engine(stored, stored.tables()["model"], Tokenizers.load(directory), form=form)
    options = RunOptions(DecodingConfig(beam=2, max_length=9, shortlist=shortlist))
    return [found[0].tokens for found in engine.answer_all(asked, options)]


def test_answers_are_made_of_what_the_shortlist_allows(tmp_path) -> None:
    directory = write_model(tmp_path / "model")
    before = answers(directory, shortlist=False)
    tokenizers = Tokenizers.load(directory)
    listed = numpy.full((tokenizers.source.size, 2), -1, dtype=numpy.int32)
    (directory / NAME).write_bytes(Shortlist(listed, numpy.array([5, 9, 11], dtype=numpy.int32)).to_bytes())
    assert {token for tokens in answers(directory, shortlist=True) for token in tokens} <= {1, 5, 9, 11}
    assert not {token for tokens in before for token in tokens} <= {1, 5, 9, 11}
    assert answers(directory, shortlist=False) == answers(directory, shortlist="measured") == before
    assert answers(directory, shortlist=False, form=Form(shortlist=True)) == before


def test_a_measured_shortlist_answers_long_lists_alone(tmp_path) -> None:
    directory = write_model(tmp_path / "model")
    listed = numpy.full((Tokenizers.load(directory).source.size, 1), -1, dtype=numpy.int32)
    (directory / NAME).write_bytes(Shortlist(listed, numpy.array([5, 9, 11], dtype=numpy.int32)).to_bytes())
    form, many = Form(shortlist=True), BULK * cores()
    few = answers(directory, shortlist="measured", form=form)
    assert few == answers(directory, shortlist=False)
    long = answers(directory, shortlist="measured", form=form, asked=TEXTS * many)
    assert long == answers(directory, shortlist=True) * many


def test_a_shortlist_of_everything_changes_nothing(tmp_path) -> None:
    directory = write_model(tmp_path / "model")
    before = answers(directory, shortlist=False)
    tokenizers = Tokenizers.load(directory)
    everything = numpy.arange(tokenizers.target.size, dtype=numpy.int32)
    listed = numpy.full((tokenizers.source.size, 1), -1, dtype=numpy.int32)
    (directory / NAME).write_bytes(Shortlist(listed, everything).to_bytes())
    assert answers(directory, shortlist=True) == before
