"""Losses of a text, by window and by state, against a slow computation of each token by itself."""

import math

import numpy
import pytest
import torch
from torch.nn import functional as F

from regard import models
from regard.data.text.blocks import BlockStream
from regard.data.text.tokens import Tokens
from regard.data.tokenizers import Tokenizer
from regard.special import BOS
from regard.tasks.write import judging
from regard.tasks.write.growing import Growing
from regard.tasks.write.task import Write

VOCABULARY, BLOCK = 29, 8


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(
        ["".join(map(chr, range(97, 97 + VOCABULARY - 4)))], kind="characters", vocabulary=VOCABULARY
    )


def made(kind, **settings):
    torch.manual_seed(3)
    sizes = {"heads": 2, "maximum": BLOCK, "dropout": 0.1} if kind == "gpt" else {"dropout": 0.1}
    model = models.build(kind, vocabulary=VOCABULARY, layers=2, width=12, **sizes, **settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def ids_of(length):
    return numpy.random.default_rng(length).integers(4, VOCABULARY, length).astype(numpy.uint16)


def one_by_one(model, ids, contexts):
    """−log P of each token after the last `contexts[place]` tokens, each in a pass of its own."""
    stream = torch.tensor([BOS, *ids.tolist()])
    found = []
    for place, context in enumerate(contexts):
        with torch.no_grad():
            logits = model.output(model(stream[place + 1 - context : place + 1].unsqueeze(0)))[0, -1]
        found.append(float(F.cross_entropy(logits, stream[place + 1])))
    return found


@pytest.mark.parametrize("length", [1, 5, 8, 9, 12, 13, 31])
def test_a_sliding_window_predicts_each_token_after_at_least_half_a_window(tokenizer, length):
    model, ids = made("gpt"), ids_of(length)
    task = Write(tokenizer, block=BLOCK, reach=BLOCK)
    window = min(BLOCK, length)
    contexts = []
    for place in range(length):
        if place < window:
            contexts.append(place + 1)
            continue
        end = min(BLOCK + math.ceil((place - BLOCK + 1) / (BLOCK // 2)) * (BLOCK // 2), length)
        contexts.append(place - (end - BLOCK) + 1)
    assert all(context > BLOCK // 2 for context in contexts[BLOCK:])
    assert task.losses(model, ids).tolist() == pytest.approx(one_by_one(model, ids, contexts), abs=1e-4)


@pytest.mark.parametrize(("length", "lead"), [(1, 256), (40, 256), (41, 41), (300, 100)])
def test_a_recurrent_model_reads_from_beginning_to_end(tokenizer, monkeypatch, length, lead):
    monkeypatch.setattr(judging, "LEAD", lead)
    monkeypatch.setattr(judging, "TOGETHER", 60)
    model, ids = made("rnn"), ids_of(length)
    found = Write(tokenizer, block=BLOCK, reach=None).losses(model, ids)
    whole = one_by_one(model, ids, [place + 1 for place in range(min(length, 60))])
    assert found[:60].tolist() == pytest.approx(whole, abs=1e-4)
    lanes = max(min(32, length // lead), 1)
    part = -(-length // lanes)
    for place in (part, length - 1) if lanes > 1 else ():
        begin = place // part * part - lead
        exact = one_by_one(model, ids[: place + 1], [1] * place + [place - begin + 1])[-1]
        assert float(found[place]) == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("lead", [1, 2, 3])
def test_each_part_of_a_text_begins_so_many_tokens_early(tokenizer, monkeypatch, lead):
    """So few that a recurrent model has not forgotten the first of them: one more or one less makes a difference."""
    monkeypatch.setattr(judging, "LEAD", lead)
    monkeypatch.setattr(judging, "LANES", 4)
    model, ids = made("rnn"), ids_of(23)
    found = Write(tokenizer, block=BLOCK, reach=None).losses(model, ids)

    def exact(more):
        contexts = [place % 6 + 1 + (lead + more if place >= 6 else 0) for place in range(23)]  # four parts of 6
        return one_by_one(model, ids, contexts)

    assert found.tolist() == pytest.approx(exact(0), abs=1e-4)
    assert found.tolist() != pytest.approx(exact(1), abs=1e-4)
    assert found.tolist() != pytest.approx(exact(-1), abs=1e-4)


def test_scores_are_those_of_the_definition(tokenizer):
    model, ids = made("gpt"), ids_of(31)
    task = Write(tokenizer, block=BLOCK, reach=BLOCK)
    losses = task.losses(model, ids).double()
    scores = task.scores(model, Tokens(ids, 50, 2, ""))
    assert scores["perplexity"].value == pytest.approx(float(losses.mean().exp()))
    assert scores["bits_per_character"].value == pytest.approx(float(losses.sum()) / math.log(2) / 50)
    assert scores["perplexity"].signature == "31 tokens, 2 unknown, sliding window of 8"


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_blocks_is_torchs_cross_entropy(tokenizer, smoothing):
    model = made("gpt")
    task = Write(tokenizer, block=BLOCK, reach=BLOCK, smoothing=smoothing)
    for batch in BlockStream(Tokens(ids_of(45), 45, 0, ""), block=BLOCK, rows=3, seed=1).epoch(0):
        logits = model.output(model(batch.tokens))
        right = F.cross_entropy(
            logits[batch.counted], batch.wanted[batch.counted], reduction="sum", label_smoothing=smoothing
        )
        assert task.loss(model, batch).item() == pytest.approx(right.item(), rel=1e-4)


def test_a_carried_state_is_that_of_the_tokens_before_and_learns_nothing(tokenizer):
    model = made("rnn", tied=False)
    task = Write(tokenizer, block=BLOCK, reach=None)
    batch = next(BlockStream(Tokens(ids_of(60), 60, 0, ""), block=BLOCK, rows=3, seed=1, carry=5).epoch(0))
    both = torch.cat([batch.carried, batch.tokens], 1)
    logits = model.output(model(both))[:, 5:]
    right = F.cross_entropy(logits[batch.counted], batch.wanted[batch.counted], reduction="sum")
    assert task.loss(model, batch).item() == pytest.approx(right.item(), rel=1e-4)
    task.loss(model, batch).backward()
    only_carried = set(batch.carried.flatten().tolist()) - set(batch.tokens.flatten().tolist())
    assert only_carried
    assert not model.embedding.table.weight.grad[list(only_carried)].any()


# text that grows


def grown(tokenizer, prompt, tokens, **options):
    growing = Growing(tokenizer, prompt, **options)
    for token in tokens:
        growing.add(token)
    growing.finish()
    return growing.text


@pytest.mark.parametrize("kind", ["characters", "bytes", "byte_bpe", "bpe", "unigram", "words"])
@pytest.mark.parametrize("prompt", ["", "the old", "the old "])
def test_text_by_tokens_is_the_text_of_all_tokens(kind, prompt):
    whole = "the old cat – çà 😀 sat\n\non  the mat"
    tokenizer = Tokenizer.train([whole + prompt], kind=kind, vocabulary=300)
    ids, start = tokenizer.encode([whole])[0], tokenizer.encode([prompt])[0]
    before, together = tokenizer.decode([start, start + ids])
    assert before + grown(tokenizer, start, ids) == together


def test_half_a_character_waits_for_the_other_half():
    tokenizer = Tokenizer.train(["x"], kind="bytes", vocabulary=260)
    growing = Growing(tokenizer, [])
    seen = []
    for token in tokenizer.encode(["é!"])[0]:
        growing.add(token)
        seen.append(growing.text)
    assert seen == ["", "é", "é!"]


def test_a_text_ends_before_the_first_stop_string_and_shows_nothing_of_it():
    tokenizer = Tokenizer.train(["one two\n\nthree"], kind="characters", vocabulary=99)
    growing = Growing(tokenizer, [], stop=["\n\n", "two"])
    shown = []
    for token in tokenizer.encode(["one tw\no two three"])[0]:
        growing.add(token)
        shown.append(growing.text[: growing.sure])
    assert shown[3:9] == ["one ", "one ", "one ", "one tw", "one tw\no", "one tw\no "]
    assert set(shown[9:]) == {"one tw\no "}
    assert (growing.text, growing.stopped) == ("one tw\no ", True)
    assert grown(tokenizer, [], tokenizer.encode(["one tw"])[0], stop=["two"]) == "one tw"
