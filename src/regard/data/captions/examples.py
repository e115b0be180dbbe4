"""The pictures and captions that a recipe's [data] names.

    captions.tsv    the path of a picture and a caption in each line, also as .csv, .jsonl or .parquet; paths start from
                    the folder of the file; a picture with several captions has several lines
    a folder        the file captions.tsv (or .csv, .jsonl, .parquet) in it
    "drawn:train"   pictures that are drawn here, with their captions (see `regard.data.made.drawn`)

N pictures  H height  W width  C channels
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Self

import numpy
from PIL import Image
from pydantic import Field, PositiveInt

from regard.checking import Settings
from regard.data import made
from regard.data.files import Column, has_column, is_numbered, read_rows
from regard.data.made import drawn
from regard.data.pictures.frames import MOST, Fit, Frame, Looks
from regard.data.pictures.labelled import Files
from regard.data.pictures.reading import Pixels, framed
from regard.data.pictures.sources import PATHS
from regard.data.splits import DataTable, Splits, hold_out
from regard.errors import RegardError, cut

SCENE = "scene:"  # what a line begins with that describes a drawn picture
CAPTIONS = ("caption", "text", "sentence", "description", "comment")  # what a column of captions may be called
TABLES = ("captions.tsv", "captions.csv", "captions.jsonl", "captions.parquet", "captions.txt")
Pixel = Annotated[int, Field(ge=1, le=MOST)]  # the length of a side in pixels
NUMBERED = re.compile(r"#\d+$")  # some collections number the captions of a picture: 12.jpg#0, 12.jpg#1, …


class Columns(Settings):
    """The columns of a file: names, or numbers counted from 1.

    Not given: the first two columns of a TSV, the usual names in CSV, JSONL and Parquet.
    """

    picture: PositiveInt | str | None = None
    caption: PositiveInt | str | None = None

    def pick(self, name: str) -> tuple[Column, Column]:
        """The two columns of a file."""
        if is_numbered(name):
            return self.picture or 1, self.caption or 2
        return self.picture or _named(name, PATHS), self.caption or _named(name, CAPTIONS)


class CaptionsData(DataTable):
    """[data] of captions."""

    train: str | list[str] | None = Field(
        None, description='captions.tsv, its folder, "drawn:train", or a list of such'
    )
    valid: str | list[str] | None = Field(None, description="as train; without it, pictures are held out of train")
    test: str | list[str] | None = Field(None, description="as train")
    columns: Columns = Field(default_factory=Columns, description="which columns of TSV, CSV, JSONL or Parquet")
    size: Pixel | list[Pixel] | None = Field(
        None, description="pixels of a side, or [rows, columns]; the size of the pictures, else 64"
    )
    channels: Annotated[int, Field(ge=1, le=3)] | None = Field(None, description="1 grey, 3 colours; as the pictures")
    fit: Fit = Field("crop", description="how a picture of another size is fitted: crop or stretch")
    max_length: PositiveInt = Field(64, description="captions with more tokens are not learned from")
    hold_out: PositiveInt | float | None = Field(
        None, description="pictures held out for validation: a number or a share; 2 % if not given"
    )


@dataclass(frozen=True)
class Captioned:
    """Pictures with their captions. Pixels are decoded when they are asked for, and kept."""

    lines: tuple[str, ...]  # each picture as `regard run` reads it: a path, or "scene: …"
    captions: tuple[tuple[str, ...], ...]
    known: dict[Frame, Pixels] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, numbers: Sequence[int]) -> Self:
        """Some of the pictures."""
        return type(self)(tuple(self.lines[n] for n in numbers), tuple(self.captions[n] for n in numbers))

    def pixels(self, frame: Frame, folder: Path | None = None) -> Pixels:
        """All pictures (N, H, W, C) as the frame wants them; if they are large, in a file of `folder`."""
        if frame not in self.known:
            self.known[frame] = pixels(self.lines, frame, folder)
        return self.known[frame]

    @property
    def fingerprint(self) -> str:
        """Changes with the pictures' names and their captions."""
        names = [line if is_scene(line) else Path(line).name for line in self.lines]
        return sha256(repr((names, self.captions)).encode()).hexdigest()

    def things(self) -> list[list[drawn.Thing]]:
        """The objects of each picture, the largest first; an empty list if there are pictures that were not drawn."""
        if not all(map(is_scene, self.lines)):
            return []
        return [drawn.read_scene(line.removeprefix(SCENE)) for line in self.lines]


