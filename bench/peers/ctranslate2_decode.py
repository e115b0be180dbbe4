"""CTranslate2 alone, on ids; `workers` share the threads."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import ctranslate2_model
from answering import Run, Settings, answer


def prepare(settings: Settings) -> Run:
    folder = f"{settings['folder']}/{settings['workers']}-{settings['precision']}"
    ctranslate2_model.write(settings["weights"], settings["names"], heads=settings["heads"], out=folder)
    names = json.loads(Path(settings["names"]).read_text(encoding="utf-8"))
    numbers = {name: number for number, name in enumerate(names)}
    workers = min(settings["workers"], settings["threads"])
    translator = ctranslate2_model.translator(
        folder, workers=workers, threads=settings["threads"] // workers, precision=settings["precision"]
    )

    def run(asked: Settings) -> dict[str, Any]:
        sources = [[names[token] for token in row] for row in json.loads(Path(asked["sources"]).read_text())]
        together = asked["together"]
        groups = [sources] if together > 1 else [[source] for source in sources]
        begin = time.perf_counter()
        found = [
            answer
            for group in groups
            for answer in translator.translate_batch(
                group,
                beam_size=asked["beam"],
                max_batch_size=together,
                min_decoding_length=asked["least"],
                max_decoding_length=asked["most"],
            )
        ]
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "answers": [[numbers[name] for name in row.hypotheses[0]] for row in found]}

    return run


if __name__ == "__main__":
    answer(prepare, packages=("ctranslate2",))
