import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.attention.positions import Learned, Sinusoidal
from regard.errors import RegardError
from regard.layers import Embedding, tied_output
from regard.special import BOS, EOS, PAD, UNK


def test_the_special_ids_are_where_every_tokenizer_has_them() -> None:
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)


def test_an_embedding_is_its_equation() -> None:
    embed, tokens = Embedding(13, 6, position=Sinusoidal()), torch.randint(1, 13, (3, 5))
    table = embed.table.weight.detach().double().numpy()
    at = np.arange(5)[:, None]
    angle = at / 10000 ** (np.arange(0, 6, 2) / 6)
    waves = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(5, 6)
    expected = math.sqrt(6) * table[tokens.numpy()] + waves
    assert_close(embed(tokens).double(), torch.from_numpy(expected), atol=1e-5, rtol=1e-5)


def test_without_scale_and_position_it_is_the_table() -> None:
    embed, tokens = Embedding(13, 7, scale=False), torch.randint(0, 13, (3, 5))
    assert torch.equal(embed(tokens), embed.table.weight[tokens])


@pytest.mark.parametrize("position", [Sinusoidal(), Learned(11, width=7)])
def test_a_later_part_of_a_sequence_is_told_where_it_stands(position: Sinusoidal | Learned) -> None:
    embed, tokens = Embedding(13, 7, position=position), torch.randint(1, 13, (3, 11))
    assert_close(embed(tokens[:, 4:], torch.arange(4, 11)), embed(tokens)[:, 4:])


def test_it_starts_normal_with_variance_one_over_width_and_padding_at_zero() -> None:
    torch.manual_seed(0)
    embed = Embedding(1009, 31)
    assert embed.table.weight[1:].std().item() == pytest.approx(31**-0.5, rel=0.02)
    assert not embed.table.weight[PAD].any()
    assert Embedding(13, 7, padding=None).table.weight[PAD].any()


def test_tokens_come_in_rows() -> None:
    with pytest.raises(RegardError, match=r"tokens has the shape \(5,\)"):
        Embedding(13, 7)(torch.arange(5))


def test_padding_is_not_learned() -> None:
    embed = Embedding(13, 7)
    embed(torch.tensor([[5, 3, PAD, PAD]])).sum().backward()
    assert embed.table.weight.grad is not None
    assert embed.table.weight.grad.any(-1).nonzero().flatten().tolist() == [3, 5]


def test_dropout_falls_on_the_sum_with_the_position() -> None:
    embed = Embedding(13, 7, position=Sinusoidal(), dropout=0.5)
    tokens = torch.randint(1, 13, (3, 5))
    y, whole = embed(tokens), embed.eval()(tokens)
    assert (y == 0).any()
    assert_close(y[y != 0], 2 * whole[y != 0])


def test_a_tied_output_shares_its_weight_with_the_embedding() -> None:
    embed = Embedding(13, 7)
    output, x = tied_output(embed), torch.randn(3, 5, 7)
    assert_close(output(x), x @ embed.table.weight.T)
    assert output.weight is embed.table.weight
    output(embed(torch.randint(1, 13, (3, 5)))).sum().backward()
    assert embed.table.weight.grad is output.weight.grad
    assert len({id(p) for p in (*embed.parameters(), *output.parameters())}) == 1


@pytest.mark.parametrize(
    ("vocabulary", "width", "padding", "message"),
    [(0, 7, None, "vocabulary=0"), (13, 0, 0, "width=0"), (13, 7, 13, "padding=13"), (13, 7, -1, "padding=-1")],
)
def test_impossible_sizes_are_refused(vocabulary: int, width: int, padding: int | None, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        Embedding(vocabulary, width, padding=padding)
