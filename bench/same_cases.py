"""What `python -m bench same` trains: small synthetic corpora, and one case or more for every task."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Table = Mapping[str, Any]
Options = tuple[str, ...]

DATA = "../../data"  # from the folder that the commands of a case run in
STEPS = 36
HALF = STEPS // 2
TRAINING: Table = {
    "steps": STEPS,
    "batch_tokens": 256,
    "learning_rate": 0.005,
    "warmup": 4,
    "schedule": "constant",  # which does not depend on `steps`: a run of half the steps goes the same way
    "validate_every": 4,
    "checkpoint_every": 6,
    "record_every": 3,
    "precision": "float32",
    "device": "cpu",
    "threads": 1,
}


@dataclass(frozen=True)
class Case:
    """A recipe, and what is asked of the model.

    Each entry of `answers`, `evaluations` and `looks` is the options of one `regard run`, `evaluate` or `look`. `body`
    names the case whose model, trained by the earlier checkout, [model] or [data] refers to.
    """

    name: str
    recipe: Mapping[str, Any]
    texts: Options
    answers: Sequence[Options] = ((), ("--json",))
    evaluations: Sequence[Options] = ((),)
    looks: Sequence[Options] = ((),)
    looked_at: str = ""  # the text of `look`, if not the first of `texts`
    body: str = ""


def case(
    name: str,
    task: str,
    model: Table,
    data: Table,
    texts: Options,
    *,
    training: Table | None = None,
    tokenizer: Table | None = None,
    decoding: Table | None = None,
    **asked: Any,
) -> Case:
    """A case whose recipe has the common [training] and [tokenizer], but for what is given."""
    named = {key: f"{DATA}/{each}" if key in ("train", "valid", "test") else each for key, each in data.items()}
    recipe: dict[str, Any] = {"task": task, "data": named, "model": model, "training": {**TRAINING, **(training or {})}}
    recipe["tokenizer"] = {"kind": "wordpiece", "vocabulary": 150, **(tokenizer or {})}
    return Case(name, recipe | ({"decoding": decoding} if decoding else {}), texts, **asked)


def body_of(name: str) -> str:
    """The model of another case, as the earlier checkout trained it."""
    return f"../../before/{name}/full"


SMALL: Table = {"layers": 2, "width": 32, "heads": 4, "dropout": 0.1}
BERT: Table = {"kind": "bert", "maximum": 64, **SMALL}
TRANSFORMER: Table = {"kind": "transformer", "hidden": 64, "wiring": "pre_norm", **SMALL}
ON_BERT: Table = {"body": body_of("fill-bert")}
BPE: Table = {"kind": "bpe", "dropout": 0.1}
FEW: Table = {"beam": 3, "max_length": 24}
SENTENCES = ("the small dog sees a red house near Paris", "a green fox takes the old boat to Oslo", "")
QUESTIONS = ("where is the dog ?\tthe dog is in Paris . the fox is in New York .", "where is the fish ?\tnowhere .")
# answers short enough that parts of a passage begin every `stride` tokens: with longer ones they begin more often
PASSAGES: Table = {"max_length": 24, "stride": 8, "max_answer": 4, "hold_out": 20}
PAIRS: Table = {"train": "pairs.tsv", "test": "pairs-test.tsv"}
SEARCHES = (
    *((), ("--json",), ("--n-best", "3"), ("--alignment",), ("--alignment", "--json", "--runtime", "torch")),
    *(("--sample", "--seed", "3", "--n-best", "2"), ("--prefix", "ith", "--beam", "1"), ("--replace-unknown",)),
)
WRITING = (("--seed", "3"), ("--samples", "2", "--seed", "3", "--json"), ("--max-length", "9", "--beam", "2", "--json"))

CASES = (
    case(
        *("translate", "translate", TRANSFORMER, PAIRS, SENTENCES),
        training={"average": 2, "r_drop": 0.5, "schedule": "noam", "learning_rate": 0.2},
        tokenizer=BPE,
        decoding={**FEW, "shortlist": True},
        answers=SEARCHES,
        evaluations=((), ("--beam", "1", "--tokenized"), ("--against", "half")),
        looks=((), ("--reference", "ith llams gid"), ("--statistics", f"{DATA}/lines.txt")),
    ),
    case(
        *("translate-teacher", "translate", TRANSFORMER, {**PAIRS, "teacher": body_of("translate")}, SENTENCES),
        decoding=FEW,
        body="translate",
    ),
    case(
        *("transcribe", "transcribe", {"kind": "seq2seq", "cell": "gru", "width": 32}, {"train": "spelling.tsv"}),
        ("dog", "small", "paris"),
        tokenizer={"kind": "characters", "target_kind": "words", "vocabulary": 60, "shared": False},
        decoding=FEW,
        answers=SEARCHES[:4],
    ),
    case(
        *("write-gpt", "write", {"kind": "gpt", "position": "rotary", **SMALL}, {"train": "text.txt", "block": 32}),
        ("the small dog", "in Paris"),
        training={"accumulate": 2, "optimiser": "adamw", "weight_decay": 0.1},
        tokenizer={"kind": "characters"},
        decoding={"beam": 1, "sample": True, "max_length": 40},
        answers=WRITING,
    ),
    case(
        *("write-rnn", "write", {"kind": "rnn", "layers": 2, "width": 32, "dropout": 0.2}),
        {"train": "text.txt", "block": 16, "carry": 16},
        ("the small dog", "a fox"),
        tokenizer={"kind": "words"},
        decoding={"beam": 1, "sample": True, "max_length": 20},
        answers=WRITING,
    ),
    case(
        *("fill-bert", "fill", BERT, {"train": "documents.txt", "hold_out": 8, "whole_words": True}),
        ("the small [MASK] sees a red house .", "a [MASK] fox takes the [MASK] boat ."),
        looks=((), ("--statistics", f"{DATA}/lines.txt")),
    ),
    case(
        *("fill-elmo", "fill", {"kind": "elmo", "layers": 2, "width": 16}, {"train": "documents.txt"}),
        ("the small [MASK] sees a red house .",),
        looked_at="the small dog sees a red house .",
    ),
    case(
        *("embed", "embed", {**ON_BERT, "pooling": "mean"}),
        {"train": "similar.tsv", "test": "scored.tsv", "columns": {"score": 3}},
        SENTENCES,
        body="fill-bert",
    ),
    case(
        *("classify-bert", "classify", BERT, {"train": "labels.tsv", "valid": "labels-test.tsv"}, SENTENCES),
        training={"ema": 0.9, "label_smoothing": 0.1, "average_of": "best", "checkpoint_every": 4},
        looks=((), ("--reference", "food", "--layer", "1")),
    ),
    case(
        *("classify-lora", "classify", {**ON_BERT, "pooling": "mean"}),
        {"train": "two.tsv", "hold_out": 20, "columns": {"text": "first", "pair": "second", "label": "same"}},
        ("the dog sees a house\ta house sees the dog", "a fox\ta fox"),
        training={"lora": 2},
        evaluations=((), ("--data", f"{DATA}/two.tsv")),
        body="fill-bert",
    ),
    case(
        *(
            "classify-gpt",
            "classify",
            {"body": body_of("write-gpt")},
            {"train": "labels.tsv", "hold_out": 20},
            SENTENCES,
        ),
        training={"freeze": 1},
        body="write-gpt",
    ),
    case(
        *(
            "classify-rnn",
            "classify",
            {"body": body_of("write-rnn")},
            {"train": "labels.tsv", "hold_out": 20},
            SENTENCES,
        ),
        body="write-rnn",
    ),
    case(
        *("tag", "tag", ON_BERT, {"train": "tags.txt", "test": "tags-test.txt"}, SENTENCES[:2]),
        training={"layer_decay": 0.8},
        body="fill-bert",
    ),
    case(
        *("tag-elmo", "tag", {"body": body_of("fill-elmo")}, {"train": "tags.txt"}, SENTENCES[:2]),
        training={"learning_rate": 0.03},
        body="fill-elmo",
    ),
    case(*("answer", "answer", BERT, {"train": "questions.jsonl", **PASSAGES}, QUESTIONS)),
    case(
        *("answer-impossible", "answer", ON_BERT, {"train": "all-questions.jsonl", "impossible": True, **PASSAGES}),
        QUESTIONS,
        body="fill-bert",
    ),
)

ANIMALS, COLOURS = ("dog", "fox", "cat", "bird", "fish", "horse"), ("red", "green", "small", "old", "grey")
VERBS, THINGS = ("sees", "takes", "wants", "paints"), {"house": "place", "boat": "way", "cake": "food", "road": "way"}
CITIES = ("Paris", "Oslo", "New York", "Rome")
SAME = {"sees": "looks at", "takes": "picks up", "small": "little", "old": "ancient", "boat": "ship"}


def write_data(folder: Path) -> None:
    """Write the corpora that the cases name; they are the same in every run."""
    draw = random.Random(1)
    texts = [_sentence(draw) for _ in range(240)]
    alike = [" ".join(SAME.get(word, word) for word in text.split()) for text in texts]
    pairs = [f"{text}\t{' '.join(word[::-1] for word in text.split())}" for text in texts]
    words = sorted({word.lower() for text in texts for word in text.split()} | set(SAME))
    labelled = [f"{text}\t{label}" for text in texts for thing, label in THINGS.items() if thing in text]
    choices = [(text, text) if draw.random() < 0.4 else (text, draw.choice(alike)) for text in texts]
    tagged = [line for text in texts for line in (*_tags(text), "")]
    questions = [_question(draw) for _ in range(160)]
    possible = [question for question in questions if question["answers"]["text"]]
    files: dict[str, list[str]] = {
        "pairs.tsv": pairs[:200],
        "pairs-test.tsv": pairs[200:212],
        "spelling.tsv": [f"{word}\t{' '.join(sound)}" for word in words for sound in {word.upper(): 0, word[:4]: 0}],
        "lines.txt": texts[:5],
        "text.txt": [f"{text} ." for text in texts],
        "documents.txt": [f"{text} ." + "\n" * (at % 5 == 4) for at, text in enumerate(texts)],
        "labels.tsv": labelled[:200],
        "labels-test.tsv": labelled[200:],
        "similar.tsv": [f"{text}\t{other}" for text, other in zip(texts[:200], alike, strict=False)],
        "scored.tsv": [f"{texts[at]}\t{alike[at - at % 3]}\t{2 - at % 3}" for at in range(200, 240)],
        "two.tsv": ["first\tsecond\tsame", *(f"{text}\t{other}\t{int(text == other)}" for text, other in choices)],
        "tags.txt": tagged,
        "tags-test.txt": tagged[-300:],
        "questions.jsonl": [json.dumps(question) for question in possible],
        "all-questions.jsonl": [json.dumps(question) for question in questions],
    }
    folder.mkdir()
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _sentence(draw: random.Random) -> str:
    first, second = (f"{draw.choice(('the', 'a'))} {draw.choice(COLOURS)}" for _ in range(2))
    where = draw.choice(("", f" {draw.choice(('near', 'in'))} {draw.choice(CITIES)}"))
    return f"{first} {draw.choice(ANIMALS)} {draw.choice(VERBS)} {second} {draw.choice(list(THINGS))}{where}"


def _tags(text: str) -> Iterator[str]:
    """Each word with its tag; words that begin with a capital name a place."""
    tag = "O"
    for word in text.split():
        tag = "O" if word.islower() else "B-LOC" if tag == "O" else "I-LOC"
        yield f"{word} {tag}"


def _question(draw: random.Random) -> dict[str, Any]:
    animals, cities = draw.sample(ANIMALS, 4), draw.sample(CITIES, 3)
    context = " ".join(f"the {animal} is in {city} ." for animal, city in zip(animals, cities, strict=False))
    asked = draw.randrange(4)  # the passage does not say where the last of the animals is
    right = [cities[asked]] if asked < 3 else []
    answers = {"text": right, "answer_start": [context.index(city) for city in right]}
    return {"context": context, "question": f"where is the {animals[asked]} ?", "answers": answers}
