"""Examples made by a rule: their values by other means, their lengths, their parts, and what is refused."""

from collections import Counter
from collections.abc import Callable
from itertools import islice
from random import Random

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as some

from regard.data import made
from regard.data.files import has_column, is_numbered, read_rows, stamp
from regard.data.made.listops import ListOps
from regard.errors import RegardError

PARTS = ("train", "valid", "test")


def evaluated(text: str) -> int:
    """The value of a list by a stack: digits are pushed, a closing bracket takes all back to its operation."""
    operations: dict[str, Callable[[list[int]], int]] = {
        "[MIN": lambda values: int(numpy.min(values)),
        "[MAX": lambda values: int(numpy.max(values)),
        "[MED": lambda values: int(numpy.floor(numpy.median(values))),
        "[SM": lambda values: int(numpy.sum(values)) % 10,
    }
    stack: list[int | str] = []
    for word in text.split(" "):
        if word != "]":
            stack.append(word if word.startswith("[") else int(word))
            continue
        values: list[int] = []
        while isinstance(top := stack.pop(), int):
            values.append(top)
        stack.append(operations[top](values))
    (value,) = stack
    assert isinstance(value, int)
    return value


def depth_of(text: str) -> int:
    change = [word.startswith("[") - (word == "]") for word in text.split()]
    assert sum(change) == 0
    return int(numpy.cumsum(change).max())


def arguments_of(text: str) -> list[int]:
    """The number of arguments of each list."""
    found, open_lists = [], [0]
    for word in text.split():
        if word == "]":
            found.append(open_lists.pop())
            continue
        open_lists[-1] += 1
        if word.startswith("["):
            open_lists.append(0)
    return found


def test_the_stack_machine_knows_the_values() -> None:
    assert evaluated("[MAX 2 9 [MIN 4 7 ] 0 ]") == 9
    assert evaluated("[MED 1 4 ]") == 2
    assert evaluated("[SM 9 8 [MED 3 1 2 ] ]") == 9


@given(
    seed=some.integers(0, 2**32),
    shortest=some.integers(4, 60),
    more=some.integers(0, 200),
    depth=some.integers(6, 10),
    arguments=some.integers(4, 12),
)
def test_a_list_has_its_value_and_stays_within_its_bounds(
    seed: int, shortest: int, more: int, depth: int, arguments: int
) -> None:
    longest = shortest + more
    rule = ListOps(shortest=shortest, longest=longest, depth=depth, arguments=arguments)
    text, value = rule.draw(Random(seed))
    assert int(value) == evaluated(text)
    assert shortest <= len(text.split()) <= longest
    assert depth_of(text) <= depth
    assert min(arguments_of(text)) >= 2
    assert max(arguments_of(text)) <= arguments


def root_arguments(text: str) -> list[str]:
    """The first token of each argument of the whole list."""
    words, deep = text.split(), 0
    found = []
    for word in words[1:-1]:
        if deep == 0:
            found.append(word)
        deep += word.startswith("[") - (word == "]")
    return found


def test_a_quarter_of_the_arguments_are_lists_as_in_the_long_range_arena() -> None:
    random, rule = Random(1), ListOps(shortest=4, longest=100_000)
    arguments = [root_arguments(rule.draw(random)[0]) for _ in range(3000)]
    amounts = Counter(len(each) for each in arguments)
    assert set(amounts) == set(range(2, 11))
    assert abs(numpy.mean([len(each) for each in arguments]) - 6) < 0.2  # σ = 2.58/√3000 = 0.047
    nested = [word.startswith("[") for each in arguments for word in each]
    assert abs(numpy.mean(nested) - 0.25) < 0.015  # σ = √(3/16 / 18,000) = 0.0032


def test_the_values_are_all_there() -> None:
    rows = list(made.rows("listops:train?longest=160&shortest=40&examples=1200"))
    values = Counter(value for _, value in rows)
    assert set(values) == set("0123456789")
    assert max(values.values()) < 0.3 * len(rows)
    assert max(depth_of(text) for text, _ in rows) > 5


