"""A model directory as transformers saves and loads it, with the tokenizer as its fast tokenizer."""

from __future__ import annotations

from typing import Any

import marian
from answering import Run, Settings, answer
from transformers import PreTrainedTokenizerFast


def prepare(settings: Settings) -> Run:
    def save(asked: Settings) -> dict[str, Any]:
        marian.build(settings).save_pretrained(asked["out"])
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=settings["tokenizer"],
            pad_token="<pad>",
            unk_token="<unk>",
            bos_token="<s>",
            eos_token="</s>",
        )
        tokenizer.save_pretrained(asked["out"])
        return {}

    return save


if __name__ == "__main__":
    answer(prepare, packages=("transformers",))
