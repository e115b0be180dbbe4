"""Directories that are not Hugging Face directories with safetensors: each is named for what it is, with advice."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from regard.errors import RegardError
from regard.interchange.files import cut

VOCABULARIES = ("shared_vocabulary", "source_vocabulary", "vocabulary")  # beside model.bin, if CTranslate2 wrote it
FORMATS = {".onnx": "ONNX", ".gguf": "GGUF", ".h5": "TensorFlow", ".msgpack": "Flax"}


def refuse_other_formats(directory: Path) -> None:
    """Refuse a directory whose weights are in a format that is not Hugging Face's, and say which it is."""
    names = _names(directory)
    if "recipe.toml" in names:
        raise RegardError(f"{directory} is a model directory of regard; use it as it is")
    if any(name.endswith((".safetensors", ".safetensors.index.json")) for name in names):
        return
    stems = {name.partition(".")[0] for name in names}
    if "model.bin" in names and stems.intersection(VOCABULARIES):
        raise _other(directory, "CTranslate2", "model.bin")
    convertible = any(name.endswith(".bin") for name in names)
    for ending, what in FORMATS.items():
        found = sorted(name for name in names if name.endswith(ending))
        if found and not convertible:
            raise _other(directory, what, found[0])
    inner = sorted(name for name in _names(directory / "onnx") if name.endswith(".onnx"))
    if inner and not convertible:
        raise _other(directory, "ONNX", f"onnx/{inner[0]}")


def refuse_unsafe_weights(directory: Path, loader: str) -> None:
    """Refuse weights in .bin files alone, with the command that converts them; `loader` is the class to load."""
    names = _names(directory)
    unsafe = sorted(name for name in names if name.endswith(".bin"))
    if not unsafe or any(name.endswith((".safetensors", ".safetensors.index.json")) for name in names):
        return
    old = directory.resolve()
    new = old.with_name(old.name + "-safetensors")
    code = (
        f"from transformers import AutoTokenizer, {loader}; old, new = {json.dumps(str(old))}, {json.dumps(str(new))}; "
        f"{loader}.from_pretrained(old).save_pretrained(new); AutoTokenizer.from_pretrained(old).save_pretrained(new)"
    )
    raise RegardError(
        f"{directory} has its weights in {cut(unsafe[0])}, which can run code when it is read, so regard "
        f"never reads such files; if you trust it, convert it once with: python -c {shlex.quote(code)} "
        f"and then import {new}"
    )


def _other(directory: Path, what: str, name: str) -> RegardError:
    return RegardError(
        f"{directory} is a model for {what} ({cut(name)}), which regard does not read; import the Hugging Face "
        "directory that it was converted from, with config.json and model.safetensors"
    )


def _names(directory: Path) -> set[str]:
    try:
        return {path.name for path in directory.iterdir()}
    except OSError:
        return set()
