"""regard's own writing in torch, on ids."""

from __future__ import annotations

import time
from typing import Any

import torch
from answering import Run, Settings, answer
from reading import read_sources, read_weights
from regard_gpt_train import build

from regard.decoding.config import DecodingConfig
from regard.decoding.continuing import Continuation


def prepare(settings: Settings) -> Run:
    torch.set_num_threads(settings["threads"])
    model = build(settings).eval()
    model.load_state_dict(read_weights(settings["weights"]))

    def write(prompts: torch.Tensor, config: DecodingConfig) -> list[list[int]]:
        going = Continuation(model, prompts.tolist(), config=config, reach=settings["context"])
        while not going.over:
            going.advance()
        return going.said

    def run(asked: Settings) -> dict[str, Any]:
        batches = [prompts for prompts, _ in read_sources(asked["sources"], together=asked["together"])]
        drawing = {"sample": True, "temperature": asked["temperature"]} if asked["sample"] else {}
        config = DecodingConfig(beam=1, max_length=asked["length"], **drawing)
        begin = time.perf_counter()
        found = [row for prompts in batches for row in write(prompts, config)]
        return {"seconds": time.perf_counter() - begin, "answers": found}

    return run


if __name__ == "__main__":
    answer(prepare, packages=("torch",))
