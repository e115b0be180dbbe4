"""transformers' generate with GPT-2, on ids."""

from __future__ import annotations

import time
from typing import Any

import gpt2
import torch
from answering import Run, Settings, answer
from reading import read_sources


def prepare(settings: Settings) -> Run:
    torch.set_num_threads(settings["threads"])
    model = gpt2.build(settings).eval()
    if settings["precision"] == "bfloat16":
        model.to(torch.bfloat16)

    @torch.inference_mode()
    def run(asked: Settings) -> dict[str, Any]:
        batches = [prompts for prompts, _ in read_sources(asked["sources"], together=asked["together"])]
        drawing = {"do_sample": True, "temperature": asked["temperature"], "top_k": 0} if asked["sample"] else {}
        options = {"max_new_tokens": asked["length"], "do_sample": False, "use_cache": True, **drawing}
        begin = time.perf_counter()
        found = [model.generate(prompts, attention_mask=torch.ones_like(prompts), **options) for prompts in batches]
        seconds = time.perf_counter() - begin
        said = [
            row for prompts, rows in zip(batches, found, strict=True) for row in rows[:, prompts.shape[1] :].tolist()
        ]
        return {"seconds": seconds, "answers": said}

    return run


if __name__ == "__main__":
    answer(prepare, packages=("torch", "transformers"))
