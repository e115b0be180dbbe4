"""GPT by what is its own."""

import math
from typing import Any

import pytest
import torch

from regard.decoding import DecodingConfig, search
from regard.errors import RegardError
from regard.models import build
from regard.models.gpt import GPT
from regard.special import Special


def tiny(**settings: Any) -> GPT:
    torch.manual_seed(0)
    sizes = {"layers": 3, "width": 24, "heads": 4, "dropout": 0.0}
    model = build("gpt", vocabulary=29, **{**sizes, **settings})
    assert isinstance(model, GPT)
    return model.eval()


def test_a_text_beyond_the_learned_positions_is_refused():
    model = tiny(maximum=7)
    model(torch.full((1, 7), 5))
    with pytest.raises(RegardError, match="beyond the 7 learned positions"):
        model(torch.full((1, 8), 5))
    with pytest.raises(RegardError, match="beyond the 7 learned positions"):
        search(model, torch.full((2, 5), 5), config=DecodingConfig(beam=1, max_length=4, min_length=4))


@pytest.mark.parametrize("position", ["rotary", "alibi", "sinusoidal", "none"])
def test_other_positions_have_no_limit(position: str):
    assert tiny(maximum=7, position=position)(torch.full((1, 31), 5)).shape == (1, 31, 24)


def test_parameters_are_those_of_the_paper():
    """Radford 2019, table 2: 117M, 345M, 762M and 1542M, which count a little less than what was published in the end
    (124M, 355M, 774M, 1558M)."""
    sizes = {124: (12, 768, 12), 355: (24, 1024, 16), 774: (36, 1280, 20), 1558: (48, 1600, 25)}
    for millions, (layers, width, heads) in sizes.items():
        with torch.device("meta"):
            model = build("gpt", vocabulary=50257, layers=layers, width=width, heads=heads)
        assert round(sum(p.numel() for p in model.parameters()) / 1e6) == millions


def test_weights_start_as_in_gpt2():
    model = tiny(width=96, heads=4, layers=8)
    block = model.body.blocks[3]
    assert block.attention.query.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert block.feed_forward.inner.weight.std().item() == pytest.approx(0.02, rel=0.05)
    for added in (block.attention.output, block.feed_forward.outer):
        assert added.weight.std().item() == pytest.approx(0.02 / math.sqrt(16), rel=0.05)
    assert model.embedding.table.weight[4:].std().item() == pytest.approx(0.02, rel=0.05)
    assert model.output.weight is model.embedding.table.weight


def test_one_token_for_both_ends_may_be_said_and_ends_an_answer():
    model = tiny(special=Special(bos=7, eos=7))
    with torch.no_grad():
        model.embedding.table.weight[7] = 0.0
        model.body.final.bias.fill_(1.0)
        model.embedding.table.weight[7] += 5.0
    ((found,),) = search(model, torch.tensor([[0, 3, 2]]), config=DecodingConfig(beam=1, max_length=9))
    assert found.tokens == ()
    assert len(found.logprobs) == 1


def test_without_padding_every_token_of_a_prompt_counts():
    model = tiny(special=Special(bos=7, eos=7))
    memory = model.encode(torch.tensor([[0, 0], [5, 0]]))
    assert memory.lengths.tolist() == [2, 2]
    ragged = model.encode(torch.tensor([[0, 0], [5, 0]]), torch.tensor([2, 1]))
    assert model.first(ragged).tolist() == [0, 5]


def test_grouped_heads_share_keys_and_values():
    model = tiny(key_value_heads=2)
    assert model.body.blocks[0].attention.key.weight.shape == (12, 24)
