import numpy as np
import torch
from torch import nn

from regard.training.averaging import MovingAverage, mean


def test_a_moving_average_is_its_recursion():
    model = nn.Linear(3, 2)
    average = MovingAverage(model, decay=0.9)
    expected = model.weight.detach().numpy().astype(np.float64)
    for step in range(1, 101):
        with torch.no_grad():
            model.weight.add_(torch.randn(2, 3))
        average.update(model, step)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * model.weight.detach().numpy()
    np.testing.assert_allclose(average.weights["weight"].numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_model_gets_its_own_weights_back_to_the_bit():
    model = nn.Linear(3, 2)
    average = MovingAverage(model, decay=0.5)
    own = torch.randn(2, 3)
    with torch.no_grad():
        model.weight.copy_(own)
    with average.applied(model):
        assert torch.equal(model.weight, average.weights["weight"])
        assert not torch.equal(model.weight, own)
    assert torch.equal(model.weight, own)


def test_the_mean_of_checkpoints_is_that_of_numpy():
    checkpoints = [
        {"weight": torch.randn(5, 3), "half": torch.randn(7).bfloat16(), "count": torch.tensor(number)}
        for number in range(11)
    ]
    found = mean(iter(checkpoints))
    expected = np.mean([each["weight"].numpy() for each in checkpoints], axis=0, dtype=np.float64)
    np.testing.assert_array_equal(found["weight"].numpy(), expected.astype(np.float32))
    assert found["half"].dtype == torch.bfloat16
    assert found["count"].item() == 10


def test_averaging_changes_none_of_what_it_averages():
    one, two = {"w": torch.ones(3).double()}, {"w": 3 * torch.ones(3).double()}
    assert torch.equal(mean([one, two])["w"], 2 * torch.ones(3).double())
    assert torch.equal(one["w"], torch.ones(3).double())


def test_a_single_checkpoint_is_its_own_mean():
    weights = {"w": torch.randn(13)}
    assert torch.equal(mean([weights])["w"], weights["w"])
