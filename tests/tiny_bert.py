"""A random BERT of a few thousand weights as transformers saves it, with a vocabulary of real words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

WORDS = ["the", "a", "cat", "dog", "bird", "sat", "ran", "on", "mat", "red", "happy", "sad", "good", "bad", "film"]
WORDS += ["in", "paris", "london", "smith"]
PIECES = ["##s", "##ing", "##ed", ".", ",", "?", "!", "-", *"abcdefghijklmnopqrstuvwxyz"]
PIECES += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = list(dict.fromkeys([*SPECIAL, *WORDS, *PIECES]))


def config(**changes: Any) -> transformers.BertConfig:
    sizes = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 31}
    sizes |= {"max_position_embeddings": 37, "vocab_size": len(VOCABULARY), "attn_implementation": "eager"}
    return transformers.BertConfig(**(sizes | changes))


def save(directory: Path, architecture: str = "BertModel", *, seed: int = 0, **changes: Any) -> Any:
    """Write the directory, and return the model that is in it."""
    torch.manual_seed(seed)
    model = getattr(transformers, architecture)(config(**changes)).eval()
    model.save_pretrained(directory)
    (directory / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    return model


def tokenizer() -> Any:
    return transformers.BertTokenizer(vocab={word: number for number, word in enumerate(VOCABULARY)})
