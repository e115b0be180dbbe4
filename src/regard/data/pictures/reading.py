"""One picture file → pixels: any form, size, depth and rotation → the frame of the data set.

A picture with transparent parts is put on white. Of several frames (GIF, TIFF) the first is read. JPEG files are
decoded at a half, quarter or eighth of their size where that is still larger than the frame.

H height  W width  C channels
"""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray
from PIL import Image, ImageOps

from regard.data.pictures.frames import Frame, Looks
from regard.errors import RegardError, cut

Pixels = NDArray[numpy.uint8]

ENDINGS = (
    *(".jpg", ".jpeg", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"),
    ".avif",
)
FORMS = ("JPEG", "PNG", "GIF", "BMP", "DIB", "WEBP", "TIFF", "PPM", "AVIF")  # none of which runs a program
LARGEST = 178_956_970  # pixels of a picture; Pillow refuses larger ones
ROTATION = 0x0112  # the number of the EXIF entry
GREY = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16B", "I;16L", "I;16N")
DAMAGE = (
    *(OSError, SyntaxError, ValueError, TypeError, IndexError, KeyError, EOFError, RuntimeError, AttributeError),
    *(struct.error, zlib.error, OverflowError, ZeroDivisionError),
)
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
Source = Path | bytes


def is_picture(name: str | Path) -> bool:
    """Whether a file is named like a picture."""
    return str(name).lower().endswith(ENDINGS)


@contextmanager
def quietly() -> Iterator[None]:
    """Within, Pillow's warnings (of large pictures, odd EXIF data, …) do not reach the user. Not for use in threads:
    put it around them."""
    _forms()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@cache
def _forms() -> tuple[str, ...]:
    """The forms that this Pillow can read. Its parts are loaded here, before threads begin."""
    Image.init()
    return tuple(form for form in FORMS if form in Image.OPEN)


def looks_of(source: Source, place: str) -> Looks:
    """What the header of a picture says; its pixels are not decoded."""
    with _opened(source, place) as image:
        columns, rows = image.size
        if image.getexif().get(ROTATION, 1) in (5, 6, 7, 8):
            rows, columns = columns, rows
        return Looks(rows, columns, 1 if image.mode in GREY else 3)


def read_picture(source: Source, place: str, frame: Frame) -> Pixels:
    """The pixels (H, W, C) of a picture file, as the frame wants them."""
    with _opened(source, place) as image:
        least = 2 * max(frame.rows, frame.columns)  # twice the frame, so that scaling down still smooths
        image.draft(None, (least, least))
        ImageOps.exif_transpose(image, in_place=True)  # without a copy of a picture that is not rotated
        return framed(image, place, frame)


def framed(image: Image.Image, place: str, frame: Frame) -> Pixels:
    """The pixels (H, W, C) of a picture in memory, as the frame wants them."""
    plain, size = _plain(image, place, frame.channels), (frame.columns, frame.rows)
    if plain.size != size and frame.fit == "crop":
        plain = ImageOps.fit(plain, size, FILTERS[frame.filter])
    elif plain.size != size:
        plain = plain.resize(size, FILTERS[frame.filter])
    return numpy.asarray(plain).reshape(frame.rows, frame.columns, frame.channels)


def _plain(image: Image.Image, place: str, channels: int) -> Image.Image:
    """The picture in 8 bits, in grey or colours, without transparency."""
    if image.mode == "F":
        raise RegardError(f"{place} holds floating-point numbers; save it as a picture of 8 or 16 bits")
    if image.mode.startswith("I"):
        deep = numpy.asarray(image).astype(numpy.int64)
        scale = 257 if deep.max(initial=0) > 255 or image.mode != "I" else 1  # 16 bits → 8
        image = Image.fromarray((deep // scale).clip(0, 255).astype(numpy.uint8))
    if image.has_transparency_data:
        over = image.convert("RGBA")
        image = Image.new("RGB", over.size, "white")
        image.paste(over, mask=over.getchannel("A"))
    mode = "L" if channels == 1 else "RGB"
    return image if image.mode == mode else image.convert(mode)


@contextmanager
def _opened(source: Source, place: str) -> Iterator[Image.Image]:
    """An opened picture. What is wrong with it, then or while it is decoded, is a RegardError that names it."""
    if isinstance(source, Path) and source.exists() and not (source.is_file() or source.is_dir()):
        raise RegardError(f"{place} is a pipe or a device; write it to a file and name that")
    try:
        with Image.open(BytesIO(source) if isinstance(source, bytes) else source, formats=_forms()) as image:
            if min(image.size) < 1:
                raise RegardError(f"{place} has no pixels; leave it out")
            if image.width * image.height > LARGEST:
                raise Image.DecompressionBombError
            yield image
    except RegardError:
        raise
    except Image.DecompressionBombError:
        raise RegardError(
            f"{place} is larger than {LARGEST // 10**6} megapixels; scale it down, or leave it out"
        ) from None
    except FileNotFoundError:
        raise RegardError(f"{place} does not exist; check the path (here it starts from {Path.cwd()})") from None
    except IsADirectoryError:
        raise RegardError(f"{place} is a folder; name a picture in it") from None
    except Image.UnidentifiedImageError:
        raise RegardError(f"{place} is not a picture that can be read ({', '.join(FORMS)}); leave it out") from None
    except MemoryError:
        raise RegardError(f"{place} does not fit into memory; scale it down, or leave it out") from None
    except DAMAGE as error:
        raise RegardError(f"{place} is a damaged picture ({cut(error)}); mend it, or leave it out") from None


def image_of(array: NDArray[Any], place: str) -> Image.Image:
    """An array (H, W), (H, W, 1) or (H, W, 3 or 4) of bytes, or of shares from 0 to 1, as a picture."""
    whole = as_bytes(array[None], place)[0]
    if whole.ndim == 3 and whole.shape[2] == 1:
        whole = whole[:, :, 0]
    if whole.ndim not in (2, 3) or (whole.ndim == 3 and whole.shape[2] not in (3, 4)) or not whole.size:
        raise RegardError(f"{place} has the shape {array.shape}; a picture is (height, width) or (height, width, 3)")
    return Image.fromarray(numpy.ascontiguousarray(whole))


def as_bytes(images: NDArray[Any], place: str) -> Pixels:
    """Numbers from 0 to 255, or shares from 0 to 1, as bytes."""
    if images.dtype == numpy.uint8:
        return images
    if images.dtype.kind not in "fiub":
        raise RegardError(f"{place} holds values of the type {images.dtype}; store bytes (uint8)")
    if not numpy.isfinite(images).all():
        raise RegardError(f"{place} holds numbers that are not finite (NaN or infinite); store bytes (uint8)")
    low, high = float(images.min(initial=0)), float(images.max(initial=0))
    scale = 255.0 if images.dtype.kind == "b" or (images.dtype.kind == "f" and high <= 1) else 1.0
    if low < 0 or high * scale > 255:
        raise RegardError(f"{place} holds numbers from {low:g} to {high:g}; store bytes, or shares from 0 to 1")
    return numpy.rint(images * scale).astype(numpy.uint8)
