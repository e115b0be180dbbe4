"""Entities and their scores, against the rules of conlleval written down on their own and against seqeval's results."""

from __future__ import annotations

import random

import pytest

from regard.tasks.answer.task import exact_match, plain, word_f1
from regard.tasks.schemes import begun, entities, entity_scores, have_prefixes, word_scores

SCHEMES = {"IOB": "BI", "IOBES": "BIES", "BILOU": "BILU"}


@pytest.mark.parametrize(
    ("tags", "named"),
    [
        ("B-PER I-PER O B-LOC", {("PER", 0, 2), ("LOC", 3, 4)}),
        ("B-PER B-PER", {("PER", 0, 1), ("PER", 1, 2)}),
        ("I-PER I-PER I-LOC", {("PER", 0, 2), ("LOC", 2, 3)}),
        ("B-PER I-LOC", {("PER", 0, 1), ("LOC", 1, 2)}),
        ("B-PER O I-PER", {("PER", 0, 1), ("PER", 2, 3)}),
        ("O O", set()),
        ("B-PER E-PER S-LOC S-LOC", {("PER", 0, 2), ("LOC", 2, 3), ("LOC", 3, 4)}),
        ("B-PER I-PER L-PER U-PER U-PER", {("PER", 0, 3), ("PER", 3, 4), ("PER", 4, 5)}),
        ("B-PER M-PER E-PER I-PER", {("PER", 0, 3), ("PER", 3, 4)}),
        ("B I O I", {("_", 0, 2), ("_", 3, 4)}),
        ("NN NN VB O JJ", {("NN", 0, 2), ("VB", 2, 3), ("JJ", 4, 5)}),
        # recorded from seqeval 1.2.2, get_entities
        ("O I-ORG-X B-ORG-X O I-ORG-X I-LOC", {("ORG-X", 1, 2), ("ORG-X", 2, 3), ("ORG-X", 4, 5), ("LOC", 5, 6)}),
        ("I-PER B-PER O O I-ORG I-ORG I-ORG B-LOC", {("PER", 0, 1), ("PER", 1, 2), ("ORG", 4, 7), ("LOC", 7, 8)}),
        ("S-PER O B-LOC E-ORG E-ORG O", {("PER", 0, 1), ("LOC", 2, 3), ("ORG", 3, 4), ("ORG", 4, 5)}),
        ("I-LOC E-PER E-LOC I-LOC S-ORG", {("LOC", 0, 1), ("PER", 1, 2), ("LOC", 2, 3), ("LOC", 3, 4), ("ORG", 4, 5)}),
    ],
)
def test_what_is_named_is_told_from_the_tags(tags: str, named: set[tuple[str, int, int]]):
    assert entities(tags.split()) == named


# conlleval's rules: a pair of neighbouring tags ends the chunk before, begins a new one, or both
ENDING = {"BB", "BO", "BS", "IB", "IO", "IS", "EE", "EI", "EO", "EB", "ES", "SE", "SI", "SO", "SB", "SS"}
BEGINNING = {"BB", "IB", "OB", "OI", "OE", "OS", "EE", "EI", "EB", "ES", "SE", "SI", "SS", "SB", "BS", "IS"}


def conlleval(said: list[str], right: list[str]) -> tuple[int, int, int]:
    """Chunks that are right, found and wanted, counted in one pass over both sequences as the published script does."""

    def parts(tag: str) -> tuple[str, str]:
        prefix, _, kind = tag.partition("-")
        return {"L": "E", "U": "S"}.get(prefix, prefix), kind

    def ends(before: tuple[str, str], tag: tuple[str, str]) -> bool:
        return before[0] + tag[0] in ENDING or (before[0] != "O" and before[1] != tag[1])

    def begins(before: tuple[str, str], tag: tuple[str, str]) -> bool:
        return before[0] + tag[0] in BEGINNING or (tag[0] != "O" and before[1] != tag[1])

    outside = ("O", "")
    hits = found = wanted = 0
    together = False  # whether both are in a chunk of one type that began at one word
    last_a, last_b = outside, outside
    for a, b in [*zip(map(parts, said), map(parts, right), strict=True), (outside, outside)]:
        if together:
            over = ends(last_a, a), ends(last_b, b)
            hits += all(over) and last_a[1] == last_b[1]
            together = not any(over)
        new = begins(last_a, a), begins(last_b, b)
        together = together or (all(new) and a[1] == b[1])
        found, wanted = found + new[0], wanted + new[1]
        last_a, last_b = a, b
    return hits, found, wanted


