from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from regard.decoding.vocabulary import largest, to_logprobs


@pytest.mark.parametrize("vocabulary", [7, 1021, 1024, 5003])
@pytest.mark.parametrize("k", [1, 2, 6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_largest_are_those_of_topk(vocabulary, k, dtype):
    logits = torch.randn(23, vocabulary, generator=torch.Generator().manual_seed(k)).to(dtype)
    values, places = largest(logits, k)
    assert_close(values, logits.topk(k).values, rtol=0, atol=0)
    assert_close(logits.gather(1, places), values, rtol=0, atol=0)
    assert all(len(set(row)) == k for row in places.tolist())


@pytest.mark.parametrize("place", [0, 63, 64, 4991, 4992, 5002])
def test_the_largest_are_found_wherever_they_are(place):
    logits = torch.full((3, 5003), -math.inf)
    logits[1, place], logits[2, place], logits[2, 77] = 1.0, 2.0, 3.0
    values, places = largest(logits, 2)
    assert values.tolist() == [[-math.inf, -math.inf], [1.0, -math.inf], [3.0, 2.0]]
    assert places[1, 0] == place
    assert places[2].tolist() == [77, place]


def test_what_is_largest_in_a_row_does_not_depend_on_the_other_rows():
    logits = torch.randint(0, 5, (17, 3001), generator=torch.Generator().manual_seed(1)).float()  # full of ties
    together = largest(logits, 6)[1]
    alone = torch.cat([largest(row.unsqueeze(0), 6)[1] for row in logits])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
def test_log_probabilities_are_those_of_log_softmax(scale, dtype):
    logits = (scale * torch.randn(37, 1001, generator=torch.Generator().manual_seed(0))).to(dtype)
    logits[:, 5] = -math.inf
    wanted = logits.double() - logits.double().logsumexp(-1, keepdim=True)
    assert_close(to_logprobs(logits).double(), wanted, atol=1e-4, rtol=1e-5)
