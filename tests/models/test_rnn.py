"""The recurrent language model by what is its own; the laws of causal models are tested for all of them."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.attention import recording
from regard.errors import RegardError
from regard.models import build
from regard.models.rnn import RNN

CELLS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


def tiny(**settings: Any) -> RNN:
    torch.manual_seed(0)
    model = build("rnn", vocabulary=23, **{"layers": 2, "width": 11, "dropout": 0.0, **settings})
    assert isinstance(model, RNN)
    return model.eval()


def text(length: int = 13) -> torch.Tensor:
    return torch.randint(0, 23, (3, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("cell", CELLS)
def test_logits_are_those_of_embedding_layers_and_linear_map_of_torch(cell: str):
    model = tiny(cell=cell)
    embedding, layers, linear = nn.Embedding(23, 11), CELLS[cell](11, 11, 2, batch_first=True), nn.Linear(11, 23)
    with torch.no_grad():
        linear.bias.copy_(model.output.bias.normal_())
        embedding.weight.copy_(model.embedding.table.weight)
        linear.weight.copy_(model.embedding.table.weight)
        for number, layer in enumerate(model.body.layers):
            for name, parameter in layer.named_parameters():
                layers.get_parameter(name.replace("l0", f"l{number}")).copy_(parameter)
    assert_close(model.output(model(text())), linear(layers(embedding(text()))[0]), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("cell", CELLS)
def test_a_state_is_carried_from_block_to_block(cell: str):
    model = tiny(cell=cell)
    first, state = model.read(text()[:, :5], None)
    second, _ = model.read(text()[:, 5:], state.detach())
    assert_close(torch.cat([first, second], 1), model(text()), atol=1e-6, rtol=1e-5)
    assert not any(part.requires_grad for part in (*state.detach().hidden, *state.detach().cell))


def test_parameters_of_the_650_tied_setting():
    """PyTorch's word_language_model with --emsize 650 --nhid 650 --tied on WikiText-2, 33 278 words."""
    model = build("rnn", vocabulary=33278)
    assert isinstance(model, RNN)
    lstm = 2 * (4 * 650 * (650 + 650) + 2 * 4 * 650)
    assert sum(p.numel() for p in model.parameters()) == 33278 * 650 + lstm + 33278
    assert model.output.weight is model.embedding.table.weight
    assert model.output.weight.abs().max() <= 0.1


def test_tied_weights_need_one_width():
    with pytest.raises(RegardError, match="embedding=7 as wide as width=11"):
        tiny(embedding=7)
    assert tiny(embedding=7, tied=False)(text()).shape == (3, 13, 11)


def test_dropout_falls_on_what_leaves_the_layers():
    model = tiny(dropout=0.5)
    assert not (model(text()) == 0).any()
    model.train()
    assert 0.3 < (model(text()) == 0).float().mean() < 0.7


def test_gates_are_shown():
    model = tiny()
    with recording(model) as record:
        model(text())
    assert {path: weights.shape for path, weights in record.items()} == {
        f"body.layers.{layer}.forward": (3, 1, 13, 13) for layer in range(2)
    }