def is_scene(line: str) -> bool:
    """Whether a line describes a drawn picture, and does not name a file."""
    return line.startswith(SCENE)


def looks_of(lines: Sequence[str]) -> Iterator[Looks]:
    """The sizes and channels of pictures, in any order; files are not decoded."""
    drawings = sum(map(is_scene, lines))
    yield from [Looks(drawn.SIZE, drawn.SIZE, 3)] * min(drawings, 1)
    if files := [line for line in lines if not is_scene(line)]:
        yield from _files(files).looks()


def pixels(lines: Sequence[str], frame: Frame, folder: Path | None = None) -> Pixels:
    """The pictures (N, H, W, C) that lines name or describe, as the frame wants them."""
    drawings = [number for number, line in enumerate(lines) if is_scene(line)]
    if not drawings:
        return _files(lines).pixels(frame, folder)
    scenes = drawn.pictures([lines[number].removeprefix(SCENE) for number in drawings])
    if (frame.rows, frame.columns, frame.channels) != scenes.shape[1:]:
        scenes = numpy.stack([framed(Image.fromarray(scene), SCENE, frame) for scene in scenes])
    if len(drawings) == len(lines):
        return scenes
    out = numpy.empty((len(lines), *scenes.shape[1:]), dtype=numpy.uint8)
    others = [number for number, line in enumerate(lines) if not is_scene(line)]
    out[drawings], out[others] = scenes, _files([lines[number] for number in others]).pixels(frame, folder)
    return out


def _files(lines: Sequence[str]) -> Files:
    names = tuple(lines)
    return Files(names, tuple(map(Path, names)), names, names)


def open_splits(data: CaptionsData, *, seed: int) -> Splits[Captioned]:
    """The pictures of a [data] table; without `valid`, some of `train` are held out, the same for the same seed."""
    train = read_captions(data.train, data.columns, key="data.train")
    test = read_captions(data.test, data.columns, key="data.test") if data.test else None
    if data.valid:
        return Splits(train, read_captions(data.valid, data.columns, key="data.valid"), test)
    apart = hold_out(train.lines, amount=data.hold_out, seed=seed)
    inside = [number for number, line in enumerate(train.lines) if line in apart]
    kept = [number for number, line in enumerate(train.lines) if line not in apart]
    return Splits(train.take(kept), train.take(inside), test)


def read_captions(entry: str | list[str] | None, columns: Columns, *, key: str) -> Captioned:
    """The pictures of one key of [data], each once, with all its captions."""
    if not entry:
        raise RegardError(f"{key} is missing; name a file of paths and captions, such as --set {key}=captions.tsv")
    found: dict[str, list[str]] = {}
    for name in [entry] if isinstance(entry, str) else entry:
        for line, caption in _rows(name, columns):
            found.setdefault(line, []).append(caption)
    if not found:
        raise RegardError(f"{key} = {entry!r} has no captions; name another file")
    return Captioned(tuple(found), tuple(map(tuple, found.values())))


def _rows(name: str, columns: Columns) -> Iterator[tuple[str, str]]:
    """The line of a picture and a caption, for each row of an entry."""
    if made.is_made(name):
        yield from ((f"{SCENE}{scene}", caption) for scene, caption in made.rows(name))
        return
    path = Path(name).expanduser()
    if path.is_dir():
        inside = [path / table for table in TABLES if (path / table).is_file()]
        if not inside:
            raise RegardError(
                f"the folder {cut(name)} has no captions; put a file captions.tsv into it: path, tab, caption"
            )
        path = inside[0]
    for number, (given, said) in read_rows(str(path), columns.pick(str(path))):
        given, said = given.strip(), " ".join(said.split())
        if not given and not said:
            continue
        if not given or not said:
            missing = "caption" if given else "path of a picture"
            raise RegardError(f"{path}:{number} has no {missing}; fill it in, or leave the line out")
        yield _existing(path.parent, given, place=f"{path}:{number}"), said


def _existing(folder: Path, given: str, *, place: str) -> str:
    """The path of a picture that exists."""
    for named in (given, NUMBERED.sub("", given)):
        found = folder / Path(named).expanduser()
        if found.is_file():
            return str(found)
    raise RegardError(f"{place} names {cut(str(folder / given))}, which is not a file; correct the path")


def _named(name: str, known: Sequence[str]) -> str:
    """The first of the known names that a column has; the first of all if none has, for the error."""
    return next((column for column in known if has_column(name, column)), known[0])
