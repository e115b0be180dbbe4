"""The files of a model directory, read; what is wrong with one is told by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError

from regard.errors import RegardError

LABELS = "labels.json"


def read_report(directory: Path) -> dict[str, Any]:
    """report.json, or nothing if there is none."""
    path = directory / "report.json"
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RegardError(f"{path} is damaged ({error}); copy the model directory again, or delete that file") from None
    return found


def read_labels(directory: Path) -> list[str]:
    """labels.json: what a head tells apart, in its order."""
    try:
        found: list[str] = json.loads((directory / LABELS).read_bytes())
    except (OSError, ValueError) as error:
        raise RegardError(f"{directory / LABELS} is damaged ({error}); copy the model directory again") from None
    return found


def read_weights(directory: Path) -> dict[str, torch.Tensor]:
    """weights.safetensors: numbers, and no code."""
    path = directory / "weights.safetensors"
    try:
        return safetensors.torch.load_file(path)
    except (OSError, SafetensorError) as error:
        raise RegardError(f"{path} is damaged ({error}); copy the model directory again, or train it anew") from None