@pytest.mark.parametrize("scheme", SCHEMES)
def test_entities_are_counted_as_conlleval_counts(scheme: str):
    generator = random.Random(scheme)
    tags = ["O", "O", *(f"{prefix}-{kind}" for prefix in SCHEMES[scheme] for kind in ("PER", "LOC"))]
    for _ in range(1500):
        right = [generator.choice(tags) for _ in range(generator.randrange(1, 14))]
        said = [tag if generator.random() < 0.7 else generator.choice(tags) for tag in right]
        hits, found, wanted = conlleval(said, right)
        scores = entity_scores([said], [right])
        assert scores["precision"].value == pytest.approx(100 * hits / found if found else 0), (said, right)
        assert scores["recall"].value == pytest.approx(100 * hits / wanted if wanted else 0), (said, right)
        assert scores["f1"].value == pytest.approx(200 * hits / (found + wanted) if found + wanted else 0)


@pytest.mark.parametrize(
    ("said", "right", "f1", "precision", "recall"),
    [  # recorded from seqeval 1.2.2 in its default mode
        ("B-PER E-PER O S-LOC", "B-PER E-PER O S-ORG", 0.5, 0.5, 0.5),
        ("B-PER I-PER E-PER S-LOC S-LOC", "B-PER E-PER O S-LOC B-LOC", 2 / 3, 2 / 3, 2 / 3),
        ("I-PER I-PER B-PER O", "I-PER I-PER I-PER O", 0.0, 0.0, 0.0),
        ("B-LOC I-LOC O I-PER", "I-LOC I-LOC O B-PER", 1.0, 1.0, 1.0),
    ],
)
def test_scores_are_those_of_seqeval(said: str, right: str, f1: float, precision: float, recall: float):
    found = entity_scores([said.split()], [right.split()])
    assert [found[name].value / 100 for name in ("f1", "precision", "recall")] == pytest.approx([f1, precision, recall])


def test_an_entity_counts_when_type_and_both_ends_agree():
    right = [["B-PER", "I-PER", "O", "B-LOC", "O", "B-ORG"], ["O", "B-LOC"]]
    said = [["B-PER", "I-PER", "O", "B-ORG", "O", "B-ORG"], ["B-LOC", "I-LOC"]]  # two of three, and none of one
    scores = entity_scores(said, right)
    assert scores["precision"].value == pytest.approx(100 * 2 / 4)
    assert scores["recall"].value == pytest.approx(100 * 2 / 4)
    assert scores["f1"].value == pytest.approx(50)
    assert entity_scores([["O"]], [["O"]])["f1"].value == 0


def test_tags_without_prefixes_are_scored_by_word():
    assert entity_scores([["VB", "NN", "JJ", "DT"]], [["NN", "VB", "DT", "JJ"]])["f1"].value == 0
    assert word_scores([["NN", "VB"], ["NN"]], [["NN", "NN"], ["NN"]])["accuracy"].value == pytest.approx(200 / 3)
    assert not have_prefixes(["ADJ", "INTJ", "NOUN", "O", "SYM", "X", "-LRB-", "IN", "E"])
    assert have_prefixes(["B-NP", "O", "NOUN"])
    assert have_prefixes(["B", "I", "O"])


def test_tags_of_the_older_way_are_begun():
    older = ["I-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-LOC", "I-ORG"]
    assert list(begun(older)) == ["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "I-LOC", "B-ORG"]
    assert begun(["B-PER", "I-PER"]) == ("B-PER", "I-PER")


@pytest.mark.parametrize("tags", ["O I-PER E-PER S-LOC", "U-PER I-LOC L-LOC", "NN IN I-X", "I I I", "INTJ NOUN"])
def test_tags_of_other_schemes_stay_as_they_are(tags: str):
    assert begun(tags.split()) == tuple(tags.split())


def test_answers_are_compared_as_squad_does():
    assert plain("The  Cat's, an hour!") == "cats hour"
    assert exact_match("the Eiffel Tower.", "Eiffel tower") == 1
    assert word_f1("the big red cat", "red cat sat") == pytest.approx(2 * 2 / 6)
    assert (word_f1("", ""), word_f1("a", ""), word_f1("cat", "dog")) == (1, 1, 0)
