"""Small files for the models of the gallery: sentences of a grammar, with labels, tags and questions about them, and
drawn pictures with labels."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy

from regard.data import made
from regard.data.made import drawn

NOUNS = ("cat", "dog", "bird", "horse", "child")
ADJECTIVES = ("red", "old", "small", "happy", "quiet")
VERBS = ("sees", "likes", "hears", "follows")
TAGS = ("DET", "ADJ", "NOUN", "VERB", "DET", "ADJ", "NOUN", "PUNCT")
COUNT = 1500
SCENES = "drawn:train?examples=2000"


class Sentence(NamedTuple):
    """Who does what to whom."""

    adjective: str
    subject: str
    verb: str
    other: str
    thing: str

    @property
    def text(self) -> str:
        return f"the {self.adjective} {self.subject} {self.verb} the {self.other} {self.thing} ."


def sentences() -> list[Sentence]:
    draw = Random(1)
    return [
        Sentence(*(draw.choice(words) for words in (ADJECTIVES, NOUNS, VERBS, ADJECTIVES, NOUNS))) for _ in range(COUNT)
    ]


def write_files(folder: Path) -> None:
    """sentences.txt, each a text of its own; text.txt, many on a line; labels.tsv, who acts; pairs.tsv, whether the
    same one acts in both; tags.tsv, questions.jsonl and shapes.npz."""
    every = sentences()
    seconds = [
        other._replace(subject=one.subject) if at % 2 else other for at, (one, other) in enumerate(pairwise(every))
    ]
    questions = [
        {
            "context": each.text,
            "question": question,
            "answer": answer,
            "answer_start": each.text.index(f" {answer} ") + 1,
        }
        for each in every
        if each.subject != each.thing
        for question, answer in (
            (f"{each.verb} the {each.thing} .", each.subject),
            (f"the {each.subject} {each.verb} .", each.thing),
        )
    ]
    tagged = ("".join(f"{word}\t{tag}\n" for word, tag in zip(each.text.split(), TAGS, strict=True)) for each in every)
    files = {
        "sentences.txt": "\n\n".join(each.text for each in every),
        "text.txt": "\n".join(" ".join(each.text for each in every[at : at + 50]) for at in range(0, COUNT, 50)),
        "labels.tsv": "".join(f"{each.text}\t{each.subject}\n" for each in every),
        "pairs.tsv": "".join(
            f"{one.text}\t{other.text}\t{'same' if one.subject == other.subject else 'other'}\n"
            for one, other in zip(every, seconds, strict=False)
        ),
        "tags.tsv": "\n".join(tagged),
        "questions.jsonl": "".join(f"{json.dumps(each)}\n" for each in questions),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    write_shapes(folder / "shapes.npz")


def write_shapes(path: Path) -> None:
    """Pictures of two objects each; the label is the colour of the larger one."""
    scenes = [scene for scene, _ in made.rows(SCENES)]
    labels = [drawn.read_scene(scene)[0].colour for scene in scenes]
    numpy.savez_compressed(path, images=drawn.pictures(scenes), labels=labels)
