"""The scores of every task are the same whether one process answers everything or several answer their shares, and
whether they are computed at once or from what each example adds to them."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy
import pytest

import regard
from bench.same_cases import write_data
from regard import recipes
from regard.data.streams import Share
from regard.tasks import TASKS
from regard.tasks.base import RunOptions
from regard.tasks.together import Said, of_each, spread, spread_over, together

TRAINING = {"steps": 2, "warmup": 1, "learning_rate": 0.01, "validate_every": 0, "precision": "float32", "threads": 1}
SMALL = {"layers": 1, "width": 12, "dropout": 0.0}
HEADS = {**SMALL, "heads": 2}
BERT = {"kind": "bert", "maximum": 64, **HEADS}
CHARACTERS = {"tokenizer": {"kind": "characters"}}
FEW = {"decoding": {"beam": 1, "max_length": 8}}
CASES: dict[str, dict[str, Any]] = {
    "translate": {"data": {"train": "pairs.tsv"}, "model": {"kind": "transformer", **HEADS}, **FEW},
    "transcribe": {"data": {"train": "spelling.tsv"}, "model": {"kind": "seq2seq", "width": 12}, **CHARACTERS, **FEW},
    "write gpt": {"data": {"train": "text.txt", "block": 16}, "model": {"kind": "gpt", **HEADS}, **CHARACTERS},
    "write rnn": {"data": {"train": "text.txt", "block": 16}, "model": {"kind": "rnn", **SMALL}, **CHARACTERS},
    "write xl": {
        "data": {"train": "text.txt", "block": 64},
        "model": {"kind": "transformer_xl", **HEADS},
        **CHARACTERS,
    },
    "classify": {"data": {"train": "labels.tsv"}, "model": BERT},
    "tag": {"data": {"train": "tags.txt"}, "model": BERT},
    "answer": {"data": {"train": "questions.jsonl"}, "model": BERT},
    "embed": {"data": {"train": "similar.tsv"}, "model": BERT},
    "rank": {"data": {"train": "ranked.tsv"}, "model": BERT},
    "fill bert": {"data": {"train": "documents.txt"}, "model": BERT},
    "fill elmo": {"data": {"train": "documents.txt"}, "model": {"kind": "elmo", **SMALL}},
    "sets": {"data": {"train": "largest:train?examples=60"}, "model": {"kind": "deep_sets", "width": 12}},
    "see": {"data": {"train": "pictures.npz"}, "model": {"kind": "vit", "patch_size": 4, **HEADS}},
    "caption": {"data": {"train": "drawn:train?examples=40"}, "model": {"kind": "caption", "width": 12}, **FEW},
    "nodes": {
        "data": {"train": "graph:lookup?keys=5&groups=20&noise=2", "neighbours": [4, 4]},
        "model": {"kind": "gat", "hidden_layers": 1, "width": 8},
        "training": {"batch_size": 10},
    },
    "forecast": {"data": {"train": "series:airline"}, "model": {"kind": "forecaster", "width": 8}},
}

# scores that are not made of what each example adds to them
WHOLE = {"bits_per_character", "owa", "perplexity", "pointing", "spearman"}


class Member:
    """One of several threads that answer together. Like processes, they exchange JSON."""

    def __init__(self, share: Share, meeting: Barrier, board: dict[int, str]) -> None:
        self.share, self.meeting, self.board = share, meeting, board
        self.times = 0

    def each(self, make: Callable[[], Said]) -> list[Said]:
        self.times += 1
        self.board[self.share.rank] = json.dumps(make())
        self.meeting.wait()
        said = [json.loads(self.board[rank]) for rank in range(self.share.world)]
        self.meeting.wait()
        return said


def several(world: int, work: Callable[[], Said]) -> Said:
    """What all of `world` members find, which must be the same."""
    meeting, board = Barrier(world), dict[int, str]()
    members = [Member(Share(rank, world), meeting, board) for rank in range(world)]

    def find(member: Member) -> Said:
        with spread_over(member):
            return work()

    with ThreadPoolExecutor(world) as pool:
        waiting = [pool.submit(find, member) for member in members]
        for each in waiting:
            each.add_done_callback(lambda done: meeting.abort() if done.exception() else None)
        first, *others = (each.result() for each in waiting)
    assert all(other == first for other in others)
    assert all(member.times > 0 for member in members) or world == 1
    return first


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "files"
    write_data(folder)
    pairs = [line.split("\t") for line in (folder / "similar.tsv").read_text().splitlines()[:40]]
    ranked = [f"{query}\t{text}\t{int(text == right)}" for query, right in pairs for text in (right, pairs[0][1])]
    (folder / "ranked.tsv").write_text("\n".join(ranked))
    images = numpy.random.default_rng(1).integers(0, 255, (40, 8, 8, 3), dtype=numpy.uint8)
    numpy.savez(folder / "pictures.npz", images=images, labels=images[:, 0, 0, 0] % 7)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_several_find_the_scores_that_one_finds(data: Path, tmp_path: Path, name: str) -> None:
    tables = CASES[name]
    train = tables["data"]["train"]
    named = {**tables["data"], "train": str(data / train) if ":" not in train else train}
    training = {**TRAINING, **tables.get("training", {})}
    table = {**tables, "task": name.split()[0], "data": named, "training": training}
    model = regard.train(recipes.make(table, where=name), out=tmp_path / "model")
    exam = model.task.exam(model.examples(), RunOptions(model.recipe.decoding))
    alone, found = exam.scores(model.module), several(3, lambda: exam.scores(model.module))
    assert {key: score.signature for key, score in found.items()} == {
        key: score.signature for key, score in alone.items()
    }
    values = [{key: score.value for key, score in each.items()} for each in (found, alone)]
    assert values[0] == pytest.approx(values[1], rel=1e-5, nan_ok=True)
    assert {key for key, score in alone.items() if score.parts is None} <= WHOLE
    for key, score in [*alone.items(), *found.items()]:
        if score.parts is not None:
            assert score.parts.score() == pytest.approx(score.value, rel=1e-5, nan_ok=True), key


def test_every_task_is_scored_by_several() -> None:
    assert {name.split()[0] for name in CASES} == set(TASKS)


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_answers_come_in_order(world: int) -> None:
    asked: list[list[int]] = []

    def answer(some: list[int]) -> list[int]:
        asked.append(some)
        return [10 * each for each in some]

    assert several(world, lambda: together(list(range(5)), answer)) == [0, 10, 20, 30, 40]
    assert len(asked) == min(world, 5)
    assert max(map(len, asked)) == -(-5 // world)


def test_items_are_spread_once_each() -> None:
    assert sorted(several(3, lambda: spread(iter(range(8)), lambda item: [item, item]))) == sorted([*range(8)] * 2)
    assert several(3, lambda: of_each(lambda share: share.rank)) == [0, 1, 2]


def test_outside_one_process_answers_everything() -> None:
    assert together([1, 2], lambda some: [some]) == [[1, 2]]
    assert of_each(lambda share: (share.rank, share.world)) == [(0, 1)]
