"""An entry of [data] → pictures with their labels.

    a folder                  one folder for each label, with its pictures in it
    .csv .tsv .jsonl .parquet a path and a label in each row; paths start from the folder of the table
    .npz                      `images` (N, H, W), (N, H, W, C) or (N, C, H, W) and `labels`; or JPEG files joined end to
                              end: `jpeg`, `offsets` (N + 1), `labels`; both may have the names of labels in `classes`
    IDX files, plain or .gz   { pictures = "train-images-idx3-ubyte.gz", labels = "train-labels-idx1-ubyte.gz" }, or the
                              folder that holds the four files of MNIST or Fashion-MNIST

N pictures  H height  W width  C channels
"""

from __future__ import annotations

import csv
import math
import struct
import tempfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice, pairwise
from os import cpu_count
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy
from numpy.typing import NDArray
from PIL import Image

from regard.data.files import Column, is_numbered, opened, read_lines, read_rows
from regard.data.packing import without_packing
from regard.data.pictures.frames import Frame, Looks
from regard.data.pictures.reading import Pixels, Source, framed, is_picture, looks_of, quietly, read_picture
from regard.errors import RegardError, cut, shown

LARGE = 1 << 30  # bytes of pixels that are kept in a file instead of memory
TOGETHER = 4096  # pictures given to the threads at a time
TABLES = (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".tsv.gz", ".jsonl.gz")
PATHS = ("path", "file", "filename", "file_name", "image", "picture", "image_path", "img")
LABELS = ("label", "class", "category", "target", "labels")
IDX = {"train": "train", "test": "t10k"}  # how the files of each part begin
PARTS = {"train": ("train", "training"), "valid": ("valid", "val", "validation", "dev"), "test": ("test", "testing")}
GREY = (0.299, 0.587, 0.114)  # shares of red, green and blue in the brightness

Item = TypeVar("Item")


@dataclass(frozen=True)
class Pictures(ABC):
    """Pictures with a label each. Their pixels are decoded when they are asked for, and kept."""

    labels: tuple[str, ...]  # of each picture
    known: dict[Frame, Pixels] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def place(self, number: int) -> str:
        """Where a picture was read: the line that `regard run` would read it from."""

    @abstractmethod
    def key(self, number: int) -> str:
        """A name that does not change when the data set is moved."""

    @abstractmethod
    def looks(self) -> Iterator[Looks]:
        """What the pictures look like before they are framed."""

    @abstractmethod
    def take(self, numbers: Sequence[int]) -> Self:
        """Some of the pictures."""

    @abstractmethod
    def _decoded(self, frame: Frame, out: Pixels) -> None:
        """Write the pixels into `out` (N, H, W, C)."""

    def pixels(self, frame: Frame, folder: Path | None = None) -> Pixels:
        """All pictures (N, H, W, C) as the frame wants them; if they are large, in a file of `folder`."""
        if frame not in self.known:
            out = _room((len(self), frame.rows, frame.columns, frame.channels), folder)
            with quietly():
                self._decoded(frame, out)
            self.known[frame] = out
        return self.known[frame]


@dataclass(frozen=True)
class Files(Pictures):
    """Pictures in files, or in the bytes of files."""

    sources: tuple[Source, ...]
    places: tuple[str, ...]
    keys: tuple[str, ...]

    def place(self, number: int) -> str:
        return self.places[number]

    def key(self, number: int) -> str:
        return self.keys[number]

    def looks(self) -> Iterator[Looks]:
        with quietly(), _threads() as pool:
            yield from pool.map(looks_of, self.sources, self.places)

    def take(self, numbers: Sequence[int]) -> Self:
        return replace(
            self,
            labels=_some(self.labels, numbers),
            sources=_some(self.sources, numbers),
            places=_some(self.places, numbers),
            keys=_some(self.keys, numbers),
        )

    def _decoded(self, frame: Frame, out: Pixels) -> None:
        def decode(number: int) -> None:
            out[number] = read_picture(self.sources[number], self.places[number], frame)

        with _threads() as pool:
            for begin in range(0, len(self), TOGETHER):  # the first error ends it
                list(pool.map(decode, range(begin, min(begin + TOGETHER, len(self)))))


