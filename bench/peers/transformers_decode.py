"""transformers' generate, on ids."""

from __future__ import annotations

import time
from typing import Any

import marian
import torch
from answering import Run, Settings, answer
from reading import read_sources

PAD, EOS = 0, 3


def prepare(settings: Settings) -> Run:
    torch.set_num_threads(settings["threads"])
    model = marian.build(settings).eval()
    if settings["precision"] == "bfloat16":
        model.to(torch.bfloat16)

    @torch.inference_mode()
    def run(asked: Settings) -> dict[str, Any]:
        batches = read_sources(asked["sources"], together=asked["together"])
        search = {
            "num_beams": asked["beam"],
            "do_sample": False,
            "max_new_tokens": asked["most"],
            **({"min_new_tokens": asked["least"]} if asked["least"] else {}),
            **({"early_stopping": True} if asked["beam"] > 1 else {}),
        }
        begin = time.perf_counter()
        found = [model.generate(source, attention_mask=(source != PAD).long(), **search) for source, _ in batches]
        seconds = time.perf_counter() - begin
        rows = [row[1:] for batch in found for row in batch.tolist()]
        return {"seconds": seconds, "answers": [[token for token in row if token not in (PAD, EOS)] for row in rows]}

    return run


if __name__ == "__main__":
    answer(prepare, packages=("torch", "transformers"))
