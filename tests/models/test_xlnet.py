"""XLNet by its own laws; that it is XLNet, the conformance tests say."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from regard.attention import recording
from regard.attention.two_stream import by_keys, distances_between, sinusoids
from regard.errors import RegardError
from regard.models import build
from regard.models.xlnet import XLNet, XLNetConfig

VOCABULARY = 31
LENGTHS = torch.tensor([4, 9, 11])


def tiny(**changes: Any) -> XLNet:
    torch.manual_seed(0)
    sizes = {"layers": 2, "width": 12, "heads": 3, "hidden": 17, "dropout": 0.0, "memory": 8}
    model = build("xlnet", vocabulary=VOCABULARY, **{**sizes, **changes})
    assert isinstance(model, XLNet)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.3)
    return model.eval()


def texts() -> Tensor:
    tokens = torch.randint(4, VOCABULARY, (3, 11), generator=torch.Generator().manual_seed(1))
    tokens[0, 4:] = tokens[1, 9:] = 0
    return tokens


def full(tokens: Tensor) -> Tensor:
    return torch.full((len(tokens),), tokens.shape[1])


def everywhere(tokens: Tensor) -> Tensor:
    return torch.arange(tokens.shape[1]).expand_as(tokens)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 9), st.integers(0, 5), st.integers(0, 10**6))
def test_scores_of_distances_become_scores_of_keys(tokens: int, memory: int, seed: int):
    generator = torch.Generator().manual_seed(seed)
    keys = memory + tokens
    away = distances_between(tokens, keys, device=torch.device("cpu")).tolist()
    scores = torch.randn(2, 3, tokens, len(away), generator=generator)
    wanted = torch.empty(2, 3, tokens, keys)
    for i in range(tokens):
        for j in range(keys):
            wanted[:, :, i, j] = scores[:, :, i, away.index(memory + i - j)]
    assert torch.equal(by_keys(scores, keys, None), wanted)
    places = torch.randint(tokens, (2, 4), generator=generator)
    some = torch.randn(2, 3, 4, len(away), generator=generator)
    found = by_keys(some, keys, places)
    for row in range(2):
        for n, place in enumerate(places[row].tolist()):
            for j in range(keys):
                assert torch.equal(found[row, :, n, j], some[row, :, n, away.index(memory + place - j)])


def test_sinusoids_are_those_of_the_paper():
    found = sinusoids(torch.tensor([3, 0, -2]), 6)
    for row, distance in enumerate((3, 0, -2)):
        angles = torch.tensor([distance / 10000 ** (2 * n / 6) for n in range(3)], dtype=torch.float64)
        assert_close(found[row], torch.cat([angles.sin(), angles.cos()]))


def test_a_padded_text_is_the_same_alone_in_both_streams():
    model, tokens = tiny(), texts()
    order = torch.stack([torch.randperm(11) for _ in range(3)]) + 1
    order[:, 0] = 0
    places = torch.tensor([[1, 3], [7, 2], [10, 4]])
    together, asked = model(tokens), model.predicted(tokens, LENGTHS, None, order=order, places=places)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = tokens[row : row + 1, :length]
        assert_close(together[row : row + 1, :length], model(alone), atol=1e-5, rtol=1e-4)
        one = model.predicted(
            alone, full(alone), None, order=order[row : row + 1, :length], places=places[row : row + 1]
        )
        assert_close(asked[row : row + 1], one, atol=1e-5, rtol=1e-4)


def test_with_the_identity_order_it_is_a_causal_model_to_the_bit():
    model, tokens = tiny(), texts()[2:]
    order = everywhere(tokens)
    h = model(tokens, order=order)
    g = model.predicted(tokens, full(tokens), None, order=order, places=order)
    for place in range(1, 11):
        other = tokens.clone()
        other[0, place:] = (other[0, place:] - 3) % (VOCABULARY - 4) + 4
        changed = model(other, order=order)
        asked = model.predicted(other, full(tokens), None, order=order, places=order)
        assert torch.equal(changed[:, :place], h[:, :place])
        assert torch.equal(asked[:, : place + 1], g[:, : place + 1])  # the token at a place does not predict itself
        assert (changed[:, place:] - h[:, place:]).abs().amax(-1).min() > 1e-4
        if place < 10:
            assert (asked[:, place + 1 :] - g[:, place + 1 :]).abs().amax(-1).min() > 1e-5


def test_in_any_order_a_place_is_predicted_from_the_tokens_of_lower_rank_to_the_bit():
    model, tokens = tiny(), texts()[2:]
    order = torch.tensor([[0, 4, 1, 7, 0, 2, 6, 5, 0, 3, 0]])
    places = everywhere(tokens)
    g = model.predicted(tokens, full(tokens), None, order=order, places=places)
    for place in range(11):
        other = tokens.clone()
        other[0, place] = 5 if tokens[0, place] != 5 else 6
        asked = model.predicted(other, full(tokens), None, order=order, places=places)
        changed = (asked - g).abs().amax(-1)[0] > 0
        assert torch.equal(changed, order[0] > order[0, place])


def test_memory_that_is_kept_equals_one_long_pass():
    model, tokens = tiny(), texts()[1:, :9]
    first, second, third = tokens.split(3, dim=1)
    _, memory = model.read_on(first)
    between, memory = model.read_on(second, memory)
    last, kept = model.read_on(third, memory)
    two = model(tokens[:, :6], full(tokens[:, :6]), order=torch.tensor([-1] * 3 + [0] * 3).expand(2, -1))
    assert_close(between, two[:, 3:], atol=1e-6, rtol=1e-5)
    three = model(tokens, full(tokens), order=torch.tensor([-2] * 3 + [-1] * 3 + [0] * 3).expand(2, -1))
    assert_close(last, three[:, 6:], atol=1e-6, rtol=1e-5)
    assert [x.shape for x in kept] == [(2, 8, 12)] * 2  # the last 8 of 9 positions
    assert_close(kept[0], model.embedding(tokens)[:, 1:])
    assert not any(x.requires_grad for x in kept)
    _, nothing = tiny(memory=0).read_on(tokens)
    assert [x.shape[1] for x in nothing] == [0, 0]


def test_memory_is_seen_by_all_and_sees_only_itself():
    model, tokens = tiny(), texts()[2:]
    order = torch.tensor([[-1] * 4 + [0, 2, 1, 0, 3, 0, 0]])
    changed = {}
    for place in (2, 7):
        other = tokens.clone()
        other[0, place] = 5 if tokens[0, place] != 5 else 6
        changed[place] = (model(other, order=order) - model(tokens, order=order)).abs().amax(-1)[0] > 0
    assert changed[2].all()
    assert changed[7].tolist() == [False] * 4 + [True] * 7


def test_both_streams_are_recorded_under_their_names():
    model, tokens = tiny(), texts()
    order, places = torch.zeros_like(tokens), torch.tensor([[1, 3], [7, 2], [10, 4]])
    order = order.scatter(1, places, 1)
    with recording(model) as record:
        model.predicted(tokens, LENGTHS, None, order=order, places=places)
    assert set(record) == {f"body.{layer}.attention.{stream}" for layer in range(2) for stream in ("content", "query")}
    content, query = record["body.1.attention.content"], record["body.1.attention.query"]
    assert (content.shape, query.shape) == ((3, 3, 11, 11), (3, 3, 2, 11))
    assert_close(query.sum(-1), torch.ones(3, 3, 2))
    for row, length in enumerate(LENGTHS.tolist()):
        assert query[row, ..., length:].abs().sum() == 0
        assert query[row, ..., places[row]].abs().sum() == 0  # neither itself nor the other
        assert content[row, ..., length:].abs().sum() == 0
    assert model.looks("body.1.attention.query") == ("target", "source")
    assert model.looks("body.1.attention.content") == ("source", "source")


def test_a_place_that_sees_nothing_is_predicted_from_nothing():
    model, tokens = tiny(), texts()[2:]
    order = everywhere(tokens)
    with recording(model) as record:
        g = model.predicted(tokens, full(tokens), None, order=order, places=order[:, :1])
    assert g.isfinite().all()
    assert record["body.0.attention.query"].abs().sum() == 0


def test_segments_are_told_apart_and_only_their_difference_counts():
    model, tokens = tiny(), texts()
    second = (everywhere(tokens) > 1).long()
    plain = model(tokens)
    assert_close(model(tokens, segments=torch.zeros_like(tokens)), plain, atol=1e-6, rtol=1e-5)
    assert (model(tokens, segments=second) - plain).abs().max() > 1e-3
    assert torch.equal(model(tokens, segments=second), model(tokens, segments=5 - second))


def test_for_a_head_bos_is_a_segment_of_its_own():
    model, tokens = tiny(), texts()[2:]
    tokens[0, -1] = model.special.bos
    segments = torch.zeros_like(tokens)
    segments[0, -1] = 2
    assert torch.equal(model.states(tokens, full(tokens)), model(tokens, segments=segments))


def test_every_parameter_learns():
    model, tokens = tiny(pooler=True), texts()
    order, places = torch.zeros_like(tokens).scatter(1, torch.tensor([[2]] * 3), 1), torch.tensor([[2]] * 3)
    segments = (everywhere(tokens) > 1).long()
    hidden = model.predicted(tokens, LENGTHS, segments, order=order, places=places)
    loss = nn.functional.cross_entropy(model.words(hidden).flatten(0, 1), tokens[:, 2])
    (loss + model.pooled(model(tokens), LENGTHS, "pooler").square().sum()).backward()
    assert [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []


def test_parts_that_are_not_wanted_are_not_there():
    model = tiny(masked_words=False)
    assert (model.pooler, model.output, model.mask.requires_grad) == (None, None, False)
    with pytest.raises(RegardError, match="masked_words=false"):
        model.words(torch.zeros(1, 2, 12))
    with pytest.raises(RegardError, match="no pooler"):
        model.pooled(torch.zeros(1, 2, 12), torch.tensor([2]), "pooler")
    uses = {use: XLNetConfig().suited(use) for use in ("words", "vector", "text", "tokens", "span")}
    assert {use: (each.masked_words, each.pooler) for use, each in uses.items()} == {
        "words": (True, False),
        "vector": (False, False),
        "text": (False, True),
        "tokens": (False, False),
        "span": (False, False),
    }


def test_sizes_that_cannot_be_are_refused():
    with pytest.raises(RegardError, match="heads=5 does not divide width=12"):
        tiny(heads=5)
    with pytest.raises(RegardError, match="width=9 must be even"):
        tiny(width=9)


def test_parameters_are_those_of_the_published_models():
    """xlnet-base-cased has 117M parameters with its head of words, xlnet-large-cased 361M."""
    for millions, (layers, width, heads) in {117: (12, 768, 12), 361: (24, 1024, 16)}.items():
        with torch.device("meta"):
            model = build("xlnet", vocabulary=32000, layers=layers, width=width, heads=heads)
        assert abs(sum(p.numel() for p in model.parameters()) / 1e6 - millions) < 1
