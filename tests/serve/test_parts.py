"""The parts of a server, each alone: batches, sentences, names, keys, memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as such
from hypothesis import strategies as st

from made_models import write_model
from regard.errors import RegardError
from regard.serve.batching import Budget, Group, Item, Job, Waiting
from regard.serve.failures import ServeError
from regard.serve.keys import Keys
from regard.serve.metrics import Metrics
from regard.serve.pool import Pool
from regard.serve.process import Process, Reply
from regard.serve.registry import Entry, Facts, Registry, mark_of, named
from regard.serve.server import readable
from regard.serve.texts.sentences import lines, packed, sentences

FACTS = Facts(task="", pipeline="", answers="", example="")
ENTRY = Entry("a", Path("a"), FACTS)
WHITE = st.sampled_from(["", " ", "\n", "\n\n", " \r\n ", "\t"])
PIECES = st.lists(
    st.tuples(WHITE, st.sampled_from(["Hello.", "Mr. Smith went.", "Why?", "Ja!", "1.5 kg", "こんにちは。"]))
)
TEXTS = st.one_of(st.text(), PIECES.map(lambda pairs: "".join(white + text for white, text in pairs)))


def group(sizes: list[int], *, tokens: int) -> Group:
    items = [Item(f"{place}", size, lambda _: None, born=float(place)) for place, size in enumerate(sizes)]
    return Group(ENTRY, {}, Budget(tokens=tokens, characters=1.0), items=items)


@such(st.lists(st.integers(0, 99), min_size=1, max_size=20), st.integers(1, 300), st.integers(1, 4))
def test_a_batch_holds_the_oldest_input_and_no_more_than_the_budget(sizes: list[int], tokens: int, share: int):
    waiting, one = Waiting(), group(sizes, tokens=tokens)
    waiting.groups["a"] = one
    seen: list[Item] = []
    while one.items:
        first, before = one.items[0], list(one.items)
        room = min(tokens, one.tokens / share)
        taken = waiting.take(one, share)
        assert first in taken
        assert len(taken) == 1 or max(map(one.tokens_of, taken)) * len(taken) <= room
        farthest = max(abs(item.size - first.size) for item in taken)
        left = [item for item in before if item not in taken]
        assert one.items == left  # in the order in which they came
        assert all(abs(item.size - first.size) >= farthest for item in left)
        seen += taken
    assert sorted(item.born for item in seen) == [float(place) for place in range(len(sizes))]
    assert len(waiting) == 0


def test_a_batch_waits_until_it_is_whole_or_old_enough():
    one = group([9, 9], tokens=30)
    one.budget.measured(30, 1.0)
    assert one.budget.wait == 0.005
    assert one.due() == 0.005
    one.budget.measured(20, 0.004)
    assert one.due() == 0.0
    one.items.pop()
    assert one.due() == 0.001


@such(TEXTS)
def test_sentences_and_lines_joined_are_the_text(text: str):
    for found in (sentences(text), lines(text)):
        assert found.joined(found.parts) == text
        assert len(found.between) == len(found.parts) + 1
        assert all(part.strip() == part != "" for part in found.parts)
        assert not any(space.strip() for space in found.between)


@such(TEXTS, st.integers(0, 40), st.integers(20, 60))
def test_packed_sentences_fit_and_joined_are_the_text(text: str, together: int, longest: int):
    whole = sentences(text)
    if any(len(part) > longest for part in whole.parts):
        with pytest.raises(RegardError, match="break it into sentences"):
            packed(whole, length=len, together=together, longest=longest)
        return
    found = packed(whole, length=len, together=together, longest=longest)
    assert found.joined(found.parts) == text
    assert all(len(part) <= together or "  " in part or part in whole.parts for part in found.parts)
    joined = sum(len(part) for part in whole.parts) + len(whole.parts) - 1
    if joined <= together and "  " not in text and len(text.splitlines()) <= 1:
        assert len(found.parts) <= 1


@pytest.mark.parametrize("space", [" ", "\n", " \n"])
def test_a_long_run_of_white_space_is_no_more_work_than_its_length(space: str):
    text = "a" + space * 100_000 + "b"
    for found in (sentences(text), lines(text)):
        assert found.joined(found.parts) == text


def test_sentences_end_where_their_language_ends_them():
    text = "Mr. Smith went to St. Louis.  He slept.\nWhy?"
    assert sentences(text).parts == ["Mr. Smith went to St. Louis.", "He slept.", "Why?"]
    assert sentences(text).between == ["", "  ", "\n", ""]
    assert sentences("今日は。元気？", language="ja").parts == ["今日は。", "元気？"]


def test_models_have_names_that_an_address_can_hold(tmp_path: Path):
    model = write_model(tmp_path / "my model")
    assert named([str(model)]) == {"my model": model}
    (tmp_path / "current").symlink_to(model)
    assert named([str(tmp_path / "current")]) == {"current": tmp_path / "current"}
    assert named([f"en-de={model}", str(model)]).keys() == {"en-de", "my model"}
    for given in (f"a/b={model}", f"a%2f={model}", f"a\n={model}"):
        with pytest.raises(RegardError, match="cannot be the name of a model"):
            named([given])
    with pytest.raises(RegardError, match="two models are called 'x'"):
        named([f"x={model}", f"x={model}"])
    before = mark_of(model)
    (model / "recipe.toml").write_text((model / "recipe.toml").read_text() + "\n")
    assert mark_of(model) != before


def test_keys_come_from_a_file_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "keys").write_text("# mine\n one \n\ntwo\n")
    monkeypatch.setenv("REGARD_KEYS", "three, one,")
    keys = Keys.read(tmp_path / "keys")
    assert keys.known == ("one", "two", "three")
    assert repr(keys) == "3 keys"
    keys.admit("three")
    for given, status in ((None, 401), ("", 401), ("four", 403), ("on", 403), ("one ", 403), ("\ud800", 403)):
        with pytest.raises(ServeError) as error:
            keys.admit(given)
        assert error.value.status == status
        assert given is None or len(given) < 3 or given not in str(error.value)
    monkeypatch.delenv("REGARD_KEYS")
    Keys.read(None).admit(None)
    (tmp_path / "keys").write_text("# none\n")
    with pytest.raises(RegardError, match="holds no key"):
        Keys.read(tmp_path / "keys")


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "a" * 11])
def test_what_is_no_text_is_refused_wherever_it_stands(text: str):
    for given in (text, [text], {"a": text}, {text: 1}, {"a": [[text]]}):
        with pytest.raises(ServeError):
            readable([given], most=10)
    readable(["a" * 10, 3, None, {"b": 1.5}], most=11)


class Told(Process):
    """A worker that is not started and keeps what it is told."""

    def __init__(self, held: dict[str, float]) -> None:
        self.held, self.used = {name: [1] for name in held}, dict(held)
        self.told: list[Any] = []

    def tell(self, message: dict[str, Any]) -> None:
        self.told.append(message["name"])


class Given(Process):
    """A worker that is not started and keeps what it is given."""

    def __init__(self) -> None:
        self.held, self.used, self.given = {"a": [1]}, {}, 0.0
        self.sizes: list[int] = []
        self.alone = False

    @property
    def idle(self) -> bool:
        return not self.sizes

    @property
    def takes_next(self) -> bool:
        return len(self.sizes) == 1 and not self.alone

    def start(self, message: dict[str, Any], reply: Reply, *, batch: bool) -> None:  # noqa: ARG002 - as it is called
        self.sizes.append(len(message["inputs"]))
        self.alone = not batch


def test_a_worker_holds_the_next_batch_if_a_whole_one_waits():
    first, second = Given(), Given()
    pool = Pool([], 2, Registry(), Metrics(), 100, processes=[first, second])
    pool.budgets["a"] = Budget(tokens=40, characters=1.0)

    def ask(number: int, verb: str = "run") -> None:
        pool.submit(Job(ENTRY, verb), [Item("word", 4, lambda _: None, born=0.0) for _ in range(number)])

    ask(16)
    assert (first.sizes, second.sizes) == ([8], [8])
    ask(7)
    assert len(pool.waiting) == 7  # 35 tokens are no whole batch
    ask(10)
    assert (first.sizes, second.sizes) == ([8, 8], [8, 8])
    ask(8)
    assert len(pool.waiting) == 9  # each holds one batch and no more
    alone = Given()
    pool = Pool([], 1, Registry(), Metrics(), 100, processes=[alone])
    ask(1, "look")
    ask(300 // 5)
    assert alone.sizes == [1]  # nothing is held behind what is no batch


def test_what_was_asked_least_recently_is_unloaded(tmp_path: Path):
    registry = Registry()
    for name, size in (("a", 40), ("b", 30), ("c", 50)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights.safetensors").write_bytes(bytes(size))
        registry.add(Entry(name, tmp_path / name, FACTS))
    first, second = Told({"a": 5.0, "b": 1.0}), Told({"a": 2.0})
    pool = Pool([], 2, registry, Metrics(), 1, memory=150, processes=[first, second])
    pool._make_room(registry.find("c"))  # 110 are held
    assert (first.told, second.told) == (["b"], [])
    pool.memory = 95
    pool._make_room(registry.find("c"))
    assert (first.told, second.told) == (["b"], ["a"])
    assert first.held == {"a": [1]}
