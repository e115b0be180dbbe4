"""ELMo against its equations, with torch's own LSTM."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard.models import build
from regard.models.elmo import Elmo

VOCABULARY, WIDTH = 23, 7


def tiny(**settings: Any) -> Elmo:
    torch.manual_seed(0)
    model = build("elmo", vocabulary=VOCABULARY, **{"layers": 3, "width": WIDTH, "dropout": 0.0, **settings})
    assert isinstance(model, Elmo)
    with torch.no_grad():
        model.mix.weights.normal_()
        model.mix.scale.fill_(1.7)
    return model.eval()


def texts() -> tuple[Tensor, Tensor]:
    tokens = torch.randint(4, VOCABULARY, (3, 11), generator=torch.Generator().manual_seed(1))
    tokens[0, 4:] = tokens[1, 1:] = 0
    return tokens, torch.tensor([4, 1, 11])


def by_the_equations(model: Elmo, row: Tensor) -> Tensor:
    """One text (L,) without padding → features (L, 2 M)."""
    embedded = model.embedding.table.weight[row]
    layers = [torch.cat([embedded, embedded], -1)]
    there, back = embedded, embedded.flip(0)
    for number in range(3):
        found = []
        for stack, x in ((model.forward_layers, there), (model.backward_layers, back)):
            lstm = nn.LSTM(WIDTH, WIDTH)
            lstm.load_state_dict(stack[number].layers[0].state_dict())
            y = lstm(x)[0]
            found.append(x + y if number else y)
        there, back = found
        layers.append(torch.cat([there, back.flip(0)], -1))
    shares = model.mix.weights.exp() / model.mix.weights.exp().sum()
    return 1.7 * sum(share * layer for share, layer in zip(shares, layers, strict=True))


def test_features_are_their_equation_with_and_without_padding():
    model, (tokens, lengths) = tiny(), texts()
    features = model(tokens)
    assert features.shape == (3, 11, 2 * WIDTH)
    for row, length in enumerate(lengths.tolist()):
        assert_close(features[row, :length], by_the_equations(model, tokens[row, :length]), atol=1e-6, rtol=1e-5)


def test_each_direction_reads_its_own_side_only():
    model, (tokens, _) = tiny(), texts()
    other = tokens.clone()
    other[2, 5] = (tokens[2, 5] - 3) % 19 + 4
    there, back = model.both_ways(tokens)
    there_too, back_too = model.both_ways(other)
    assert_close(there[2, :5], there_too[2, :5])
    assert_close(back[2, 6:], back_too[2, 6:])
    assert ((there - there_too)[2, 5:].abs().amax(-1) > 0).all()
    assert ((back - back_too)[2, :6].abs().amax(-1) > 0).all()


def test_the_last_layers_predict_and_every_parameter_learns():
    model, (tokens, _) = tiny(), texts()
    there, back = model.both_ways(tokens[2:])
    row = tokens[2:]
    loss = nn.functional.cross_entropy(model.output(there[:, :-1]).flatten(0, 1), row[:, 1:].flatten())
    loss = loss + nn.functional.cross_entropy(model.output(back[:, 1:]).flatten(0, 1), row[:, :-1].flatten())
    (loss + model(tokens).square().sum()).backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert silent == []


def test_features_start_as_the_mean_of_the_layers():
    mix = build("elmo", vocabulary=VOCABULARY, layers=1, width=WIDTH).mix
    layers = [torch.randn(2, 3, 5) for _ in range(2)]
    assert_close(mix(layers), torch.stack(layers).mean(0))
