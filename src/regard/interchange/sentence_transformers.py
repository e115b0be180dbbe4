"""What sentence-transformers keeps beside a Hugging Face directory: how the states of a text become one vector."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.interchange.files import cut, optional_json, shown

POOLING, NORMALIZE, READING = "1_Pooling/config.json", "2_Normalize/config.json", "sentence_bert_config.json"
FEWEST = 6  # tokens: two texts of one token, and the special tokens around them
WAYS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
MODULES = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}


def read_pooling(directory: Path) -> str:
    """How a sentence encoder makes one vector of a text: as the file for that says, or else by the mean."""
    settings = optional_json(directory / POOLING)
    ways = [key for key, value in settings.items() if key.startswith("pooling_mode") and value is True]
    if settings and (len(ways) != 1 or ways[0] not in WAYS):
        raise RegardError(
            f"{directory / POOLING} pools by {cut(', '.join(ways)) or 'nothing'}; regard knows {', '.join(WAYS)}"
        )
    return WAYS[ways[0]] if ways else "mean"


def read_longest(directory: Path) -> float:
    """How many tokens of a text it reads, special tokens included: as the file for that says, or else all."""
    longest = optional_json(directory / READING).get("max_seq_length")
    if longest is None:
        return math.inf
    if isinstance(longest, bool) or not isinstance(longest, int) or longest < FEWEST:
        raise RegardError(
            f"{directory / READING}: max_seq_length is {shown(longest)} and must be a whole number of at least {FEWEST}"
        )
    return longest


def pooling_files(*, pooling: str, width: int, longest: int) -> dict[str, bytes]:
    """The files by which `SentenceTransformer(directory)` gives vectors of length 1, as regard does.

    longest: how many tokens of a text are read, special tokens included.
    """
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(MODULES.items())
    ]
    files: dict[str, Any] = {
        "modules.json": modules,
        READING: {"max_seq_length": longest, "do_lower_case": False},
        POOLING: {"word_embedding_dimension": width, **{key: way == pooling for key, way in WAYS.items()}},
        NORMALIZE: {},  # it has no settings, but an empty directory would be lost by many tools
    }
    return {name: (json.dumps(content, indent=2) + "\n").encode() for name, content in files.items()}
