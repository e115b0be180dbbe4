from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding.constraints import Constraints, repetitions
from regard.special import BOS, EOS, PAD, Special


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 5), length=st.integers(4, 19), n=st.integers(1, 4))
def test_what_would_repeat_is_what_a_search_through_each_row_finds(seed, rows, length, n):
    said = torch.randint(1, 5, (rows, length), generator=torch.Generator().manual_seed(seed))
    where, tokens = repetitions(said, n)
    for number, row in enumerate(said.tolist()):
        end = row[length - n + 1 :]
        expected = {row[i + n - 1] for i in range(length - n + 1) if row[i : i + n - 1] == end}
        assert set(tokens[where == number].tolist()) == expected


def allowed(rules: Constraints, said: list[list[int]], vocabulary: int = 7) -> list[list[int]]:
    logits = torch.zeros(len(said), vocabulary)
    rules.apply(logits, torch.tensor(said).view(len(said), -1), torch.arange(len(said)))
    return [row.nonzero().flatten().tolist() for row in logits > -math.inf]


def test_padding_and_the_beginning_are_never_said():
    assert allowed(Constraints(), [[], []]) == [[1, EOS, 4, 5, 6]] * 2


def test_the_end_is_not_said_before_the_minimum():
    assert allowed(Constraints(min_length=2), [[4]]) == [[1, 4, 5, 6]]
    assert allowed(Constraints(min_length=2), [[4, 4]]) == [[1, EOS, 4, 5, 6]]


def test_a_prefix_is_stronger_than_the_other_rules_and_ends_row_by_row():
    rules = Constraints(min_length=1, no_repeat_ngram=1, prefix=torch.tensor([[4, 4], [5, -1], [-1, -1]]))
    assert allowed(rules, [[], [], []]) == [[4], [5], [1, 4, 5, 6]]
    assert allowed(rules, [[4], [5], [6]]) == [[4], [1, EOS, 4, 6], [1, EOS, 4, 5]]
    assert allowed(rules, [[4, 4], [5, 6], [6, 1]]) == [[1, EOS, 5, 6], [1, EOS, 4], [EOS, 4, 5]]


def test_what_is_allowed_keeps_its_value():
    logits = torch.arange(14.0).view(2, 7)
    rules = Constraints(prefix=torch.tensor([[6], [-1]]))
    rules.apply(logits, torch.empty(2, 0, dtype=torch.int64), torch.tensor([1, 0]))  # the rows answer sources 1 and 0
    assert logits[0, [1, 3, 4, 5, 6]].tolist() == [1.0, 3.0, 4.0, 5.0, 6.0]
    assert logits[1, 6] == 13.0
    assert (logits[1, :6] == -math.inf).all()
    assert (logits[0, [PAD, BOS]] == -math.inf).all()


def test_a_vocabulary_from_elsewhere_has_its_own_special_ids():
    marian = Constraints(special=Special(pad=6, bos=6, eos=0))
    assert allowed(marian, [[]]) == [[0, 1, 2, 3, 4, 5]]
    assert allowed(Constraints(min_length=1, special=marian.special), [[]]) == [[1, 2, 3, 4, 5]]
    one_end = Special(bos=5, eos=5)
    assert allowed(Constraints(special=one_end), [[]]) == [[0, 1, 2, 3, 4, 5, 6]]
    assert allowed(Constraints(no_repeat_ngram=1, special=one_end), [[0, 3]]) == [[1, 2, 4, 5, 6]]