@dataclass(frozen=True)
class Arrays(Pictures):
    """Pictures of one size in memory: some `numbers` of `stored` (N, H, W, C), which were read from `origin`."""

    stored: Pixels
    numbers: NDArray[numpy.int64]
    origin: str

    def place(self, number: int) -> str:
        return f"{self.origin}#{self.numbers[number]}"

    def key(self, number: int) -> str:
        return f"{Path(self.origin).name}#{self.numbers[number]}"

    def looks(self) -> Iterator[Looks]:
        yield Looks(*self.stored.shape[1:])

    def take(self, numbers: Sequence[int]) -> Self:
        labels = _some(self.labels, numbers)
        return replace(self, labels=labels, numbers=self.numbers[numpy.asarray(numbers, dtype=numpy.int64)])

    def pixels(self, frame: Frame, folder: Path | None = None) -> Pixels:
        whole = len(self) == len(self.stored) and self.stored.shape[1:] == frame[:3]
        return self.stored if whole else super().pixels(frame, folder)

    def _decoded(self, frame: Frame, out: Pixels) -> None:
        if self.stored.shape[1:] == frame[:3]:
            numpy.take(self.stored, self.numbers, axis=0, out=out)
            return

        def resize(number: int) -> None:
            image = image_of(self.stored[self.numbers[number]], self.place(number))
            out[number] = framed(image, self.place(number), frame)

        with _threads() as pool:
            list(pool.map(resize, range(len(self))))


def _some(column: Sequence[Item], numbers: Sequence[int]) -> tuple[Item, ...]:
    return tuple(column[number] for number in numbers)


def read_entry(entry: object, *, key: str, columns: Columns | None = None, classes: Sequence[str] = ()) -> Pictures:
    """The pictures of one entry of [data]; `key` names it in errors and chooses the part of a folder."""
    if isinstance(entry, list) and entry:
        return joined([read_entry(each, key=key, columns=columns, classes=classes) for each in entry])
    if isinstance(entry, Mapping) and set(entry) == {"pictures", "labels"}:
        return _idx(str(entry["pictures"]), str(entry["labels"]), classes)
    if not isinstance(entry, str) or not entry:
        raise RegardError(
            f"{key} = {shown(entry)}: name a folder that has a folder of pictures for each label: --set {key}=photos"
        )
    path = Path(entry).expanduser()
    if path.is_dir():
        return _folder(path, part=key.rpartition(".")[2] if "." in key else "test", key=key, classes=classes)
    if entry.lower().endswith(".npz"):
        return _npz(entry, classes)
    if entry.lower().endswith(TABLES):
        return _table(entry, columns or Columns())
    if path.is_file():
        raise RegardError(
            f"{key} = {shown(entry)} is none of a folder, {', '.join(TABLES[:4])} and .npz; see docs/see.md"
        )
    raise RegardError(f"{cut(entry)} does not exist; check the path (here it starts from {Path.cwd()})")


@dataclass(frozen=True)
class Columns:
    """Where path and label stand in a row: names, or numbers counted from 1; found in the file if not given."""

    path: Column | None = None
    label: Column | None = None


def joined(parts: Sequence[Pictures]) -> Pictures:
    """The pictures of several entries as one."""
    if len(parts) == 1:
        return parts[0]
    files: list[Files] = []
    for part in parts:
        if not isinstance(part, Files):
            raise RegardError("a list of data can name folders and tables of paths only; name one .npz or IDX file")
        files.append(part)
    names = ("labels", "sources", "places", "keys")
    labels, sources, places, keys = (tuple(x for part in files for x in getattr(part, name)) for name in names)
    return Files(labels, sources, places, keys)


def holds_pictures(name: str) -> str:
    """Why a folder or a file is one of pictures with labels; "" if it is none."""
    path = Path(name)
    if path.is_dir():
        if (path / f"{IDX['train']}-images-idx3-ubyte.gz").is_file():
            return "it has the files of MNIST"
        inner = _part_of(path, "train") or path
        found = next((each for folder in _folders(inner) for each in folder.iterdir() if is_picture(each)), None)
        return "" if found is None else "it has folders of pictures"
    if name.lower().endswith(".npz"):
        try:
            with zipfile.ZipFile(path) as packed:
                there = {each.removesuffix(".npy") for each in packed.namelist()}
        except (OSError, zipfile.BadZipFile):
            return ""
        return "it has arrays of pictures and labels" if "labels" in there and there & {"images", "jpeg"} else ""
    if not name.lower().endswith(TABLES[:2]):
        return ""
    rows = _first_rows(name, 5)
    return "it names files of pictures" if any(is_picture(cell) for row in rows for cell in row) else ""


def parts_of(name: str) -> dict[str, str]:
    """The parts of a data set that one folder holds, by the keys of [data]: itself unless it has parts."""
    path = Path(name)
    if (path / f"{IDX['train']}-images-idx3-ubyte.gz").is_file():
        return dict.fromkeys(IDX, name)
    found = {part: each for part in PARTS if path.is_dir() and (each := _part_of(path, part)) is not None}
    return {part: str(each) for part, each in found.items()} if "train" in found else {"train": name}


