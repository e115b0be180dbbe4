"""SentencePiece's unigram model ↔ the same model of the tokenizers library.

The file is a protocol buffer, of which only a few fields are needed:

    1  pieces      1 text, 2 score, 3 type (1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte)
    2  training    3 kind (1 unigram, 2 bpe, 3 word, 4 char)
    3  normaliser  2 compiled rules, 4 whether extra spaces are removed
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from regard.data.vocabularies import NEVER, SPACE
from regard.errors import RegardError
from regard.interchange.files import VOCABULARY, cut, read_bytes, shown

UNIGRAM = 1
IN_TEXT = (1, 4)  # types of pieces that a text is cut into
OUTSIDE = {"<unk>": 2, "<s>": 3, "</s>": 3}  # types of pieces that stand for no text
LANGUAGE = r">>.+<<"  # how Marian is told which language to write

Field = int | bytes


@dataclass(frozen=True)
class Model:
    """Log-probability of each piece, and how text is normalised before it is cut."""

    scores: Mapping[str, float]
    rules: bytes
    trimmed: bool


def read_model(path: Path) -> Model:
    """A unigram model from its .spm file."""
    try:
        fields = list(_fields(read_bytes(path, most=VOCABULARY)))
        kinds = [value for number, part in fields if number == 2 for key, value in _fields(_bytes(part)) if key == 3]
        normaliser = dict(field for number, part in fields if number == 3 for field in _fields(_bytes(part)))
        pieces = [dict(_fields(_bytes(part))) for number, part in fields if number == 1]
        scores = {
            _bytes(piece[1]).decode(): struct.unpack("<f", _bytes(piece.get(2, bytes(4))))[0]
            for piece in pieces
            if piece.get(3, 1) in IN_TEXT
        }
    except FileNotFoundError:
        raise RegardError(f"{path.parent} has no {path.name}, which Marian needs; copy or download it again") from None
    except RegardError:
        raise
    except (ValueError, KeyError, IndexError, struct.error) as error:
        raise RegardError(f"{path} is not a SentencePiece model ({cut(error)}); copy or download it again") from None
    if kinds and kinds[0] != UNIGRAM:
        raise RegardError(
            f"{path} is a SentencePiece model of kind {shown(kinds[0])}; regard reads unigram models (kind 1) only"
        )
    rules = normaliser.get(2, b"")
    if not isinstance(rules, bytes) or not all(map(math.isfinite, scores.values())):
        raise RegardError(f"{path} has scores or rules that no SentencePiece model has; copy or download it again")
    return Model(scores, rules, bool(normaliser.get(4, 1)))


def tokenizer(model: Model, vocabulary: Mapping[str, int], *, where: Path) -> tokenizers.Tokenizer:
    """The model with the ids of a vocabulary, in which there may be pieces that it does not cut text into.

    Such a piece is used for a single character that the model does not know, as in Marian; a longer one is hardly ever
    used.
    """
    require_ids(vocabulary, where=where)
    names = sorted(vocabulary, key=lambda name: vocabulary[name])
    if [vocabulary[name] for name in names] != list(range(len(names))) or "<unk>" not in vocabulary:
        raise RegardError(f"{where} must number its entries 0, 1, 2, … and have <unk>; copy or download it again")
    entries = [(name, model.scores.get(name, NEVER * len(name) ** 2)) for name in names]
    made = tokenizers.Tokenizer(models.Unigram(entries, vocabulary["<unk>"], False))
    steps: list[normalizers.Normalizer] = [normalizers.Precompiled(model.rules)] if model.rules else []
    if model.trimmed:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    made.normalizer = normalizers.Sequence(steps)
    made.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "always")
    made.decoder = decoders.Metaspace(SPACE, "always")
    languages = [name for name in names if re.fullmatch(LANGUAGE, name)]
    made.add_tokens([AddedToken(name, rstrip=True, normalized=False) for name in languages])
    return made


def require_ids(vocabulary: Mapping[str, object], *, where: Path) -> None:
    """Refuse a vocabulary whose ids are not whole numbers from 0 on."""
    for name, number in vocabulary.items():
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 31:
            raise RegardError(
                f"{where}: the id of {shown(name)} is {shown(number)} and must be a whole number from 0 on; "
                "copy or download it again"
            )


def model_of(made: tokenizers.Tokenizer) -> Model | None:
    """The opposite of `tokenizer`; None for tokenizers of any other kind."""
    found = json.loads(made.to_str())
    if found["model"]["type"] != "Unigram" or (found["pre_tokenizer"] or {}).get("type") != "Metaspace":
        return None
    normalizer = found["normalizer"] or {"type": "Sequence", "normalizers": []}
    steps = {step["type"]: step for step in normalizer.get("normalizers", [])}
    if normalizer["type"] != "Sequence" or not steps.keys() <= {"Precompiled", "Strip", "Replace"}:
        return None
    scores = {name: score for name, score in found["model"]["vocab"] if score > NEVER}
    rules = base64.b64decode(steps.get("Precompiled", {}).get("precompiled_charsmap", ""))
    return Model(scores, rules, "Strip" in steps)


def model_bytes(model: Model) -> bytes:
    """The opposite of `read_model`: the content of the .spm file. The pieces that every model has come first."""
    kept = {**dict.fromkeys(OUTSIDE, 0.0), **model.scores}
    pieces = [
        _field(1, _field(1, name.encode()) + _field(2, struct.pack("<f", score), fixed=True) + _field(3, kind))
        for name, score in kept.items()
        for kind in [OUTSIDE.get(name, IN_TEXT[0])]
    ]
    normaliser = (_field(2, model.rules) if model.rules else b"") + _field(4, int(model.trimmed))
    return b"".join(pieces) + _field(2, _field(3, UNIGRAM)) + _field(3, normaliser)


def _field(number: int, value: Field, *, fixed: bool = False) -> bytes:
    if isinstance(value, int):
        return _coded(number << 3) + _coded(value)
    return _coded(number << 3 | 5) + value if fixed else _coded(number << 3 | 2) + _coded(len(value)) + value


def _coded(value: int) -> bytes:
    """The opposite of `_whole_number`."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + _coded(value >> 7)


def _bytes(field: Field) -> bytes:
    if not isinstance(field, bytes):
        raise ValueError("a number where there must be text")
    return field


def _fields(message: bytes) -> Iterator[tuple[int, Field]]:
    """Number and value of each field: whole numbers as they are, everything else as bytes."""
    at = 0
    while at < len(message):
        key, at = _whole_number(message, at)
        if key & 7 == 0:
            value, at = _whole_number(message, at)
            yield key >> 3, value
            continue
        if key & 7 == 2:
            length, at = _whole_number(message, at)
        else:
            length = {1: 8, 5: 4}[key & 7]
        if at + length > len(message):
            raise ValueError("it ends too early")
        yield key >> 3, message[at : at + length]
        at += length


def _whole_number(message: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first; a byte above 127 is followed by another, ten in all at most."""
    value = 0
    for place in range(10):
        byte = message[at + place]
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, at + place + 1
    raise ValueError("a number has more than ten bytes")
