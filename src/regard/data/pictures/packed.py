"""Many pictures in one file, with labels: .npz and IDX.

N pictures  H height  W width  C channels
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy
from numpy.typing import NDArray

from regard.data.files import opened
from regard.data.pictures.labelled import Arrays, Files, Pictures
from regard.data.pictures.reading import Pixels, as_bytes
from regard.errors import RegardError, cut


def read_npz(name: str, classes: Sequence[str]) -> Pictures:
    stored = _loaded(name, ("images", "jpeg", "offsets", "labels", "classes"))
    if "labels" not in stored or not stored.keys() & {"images", "jpeg"}:
        raise RegardError(f"{name} needs the arrays `images` and `labels` (or `jpeg`, `offsets`, `labels`)")
    named = [str(each) for each in stored["classes"].tolist()] if "classes" in stored else classes
    labels = stored["labels"]
    if labels.ndim != 1:
        raise RegardError(f"{name}: `labels` has the shape {labels.shape}; there must be one label for each picture")
    if labels.dtype.kind == "f":
        labels = _whole(labels, name)
    if "images" in stored:
        return arrays(_upright(stored["images"], name), labels.tolist(), named, name)
    jpeg, offsets = stored["jpeg"], stored.get("offsets", numpy.zeros(0))
    sound = jpeg.ndim == offsets.ndim == 1 and jpeg.dtype == numpy.uint8 and offsets.dtype.kind in "iu"
    ends = offsets.astype(numpy.int64) if sound else offsets
    if not sound or len(ends) != len(labels) + 1 or (numpy.diff(ends) < 1).any() or ends[0] < 0 or ends[-1] > len(jpeg):
        raise RegardError(f"{name}: `offsets` must be one more than `labels`, rising, within `jpeg`; write it again")
    parts = tuple(jpeg[begin:end].tobytes() for begin, end in pairwise(ends.tolist()))
    numbers = range(len(parts))
    places = tuple(f"{name}#{number}" for number in numbers)
    keys = tuple(f"{Path(name).name}#{number}" for number in numbers)
    return Files(_named(labels.tolist(), named, name), parts, places, keys)


def _loaded(name: str, wanted: Sequence[str]) -> dict[str, NDArray[Any]]:
    try:
        stored = numpy.load(Path(name).expanduser())
        if isinstance(stored, numpy.ndarray):
            raise ValueError("it holds one array without a name; numpy.savez writes several")
        with stored:
            return {key: stored[key] for key in wanted if key in stored.files}
    except FileNotFoundError:
        raise RegardError(f"{cut(name)} does not exist; check the path (here it starts from {Path.cwd()})") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, MemoryError) as error:
        raise RegardError(f"{name} is not a sound .npz file ({cut(error)}); write or fetch it again") from None


def _upright(images: NDArray[Any], name: str) -> Pixels:
    """Pictures as (N, H, W, C)."""
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim == 4 and images.shape[3] not in (1, 3) and images.shape[1] in (1, 3):
        images = images.transpose(0, 2, 3, 1)
    if images.ndim != 4 or images.shape[3] not in (1, 3) or not images.size:
        raise RegardError(
            f"{name}: `images` has the shape {images.shape}; expected (N, H, W), (N, H, W, 3) or (N, 3, H, W)"
        )
    return as_bytes(images, name)


def _whole(labels: NDArray[Any], name: str) -> NDArray[numpy.int64]:
    """Labels that are whole numbers, written as 1.0."""
    wrong = numpy.flatnonzero(~numpy.isfinite(labels) | (labels % 1 != 0))
    if len(wrong):
        raise RegardError(
            f"{name}: picture {wrong[0]} has the label {labels[wrong[0]]:g}; give a whole number or a text"
        )
    return labels.astype(numpy.int64)


def arrays(images: Pixels, labels: Sequence[object], classes: Sequence[str], name: str) -> Arrays:
    if len(labels) != len(images):
        raise RegardError(f"{name} has {len(images):,} pictures and {len(labels):,} labels; there must be one for each")
    return Arrays(_named(labels, classes, name), images, numpy.arange(len(images)), name)


def _named(labels: Sequence[object], classes: Sequence[str], name: str) -> tuple[str, ...]:
    """Labels by name: a number is the place of its name in `classes`, if there are any."""
    if not classes:
        return tuple(str(label) for label in labels)
    for number, label in enumerate(labels):
        if not isinstance(label, int) or not 0 <= label < len(classes):
            raise RegardError(f"{name}: picture {number} has the label {label!r}; there are {len(classes)} classes")
    return tuple(classes[cast(int, label)] for label in labels)


def read_idx(pictures: str, labels: str, classes: Sequence[str]) -> Pictures:
    images, numbers = idx_array(pictures), idx_array(labels)
    if numbers.ndim != 1 or images.ndim not in (3, 4):
        raise RegardError(f"{pictures} or {labels} has other axes than pictures and labels have; fetch them again")
    return arrays(_upright(images, pictures), numbers.tolist(), classes, pictures)


def idx_array(name: str) -> Pixels:
    """The bytes of an IDX file: two zeros, the type (8 for bytes), how many axes, their lengths, the numbers."""
    with opened(name) as file:
        content = file.read()
    if len(content) < 4 or content[:3] != b"\0\0\x08" or not 1 <= content[3] <= 4:
        raise RegardError(f"{name} is not an IDX file of bytes, as those of MNIST are; check the file")
    begin = 4 + 4 * content[3]
    if len(content) < begin:
        raise RegardError(f"{name} is cut off; fetch it again")
    shape = struct.unpack(f">{content[3]}I", content[4:begin])
    if len(content) - begin != math.prod(shape):
        raise RegardError(f"{name} has {len(content) - begin:,} numbers and says {math.prod(shape):,}; fetch it again")
    found = numpy.frombuffer(content, dtype=numpy.uint8, offset=begin).reshape(shape)
    return found[..., None] if found.ndim == 3 else found
