"""A two-way language model learns torch's cross-entropy of both sides, and fills in what is likely by their product."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from regard import models
from regard.data.rows.batches import in_order_of_length
from regard.data.rows.framing import Framing
from regard.data.tokenizers import Tokenizer
from regard.errors import RegardError
from regard.special import BOS, EOS, OWN
from regard.tasks.base import RunOptions
from regard.tasks.fill.documents import Document
from regard.tasks.fill.two_way import TwoWay
from regard.tasks.rows import Rows
from regard.tasks.surfaces import Texts

SENTENCES = ("the cat sat on a mat", "a dog ran", "cat", "the dog sat on the cat on a mat")


@pytest.fixture(scope="module")
def made() -> tuple[TwoWay, Any]:
    tokenizer = Tokenizer.train(SENTENCES, kind="words", vocabulary=50)
    torch.manual_seed(0)
    model = models.build("elmo", vocabulary=tokenizer.size, layers=2, width=7, dropout=0.0)
    torch.nn.init.normal_(model.output.bias)
    return TwoWay(Rows(tokenizer, Framing(OWN, 8))), model.eval()


def by_hand(model: Any, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """−log P of each token after the first, and of each before the last: a row alone, without padding."""
    row = torch.tensor([ids])
    there, back = (model.output(each[0]) for each in model.both_ways(row))
    return (
        F.cross_entropy(there[:-1], row[0, 1:], reduction="none"),
        F.cross_entropy(back[1:], row[0, :-1], reduction="none"),
    )


def test_loss_and_perplexities_are_cross_entropy_of_both_sides(made: tuple[TwoWay, Any]):
    task, model = made
    rows = task.encode([Document(SENTENCES[:3], "a:1")])
    (batch,) = in_order_of_length(rows, batch_tokens=1000, special=OWN)
    found = [by_hand(model, list(row.ids)) for row in rows]
    there, back = (torch.cat(each) for each in zip(*found, strict=True))
    assert batch.targets == len(there) == 6 + 3 + 1 + 3  # the end of each sentence is a token too
    assert_close(task.loss(model, batch), (there.sum() + back.sum()) / 2)
    scores = task.scores(model, [Document(SENTENCES[:3], "a:1")])
    forward, backward = there.mean().exp().item(), back.mean().exp().item()
    assert scores["forward_perplexity"].value == pytest.approx(forward, rel=1e-5)
    assert scores["backward_perplexity"].value == pytest.approx(backward, rel=1e-5)
    assert scores["perplexity"].value == pytest.approx((forward + backward) / 2, rel=1e-5)
    assert forward != pytest.approx(backward, rel=1e-3)


def test_a_long_sentence_is_several_rows_and_loses_nothing(made: tuple[TwoWay, Any]):
    task, _ = made
    rows = task.encode([Document(SENTENCES[3:], "a:1")])
    assert [len(row.ids) for row in rows] == [8, 5]
    assert all((row.ids[0], row.ids[-1]) == (BOS, EOS) and row.wanted == row.ids[1:] for row in rows)
    inside = [token for row in rows for token in row.ids[1:-1]]
    assert inside == task.rows.tokenizer.encode([SENTENCES[3]])[0]


def test_what_is_filled_in_is_likely_from_both_sides(made: tuple[TwoWay, Any]):
    task, model = made
    ((found,),) = task.answer(model, [Texts("the cat [MASK] on a mat")], RunOptions())
    whole = task.rows.framing.frame(task.rows.tokenizer.encode(["the cat dog on a"])[0])
    whole_ids = [*whole.ids[:-1], *task.rows.tokenizer.encode(["mat"])[0], EOS]
    there, back = model.both_ways(torch.tensor([whole_ids]))  # what stands at the mask is read by neither
    product = model.output(there[0, 2]).softmax(-1) * model.output(back[0, 4]).softmax(-1)
    product[:4] = 0  # no token of a text
    expected, tokens = (product / product.sum()).topk(5)
    assert [each["token"] for each in found] == tokens.tolist()
    assert_close(torch.tensor([each["score"] for each in found]), expected, atol=1e-6, rtol=1e-4)
    word = found[0]["token_str"]
    assert task.surface.lines([found], RunOptions()) == [f"the cat {word} on a mat"]


@pytest.mark.parametrize("text", ["the cat", "the [MASK] sat on [MASK]"])
def test_one_gap_at_a_time(made: tuple[TwoWay, Any], text: str):
    task, model = made
    with pytest.raises(RegardError, match="put one where a word is to be filled in"):
        task.answer(model, [Texts(text)], RunOptions())
