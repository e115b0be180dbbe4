"""The shortlist against a language pair whose dictionary is known."""

import numpy
import pyarrow
import pytest

from regard.data.pairs import shortlist
from regard.data.pairs.corpus import Column
from regard.data.pairs.shortlist import Shortlist, learn


class Pairs:
    """A corpus that was never on disk."""

    def __init__(self, pairs):
        self.source, self.target = (
            Column([pyarrow.array(side, pyarrow.list_(pyarrow.int32()))], rows=len(side))
            for side in zip(*pairs, strict=True)
        )

    def __len__(self):
        return len(self.source)


@pytest.fixture
def dictionary_pairs() -> list[tuple[list[int], list[int]]]:
    """Target token = source token + 20, in the opposite order; sources are random."""
    generator = numpy.random.default_rng(0)
    sources = [generator.integers(4, 30, size=generator.integers(2, 7)).tolist() for _ in range(400)]
    return [(source, [token + 20 for token in reversed(source)]) for source in sources]


def test_the_translation_of_a_token_comes_first(dictionary_pairs, monkeypatch) -> None:
    monkeypatch.setattr(shortlist, "COMMON", 0)
    found = learn(Pairs(dictionary_pairs), source_size=30, target_size=50)
    assert found.listed[4:30, 0].tolist() == list(range(24, 50))
    assert (found.listed[:4] == -1).all()
    assert found.common.tolist() == []


def test_what_is_learnt_covers_what_is_said(dictionary_pairs, monkeypatch) -> None:
    monkeypatch.setattr(shortlist, "COMMON", 0)
    monkeypatch.setattr(shortlist, "LISTED", 1)
    corpus = Pairs(dictionary_pairs)
    found = learn(corpus, source_size=30, target_size=50)
    for source, target in dictionary_pairs:
        assert set(target) <= set(found.allowed(numpy.array(source)).tolist())
    assert found.allowed(numpy.array([7, 9, 7])).tolist() == [27, 29]


def test_common_tokens_are_always_allowed(monkeypatch) -> None:
    monkeypatch.setattr(shortlist, "COMMON", 2)
    pairs = [([4], [10, 11])] * 3 + [([5], [11, 12])] * 2
    found = learn(Pairs(pairs), source_size=8, target_size=13)
    assert found.common.tolist() == [11, 10]
    assert found.allowed(numpy.array([6])).tolist() == [10, 11]
    assert found.allowed(numpy.array([5])).tolist() == [10, 11, 12]


def test_it_is_kept_whole(tmp_path) -> None:
    before = Shortlist(numpy.array([[3, -1]], dtype=numpy.int32), numpy.array([4, 5], dtype=numpy.int32))
    (tmp_path / "shortlist.safetensors").write_bytes(before.to_bytes())
    after = Shortlist.load(tmp_path / "shortlist.safetensors")
    assert after.listed.tolist() == [[3, -1]]
    assert after.common.tolist() == [4, 5]


def test_in_ctranslate2s_form_names_with_spaces_have_no_place() -> None:
    found = Shortlist(numpy.array([[2, 0], [-1, -1]], dtype=numpy.int32), numpy.array([1], dtype=numpy.int32))
    assert found.to_vmap(["hund", "katze"], ["the", "a", "dog"]) == b"\ta\nhund\tdog the\n"
    assert found.to_vmap(["hund", "katze"], ["the", " ", "dog"]) is None
