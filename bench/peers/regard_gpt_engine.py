"""regard's writing by CTranslate2, as `regard run` does it: prompts in, texts out, in a process without torch."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from answering import Run, Settings, answer

from regard import tasks
from regard.decoding.config import DecodingConfig
from regard.directory import ModelDirectory
from regard.engines.choose import without_torch
from regard.tasks.base import RunOptions


def prepare(settings: Settings) -> Run:
    stored = ModelDirectory(Path(settings["directory"]))
    surface, codec = tasks.surface(stored.tables()["task"]), stored.codec(stored.special())
    tokenizer = codec.texts().source

    def run(asked: Settings) -> dict[str, Any]:
        options = RunOptions(DecodingConfig(beam=1, max_length=asked["length"]))
        engine = without_torch(stored, surface, options, codec, wanted="ctranslate2", compute_type="float32")
        assert not isinstance(engine, str)
        engine.open(options)
        prompts = tokenizer.decode(json.loads(Path(asked["sources"]).read_text(encoding="utf-8")))
        begin = time.perf_counter()
        found = list(engine.answer_all(prompts, options, together=asked["together"]))
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "answers": [list(texts[0].tokens) for texts in found]}

    return run


if __name__ == "__main__":
    answer(prepare, packages=("ctranslate2",))
