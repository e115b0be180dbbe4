"""Holding examples out of training, by key."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as some

from regard.data.splits import Splits, hold_out
from regard.errors import RegardError


@given(keys=some.lists(some.sampled_from("abcdefgh"), min_size=2), seed=some.integers(0, 7))
def test_some_keys_are_held_out_and_some_are_not_whatever_their_order(keys: list[str], seed: int) -> None:
    if len(set(keys)) < 2:
        return
    held_out = hold_out(keys, amount=None, seed=seed)
    assert any(key in held_out for key in keys)
    assert any(key not in held_out for key in keys)
    assert held_out == hold_out(keys[::-1], amount=None, seed=seed)


def test_as_many_are_held_out_as_asked() -> None:
    keys = [str(number) for number in range(997)]

    def held(amount: int | float | None, seed: int = 1) -> list[str]:
        held_out = hold_out(keys, amount=amount, seed=seed)
        return [key for key in keys if key in held_out]

    assert len(held(None)) == 19
    assert len(held(101)) == 101
    assert len(held(0.3)) == 299
    assert held(101, seed=2) != held(101)


@pytest.mark.parametrize(
    ("amount", "seed", "count", "recorded"),
    [
        (None, 1, 19, "9cb832e9d14db0ee"),
        (None, 2, 19, "7b9946d236776098"),
        (101, 1, 97, "958ff54355cab3fb"),
        (0.3, 2, 296, "43f2587fe6ac91c6"),
    ],
)
def test_the_choice_is_the_recorded_one(amount: int | float | None, seed: int, count: int, recorded: str) -> None:
    """A run that is resumed must hold out what it held out when it began."""
    keys = [f" Text {n * n % 211} " if n % 3 else f"text {n * n % 211}" for n in range(997)]
    held_out = hold_out(keys, amount=amount, seed=seed)
    places = [place for place, key in enumerate(keys) if key in held_out]
    assert (len(places), sha256(repr(places).encode()).hexdigest()[:16]) == (count, recorded)


def test_a_key_with_too_many_examples_is_skipped() -> None:
    keys = ["common"] * 97 + ["rare", "RARE "]
    held_out = hold_out(keys, amount=3, seed=1)
    assert [key for key in keys if key in held_out] == ["rare", "RARE "]


def test_too_few_examples_to_hold_some_out_is_an_error() -> None:
    with pytest.raises(RegardError, match=r"11 examples with 1 different texts are too few .* data\.valid"):
        hold_out(["same"] * 11, amount=None, seed=1)
    with pytest.raises(RegardError, match=r"data\.hold_out"):
        hold_out(["a", "b", "c"], amount=3, seed=1)


@given(
    keys=some.lists(some.sampled_from("abcdefgh"), min_size=2),
    seed=some.integers(0, 7),
    amount=some.none() | some.integers(1, 5),
)
def test_at_least_two_keys_are_held_out_and_two_are_left_where_two_are_needed(
    keys: list[str], seed: int, amount: int | None
) -> None:
    try:
        held_out = hold_out(keys, amount=amount, seed=seed, least=2)
    except RegardError:
        assert len(set(keys)) < 4 or max(amount or 1, 2) > len(keys) - 2
        return
    assert len({key for key in keys if key in held_out}) >= 2
    assert len({key for key in keys if key not in held_out}) >= 2


def test_a_model_is_judged_by_the_test_set_if_there_is_one() -> None:
    assert Splits("train", "valid", "test").judged == "test"
    assert Splits("train", "valid", None).judged == "valid"