def picture_at(line: str, frame: Frame) -> Pixels:
    """One picture (H, W, C) by the name of its file, or as `images.npz#12` by its number (from 0) in a file of many."""
    name, sign, number = line.rpartition("#")
    if sign and number.isdecimal() and not Path(line).is_file():
        stored = _stored(name)
        if int(number) >= len(stored):
            raise RegardError(f"{name} has {len(stored):,} pictures, from #0 on, and {cut(line)} is none of them")
        return stored.take([int(number)]).pixels(frame)[0]
    path = Path(line).expanduser()
    with quietly():
        return read_picture(path, cut(line), frame)


@lru_cache(maxsize=2)
def _stored(name: str) -> Pictures:
    """The pictures of an .npz or IDX file, without labels of the latter."""
    if name.lower().endswith(".npz"):
        return _npz(name, ())
    return _arrays(_idx_array(name), [0] * len(_idx_array(name)), (), name)


def image_of(array: NDArray[Any], place: str) -> Image.Image:
    """An array (H, W), (H, W, 1) or (H, W, 3 or 4) of bytes, or of shares from 0 to 1, as a picture."""
    whole = _bytes(array[None], place)[0]
    if whole.ndim == 3 and whole.shape[2] == 1:
        whole = whole[:, :, 0]
    if whole.ndim not in (2, 3) or (whole.ndim == 3 and whole.shape[2] not in (3, 4)) or not whole.size:
        raise RegardError(f"{place} has the shape {array.shape}; a picture is (height, width) or (height, width, 3)")
    return Image.fromarray(numpy.ascontiguousarray(whole))


# folders


def _folder(path: Path, *, part: str, key: str, classes: Sequence[str]) -> Pictures:
    beginning = IDX["train"] if part in ("train", "valid") else IDX["test"]
    pictures = path / f"{beginning}-images-idx3-ubyte.gz"
    if pictures.is_file():
        return _idx(str(pictures), str(path / f"{beginning}-labels-idx1-ubyte.gz"), classes)
    root = _part_of(path, part) or path
    labelled = [
        (each, folder.name) for folder in _folders(root) for each in sorted(folder.rglob("*")) if is_picture(each)
    ]
    if not labelled:
        raise RegardError(
            f"{key} = {shown(str(path))} has no folders with pictures; put the pictures of each label into a folder of "
            "that name"
        )
    paths = tuple(each for each, _ in labelled)
    keys = tuple(each.relative_to(root).as_posix() for each in paths)
    return Files(tuple(label for _, label in labelled), paths, tuple(map(str, paths)), keys)


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
    except OSError as error:
        raise RegardError(f"{path} cannot be read ({error.strerror or error}); check your rights") from None


def _part_of(path: Path, part: str) -> Path | None:
    """The folder of one part inside a folder that has several: train and test, for example."""
    there = {each.name.lower(): each for each in _folders(path)}
    if not any(name in there for name in PARTS["train"]) or len(there) > len(PARTS):
        return None
    return next((there[name] for name in PARTS.get(part, ()) if name in there), None)


# tables


def _table(name: str, columns: Columns) -> Pictures:
    path, label = _columns(name, columns)
    folder = Path(name).expanduser().parent
    paths, labels, places, keys = [], [], [], []
    for line, (given, said) in read_rows(name, [path, label], numbers=True):
        if not given.strip() and not said.strip():
            continue
        if not given.strip() or not said.strip():
            missing = "path" if not given.strip() else "label"
            raise RegardError(f"{name}:{line} has no {missing}; fill it in, or leave the line out")
        found = folder / Path(given.strip()).expanduser()
        if not found.is_file():
            raise RegardError(f"{name}:{line} names {cut(str(found))}, which is no file; mend the path")
        paths.append(found)
        labels.append(said.strip())
        places.append(str(found))
        keys.append(given.strip())
    if not paths:
        raise RegardError(f"{name} has no pictures; name another file")
    return Files(tuple(labels), tuple(paths), tuple(places), tuple(keys))


def _columns(name: str, given: Columns) -> tuple[Column, Column]:
    """The columns of path and label: as given, by the names in the header, or by what stands in them."""
    if given.path is not None and given.label is not None:
        return given.path, given.label
    if not without_packing(name).endswith(TABLES[:2]):
        return given.path or PATHS[0], given.label or LABELS[0]
    rows = _first_rows(name, 50)
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    path = given.path or next((rows[0][header.index(word)] for word in PATHS if word in header), None)
    label = given.label or next((rows[0][header.index(word)] for word in LABELS if word in header), None)
    if path is not None and label is not None:
        return path, label
    width = min(map(len, rows), default=0)
    named = [at for at in range(width) if all(is_picture(row[at]) for row in rows)]
    others = [at for at in range(width) if at not in named]
    if len(named) != 1 or len(others) != 1:
        raise RegardError(
            f"{name}: which columns are path and label is not clear; give --set data.columns.path=… and "
            "--set data.columns.label=… (names, or numbers from 1)"
        )
    return named[0] + 1, others[0] + 1


