"""transformers' Marian in a plain loop."""

from __future__ import annotations

import marian
import torch
from answering import Run, Settings, answer
from learning import PAD, learner, smoothed
from torch import Tensor


def prepare(settings: Settings) -> Run:
    torch.set_num_threads(settings["threads"])
    model = marian.build(settings)

    def loss(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        padded = bool((lengths < source.shape[1]).any())
        mask = (source != PAD).long() if padded else None
        given = target[:, :-1]
        found = model(input_ids=source, attention_mask=mask, decoder_input_ids=given, use_cache=False)
        return smoothed(found.logits, target, settings["smoothing"])

    return learner(model, loss, settings)


if __name__ == "__main__":
    answer(prepare, packages=("torch", "transformers"))
