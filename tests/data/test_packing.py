"""Packed files, files elsewhere, and names that stand for many files: the lines are those of the plain file."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import fsspec
import pyarrow
import pyarrow.parquet
import pytest

from regard.data.files import expanded, read_lines, read_rows, stamp
from regard.data.pairs.examples import open_examples
from regard.data.text.text import read_text
from regard.data.watching import watching
from regard.errors import RegardError

TEXT = "".join(f"line {number}\tZeile {number} – é\n" for number in range(5000))


def zstd(content: bytes) -> bytes:
    return pyarrow.Codec("zstd").compress(content, asbytes=True)


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}


@pytest.fixture
def memory() -> fsspec.AbstractFileSystem:
    system = fsspec.filesystem("memory")
    system.store.clear()
    return system


@pytest.mark.parametrize("suffix", PACKINGS)
@pytest.mark.parametrize("named", [True, False])
def test_packed_lines_are_those_of_the_plain_file(tmp_path: Path, suffix: str, named: bool) -> None:
    packed = PACKINGS[suffix](TEXT.encode())
    path = tmp_path / ("a.tsv" + suffix if named else "a.tsv")
    path.write_bytes(packed)
    expected = list(enumerate(TEXT.splitlines(), 1))
    with watching() as watch:
        assert list(read_lines(str(path))) == expected
    assert watch.read == len(packed)
    assert [cells for _, cells in read_rows(str(path), (2, 1))] == [line.split("\t")[::-1] for _, line in expected]
    assert "".join(read_text(str(path))) == TEXT
    path.write_bytes(packed + packed)
    assert len(list(read_lines(str(path)))) == 10_000


@pytest.mark.parametrize("suffix", PACKINGS)
@pytest.mark.parametrize("damage", ["cut", "changed", "no"])
def test_damaged_packing_is_told_by_name(tmp_path: Path, suffix: str, damage: str) -> None:
    packed = bytearray(PACKINGS[suffix](TEXT.encode()))
    if damage == "cut":
        del packed[len(packed) // 2 :]
    elif damage == "changed":
        packed[len(packed) // 2 : len(packed) // 2 + 8] = b"xxxxxxxx"
    else:
        packed = bytearray(b"plain text\n")
    path = tmp_path / f"a.tsv{suffix}"
    path.write_bytes(packed)
    with pytest.raises(RegardError, match=r"a\.tsv.* is damaged"):
        list(read_lines(str(path)))


def test_a_url_is_read_like_a_file(memory: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    memory.pipe("/corpus/a.tsv.gz", gzip.compress(TEXT.encode()))
    name = "memory://corpus/a.tsv.gz"
    assert list(read_lines(name)) == list(enumerate(TEXT.splitlines(), 1))
    before = stamp(name)
    assert stamp(name) == before
    memory.pipe("/corpus/a.tsv.gz", gzip.compress(b"a\tb\n"))
    assert stamp(name) != before
    assert [pair.source for pair in open_examples(name, key="data.train")] == ["a"]
    table = pyarrow.table({"source": ["a", "b"], "target": ["c", "d"]})
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    memory.pipe("/p.parquet", (tmp_path / "p.parquet").read_bytes())
    assert [cells for _, cells in read_rows("memory://p.parquet", ("source", "target"))] == [["a", "c"], ["b", "d"]]


def test_errors_of_urls_are_one_sentence(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/bad.tsv", b"a\tb\nno tab\n")
    with pytest.raises(RegardError, match=r"memory://bad\.tsv:2 has no tab"):
        list(open_examples("memory://bad.tsv", key="data.train"))
    with pytest.raises(RegardError, match=r"memory://nowhere\.tsv does not exist"):
        list(read_lines("memory://nowhere.tsv"))
    with pytest.raises(RegardError, match=r"unheard://a\.tsv cannot be read"):
        list(read_lines("unheard://a.tsv"))


def test_a_missing_package_of_a_protocol_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_url: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(RegardError, match="needs a package that is not installed: Install s3fs"):
        list(read_lines("s3://bucket/a.tsv"))


def test_a_pattern_stands_for_its_files_in_order(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (3, 1, 2):
        (tmp_path / f"part-{number}.tsv").write_text(f"a{number}\tb{number}\n")
        memory.pipe(f"/parts/{number}.tsv", f"a{number}\tb{number}\n".encode())
    (tmp_path / "part-dir.tsv").mkdir()
    (tmp_path / "odd[1].tsv").write_text("x\ty\n")
    everywhere = [str(tmp_path / "part-*.tsv"), "memory://parts/*.tsv", "part-?.tsv"]
    monkeypatch.chdir(tmp_path)
    for pattern in everywhere:
        assert [pair.source for pair in open_examples(pattern, key="data.train")] == ["a1", "a2", "a3"]
    assert expanded(str(tmp_path / "odd[1].tsv")) == [str(tmp_path / "odd[1].tsv")]
    with pytest.raises(RegardError, match=r"none-\*\.tsv fits no file"):
        open_examples(str(tmp_path / "none-*.tsv"), key="data.train")
