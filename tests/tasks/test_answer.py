"""Parts of long passages, and the best span against a search through all of them in NumPy."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise

import numpy
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import models
from regard.data.rows.batches import RowBatch, in_order_of_length
from regard.data.rows.framing import Framing
from regard.data.tokenizers import Tokenizer
from regard.models.heads import headed
from regard.special import OWN
from regard.tasks.answer.task import FindAnswer, Question
from regard.tasks.base import RunOptions
from regard.tasks.rows import Rows
from regard.tasks.surfaces import Texts

WORDS = [f"w{number}" for number in range(53)]
TOKENIZER = Tokenizer.train([" ".join(WORDS)], kind="words", vocabulary=60)


class Table(nn.Module):
    """Logits of each token by its id and its place, so that neighbouring parts differ."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.by_token = nn.Parameter(3 * torch.randn(TOKENIZER.size, 2, generator=generator))
        self.by_place = nn.Parameter(torch.randn(99, 2, generator=generator))

    def forward(self, tokens: Tensor, _lengths: Tensor, _segments: Tensor) -> Tensor:
        return self.by_token[tokens] + self.by_place[: tokens.shape[1]]


def task(maximum: int, **settings: int | bool) -> FindAnswer:
    return FindAnswer(Rows(TOKENIZER, Framing(OWN, maximum)), **settings)


@pytest.mark.parametrize("question", [1, 4, 30])
@pytest.mark.parametrize(("maximum", "stride", "longest"), [(30, 30, 4), (30, 7, 4), (30, 13, 11), (12, 128, 30)])
def test_one_part_holds_any_answer_of_the_allowed_length(question: int, maximum: int, stride: int, longest: int):
    passage = " ".join(WORDS * 3)
    asked = task(maximum, stride=stride, max_answer=longest)
    with pytest.warns(match="a question has more than") if question == 30 else nullcontext():
        parts = list(asked.reading.parts(" ".join(WORDS[:question]), passage))
    inside = [{begin for begin, _ in part.offsets} for part in parts]
    begins = [begin for begin, _ in TOKENIZER.offsets(passage)]
    size = len(parts[0].offsets)
    width = min(longest, size)
    for first in range(len(begins) - width + 1):
        assert any(part.issuperset(begins[first : first + width]) for part in inside), first
    assert inside[-1] >= {begins[-1]}
    steps = {begins.index(min(b)) - begins.index(min(a)) for a, b in pairwise(inside)}
    assert steps == {min(stride, max(size - longest, 1))}  # the stride itself where parts overlap by enough


def brute_force(model: Table, asked: FindAnswer, question: str, passage: str) -> tuple[float, int, int, float]:
    """The best score with its first and last token of the passage, and the score of no answer."""
    tokens = TOKENIZER.encode([passage])[0]
    (ids,) = TOKENIZER.encode([question])
    best, nothing, size = (-1.0, -1, -1), 1.0, asked.rows.framing.maximum - len(ids) - 3
    begin = 0
    while True:
        row = [OWN.bos, *ids, OWN.eos, *tokens[begin : begin + size], OWN.eos]
        logits = model(torch.tensor([row]), torch.empty(0), torch.empty(0))[0].detach().double().numpy()
        places = [0, *range(len(ids) + 2, len(row) - 1)]
        shares = numpy.exp(logits[places]) / numpy.exp(logits[places]).sum(0)
        nothing = min(nothing, shares[0, 0] * shares[0, 1])
        for first in range(1, len(places)):
            for last in range(first, min(first + asked.reading.max_answer, len(places))):
                score = shares[first, 0] * shares[last, 1]
                best = max(best, (score, begin + first - 1, begin + last - 1))
        if begin + size >= len(tokens):
            return *best, nothing
        begin += min(asked.reading.stride, max(size - asked.reading.max_answer, 1))


