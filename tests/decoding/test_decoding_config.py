from __future__ import annotations

import pytest
from pydantic import ValidationError

from regard.decoding import DecodingConfig
from regard.decoding.config import changed


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"bean": 3}, "bean"),
        ({"beam": 0}, "beam"),
        ({"length_penalty": -1}, "length_penalty"),
        ({"min_length": 9, "max_length": 7}, "min_length=9 exceeds max_length=7; lower it"),
        ({"beam": 2, "n_best": 3}, "n_best=3 exceeds beam=2; try beam=3 or sample=true"),
        ({"beam": 1, "coverage_penalty": 0.1}, "coverage_penalty=0.1 ranks the hypotheses of a beam"),
        ({"temperature": 0.5}, "temperature=0.5 does nothing without sample=true"),
        ({"top_k": 5}, "top_k=5 does nothing without sample=true"),
        ({"sample": True, "top_p": 0.0}, "top_p"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, complaint):
    with pytest.raises(ValidationError, match=complaint):
        DecodingConfig(**settings)


def test_the_defaults_survive_being_written_out():
    assert DecodingConfig(**DecodingConfig().model_dump()) == DecodingConfig()


def test_samples_may_outnumber_the_beam():
    assert DecodingConfig(sample=True, n_best=20).n_best == 20


def test_it_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        DecodingConfig().beam = 3


@pytest.mark.parametrize(
    ("n_best", "complaint"),
    [
        (10**20, r"n_best\n.*less than or equal to 4096"),
        (300, "n_best=300 exceeds beam=256; try n_best=256 or sample=true"),
    ],
)
def test_too_many_answers_are_refused_as_such(n_best, complaint):
    """A beam is made wide enough for them, but the message is not about a beam that nobody asked for."""
    with pytest.raises(ValidationError, match=complaint):
        DecodingConfig(**changed(DecodingConfig().model_dump(), {"n_best": n_best}))
    assert changed(DecodingConfig().model_dump(), {"n_best": 200})["beam"] == 200
