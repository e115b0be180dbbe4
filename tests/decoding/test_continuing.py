"""Going on from prompts: alone or in company, within the reach of a model and beyond it."""

import pytest
import torch

from regard import models
from regard.decoding import DecodingConfig, search
from regard.decoding.continuing import Continuation
from regard.special import EOS

VOCABULARY, MAXIMUM = 23, 11
PROMPTS = [[5, 6, 7], [], [9], [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]]
CHOICES = [
    {"beam": 1},
    {"beam": 1, "no_repeat_ngram": 2, "min_length": 7},
    {"sample": True, "n_best": 3, "temperature": 0.9, "top_k": 9, "top_p": 0.9, "seed": 5},
]


def made(kind, **settings):
    torch.manual_seed(1)
    sizes = {"gpt": {"heads": 2, "maximum": MAXIMUM}, "transformer_xl": {"heads": 2, "memory": 9}}.get(kind, {})
    model = models.build(kind, vocabulary=VOCABULARY, layers=2, width=16, **sizes, **settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def said(model, prompts, *, reach, **settings):
    going = Continuation(model, prompts, config=DecodingConfig(**settings), reach=reach)
    while not going.over:
        going.advance()
    return going.said


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize(("kind", "reach"), [("gpt", MAXIMUM), ("rnn", None), ("transformer_xl", None)])
def test_together_is_one_by_one(kind, reach, choice):
    model, settings = made(kind), {"max_length": 30, **choice, "min_length": 20}
    together = said(model, PROMPTS, reach=reach, **settings)
    alone = [row for prompt in PROMPTS for row in said(model, [prompt], reach=reach, **settings)]
    assert together == alone
    assert min(map(len, together)) >= 20


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("kind", ["gpt", "rnn", "transformer_xl"])
def test_within_reach_it_is_what_search_finds(kind, choice):
    model = made(kind)
    config = DecodingConfig(max_length=8, **choice)
    source, lengths = torch.tensor([[5, 6, 7], [9, 0, 0]]), torch.tensor([3, 1])
    found = search(model, source, lengths, config=config)
    ours = said(model, [[5, 6, 7], [9]], reach=MAXIMUM, max_length=8, **choice)
    for row, hypotheses in enumerate(found):
        mine = ours[row * config.n_best : (row + 1) * config.n_best]
        spoken = sorted(tuple(token for token in tokens if token != EOS) for tokens in mine)
        assert spoken == sorted(hypothesis.tokens for hypothesis in hypotheses)


def test_beyond_its_reach_a_model_goes_on_from_the_last_half():
    model = made("gpt").eval()
    (found,) = said(model, [[5, 6, 7]], reach=MAXIMUM, max_length=40, beam=1, min_length=40)
    context, by_hand = [5, 6, 7], []
    while len(by_hand) < 40:
        if len(context) > MAXIMUM:
            context = context[-(MAXIMUM // 2) :]
        with torch.no_grad():
            logits = model.output(model(torch.tensor([context])))[0, -1]
        logits[[0, 2, 3]] = float("-inf")
        by_hand.append(int(logits.argmax()))
        context.append(by_hand[-1])
    assert found == by_hand


def test_rows_that_are_dropped_say_nothing_more_and_disturb_nobody():
    model = made("gpt")
    config = DecodingConfig(beam=1, max_length=12, min_length=12)
    going = Continuation(model, PROMPTS, config=config, reach=MAXIMUM)
    for _ in range(4):
        going.advance()
    going.drop({0, 2})
    while not going.over:
        assert {each.row for each in going.advance()} == {1, 3}
    whole = said(model, PROMPTS, reach=MAXIMUM, beam=1, max_length=12, min_length=12)
    assert going.said == [whole[0][:4], whole[1], whole[2][:4], whole[3]]


def test_the_model_is_left_in_the_mode_it_was_in():
    model = made("gpt").train()
    said(model, [[5]], reach=MAXIMUM, beam=1, max_length=3)
    assert model.training
    assert not torch.is_inference_mode_enabled()
