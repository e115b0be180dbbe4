"""Folders, tables of paths, .npz and IDX files become the same pictures with labels."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from regard.data.pictures import labelled
from regard.data.pictures.frames import Frame, Looks
from regard.data.pictures.labelled import Arrays, Pictures
from regard.data.pictures.sources import Columns, holds_pictures, parts_of, picture_at, read_entry
from regard.errors import RegardError

FRAME = Frame(5, 4, 3)
IMAGES = numpy.random.default_rng(0).integers(0, 256, size=(6, 5, 4, 3), dtype=numpy.uint8)
LABELS = ["cat", "dog", "cat", "dog", "dog", "cat"]


def folders(path: Path) -> Path:
    for number, (image, label) in enumerate(zip(IMAGES, LABELS, strict=True)):
        (path / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path / label / f"{number}.png")
    return path


def table(path: Path, header: str | None, row: str, ending: str) -> str:
    folders(path / "pictures")
    rows = [row.format(path=f"pictures/{label}/{n}.png", label=label, n=n) for n, label in enumerate(LABELS)]
    (path / f"list{ending}").write_text("\n".join(([header] if header else []) + rows) + "\n")
    return str(path / f"list{ending}")


def idx(path: Path, content: numpy.ndarray) -> str:
    head = b"\0\0\x08" + bytes([content.ndim]) + struct.pack(f">{content.ndim}I", *content.shape)
    with gzip.open(path, "wb") as file:
        file.write(head + content.tobytes())
    return str(path)


def by_label(pictures: Pictures) -> list[tuple[str, bytes]]:
    return sorted(zip(pictures.labels, (each.tobytes() for each in pictures.pixels(FRAME)), strict=True))


WANTED = sorted(zip(LABELS, (each.tobytes() for each in IMAGES), strict=True))


@pytest.mark.parametrize(
    ("header", "row", "ending"),
    [
        ("path,label", "{path},{label}", ".csv"),
        ("n,class,file", "{n},{label},{path}", ".csv"),
        (None, "{path}\t{label}", ".tsv"),
        (None, "{label}\t{path}", ".tsv"),
        (None, "{label},{path}", ".csv"),
        (None, '{{"path": "{path}", "label": "{label}"}}', ".jsonl"),
        (None, '{{"n": {n}, "image": "{path}", "class": "{label}"}}', ".jsonl"),
    ],
)
def test_tables_of_every_form_are_read(tmp_path: Path, header: str | None, row: str, ending: str) -> None:
    assert by_label(read_entry(table(tmp_path, header, row, ending), key="data.train")) == WANTED


def test_folders_and_arrays_are_read_alike(tmp_path: Path) -> None:
    assert by_label(read_entry(str(folders(tmp_path / "a")), key="data.train")) == WANTED
    numbers = [int(label == "dog") for label in LABELS]
    for name, images in (("last", IMAGES), ("first", IMAGES.transpose(0, 3, 1, 2)), ("shares", IMAGES / 255)):
        numpy.savez(tmp_path / f"{name}.npz", images=images, labels=numbers, classes=["cat", "dog"])
        assert by_label(read_entry(str(tmp_path / f"{name}.npz"), key="data.train")) == WANTED
    numpy.savez(tmp_path / "names.npz", images=IMAGES, labels=LABELS)
    assert by_label(read_entry(str(tmp_path / "names.npz"), key="data.train")) == WANTED


def test_files_that_are_joined_end_to_end_are_read(tmp_path: Path) -> None:
    pictures = read_entry(str(folders(tmp_path / "a")), key="data.train")
    contents = [path.read_bytes() for path in pictures.sources]  # type: ignore[attr-defined]
    ends = numpy.cumsum([0, *map(len, contents)])
    joined = numpy.frombuffer(b"".join(contents), dtype=numpy.uint8)
    labels = [int(label == "dog") for label in pictures.labels]
    numpy.savez(tmp_path / "x.npz", jpeg=joined, offsets=ends, labels=labels, classes=["cat", "dog"])
    found = read_entry(str(tmp_path / "x.npz"), key="data.train")
    assert by_label(found) == WANTED
    assert numpy.array_equal(picture_at(f"{tmp_path}/x.npz#3", FRAME), found.pixels(FRAME)[3])
    with pytest.raises(RegardError, match=r"x.npz holds many pictures; name one by its number, such as .*x.npz#0"):
        picture_at(f"{tmp_path}/x.npz", FRAME)
    with pytest.raises(RegardError, match="there is no name of a picture"):
        picture_at(" ", FRAME)
    numpy.savez(tmp_path / "bad.npz", jpeg=joined, offsets=ends[::-1], labels=labels)
    with pytest.raises(RegardError, match="offsets"):
        read_entry(str(tmp_path / "bad.npz"), key="data.train")


def test_idx_files_are_read_by_name_or_by_their_folder(tmp_path: Path) -> None:
    grey, numbers = IMAGES[..., 0], numpy.array([0, 1, 0, 1, 1, 0], dtype=numpy.uint8)
    for part, some in (("train", slice(0, 4)), ("t10k", slice(4, 6))):
        idx(tmp_path / f"{part}-images-idx3-ubyte.gz", grey[some])
        idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", numbers[some])
    train = read_entry(str(tmp_path), key="data.train", classes=["cat", "dog"])
    assert train.labels == tuple(LABELS[:4])
    assert list(train.looks()) == [Looks(5, 4, 1)]
    assert numpy.array_equal(train.pixels(Frame(5, 4, 1))[..., 0], grey[:4])
    assert read_entry(str(tmp_path), key="data.test").labels == ("1", "0")
    assert read_entry(str(tmp_path), key="data").labels == ("1", "0")
    files = {
        name: f"{tmp_path}/train-{name2}-ubyte.gz"
        for name, name2 in (("pictures", "images-idx3"), ("labels", "labels-idx1"))
    }
    assert read_entry(files, key="data.train").labels == ("0", "1", "0", "1")
    assert parts_of(str(tmp_path)) == {"train": str(tmp_path), "test": str(tmp_path)}
    assert holds_pictures(str(tmp_path))
    place = read_entry(str(tmp_path), key="data.test").place(1)
    assert numpy.array_equal(picture_at(place, Frame(5, 4, 1))[..., 0], grey[5])
    with pytest.raises(RegardError, match="has 2 pictures, #0 to #1"):
        picture_at(place.replace("#1", "#2"), Frame(5, 4, 1))


def test_some_of_the_pictures_keep_their_places(tmp_path: Path) -> None:
    numpy.savez(tmp_path / "x.npz", images=IMAGES, labels=LABELS)
    for whole in (
        read_entry(str(folders(tmp_path / "a")), key="data.train"),
        read_entry(str(tmp_path / "x.npz"), key="data.train"),
    ):
        some = whole.take([4, 1])
        assert some.labels == (whole.labels[4], whole.labels[1])
        assert [some.place(0), some.key(1)] == [whole.place(4), whole.key(1)]
        assert numpy.array_equal(some.pixels(FRAME), whole.pixels(FRAME)[[4, 1]])
        assert some.take([1]).place(0) == whole.place(1)


def test_arrays_of_another_size_or_colour_are_framed(tmp_path: Path) -> None:
    numpy.savez(tmp_path / "x.npz", images=IMAGES, labels=LABELS)
    found = read_entry(str(tmp_path / "x.npz"), key="data.train")
    assert isinstance(found, Arrays)
    grey = numpy.stack([numpy.asarray(Image.fromarray(each).convert("L")) for each in IMAGES])
    assert numpy.array_equal(found.pixels(Frame(5, 4, 1))[..., 0], grey)
    assert found.pixels(Frame(10, 8, 3)).shape == (6, 10, 8, 3)


def test_large_pixels_are_kept_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled, "LARGE", 100)
    found = read_entry(str(folders(tmp_path / "a")), key="data.train")
    assert isinstance(found.pixels(FRAME, tmp_path / "work"), numpy.memmap)
    assert by_label(found) == WANTED
    assert list((tmp_path / "work").iterdir()) == []


def test_parts_of_a_folder_are_found(tmp_path: Path) -> None:
    for part in ("train", "val"):
        folders(tmp_path / part)
    assert parts_of(str(tmp_path)) == {"train": str(tmp_path / "train"), "valid": str(tmp_path / "val")}
    assert by_label(read_entry(str(tmp_path), key="data.valid")) == WANTED
    assert set(read_entry(str(tmp_path), key="data.train").labels) == {"cat", "dog"}


def test_several_entries_are_one(tmp_path: Path) -> None:
    names = [str(folders(tmp_path / name)) for name in "ab"]
    assert by_label(read_entry(names, key="data.train")) == sorted(WANTED * 2)


def test_columns_of_parquet_are_found_by_their_names(tmp_path: Path) -> None:
    folders(tmp_path / "pictures")
    paths = [f"pictures/{label}/{n}.png" for n, label in enumerate(LABELS)]
    pyarrow.parquet.write_table(pyarrow.table({"category": LABELS, "file_name": paths}), tmp_path / "list.parquet")
    assert by_label(read_entry(str(tmp_path / "list.parquet"), key="data.train")) == WANTED


def test_hidden_files_are_no_pictures(tmp_path: Path) -> None:
    folders(tmp_path)
    (tmp_path / "cat" / "._0.png").write_bytes(b"\0\5\x16\7")
    assert by_label(read_entry(str(tmp_path), key="data.train")) == WANTED


def test_labels_may_be_whole_numbers_of_any_type(tmp_path: Path) -> None:
    numpy.savez(tmp_path / "x.npz", images=IMAGES, labels=numpy.array([0.0, 1, 0, 1, 1, 0]))
    assert read_entry(str(tmp_path / "x.npz"), key="data.train").labels == ("0", "1", "0", "1", "1", "0")


def test_a_broken_picture_among_others_is_named(tmp_path: Path) -> None:
    folders(tmp_path)
    (tmp_path / "cat" / "bad.png").write_bytes((tmp_path / "cat" / "0.png").read_bytes()[:40])
    found = read_entry(str(tmp_path), key="data.train")
    with pytest.raises(RegardError, match=r"cat/bad\.png"):
        found.pixels(FRAME)


def write_nothing(path: Path) -> object:
    return str(path)


def write_missing(path: Path) -> object:
    return table(path, "path,label", "no{path},{label}", ".csv")


def write_no_label(path: Path) -> object:
    return table(path, "path,label", "{path},", ".csv")


def write_unclear(path: Path) -> object:
    return table(path, None, "{path},{label},{n}", ".csv")


def write_fewer_labels(path: Path) -> object:
    numpy.savez(path / "x.npz", images=IMAGES, labels=LABELS[:3])
    return str(path / "x.npz")


def write_odd_axes(path: Path) -> object:
    numpy.savez(path / "x.npz", images=IMAGES[..., :2], labels=LABELS)
    return str(path / "x.npz")


def write_odd_numbers(path: Path) -> object:
    numpy.savez(path / "x.npz", images=IMAGES.astype(float) * 3 - 1, labels=LABELS)
    return str(path / "x.npz")


def write_objects(path: Path) -> object:
    numpy.savez(path / "x.npz", images=numpy.array([{}, None]), labels=LABELS[:2])
    return str(path / "x.npz")


def write_no_arrays(path: Path) -> object:
    numpy.savez(path / "x.npz", other=IMAGES)
    return str(path / "x.npz")


def write_label_missing(path: Path) -> object:
    numpy.savez(path / "x.npz", images=IMAGES, labels=numpy.array([0, 1, numpy.nan, 1, 1, 0]))
    return str(path / "x.npz")


def write_one_array(path: Path) -> object:
    with (path / "x.npz").open("wb") as file:
        numpy.save(file, IMAGES)
    return str(path / "x.npz")


def write_no_npz(path: Path) -> object:
    (path / "x.npz").write_text("hello")
    return str(path / "x.npz")


def write_short_idx(path: Path) -> object:
    name = Path(idx(path / "a.gz", IMAGES[..., 0]))
    name.write_bytes(gzip.compress(gzip.decompress(name.read_bytes())[:-5]))
    return {"pictures": str(name), "labels": idx(path / "b.gz", numpy.zeros(6, dtype=numpy.uint8))}


def write_no_idx(path: Path) -> object:
    (path / "a.gz").write_bytes(gzip.compress(b"hello, world"))
    return {"pictures": str(path / "a.gz"), "labels": str(path / "a.gz")}


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (write_nothing, "no folders with pictures"),
        (write_missing, r"list\.csv:2 names .*not a file"),
        (write_no_label, r"list\.csv:2 has no label"),
        (write_unclear, r"which columns.*data\.columns\.path"),
        (write_fewer_labels, "6 pictures and 3 labels"),
        (write_odd_axes, "has the shape"),
        (write_odd_numbers, "from -1 to"),
        (write_objects, "not a sound"),
        (write_no_arrays, "needs the arrays"),
        (write_no_npz, "not a sound"),
        (write_one_array, "holds one array without a name"),
        (write_label_missing, "picture 2 has the label nan"),
        (write_short_idx, "115 numbers and says 120"),
        (write_no_idx, "not an IDX file"),
        (lambda path: str(path / "none"), "does not exist"),
        (lambda _path: 3.5, r"data\.train = 3\.5"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, write: Callable[[Path], object], sentence: str) -> None:
    with pytest.raises(RegardError, match=sentence):
        read_entry(write(tmp_path), key="data.train").pixels(FRAME)


def test_columns_may_be_given(tmp_path: Path) -> None:
    name = table(tmp_path, None, "{n},{label},{path}", ".csv")
    assert by_label(read_entry(name, key="data.train", columns=Columns(3, 2))) == WANTED


def test_labels_beyond_the_classes_are_named(tmp_path: Path) -> None:
    numpy.savez(tmp_path / "x.npz", images=IMAGES, labels=[0, 1, 0, 1, 2, 0])
    with pytest.raises(RegardError, match="picture 4 has the label 2"):
        read_entry(str(tmp_path / "x.npz"), key="data.train", classes=["cat", "dog"])
