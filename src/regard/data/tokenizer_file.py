"""Reading tokenizer.json, which others may have written: its padding and truncation are ignored, and a tokenizer that
could make a text very much longer is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tokenizers

from regard.data.whole import parse_json, read_text
from regard.errors import RegardError, cut

PARTS = ("normalizer", "pre_tokenizer", "decoder")
INSIDE = ("normalizers", "pretokenizers", "decoders")  # the keys under which a sequence has its steps
GROWTH = {"ByteLevel": 2.0, "Precompiled": 4.0}  # how many times longer a step can make a text; 1 unless stated
MOST_GROWTH = 10_000.0
MOST_STEPS = 64
PROBE = "A text with a word of its own, 123 \u00e9\u6771\U0010fffd"  # its last character is in no vocabulary


def read_file(path: Path) -> tokenizers.Tokenizer:
    """The tokenizer of a file. regard pads and cuts by itself, so what the file says about both is not read."""
    text = read_text(path)
    found = parse_json(text, path)
    if found.get("padding") is not None or found.get("truncation") is not None:
        text = json.dumps({**found, "padding": None, "truncation": None})
    with explaining(f"{path} is not a tokenizer"):
        made = tokenizers.Tokenizer.from_str(text)
    for part in PARTS:
        steps = list(_steps(found.get(part)))
        growth = math.prod(map(_growth, steps))
        if len(steps) > MOST_STEPS or growth > MOST_GROWTH:
            raise RegardError(
                f"{path}: its {part} has {len(steps)} steps that can make a text {growth:.0e} times as long, "
                "which no sound tokenizer does; download it again from a source that you trust"
            )
    return made


def require_usable(made: tokenizers.Tokenizer, *, where: Path, rows: int) -> None:
    """Refuse a tokenizer that fails on a plain text, or that has ids for which the model has no embedding."""
    with explaining(f"{where} has a tokenizer that fails on a plain text"):
        made.encode(PROBE, add_special_tokens=False)
    largest = max(made.get_vocab().values(), default=0)
    if largest >= rows:
        raise RegardError(
            f"{where} has a tokenizer with the id {largest} ({cut(made.id_to_token(largest))}), but the embedding "
            f"table of the model has only {rows} rows (vocab_size); the tokenizer is of another model"
        )


@contextmanager
def explaining(what: str) -> Iterator[None]:
    """Turn an error of the tokenizers library into a sentence. It raises Exception itself; and where its Rust code
    panics, PanicException, which is not an Exception and cannot be imported."""
    try:
        yield
    except RegardError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise RegardError(f"{what} ({cut(error)}); copy or download it again") from None


def _steps(part: Any) -> Iterator[Mapping[str, Any]]:
    """The steps of a normalizer, a pre-tokenizer or a decoder, and of the sequences in it."""
    if isinstance(part, dict):
        inside = [each for key in INSIDE for each in part.get(key) or []]
        yield from (step for each in inside for step in _steps(each))
        if not inside:
            yield part


def _growth(step: Mapping[str, Any]) -> float:
    """How many times longer a step can make a text."""
    if step.get("type") == "Prepend":
        return 1.0 + len(step["prepend"])
    if step.get("type") == "Replace":
        replaced = step["pattern"].get("String", "")
        return max(1.0, len(step["content"]) / len(replaced)) if replaced else 1.0 + len(step["content"])
    return GROWTH.get(str(step.get("type")), 1.0)
