"""A model directory as CTranslate2 loads it."""

from __future__ import annotations

from typing import Any

import ctranslate2_model
from answering import Run, Settings, answer


def prepare(settings: Settings) -> Run:
    def save(asked: Settings) -> dict[str, Any]:
        names, heads = settings["names"], settings["heads"]
        ctranslate2_model.write(settings["weights"], names, heads=heads, out=asked["out"])
        return {}

    return save


if __name__ == "__main__":
    answer(prepare, packages=("ctranslate2", "tokenizers"))
