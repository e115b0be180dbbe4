"""Scores against sacrebleu itself, and error rates worked out by hand."""

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import RegardError
from regard.tasks.scores import edit_distance, lexicon_scores, text_scores

ANSWERS = ["The cat sat on the mat.", "A dog barks loudly at night.", "Hello there, my friend!"]
REFERENCES = [
    ["The cat sat on the mat."],
    ["A dog barks at night.", "The dog barks loudly at night."],
    ["Hello there, my old friend!"],
]


def test_text_scores_are_those_of_sacrebleu():
    found = text_scores(ANSWERS, REFERENCES)
    first = [listed[0] for listed in REFERENCES]
    second = [listed[1] if len(listed) > 1 else None for listed in REFERENCES]
    assert found["bleu"].value == pytest.approx(sacrebleu.corpus_bleu(ANSWERS, [first, second]).score)
    assert found["chrf"].value == pytest.approx(sacrebleu.corpus_chrf(ANSWERS, [first, second]).score)
    assert found["ter"].value == pytest.approx(sacrebleu.corpus_ter(ANSWERS, [first, second]).score)
    assert found["exact"].value == pytest.approx(100 / 3)


def test_a_score_says_how_it_was_made():
    assert "tok:13a" in text_scores(ANSWERS, REFERENCES)["bleu"].signature
    assert "tok:none" in text_scores(ANSWERS, REFERENCES, tokenize="none")["bleu"].signature


def test_error_rates_take_the_nearest_reference():
    answers = ["K AE T", "D AO G Z", "B ER D"]
    references = [["K AE T"], ["D AA G", "D AO G"], ["F IH SH", "B IH R D"]]
    found = lexicon_scores(answers, references)
    assert found["word_error"].value == pytest.approx(200 / 3)
    assert found["symbol_error"].value == pytest.approx(100 * (0 + 1 + 2) / (3 + 3 + 4))


def test_the_nearest_reference_is_the_one_with_the_lowest_error_rate():
    """Four edits of eight symbols are a lower rate than three edits of one."""
    found = lexicon_scores(["A B C D"], [["A", "A B C D E F G H"]])
    assert found["symbol_error"].value == pytest.approx(50)


def test_edit_distance_of_textbook_pairs():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "abc") == 3
    assert edit_distance("intention", "execution") == 5


@given(st.text("ab", max_size=6), st.text("ab", max_size=6), st.text("ab", max_size=6))
def test_edit_distance_is_a_distance(a: str, b: str, c: str):
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, b) == edit_distance(b, a)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)


def test_nothing_to_score_is_an_error():
    with pytest.raises(RegardError, match="no pairs"):
        text_scores([], [])
    with pytest.raises(RegardError, match="in pairs"):
        text_scores(["a"], [])
    with pytest.raises(RegardError, match="answer 1 has no reference"):
        lexicon_scores(["a"], [[]])
