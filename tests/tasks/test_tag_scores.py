"""Entity and answer scores, worked by hand."""

import pytest

from regard.tasks.answer import exact_match, plain, word_f1
from regard.tasks.tag import begun, entities, entity_scores


@pytest.mark.parametrize(
    ("tags", "named"),
    [
        ("B-PER I-PER O B-LOC", {("PER", 0, 2), ("LOC", 3, 4)}),
        ("B-PER B-PER", {("PER", 0, 1), ("PER", 1, 2)}),
        ("I-PER I-PER I-LOC", {("PER", 0, 2), ("LOC", 2, 3)}),
        ("B-PER I-LOC", {("PER", 0, 1), ("LOC", 1, 2)}),
        ("B-PER O I-PER", {("PER", 0, 1), ("PER", 2, 3)}),
        ("O O", set()),
    ],
)
def test_what_is_named_is_told_from_the_tags(tags: str, named: set[tuple[str, int, int]]):
    assert entities(tags.split()) == named


def test_an_entity_counts_when_type_and_both_ends_agree():
    right = [["B-PER", "I-PER", "O", "B-LOC", "O", "B-ORG"], ["O", "B-LOC"]]
    said = [["B-PER", "I-PER", "O", "B-ORG", "O", "B-ORG"], ["B-LOC", "I-LOC"]]  # two of three, and none of one
    scores = entity_scores(said, right)
    assert scores["precision"].value == pytest.approx(100 * 2 / 4)
    assert scores["recall"].value == pytest.approx(100 * 2 / 4)
    assert scores["f1"].value == pytest.approx(50)
    assert entity_scores([["O"]], [["O"]])["f1"].value == 0


def test_tags_of_the_older_way_are_begun():
    older = ["I-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-LOC", "I-ORG"]
    assert list(begun(older)) == ["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "I-LOC", "B-ORG"]
    assert begun(["B-PER", "I-PER"]) == ("B-PER", "I-PER")


def test_answers_are_compared_as_squad_does():
    assert plain("The  Cat's, an hour!") == "cats hour"
    assert exact_match("the Eiffel Tower.", "Eiffel tower") == 1
    assert word_f1("the big red cat", "red cat sat") == pytest.approx(2 * 2 / 6)
    assert (word_f1("", ""), word_f1("a", ""), word_f1("cat", "dog")) == (1, 1, 0)
