"""What their library notes of pictures: sizes and labels in config.json, scaling in preprocessor_config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from regard.errors import RegardError
from regard.interchange.files import optional_json
from regard.interchange.huggingface.architecture import Settings
from regard.interchange.huggingface.heads import label_settings

PREPROCESSOR = "preprocessor_config.json"
FILTERS = {2: "bilinear", 3: "bicubic"}  # by Pillow's numbers
BYTE = 1 / 255
PROCESSOR = "ViTImageProcessor"


def picture_settings(numbers: Mapping[str, JsonValue], labels: Sequence[str]) -> dict[str, Any]:
    """The part of config.json that the data decides."""
    rows, columns = numbers["rows"], numbers["columns"]
    return {
        "image_size": rows if rows == columns else [rows, columns],
        "num_channels": numbers["channels"],
        **label_settings(labels),
    }


def preprocessor_file(numbers: Mapping[str, JsonValue]) -> bytes:
    """preprocessor_config.json. Pictures of another size are stretched there, and never cropped."""
    values = {
        "image_processor_type": PROCESSOR,
        "do_resize": True,
        "size": {"height": numbers["rows"], "width": numbers["columns"]},
        "resample": next(number for number, name in FILTERS.items() if name == numbers["filter"]),
        "do_rescale": True,
        "rescale_factor": BYTE,
        "do_normalize": True,
        "image_mean": numbers["mean"],
        "image_std": numbers["deviation"],
    }
    return (json.dumps(values, indent=2, sort_keys=True) + "\n").encode()


def read_numbers(directory: Path, settings: Settings) -> dict[str, JsonValue]:
    """What is measured on the data here: size, channels, mean and deviation of the pictures."""
    size = settings.get("image_size", 224)
    sides = [size, size] if isinstance(size, int) else size
    if not isinstance(sides, list) or len(sides) != 2 or not all(type(each) is int and each > 0 for each in sides):
        raise settings.wrong("image_size", "must be a number of pixels, or two")
    channels = settings.number("num_channels", 3, stored=False)
    where = directory / PREPROCESSOR
    said = Settings(optional_json(where), str(where))
    said.require(do_resize=True, do_rescale=True)
    if abs(float(said.get("rescale_factor", BYTE)) - BYTE) > 1e-6:
        raise said.wrong("rescale_factor", "regard divides bytes by 255")
    _require_size(said, sides)
    normal = said.flag("do_normalize", True)
    mean, deviation = (
        _channels(said, key, channels) if normal else [plain] * channels
        for key, plain in (("image_mean", 0.0), ("image_std", 1.0))
    )
    if said.get("resample", 2) not in FILTERS:
        raise said.wrong("resample", f"regard knows {', '.join(f'{n} ({name})' for n, name in FILTERS.items())}")
    return {
        "rows": sides[0],
        "columns": sides[1],
        "channels": channels,
        "fit": "crop" if said.get("do_center_crop", False) else "stretch",
        "filter": FILTERS[said.get("resample", 2)],
        "mean": list[JsonValue](mean),
        "deviation": list[JsonValue](deviation),
    }


def _require_size(said: Settings, sides: Sequence[int]) -> None:
    """Refuse pictures that are scaled to another size than the model reads."""
    size = said.get("size", sides[0])
    if isinstance(size, dict):
        edge = size.get("shortest_edge")
        size = [size.get("height", edge), size.get("width", edge)]
    if size not in (sides, sides[0], tuple(sides)):
        raise said.wrong("size", f"the model reads {sides[1]} × {sides[0]} pixels")


def _channels(said: Settings, key: str, channels: int) -> list[float]:
    values = said.get(key, [0.5] * channels)
    if (
        not isinstance(values, list)
        or len(values) != channels
        or not all(type(each) in (int, float) for each in values)
    ):
        raise said.wrong(key, f"must be {channels} numbers")
    if key == "image_std" and min(values) <= 0:
        raise RegardError(f"{said.where}: {key} must be above 0")
    return [float(each) for each in values]
