"""A random GPT-2 of a few thousand weights as transformers saves it, with a vocabulary of a, b and spaces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers

VOCABULARY = {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 4, "<|endoftext|>": 5}
POSITIONS = 29


def save(directory: Path, *, seed: int = 0) -> Any:
    """Write the directory, and return the model that is in it."""
    torch.manual_seed(seed)
    sizes = {"n_embd": 24, "n_layer": 3, "n_head": 2, "n_positions": POSITIONS, "vocab_size": len(VOCABULARY)}
    ends = {"bos_token_id": 5, "eos_token_id": 5}
    config = transformers.GPT2Config(**sizes, **ends, initializer_range=0.4, attn_implementation="eager")
    model = transformers.GPT2LMHeadModel(config).eval()
    model.save_pretrained(directory)
    (directory / "vocab.json").write_text(json.dumps(VOCABULARY), encoding="utf-8")
    (directory / "merges.txt").write_text("#version: 0.2\na b\nĠ ab\n", encoding="utf-8")
    return model
