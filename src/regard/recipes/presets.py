"""Sizes with a name: `[model] preset = "base"` fills in what the table below says; keys of the recipe itself win.

Each is the published configuration it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.errors import unknown_name

Size = Mapping[str, Any]

UNIVERSAL: Mapping[str, Size] = {
    # tensor2tensor's sizes of the same names; base has as many weights as six layers of half the width (Dehghani 2019)
    "tiny": {"layers": 8, "width": 128, "heads": 4, "hidden": 512},
    "small": {"layers": 6, "width": 512, "heads": 8, "hidden": 2048},
    "base": {"layers": 6, "width": 1024, "heads": 16, "hidden": 4096, "dropout": 0.3},
    "big": {"layers": 6, "width": 2048, "heads": 16, "hidden": 8192, "dropout": 0.3},
}

PRESETS: dict[str, Mapping[str, Size]] = {
    "transformer": {
        # Wu 2021 (Good for Misconceived Reasons), for Multi30k: small data
        "tiny": {"layers": 4, "width": 128, "heads": 4, "hidden": 256, "dropout": 0.3},
        # Ott 2019 (fairseq), for IWSLT14: a few hundred thousand pairs
        "small": {"layers": 6, "width": 512, "heads": 4, "hidden": 1024, "dropout": 0.3},
        # Vaswani 2017, table 3
        "base": {"layers": 6, "width": 512, "heads": 8, "hidden": 2048, "dropout": 0.1},
        "big": {"layers": 6, "width": 1024, "heads": 16, "hidden": 4096, "dropout": 0.3},
    },
    "universal": UNIVERSAL,
    "universal_encoder": UNIVERSAL,
    "universal_decoder": UNIVERSAL,
    "seq2seq": {
        # Britz 2017 (Massive Exploration), its smallest and its default cell width
        "tiny": {"layers": 1, "width": 128, "embedding": 128, "cell": "lstm"},
        "small": {"layers": 1, "width": 256, "embedding": 256, "cell": "lstm"},
        # Bahdanau 2015, RNNsearch
        "base": {"layers": 1, "width": 1000, "embedding": 620, "cell": "gru", "score": "additive", "order": "bahdanau"},
        # Luong 2015
        "big": {
            "layers": 4,
            "width": 1000,
            "embedding": 1000,
            "cell": "lstm",
            "score": "general",
            "order": "luong",
            "input_feeding": True,
            "dropout": 0.2,
        },
        # Wu 2016, section 7: 8 + 8 layers of 1024 cells
        "gnmt": {
            "layers": 8,
            "width": 1024,
            "embedding": 1024,
            "cell": "lstm",
            "bidirectional": "first",
            "residual": True,
            "score": "additive",
            "order": "bahdanau",
            "attend_from": "bottom",
            "dropout": 0.2,
        },
    },
    "conv_seq2seq": {
        # as deep as the next and half as wide, for tens of thousands of pairs
        "tiny": {"encoder_layers": 4, "decoder_layers": 3, "width": 128, "embedding": 128, "kernel": 3, "dropout": 0.2},
        # fairseq, for IWSLT14
        "small": {
            "encoder_layers": 4,
            "decoder_layers": 3,
            "width": 256,
            "embedding": 256,
            "kernel": 3,
            "dropout": 0.2,
        },
        # Gehring 2017, 4.1, for WMT16 English-Romanian
        "base": {"layers": 20, "width": 512, "embedding": 512, "kernel": 3, "dropout": 0.2},
    },
    "rnn": {
        # PyTorch's word_language_model, for WikiText-2
        "tiny": {"layers": 2, "width": 200, "dropout": 0.2, "tied": True},
        "small": {"layers": 2, "width": 650, "dropout": 0.5, "tied": True},
        "base": {"layers": 2, "width": 1500, "dropout": 0.65, "tied": True},
    },
    "gpt": {
        # nanoGPT, for tiny-shakespeare by characters: on a CPU, and on a GPU
        "tiny": {"layers": 4, "width": 128, "heads": 4, "maximum": 64, "dropout": 0.0},
        "mini": {"layers": 6, "width": 384, "heads": 6, "maximum": 256, "dropout": 0.2},
        # Radford 2019 (GPT-2), table 2
        "small": {"layers": 12, "width": 768, "heads": 12},
        "medium": {"layers": 24, "width": 1024, "heads": 16},
        "large": {"layers": 36, "width": 1280, "heads": 20},
        "xl": {"layers": 48, "width": 1600, "heads": 25},
    },
    "transformer_xl": {
        "tiny": {"layers": 4, "width": 256, "heads": 4, "memory": 128},
        # Dai 2019, for enwik8 (12 layers, 41M) and for WikiText-103 (151M and 257M): sizes of the authors' code
        "small": {"layers": 12, "width": 512, "heads": 8, "hidden": 2048, "memory": 512},
        "base": {"layers": 16, "width": 410, "heads": 10, "hidden": 2100, "memory": 150},
        "large": {"layers": 18, "width": 1024, "heads": 16, "hidden": 4096, "memory": 384, "dropout": 0.2},
    },
    "bert": {
        # Turc 2019 (Well-Read Students Learn Better)
        "tiny": {"layers": 2, "width": 128, "heads": 2},
        "mini": {"layers": 4, "width": 256, "heads": 4},
        "small": {"layers": 4, "width": 512, "heads": 8},
        "medium": {"layers": 8, "width": 512, "heads": 8},
        # Devlin 2019, section 3
        "base": {"layers": 12, "width": 768, "heads": 12},
        "large": {"layers": 24, "width": 1024, "heads": 16},
    },
    "xlnet": {
        # the sizes of Turc 2019 for BERT
        "tiny": {"layers": 2, "width": 128, "heads": 2},
        "mini": {"layers": 4, "width": 256, "heads": 4},
        "small": {"layers": 4, "width": 512, "heads": 8},
        # Yang 2019, as published
        "base": {"layers": 12, "width": 768, "heads": 12},
        "large": {"layers": 24, "width": 1024, "heads": 16},
    },
}


def fill_in(model: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """A [model] table with its preset, if it names one, replaced by what the preset says."""
    settings = dict(model)
    preset = settings.pop("preset", None)
    if preset is None:
        return settings
    sizes = PRESETS.get(settings["kind"], {})
    if not isinstance(preset, str) or preset not in sizes:
        raise unknown_name(f"{where}: model.preset", str(preset), [*sizes, "auto"])
    return {**sizes[preset], **settings}
