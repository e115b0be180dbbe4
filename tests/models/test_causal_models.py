"""Laws of every model that goes on from a prompt."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from regard.decoding import DecodingConfig, search
from regard.layers.low_rank import add_low_rank
from regard.models import build, kinds

VOCABULARY = 23
OPTIONS: list[dict[str, Any]] = [
    {"kind": "gpt"},
    {"kind": "gpt", "position": "rotary", "activation": "swiglu", "norm": "rms", "key_value_heads": 1, "bias": False},
    {"kind": "gpt", "position": "alibi"},
    {"kind": "gpt", "position": "sinusoidal", "key_value_heads": 2, "tied": False},
    {"kind": "gpt", "position": "none", "activation": "relu"},
    {"kind": "gpt", "attention": "window", "window": 8},
    {"kind": "gpt", "attention": "big_bird", "blocks": 3, "window": 9, "position": "rotary"},
    {"kind": "gpt", "wiring": "deep_norm", "experts": 3},
    {"kind": "universal_decoder", "halting": False},
    {"kind": "universal_decoder", "wiring": "pre_norm"},
    {"kind": "rnn", "cell": "lstm"},
    {"kind": "rnn", "cell": "gru", "tied": False, "embedding": 7},
    {"kind": "rnn", "cell": "rnn"},
    {"kind": "transformer_xl"},
    {"kind": "transformer_xl", "wiring": "pre_norm", "clamp": 6, "memory": 50, "activation": "gelu", "tied": False},
]


def tiny(options: dict[str, Any], *, dropout: float = 0.0) -> Any:
    torch.manual_seed(0)
    sizes = {"layers": 2, "width": 24, "dropout": dropout}
    more = {"heads": 4, "hidden": 29} if options["kind"] != "rnn" else {}
    model = build(**{**sizes, **more, **options}, vocabulary=VOCABULARY).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)  # far from the small weights that a model starts with
    return model


def tokens(rows: int, length: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(4, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def logits(model: Any, rows: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.output(model(rows))


def every(function: Any) -> Any:
    return pytest.mark.parametrize("options", OPTIONS, ids=str)(function)


def test_every_causal_kind_is_here():
    assert {options["kind"] for options in OPTIONS} == set(kinds("causal"))


@every
@settings(max_examples=10, deadline=None)
@given(place=st.integers(0, 9), seed=st.integers(0, 10**6))
def test_what_comes_later_changes_nothing(options: dict[str, Any], place: int, seed: int):
    model, before = tiny(options), tokens(3, 11)
    after = before.clone()
    after[:, place + 1 :] = tokens(3, 10 - place, seed)
    assert_close(logits(model, after)[:, : place + 1], logits(model, before)[:, : place + 1], atol=1e-10, rtol=1e-8)


@every
def test_what_came_before_changes_what_follows(options: dict[str, Any]):
    model, before = tiny(options), tokens(3, 11)
    after = before.clone()
    after[:, 4] = (before[:, 4] - 3) % 19 + 4
    change = (logits(model, after) - logits(model, before)).abs().amax(-1)
    assert (change[:, 4:] > 1e-6).all()


@every
def test_steps_from_a_prompt_equal_the_whole_text_at_once(options: dict[str, Any]):
    model, text = tiny(options), tokens(3, 43)  # longer than what a cache begins with
    whole = logits(model, text)
    for prompt in (1, 2, 7):
        memory = model.encode(text[:, :prompt])
        state = model.start(memory)
        assert torch.equal(model.first(memory), text[:, prompt - 1])
        for place in range(prompt - 1, text.shape[1]):
            found, state = model.step(text[:, place], state)
            assert_close(found, whole[:, place], atol=1e-9, rtol=1e-7)


@every
def test_gradients_of_steps_are_those_of_the_whole_text_at_once(options: dict[str, Any]):
    model, text = tiny(options), tokens(3, 9)
    parameters = list(model.parameters())
    whole = torch.autograd.grad(model.output(model(text)).square().sum(), parameters)
    memory = model.encode(text[:, :1])
    state, losses = model.start(memory), []
    for place in range(9):
        found, state = model.step(text[:, place], state)
        losses.append(found.square().sum())
    stepped = torch.autograd.grad(torch.stack(losses).sum(), parameters)
    for one, other in zip(stepped, whole, strict=True):
        assert_close(one, other, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("options", [options for options in OPTIONS if options["kind"] != "rnn"], ids=str)
def test_steps_see_a_change_of_low_rank(options: dict[str, Any]):
    model, text = tiny(options), tokens(3, 9)
    assert add_low_rank(model, rank=2)
    model.double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(".up"):
                parameter.normal_(generator=torch.Generator().manual_seed(2))
        memory = model.encode(text[:, :4])
        state, whole = model.start(memory), logits(model, text)
        for place in range(3, 9):
            found, state = model.step(text[:, place], state)
            assert_close(found, whole[:, place], atol=1e-9, rtol=1e-7)


@every
def test_prompts_of_different_lengths_go_on_as_each_does_alone(options: dict[str, Any]):
    model, text = tiny(options), tokens(4, 13)
    lengths = torch.tensor([3, 8, 1, 7])
    prompt = text[:, :8].clone()
    prompt[torch.arange(8) >= lengths.unsqueeze(1)] = 0
    memory = model.encode(prompt)
    state, read = model.start(memory), model.first(memory)
    for step in range(4):
        found, state = model.step(read, state)
        for row, length in enumerate(lengths.tolist()):
            alone = logits(model, text[row : row + 1, : length + step])[0, -1]
            assert_close(found[row], alone, atol=1e-9, rtol=1e-7)
        read = text[torch.arange(4), lengths + step]


@every
@pytest.mark.parametrize("search_by", [{"beam": 1}, {"beam": 3, "n_best": 2}, {"sample": True, "n_best": 2}], ids=str)
def test_answers_to_a_batch_are_those_to_its_rows(options: dict[str, Any], search_by: dict[str, Any]):
    model, config = tiny(options), DecodingConfig(max_length=19, **search_by)
    prompt = tokens(3, 6)
    prompt[0, 2:] = prompt[1, 5:] = 0
    together = search(model, prompt, config=config)
    for row, length in enumerate([2, 5, 6]):
        (alone,) = search(model, prompt[row : row + 1, :length], config=config)
        assert [answer.tokens for answer in together[row]] == [answer.tokens for answer in alone]
        assert [answer.score for answer in together[row]] == pytest.approx([answer.score for answer in alone])


@every
def test_greedy_answers_are_the_most_probable_tokens_of_the_whole(options: dict[str, Any]):
    model, prompt = tiny(options), tokens(1, 5)
    ((found,),) = search(model, prompt, config=DecodingConfig(beam=1, max_length=9, min_length=9))
    text = prompt
    for token in found.tokens:
        best = logits(model, text)[0, -1]
        best[:4] = best[:4].masked_fill(torch.tensor([True, False, True, True]), -torch.inf)
        assert token == int(best.argmax())
        text = torch.cat([text, torch.tensor([[token]])], 1)


@every
def test_an_empty_prompt_is_the_beginning(options: dict[str, Any]):
    model = tiny(options)
    nothing, beginning = torch.zeros(2, 0, dtype=torch.int64), torch.full((2, 1), 2)
    config = DecodingConfig(beam=1, max_length=7)
    assert search(model, nothing, config=config) == search(model, beginning, config=config)
    assert torch.equal(model.first(model.encode(torch.tensor([[0, 0], [5, 6]]))), torch.tensor([2, 6]))


@every
def test_reordered_states_go_on_with_the_right_rows(options: dict[str, Any]):
    model, text = tiny(options), tokens(3, 9)
    text[0, 3:] = 0
    rows = torch.tensor([2, 0, 0])
    memory = model.encode(text)
    plain, _ = model.step(model.first(memory), model.start(memory))
    moved, _ = model.step(model.first(memory)[rows], model.start(memory).reorder(rows))
    assert_close(moved, plain[rows])


@every
def test_every_parameter_learns(options: dict[str, Any]):
    model, text = tiny(options), tokens(3, 11)
    nn.functional.cross_entropy(model.output(model(text[:, :-1])).flatten(0, 1), text[:, 1:].flatten()).backward()
    silent = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert [name for name in silent if not name.endswith("key.bias")] == []