def test_every_operation_stands_at_the_root_alike() -> None:
    roots = Counter(text.split()[0] for text, _ in made.rows("listops:train?longest=32&examples=800"))
    assert set(roots) == {"[MIN", "[MAX", "[MED", "[SM"}
    assert min(roots.values()) > 130


@pytest.mark.parametrize("name", [name for name in made.RULES if name != "drawn"])
def test_parts_have_no_example_in_common_and_are_the_same_each_time(name: str) -> None:
    texts = {part: [text for text, _ in made.rows(f"{name}:{part}?longest=24&examples=150")] for part in PARTS}
    assert all(len(set(each)) == 150 for each in texts.values())
    assert len({text for each in texts.values() for text in each}) == 450
    again = [text for text, _ in made.rows(f"{name}:test?longest=24&examples=150")]
    assert again == texts["test"]


def test_parts_of_drawn_pictures_have_no_scene_in_common() -> None:
    scenes = {part: [scene for scene, _ in made.rows(f"drawn:{part}?examples=150")] for part in PARTS}
    assert len({scene for each in scenes.values() for scene in each}) == 450
    assert [scene for scene, _ in made.rows("drawn:test?examples=150")] == scenes["test"]


def test_parts_stay_apart_with_other_settings() -> None:
    """An example belongs to its part by its text, so longer tests never hold what shorter training held."""
    learned = {text for text, _ in made.rows("copy:train?longest=3&examples=500")}
    tested = {text for text, _ in made.rows("copy:test?longest=4&examples=500")}
    assert len(learned) == len(tested) == 500
    assert not learned & tested


def test_more_examples_begin_with_the_same_ones() -> None:
    few = list(made.rows("listops:valid?examples=20&longest=40"))
    assert list(islice(made.rows("listops:valid?longest=40&examples=500"), 20)) == few


@pytest.mark.parametrize("seed", range(20))
def test_copy_reverse_and_addition_are_what_they_say(seed: int) -> None:
    random = Random(seed)
    for name, wanted in {"copy": lambda text: text, "reverse": lambda text: text[::-1]}.items():
        text, target = made.RULES[name](shortest=2, longest=9).draw(random)
        assert target == wanted(text)
        assert 2 <= len(text.split()) <= 9
    text, target = made.RULES["addition"](shortest=5, longest=12).draw(random)
    left, right = text.replace(" ", "").split("+")
    assert int(left) + int(right) == int(target.replace(" ", ""))
    assert 5 <= len(text.split()) <= 12
    assert (str(int(left)), str(int(right))) == (left, right)
    text, target = made.RULES["addition"](shortest=5, longest=12, first="lowest").draw(random)
    left, right = (int(number[::-1]) for number in text.replace(" ", "").split("+"))
    assert str(left + right) == target.replace(" ", "")[::-1]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("listops:dev", "listops:train, listops:valid, listops:test"),
        ("listops:train?longst=40", "longest"),
        ("listops:train?longest=many", "longest"),
        ("listops:train?examples=0", "examples"),
        ("addition:train?first=middle", "first"),
        ("listops:train?shortest=3", "at least 4 tokens"),
        ("listops:train?shortest=600", "no shorter than the shortest"),
        ("listops:train?arguments=1", "arguments"),
        ("listops:train?depth=1", "at most 12 tokens"),
        ("listops:train?arguments=2&depth=2&shortest=9&longest=9", "no list of 9 to 9 tokens"),
        ("copy:train?shortest=9&longest=8", "shortest = 9"),
        ("copy:train?longest=1&examples=50", "different examples were found; ask for fewer"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(name: str, told: str) -> None:
    with pytest.raises(RegardError, match="(?s)" + told):
        list(made.rows(name))


def test_a_name_of_a_rule_stands_where_a_file_could() -> None:
    name = "listops:train?examples=3"
    rows = list(made.rows(name))
    assert [cells for _, cells in read_rows(name, [1, 2])] == [list(row) for row in rows]
    assert (is_numbered(name), has_column(name, 2), has_column(name, 3)) == (True, True, False)
    assert stamp(name) == (name, made.VERSION, 0)
    assert not any(map(made.is_made, ("listops.tsv", "C:train")))
