"""JoeyNMT's model and loss in the plain loop."""

from __future__ import annotations

import joey
import torch
from answering import Run, Settings, answer
from learning import learner
from torch import Tensor


def prepare(settings: Settings) -> Run:
    torch.set_num_threads(settings["threads"])
    model = joey.build(settings)

    def loss(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        return model(return_type="loss", **vars(joey.batch(source, lengths, target)))[0]

    return learner(model, loss, settings)


if __name__ == "__main__":
    answer(prepare, packages=("torch", "joeynmt"))