def _first_rows(name: str, count: int) -> list[list[str]]:
    lines = [line for _, line in islice(read_lines(name), count) if line.strip()]
    return [line.split("\t") for line in lines] if is_numbered(name) else list(csv.reader(lines))


# .npz


def _npz(name: str, classes: Sequence[str]) -> Pictures:
    arrays = _read_npz(name, ("images", "jpeg", "offsets", "labels", "classes"))
    if "labels" not in arrays or not arrays.keys() & {"images", "jpeg"}:
        raise RegardError(f"{name} needs the arrays `images` and `labels` (or `jpeg`, `offsets`, `labels`)")
    named = [str(each) for each in arrays["classes"].tolist()] if "classes" in arrays else classes
    labels = arrays["labels"]
    if labels.ndim != 1:
        raise RegardError(f"{name}: `labels` has the shape {labels.shape}; there must be one label for each picture")
    if "images" in arrays:
        return _arrays(_upright(arrays["images"], name), labels.tolist(), named, name)
    jpeg, offsets = arrays["jpeg"], arrays.get("offsets", numpy.zeros(0))
    sound = jpeg.ndim == offsets.ndim == 1 and jpeg.dtype == numpy.uint8 and offsets.dtype.kind in "iu"
    ends = offsets.astype(numpy.int64) if sound else offsets
    if not sound or len(ends) != len(labels) + 1 or (numpy.diff(ends) < 1).any() or ends[0] < 0 or ends[-1] > len(jpeg):
        raise RegardError(f"{name}: `offsets` must be one more than `labels`, rising, within `jpeg`; write it again")
    parts = tuple(jpeg[begin:end].tobytes() for begin, end in pairwise(ends.tolist()))
    numbers = range(len(parts))
    places = tuple(f"{name}#{number}" for number in numbers)
    keys = tuple(f"{Path(name).name}#{number}" for number in numbers)
    return Files(_named(labels.tolist(), named, name), parts, places, keys)


def _read_npz(name: str, wanted: Sequence[str]) -> dict[str, NDArray[Any]]:
    try:
        with numpy.load(Path(name).expanduser()) as stored:
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
        raise RegardError(f"{name}: `images` has the shape {images.shape}; expected (N, H, W) or (N, H, W, 3)")
    return _bytes(images, name)


def _bytes(images: NDArray[Any], place: str) -> Pixels:
    """Numbers from 0 to 255, or shares from 0 to 1, as bytes."""
    if images.dtype == numpy.uint8:
        return images
    if images.dtype.kind not in "fiub" or not numpy.isfinite(images).all():
        raise RegardError(f"{place} holds {images.dtype} or numbers that are not finite; store bytes (uint8)")
    low, high = float(images.min(initial=0)), float(images.max(initial=0))
    scale = 255.0 if images.dtype.kind == "b" or (images.dtype.kind == "f" and high <= 1) else 1.0
    if low < 0 or high * scale > 255:
        raise RegardError(f"{place} holds numbers from {low:g} to {high:g}; store bytes, or shares from 0 to 1")
    return numpy.rint(images * scale).astype(numpy.uint8)


def _arrays(images: Pixels, labels: Sequence[object], classes: Sequence[str], name: str) -> Arrays:
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


# IDX


def _idx(pictures: str, labels: str, classes: Sequence[str]) -> Pictures:
    images, numbers = _idx_array(pictures), _idx_array(labels)
    if numbers.ndim != 1 or images.ndim not in (3, 4):
        raise RegardError(f"{pictures} or {labels} has other axes than pictures and labels have; fetch them again")
    return _arrays(_upright(images, pictures), numbers.tolist(), classes, pictures)


def _idx_array(name: str) -> Pixels:
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


def _threads() -> ThreadPoolExecutor:
    """Threads for decoding, which Pillow does without holding Python's lock."""
    return ThreadPoolExecutor(cpu_count())


def _room(shape: tuple[int, ...], folder: Path | None) -> Pixels:
    """Room for pixels: memory or, if they are large, a file without a name that goes when the process ends."""
    if math.prod(shape) <= LARGE:
        return numpy.empty(shape, dtype=numpy.uint8)
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            return numpy.memmap(file, dtype=numpy.uint8, shape=shape)
    except OSError as error:
        raise RegardError(
            f"{math.prod(shape) >> 20:,} MB of pixels need a file, which cannot be made ({error.strerror or error}); "
            "make room, or choose a smaller data.size"
        ) from None


def sorted_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Each label once: whole numbers by value, texts by the alphabet."""
    found = set(labels)
    return tuple(sorted(found, key=int) if all(label.isdecimal() for label in found) else sorted(found))
