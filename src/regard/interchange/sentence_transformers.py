"""What sentence-transformers keeps beside a Hugging Face directory: how the states of a text become one vector."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from regard.errors import RegardError

POOLING = Path("1_Pooling") / "config.json"
READING = Path("sentence_bert_config.json")
WAYS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
MODULES = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}


def read_pooling(directory: Path) -> str:
    """How a sentence encoder makes one vector of a text: as a file of its own says, or else by the mean."""
    settings = _read(directory / POOLING)
    if settings is None:
        return "mean"
    ways = [key for key, value in settings.items() if key.startswith("pooling_mode") and value is True]
    if len(ways) != 1 or ways[0] not in WAYS:
        raise RegardError(f"{directory} pools by {', '.join(ways) or 'nothing'}; regard knows {', '.join(WAYS)}")
    return WAYS[ways[0]]


def read_longest(directory: Path) -> float:
    """How many tokens of a text it reads, those at its ends included: as a file of its own says, or else all."""
    longest = (_read(directory / READING) or {}).get("max_seq_length")
    return longest if isinstance(longest, int) and longest > 0 else math.inf


def write_pooling(directory: Path, *, pooling: str, width: int, longest: int) -> None:
    """The files by which `SentenceTransformer(directory)` gives vectors of length 1, as regard does.

    longest: tokens of a text that are read, those at its ends included.
    """
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(MODULES.items())
    ]
    how = {"word_embedding_dimension": width, **{key: way == pooling for key, way in WAYS.items()}}
    files: dict[Path, Any] = {
        Path("modules.json"): modules,
        READING: {"max_seq_length": longest, "do_lower_case": False},
        POOLING: how,
    }
    try:
        for module in MODULES:
            (directory / module).mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            (directory / path).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise RegardError(f"{directory} cannot be written: {error.strerror}; choose another directory") from None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise RegardError(f"{path} is damaged ({error}); copy it again") from None
