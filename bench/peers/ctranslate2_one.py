"""One line after the other through CTranslate2 by hand, in a warm process."""

from __future__ import annotations

import ctranslate2
from answering import Run, Settings, answer
from one_by_one import timed
from tokenizers import Tokenizer


def prepare(settings: Settings) -> Run:
    translator = ctranslate2.Translator(
        settings["folder"],
        device="cpu",
        inter_threads=1,
        intra_threads=settings["intra"],
        compute_type=settings["precision"],
    )
    tokenizer = Tokenizer.from_file(settings["tokenizer"])

    def translate(line: str) -> str:
        source = [*tokenizer.encode(line, add_special_tokens=False).tokens, "</s>"]
        (found,) = translator.translate_batch([source], beam_size=settings["beam"], max_decoding_length=256)
        return tokenizer.decode([tokenizer.token_to_id(name) for name in found.hypotheses[0]])

    return timed(translate)


if __name__ == "__main__":
    answer(prepare, packages=("ctranslate2", "tokenizers"))
