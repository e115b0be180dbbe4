"""Tagging schemes: which entities the tags of a sentence mean, and how tags are scored.

IOB1, IOB2    B-X begins an entity of type X, I-X continues it, O is outside; IOB1 writes B only between two entities
IOBES, BILOU  E or L is the last word of an entity, S or U an entity of one word; BMES writes M for I
none          a tag is a class of words, such as a part of speech
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.tasks.base import Score
from regard.tasks.parts import counted

OUTSIDE = "O"
BEGINS, ENDS = frozenset("BSU"), frozenset("ESLU")  # prefixes of the first and of the last word of an entity
PREFIX = re.compile(r"([BIMESLU])(?:-(.+))?", re.DOTALL)


def split_tag(tag: str) -> tuple[str, str]:
    """The prefix and the type of a tag. A tag without a prefix is its own type; a prefix alone has the type _."""
    found = PREFIX.fullmatch(tag)
    return (found[1], found[2] or "_") if found else ("", tag)


def have_prefixes(labels: Sequence[str]) -> bool:
    """Whether tags tell where entities begin: some are a prefix and a type, or all are prefixes alone, or O."""
    return any("-" in tag and split_tag(tag)[0] for tag in labels) or (
        OUTSIDE in labels and all(tag == OUTSIDE or split_tag(tag)[0] for tag in labels)
    )


def entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """The entities of a sentence: type, first word and the one after the last, by the rules of conlleval.

    An entity begins at B, S and U, after O, after E, S, L and U, and where the type changes; everything else continues
    the entity before it. IOB1, IOB2, IOBES and BILOU are read alike.
    """
    found: set[tuple[str, int, int]] = set()
    begin, before = 0, OUTSIDE
    for place, tag in enumerate([*tags, OUTSIDE]):
        if not _continues(before, tag):
            if before != OUTSIDE:
                found.add((split_tag(before)[1], begin, place))
            begin = place
        before = tag
    return found


def _continues(before: str, tag: str) -> bool:
    """Whether a tag continues the entity of the tag before it."""
    if OUTSIDE in (before, tag):
        return False
    (last, old), (prefix, new) = split_tag(before), split_tag(tag)
    return old == new and last not in ENDS and prefix not in BEGINS


def entity_scores(said: Sequence[Sequence[str]], right: Sequence[Sequence[str]]) -> dict[str, Score]:
    """Precision, recall and F1 of all entities, as CoNLL counts: type and both ends must agree."""
    pairs = [(entities(a), entities(b)) for a, b in zip(said, right, strict=True)]
    hits = sum(len(a & b) for a, b in pairs)
    named, wanted = sum(len(a) for a, _ in pairs), sum(len(b) for _, b in pairs)
    f1 = 2 * hits / (named + wanted) if named + wanted else 0.0
    both, found, there = (
        counted([(times * len(a & b), size(a, b)) for a, b in pairs])
        for times, size in ((2, lambda a, b: len(a) + len(b)), (1, lambda a, _: len(a)), (1, lambda _, b: len(b)))
    )
    return {
        "f1": Score(100 * f1, f"of {wanted} entities, type and both ends right, in percent", both),
        "precision": Score(100 * hits / named if named else 0.0, f"{hits} of {named} found are right", found),
        "recall": Score(100 * hits / wanted if wanted else 0.0, f"{hits} of {wanted} are found", there),
    }


def word_scores(said: Sequence[Sequence[str]], right: Sequence[Sequence[str]]) -> dict[str, Score]:
    """The share of words whose tag is right."""
    words = sum(map(len, right))
    each = [sum(a == b for a, b in zip(*both, strict=True)) for both in zip(said, right, strict=True)]
    parts = counted(list(zip(each, map(len, right), strict=True)))
    return {"accuracy": Score(100 * sum(each) / words, f"percent of {words} words", parts)}


def begun(tags: Sequence[str]) -> tuple[str, ...]:
    """IOB1 as IOB2: every entity begins with B. Tags of other schemes, and those without prefixes, stay as they are."""
    if not all(tag == OUTSIDE or tag.startswith(("B-", "I-")) for tag in tags):
        return tuple(tags)
    before = (OUTSIDE, *tags)
    return tuple(
        f"B{tag[1:]}" if tag.startswith("I-") and not _continues(last, tag) else tag
        for last, tag in zip(before, tags, strict=False)
    )
