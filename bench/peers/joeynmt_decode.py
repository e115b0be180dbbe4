"""JoeyNMT's search, on ids."""

from __future__ import annotations

import time
from typing import Any

import joey
import torch
from answering import Run, Settings, answer
from joeynmt.search import search
from reading import read_sources

EOS = 3


def prepare(settings: Settings) -> Run:
    torch.set_num_threads(settings["threads"])
    model = joey.build(settings).eval()

    def run(asked: Settings) -> dict[str, Any]:
        batches = read_sources(asked["sources"], together=asked["together"])
        begin = time.perf_counter()
        found = [
            search(
                model,
                joey.batch(source, lengths),
                max_output_length=asked["most"],
                beam_size=asked["beam"],
                beam_alpha=1.0,
                min_output_length=asked["least"],
            )[0]
            for source, lengths in batches
        ]
        seconds = time.perf_counter() - begin
        rows = [joey.swapped(torch.as_tensor(row)).tolist() for group in found for row in group]
        return {"seconds": seconds, "answers": [row[: row.index(EOS)] if EOS in row else row for row in rows]}

    return run


if __name__ == "__main__":
    answer(prepare, packages=("torch", "joeynmt"))
