"""The loss of pairs against its equation, and scores against examples worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from regard import models
from regard.data.rows.batches import in_order_of_length
from regard.data.rows.framing import Framing
from regard.data.tokenizers import Tokenizer
from regard.special import OWN
from regard.tasks.embed.task import Embed, Similar, contrast, retrieval, spearman
from regard.tasks.rows import Rows

NOTHING = torch.zeros(5, 5, dtype=torch.bool)


def by_hand(first: torch.Tensor, second: torch.Tensor, left_out: set[tuple[int, int]]) -> float:
    """−log of the share of each partner among all that count, in both directions, halved."""
    total = 0.0
    for here in range(len(first)):
        near = [math.exp(20 * float(first[here] @ each)) for each in second]
        back = [math.exp(20 * float(second[here] @ each)) for each in first]
        total -= math.log(near[here] / sum(x for j, x in enumerate(near) if (here, j) not in left_out)) / 2
        total -= math.log(back[here] / sum(x for j, x in enumerate(back) if (j, here) not in left_out)) / 2
    return total


@pytest.mark.parametrize("left_out", [set(), {(1, 3), (3, 1), (0, 4)}])
def test_the_loss_of_pairs_is_its_equation(left_out: set[tuple[int, int]]):
    generator = torch.Generator().manual_seed(0)
    first, second = (F.normalize(torch.randn(5, 7, generator=generator).double(), dim=-1) for _ in range(2))
    also_right = NOTHING.clone()
    for place in left_out:
        also_right[place] = True
    found = contrast(first, second, also_right=also_right | torch.eye(5, dtype=torch.bool))
    assert float(found) == pytest.approx(by_hand(first, second, left_out))
    if not left_out:
        scores, here = 20 * first @ second.T, torch.arange(5)
        assert_close(found, (F.cross_entropy(scores, here) + F.cross_entropy(scores.T, here)) * 5 / 2)


@pytest.fixture(scope="module")
def made() -> tuple[Embed, Any]:
    tokenizer = Tokenizer.train(["a b c d e f g h"], kind="words", vocabulary=50)
    torch.manual_seed(0)
    sizes = {"layers": 1, "width": 12, "heads": 3, "pooler": False, "next_sentence": False}
    model = models.build("bert", vocabulary=tokenizer.size, **sizes)
    return Embed(Rows(tokenizer, Framing(OWN, 9))), model.eval()


def test_the_loss_of_a_batch_is_that_of_its_texts_one_by_one(made: tuple[Embed, Any]):
    task, model = made
    pairs = [("a b c d e", "f"), ("g", "a b"), ("g", "h h h h"), ("c c", "d d d")]
    rows = task.encode([Similar(*pair, None, "here") for pair in pairs])
    (batch,) = in_order_of_length(rows, batch_tokens=1000, special=OWN)
    assert batch.targets == 4
    first, second = (torch.cat([task.embed(model, [text]) for text in side]) for side in zip(*pairs, strict=True))
    expected = by_hand(first, second, {(1, 2), (2, 1)})  # both partners of g are right
    assert float(task.loss(model, batch).detach()) == pytest.approx(expected, rel=1e-4)


def test_pairs_with_a_score_are_learned_from_the_score_on_that_means_the_same(made: tuple[Embed, Any]):
    task, _ = made
    pairs = [Similar("a", "b", None, "1"), Similar("c", "d", 3.0, "2"), Similar("e", "f", 4.0, "3")]
    assert [each.place for each in task.alike(pairs)] == ["1"]
    assert [each.place for each in Embed(task.rows, same=4).alike(pairs)] == ["1", "3"]
    assert len(task.encode(pairs)) == 1


def test_ranks_are_those_of_the_nearest_right_partner():
    texts = ["q", "r", "s", "x", "y", "z"]
    vectors = torch.tensor([[1.0, 0], [0, 1], [1, 0], [1, 0], [0.6, 0.8], [0, 1]])
    pairs = [Similar("q", "x", None, ""), Similar("r", "y", None, ""), Similar("r", "x", None, "")]
    pairs.append(Similar("s", "z", None, ""))
    found = retrieval(vectors, {text: at for at, text in enumerate(texts)}, pairs, ["x", "y", "z"])
    assert found["accuracy"].value == pytest.approx(100 / 3)  # q: first; r: y after z; s: z after x and y
    assert found["mrr"].value == pytest.approx(100 * (1 + 1 / 2 + 1 / 3) / 3)


def test_vectors_that_are_all_the_same_find_nothing():
    pairs = [Similar("q", "x", None, ""), Similar("r", "y", None, "")]
    found = retrieval(torch.ones(4, 3), {"q": 0, "r": 1, "x": 2, "y": 3}, pairs, ["x", "y"])
    assert found["accuracy"].value == 0


def test_rank_correlation_is_that_of_examples_worked_out_by_hand():
    left, right = [106, 100, 86, 101, 99, 103, 97, 113, 112, 110], [7, 27, 2, 50, 28, 29, 20, 12, 6, 17]
    assert spearman(left, right) == pytest.approx(-29 / 165)  # 1 − 6 · 194 / (10 · 99)
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))  # ranks 1, 2.5, 2.5, 4
    assert spearman([1, 2, 3], [10, 100, 1000]) == pytest.approx(1)
    assert spearman([1, 1, 1], [1, 2, 3]) == 0
