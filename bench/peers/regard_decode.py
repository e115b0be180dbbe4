"""regard's searches in torch, on ids."""

from __future__ import annotations

import time
from typing import Any

import torch
from answering import Run, Settings, answer
from reading import read_sources, read_weights

from regard import models
from regard.decoding import DecodingConfig, Hypothesis, search, side_by_side


def prepare(settings: Settings) -> Run:
    torch.set_num_threads(settings["threads"])
    sizes = {name: settings[name] for name in ("layers", "width", "heads", "hidden", "vocabulary")}
    model = models.build("transformer", **sizes)
    model.load_state_dict(read_weights(settings["weights"]))
    model.eval()

    def run(asked: Settings) -> dict[str, Any]:
        batches = read_sources(asked["sources"], together=asked["together"])
        config = DecodingConfig(beam=asked["beam"], min_length=asked["least"], max_length=asked["most"])

        def work(batch: tuple[torch.Tensor, torch.Tensor]) -> list[list[Hypothesis]]:
            return search(model, *batch, config=config)

        begin = time.perf_counter()
        alone = asked["together"] == 1  # how long one sentence takes, with nothing beside it
        found = list(map(work, batches)) if alone else side_by_side(model, work, batches)
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "answers": [row[0].tokens for batch in found for row in batch]}

    return run


if __name__ == "__main__":
    answer(prepare, packages=("torch",))
