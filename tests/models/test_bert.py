"""BERT by its own laws; that it is BERT, the conformance tests say."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.attention import recording
from regard.errors import RegardError
from regard.models import build
from regard.models.bert import Bert
from regard.special import Special

VOCABULARY = 31


def tiny(**settings: Any) -> Bert:
    torch.manual_seed(0)
    sizes = {"layers": 2, "width": 12, "heads": 3, "hidden": 17, "dropout": 0.0, "maximum": 19}
    model = build("bert", vocabulary=VOCABULARY, **{**sizes, **settings})
    assert isinstance(model, Bert)
    return model.eval()


def texts() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(4, VOCABULARY, (3, 11), generator=torch.Generator().manual_seed(1))
    tokens[0, 4:] = tokens[1, 9:] = 0
    return tokens, torch.tensor([4, 9, 11])


@pytest.mark.parametrize("position", ["none", "sinusoidal", "learned", "shaw", "rotary", "alibi"])
def test_a_padded_text_is_the_same_alone(position: str):
    model, (tokens, lengths) = tiny(position=position), texts()
    together = model(tokens)
    for row, length in enumerate(lengths.tolist()):
        alone = model(tokens[row : row + 1, :length])
        assert_close(together[row : row + 1, :length], alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("position", ["none", "sinusoidal", "learned", "shaw", "rotary", "alibi"])
def test_only_without_positions_the_order_changes_nothing(position: str):
    model, tokens = tiny(position=position), texts()[0][2:]
    order = torch.randperm(tokens.shape[1], generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        for parameter in model.parameters():  # some schemes start as zeros
            parameter.add_(torch.randn(parameter.shape) / 10)
        difference = (model(tokens)[:, order] - model(tokens[:, order])).abs().max()
    assert difference < 1e-5 if position == "none" else difference > 1e-4


def test_both_sides_of_a_word_count():
    model, (tokens, _) = tiny(), texts()
    for place in (2, 8):
        other = tokens.clone()
        other[2, place] = 5 if tokens[2, place] != 5 else 6
        change = (model(other) - model(tokens))[2].abs().amax(-1)
        assert (change > 1e-4).all()


def test_nobody_looks_at_padding():
    model, (tokens, lengths) = tiny(), texts()
    with recording(model) as record:
        model(tokens)
    assert len(record) == 2
    for weights in record.values():
        for row, length in enumerate(lengths.tolist()):
            assert weights[row, ..., length:].abs().sum() == 0
            assert_close(weights[row, :, :length].sum(-1), torch.ones(3, length))


def test_segments_are_told_apart():
    model, (tokens, _) = tiny(), texts()
    second = torch.zeros_like(tokens)
    assert_close(model(tokens, segments=second), model(tokens))
    second[:, 2:] = 1
    assert (model(tokens, segments=second) - model(tokens)).abs().max() > 1e-3
    with pytest.raises(RegardError, match="segments=0"):
        tiny(segments=0)(tokens, segments=second)


def test_every_parameter_learns():
    model, (tokens, _) = tiny(), texts()
    hidden = model(tokens)
    masked = nn.functional.cross_entropy(model.output(model.transform(hidden)).flatten(0, 1), tokens.flatten())
    follows = nn.functional.cross_entropy(model.next_sentence(model.pool(hidden)), torch.tensor([0, 1, 1]))
    (masked + follows).backward()
    silent = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert [name for name in silent if not name.endswith("key.bias")] == []


def test_parts_that_are_not_wanted_are_not_there():
    model = tiny(pooler=False, masked_words=False, next_sentence=False)
    assert (model.pooler, model.transform, model.output, model.next_sentence) == (None, None, None, None)
    with pytest.raises(RegardError, match="no pooler"):
        model.pool(torch.zeros(1, 2, 12))
    with pytest.raises(RegardError, match="pooler=true"):
        tiny(pooler=False)


def test_a_text_beyond_the_positions_is_refused():
    with pytest.raises(RegardError, match="beyond the 19 learned positions"):
        tiny()(torch.full((1, 20), 5))
    with pytest.raises(RegardError, match="beyond the 19 learned positions"):
        tiny(offset=2)(torch.full((1, 18), 5))


def test_padding_may_be_any_token_or_none():
    tokens, lengths = texts()
    own = tiny(special=Special(pad=1, bos=0, eos=2))
    moved = torch.where(torch.arange(11) < lengths.unsqueeze(1), tokens, 1)
    assert_close(own(moved), own(moved, lengths))
    none = tiny(special=Special(bos=0, eos=2))
    assert_close(none(tokens), none(tokens, torch.tensor([11, 11, 11])))


def test_parameters_are_those_of_the_paper():
    """Devlin 2019: 110M and 340M; Turc 2019: 4.4M for the tiny one."""
    sizes = {110: (12, 768, 12), 335: (24, 1024, 16), 4: (2, 128, 2)}
    for millions, (layers, width, heads) in sizes.items():
        with torch.device("meta"):
            model = build("bert", vocabulary=30522, layers=layers, width=width, heads=heads, masked_words=False)
        assert abs(sum(p.numel() for p in model.parameters()) / 1e6 - millions) < 1
