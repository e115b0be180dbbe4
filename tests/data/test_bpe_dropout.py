"""Other segmentations of the same text: how often, and the same again for the same key."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from regard.data.bpe_dropout import BpeDropout, PairDropout
from regard.data.tokenizers import Tokenizer, Tokenizers

TEXTS = ["low lower lowest newer newest wider widest slow 1999", "the lowlands' newest slowworm, wide-eyed"] * 7


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, kind="bpe", vocabulary=127)


TEXT = some.text("lowernwidst ',-19\u00e9", max_size=41)


@given(text=TEXT)
@settings(max_examples=50)
def test_without_dropout_it_is_the_library_s_segmentation(tokenizer: Tokenizer, text: str) -> None:
    (ids,) = tokenizer.encode([text])
    assert BpeDropout(tokenizer, rate=0.0, seed=3).redraw(ids, key="0 7") == ids


@given(text=TEXT, rate=some.floats(0, 0.99), key=some.text("0123 ", min_size=1))
@settings(max_examples=50)
def test_the_text_stays_the_same(tokenizer: Tokenizer, text: str, rate: float, key: str) -> None:
    (ids,) = tokenizer.encode([text])
    drawn = BpeDropout(tokenizer, rate=rate, seed=3).redraw(ids, key=key)
    assert tokenizer.decode([drawn]) == tokenizer.decode([ids])


def test_a_draw_depends_on_seed_and_key_only(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(TEXTS[:2])
    first = BpeDropout(tokenizer, rate=0.3, seed=3)
    there = [first.redraw(row, key=f"0 {number}") for number, row in enumerate(ids)]
    second = BpeDropout(tokenizer, rate=0.3, seed=3)
    second.redraw(ids[0], key="5 5")
    assert [second.redraw(row, key=f"0 {number}") for number, row in reversed(list(enumerate(ids)))] == there[::-1]
    assert first.redraw(ids[0], key="1 0") != there[0]
    assert BpeDropout(tokenizer, rate=0.3, seed=4).redraw(ids[0], key="0 0") != there[0]


def test_a_cleared_memory_changes_nothing(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = tokenizer.encode(TEXTS)
    plain = BpeDropout(tokenizer, rate=0.3, seed=3)
    expected = [plain.redraw(row, key=f"{number}") for number, row in enumerate(ids)]
    monkeypatch.setattr("regard.data.bpe_dropout.REMEMBERED", 2)
    forgetful = BpeDropout(tokenizer, rate=0.3, seed=3)
    assert [forgetful.redraw(row, key=f"{number}") for number, row in enumerate(ids)] == expected


def test_merges_are_left_out_as_often_as_said() -> None:
    """▁ab comes from ▁, a, b by merging first ▁a, then ▁ab. With dropout p, by hand:

    ▁ab          (1 − p)²         both merges are done
    ▁a b         (1 − p) p        the second is left out
    ▁ a b        p                the first is left out, and there is no other
    """
    tokenizer = Tokenizer.train(["ab a"] * 9, kind="bpe", vocabulary=9)
    assert tokenizer.merges == [("▁", "a"), ("▁a", "b")]
    rate = 0.25
    (ids,) = tokenizer.encode([" ".join(["ab"] * 199)])
    counts: Counter[tuple[str, ...]] = Counter()
    for seed in range(101):
        drawn = BpeDropout(tokenizer, rate=rate, seed=seed).redraw(ids, key="0")
        words = " ".join(tokenizer.pieces(drawn)).split("▁")[1:]
        counts.update(tuple(f"▁{word}".split()) for word in words)
    total = sum(counts.values())
    assert total == 199 * 101
    assert counts["▁ab",] / total == pytest.approx((1 - rate) ** 2, abs=0.015)
    assert counts["▁a", "b"] / total == pytest.approx((1 - rate) * rate, abs=0.015)
    assert counts["▁", "a", "b"] / total == pytest.approx(rate, abs=0.015)


def test_pairs_are_redrawn_on_the_sides_that_are_bpe(tokenizer: Tokenizer) -> None:
    words = Tokenizer.train(TEXTS, kind="words", vocabulary=59)
    source, target = tokenizer.encode(TEXTS[:1])[0], words.encode(TEXTS[:1])[0]
    dropout = PairDropout(Tokenizers(tokenizer, words), rate=0.5, seed=1, longest=97)
    drawn = dropout.redraw(source, target, epoch=2, row=5)
    assert drawn[0] != source
    assert drawn[1] == target
    short = PairDropout(Tokenizers(tokenizer, words), rate=0.5, seed=1, longest=len(source))
    assert short.redraw(source, target, epoch=2, row=5) == (source, target)
    with pytest.raises(ValueError, match="kind bpe"):
        BpeDropout(words, rate=0.1, seed=1)
