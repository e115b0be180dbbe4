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
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from regard.data.files import Column, has_column, is_numbered, read_lines, read_rows
from regard.data.packing import without_packing
from regard.data.pictures.frames import Frame
from regard.data.pictures.labelled import Files, Pictures, joined
from regard.data.pictures.packed import arrays, idx_array, read_idx, read_npz
from regard.data.pictures.reading import Pixels, is_picture, quietly, read_picture
from regard.errors import RegardError, cut, shown

TABLES = (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".tsv.gz", ".jsonl.gz")
PATHS = ("path", "file", "filename", "file_name", "image", "picture", "image_path", "img")
LABELS = ("label", "class", "category", "target", "labels")
IDX = {"train": "train", "test": "t10k"}  # how the files of each part begin
PARTS = {"train": ("train", "training"), "valid": ("valid", "val", "validation", "dev"), "test": ("test", "testing")}


def read_entry(entry: object, *, key: str, columns: Columns | None = None, classes: Sequence[str] = ()) -> Pictures:
    """The pictures of one entry of [data]; `key` names it in errors and chooses the part of a folder."""
    if isinstance(entry, list) and entry:
        return joined([read_entry(each, key=key, columns=columns, classes=classes) for each in entry])
    if isinstance(entry, Mapping) and set(entry) == {"pictures", "labels"}:
        return read_idx(str(entry["pictures"]), str(entry["labels"]), classes)
    if not isinstance(entry, str) or not entry:
        raise RegardError(
            f"{key} = {shown(entry)}: name a folder that has a folder of pictures for each label: --set {key}=photos"
        )
    path = Path(entry).expanduser()
    if path.is_dir():
        return _folder(path, part=key.rpartition(".")[2] if "." in key else "test", key=key, classes=classes)
    if entry.lower().endswith(".npz"):
        return read_npz(entry, classes)
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
            raise RegardError(
                f"{name} has {len(stored):,} pictures, #0 to #{len(stored) - 1}; {cut(line)} is not one of them"
            )
        return stored.take([int(number)]).pixels(frame)[0]
    if not line.strip():
        raise RegardError("there is no name of a picture; give the path of one")
    if line.lower().endswith(".npz"):
        raise RegardError(f"{cut(line)} holds many pictures; name one by its number, such as {cut(line)}#0")
    path = Path(line).expanduser()
    with quietly():
        return read_picture(path, cut(line), frame)


@lru_cache(maxsize=2)
def _stored(name: str) -> Pictures:
    """The pictures of an .npz or IDX file, without labels of the latter."""
    if name.lower().endswith(".npz"):
        return read_npz(name, ())
    return arrays(idx_array(name), [0] * len(idx_array(name)), (), name)


# folders


def _folder(path: Path, *, part: str, key: str, classes: Sequence[str]) -> Pictures:
    beginning = IDX["train"] if part in ("train", "valid") else IDX["test"]
    pictures = path / f"{beginning}-images-idx3-ubyte.gz"
    if pictures.is_file():
        return read_idx(str(pictures), str(path / f"{beginning}-labels-idx1-ubyte.gz"), classes)
    root = _part_of(path, part) or path
    labelled = [
        (each, folder.name)
        for folder in _folders(root)
        for each in sorted(folder.rglob("*"))
        if is_picture(each) and not each.name.startswith(".")  # such as ._1.jpg, which macOS writes
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
            raise RegardError(f"{name}:{line} names {cut(str(found))}, which is not a file; correct the path")
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
        known = [next((word for word in words if has_column(name, word)), words[0]) for words in (PATHS, LABELS)]
        return given.path or known[0], given.label or known[1]
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
