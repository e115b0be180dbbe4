"""A random XLNet of a few thousand weights as transformers saves it, with a unigram vocabulary of real words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

WORDS = ["the", "a", "cat", "dog", "bird", "sat", "ran", "on", "mat", "red", "happy", "sad", "good", "bad", "film"]
WORDS += ["in", "paris", "london", "smith"]
SPECIAL = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz", ".", ",", "?", "!", "-", "▁"]
PIECES = [*((name, 0.0) for name in SPECIAL), *((f"▁{word}", -2.0) for word in WORDS), *((x, -6.0) for x in LETTERS)]


def config(**changes: Any) -> transformers.XLNetConfig:
    sizes = {"d_model": 24, "n_layer": 2, "n_head": 3, "d_inner": 31, "vocab_size": len(PIECES), "mem_len": 7}
    return transformers.XLNetConfig(**(sizes | changes))


def save(directory: Path, architecture: str = "XLNetModel", *, seed: int = 0, **changes: Any) -> Any:
    """Write the directory with random weights, biases and norms too, and return the model that is in it."""
    model = getattr(transformers, architecture)(config(**changes)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            spread = torch.empty(parameter.shape).normal_(0.0, 0.3, generator=generator)
            parameter.copy_(1 + spread if "norm.weight" in name else spread)
    model.save_pretrained(directory)
    tokenizer().save_pretrained(directory)
    return model


def tokenizer() -> Any:
    return transformers.XLNetTokenizer(vocab=PIECES, unk_id=0)
