"""transformers' GPT-2 in a plain loop."""

from __future__ import annotations

import gpt2
import torch
from answering import Run, Settings, answer
from learning import learner, smoothed
from torch import Tensor


def prepare(settings: Settings) -> Run:
    torch.set_num_threads(settings["threads"])
    model = gpt2.build(settings)

    def loss(_source: Tensor, _lengths: Tensor, target: Tensor) -> Tensor:
        found = model(input_ids=target[:, :-1], use_cache=False)
        return smoothed(found.logits, target, settings["smoothing"])

    return learner(model, loss, settings)


if __name__ == "__main__":
    answer(prepare, packages=("torch", "transformers"))