@pytest.mark.parametrize("longest", [1, 2, 5])
@pytest.mark.parametrize("impossible", [False, True])
def test_the_answer_is_the_best_of_all_spans(longest: int, impossible: bool):
    asked = task(19, stride=6, max_answer=longest, impossible=impossible)
    generator = numpy.random.default_rng(longest)
    lengths, empty = set(), 0
    for seed in range(60):
        model = Table(seed)
        question = " ".join(generator.choice(WORDS, 3))
        passage = " ".join(generator.choice(WORDS, generator.integers(1, 40)))
        score, first, last, nothing = brute_force(model, asked, question, passage)
        (found,) = asked.answer(model, [Texts(question, passage)], RunOptions())
        if impossible and nothing > score:
            assert (found["answer"], found["start"], found["end"]) == ("", 0, 0)
            assert found["score"] == pytest.approx(nothing, rel=1e-4)
            empty += 1
            continue
        offsets = TOKENIZER.offsets(passage)
        begin, end = passage.index("w", offsets[first][0]), offsets[last][1]
        assert (found["start"], found["end"], found["answer"]) == (begin, end, passage[begin:end])
        assert found["score"] == pytest.approx(score, rel=1e-4)
        lengths.add(last - first + 1)
    assert max(lengths) == longest
    assert bool(empty) == impossible


def test_the_score_of_no_answer_is_the_lowest_of_all_parts():
    """In one part the first token is all but certain, in the other it is not: the passage has an answer there."""
    asked = task(9, stride=2, max_answer=2, impossible=True)
    model = Table(0)
    with torch.no_grad():
        model.by_place.zero_()
        model.by_token.zero_()
        model.by_token[OWN.bos] = 5.0
        model.by_token[TOKENIZER.encode(["w7"])[0][0]] = 9.0
    (found,) = asked.answer(model, [Texts("w1", "w2 w3 w4 w5 w6 w7 w8")], RunOptions())
    assert found["answer"] == "w7"
    (found,) = asked.answer(model, [Texts("w1", "w2 w3 w4 w5 w6")], RunOptions())
    assert found["answer"] == ""


def test_padding_is_no_place_and_changes_nothing():
    torch.manual_seed(0)
    body = models.config_class("bert")(layers=1, width=12, heads=2, dropout=0.0)
    model = headed(body, classes=2, pooled=False, vocabulary=TOKENIZER.size).eval()
    asked = task(30)
    questions = [Question("w1", "w2 w3", (("w3", 3),), ""), Question("w1 w4", " ".join(WORDS[:19]), (("w5", 15),), "")]
    rows = asked.encode(questions)
    (batch,) = in_order_of_length(rows, batch_tokens=1000, special=OWN)
    alone = [
        asked.loss(model, one).item() for row in rows for one in in_order_of_length([row], batch_tokens=1, special=OWN)
    ]
    assert asked.loss(model, batch).item() == pytest.approx(sum(alone), rel=1e-5)
    padding = torch.arange(batch.tokens.shape[1]) >= batch.lengths.unsqueeze(1)
    other = RowBatch(
        tokens=batch.tokens.masked_fill(padding, 17),
        lengths=batch.lengths,
        segments=batch.segments,
        wanted=batch.wanted,
        targets=batch.targets,
        rows=batch.rows,
    )
    assert padding.any()
    assert asked.loss(model, other).item() == pytest.approx(asked.loss(model, batch).item(), rel=1e-6)


def test_the_loss_is_the_cross_entropy_of_both_ends():
    asked, model = task(30), Table(4)
    rows = asked.encode([Question("w1", "w2 w3 w4", (("w3 w4", 3),), "")])
    (batch,) = in_order_of_length(rows, batch_tokens=1, special=OWN)
    logits = model(batch.tokens, batch.lengths, batch.segments)[0]
    expected = F.cross_entropy(logits.T, torch.tensor([4, 5]), reduction="sum")  # <s> w1 </s> w2 w3 w4 </s>
    assert asked.loss(model, batch).item() == pytest.approx(expected.item(), rel=1e-5)
