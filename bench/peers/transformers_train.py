"""transformers' Marian in a plain loop."""

from __future__ import annotations

import marian
import torch
from answering import Run, Settings, answer
from learning import PAD, learner
from torch import Tensor


def prepare(settings: Settings) -> Run:
    torch.set_num_threads(settings["threads"])
    model = marian.build(settings)

    def logits(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        padded = bool((lengths < source.shape[1]).any())
        mask = (source != PAD).long() if padded else None
        return model(input_ids=source, attention_mask=mask, decoder_input_ids=target, use_cache=False).logits

    return learner(model, logits, settings)


if __name__ == "__main__":
    answer(prepare, packages=("torch", "transformers"))
