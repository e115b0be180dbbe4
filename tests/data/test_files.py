"""Reading pairs: the text as it stands in the file, and an error that names file and line when it cannot be."""

import gzip
import json
import os
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as some

from regard.data.files import LONGEST_LINE, read_lines
from regard.data.pairs.pair import Columns, Entry, Files, read_pairs
from regard.errors import RegardError

PAIRS = [("a dog", "ein Hund"), ("two  cats ", "zwei Katzen"), ("é \u2028 \x0b \r mid", "ß\x85")]


def write(path: Path, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def texts(entry: Entry, columns: Columns | None = None) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read_pairs(entry, columns)]


def problem(entry: Entry, columns: Columns | None = None) -> str:
    with pytest.raises(RegardError) as caught:
        list(read_pairs(entry, columns))
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_every_form_gives_the_same_pairs(tmp_path: Path, packed: str) -> None:
    tsv = "".join(f"{source}\t{target}\n" for source, target in PAIRS)
    jsonl = "".join(json.dumps({"source": source, "target": target}) + "\n" for source, target in PAIRS)
    table = "source,target\n" + "".join(f'"{source}","{target}"\n' for source, target in PAIRS)
    sources = "".join(f"{source}\n" for source, _ in PAIRS)
    targets = "".join(f"{target}\n" for _, target in PAIRS)
    pyarrow.parquet.write_table(
        pyarrow.table({"target": [target for _, target in PAIRS], "source": [source for source, _ in PAIRS]}),
        tmp_path / "p.parquet",
    )
    entries: list[Entry] = [
        write(tmp_path / f"p.tsv{packed}", tsv),
        write(tmp_path / f"p.csv{packed}", table),
        write(tmp_path / f"p.jsonl{packed}", jsonl),
        Files(source=write(tmp_path / f"p.en{packed}", sources), target=write(tmp_path / f"p.de{packed}", targets)),
        str(tmp_path / "p.parquet"),
    ]
    for entry in entries:
        assert texts(entry) == PAIRS


@given(lines=some.lists(some.text(some.characters(exclude_characters="\n\0", codec="utf-8")), min_size=1))
def test_exactly_a_line_feed_ends_a_line(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "text"
    lines = [line.rstrip("\r").lstrip("\ufeff") + "." for line in lines]
    name = write(path, "".join(f"{line}\n" for line in lines))
    assert list(read_lines(name)) == list(enumerate(lines, start=1))


def test_mark_and_carriage_returns_of_other_systems_are_no_text(tmp_path: Path) -> None:
    name = write(tmp_path / "windows.tsv", b"\xef\xbb\xbfone\teins\r\ntwo\tzwei\r\n")
    assert texts(name) == [("one", "eins"), ("two", "zwei")]


def test_a_missing_last_line_feed_loses_nothing(tmp_path: Path) -> None:
    assert texts(write(tmp_path / "p.tsv", "one\teins\ntwo\tzwei")) == [("one", "eins"), ("two", "zwei")]


def test_pairs_know_where_they_stood(tmp_path: Path) -> None:
    name = write(tmp_path / "p.tsv", "one\teins\n\ntwo\tzwei\n")
    pairs = list(read_pairs(name))
    assert [pair.place for pair in pairs] == [f"{name}:1", f"{name}:2", f"{name}:3"]
    assert [pair.empty for pair in pairs] == [False, True, False]


def test_columns_are_chosen_by_number_or_by_a_name_in_the_header(tmp_path: Path) -> None:
    name = write(tmp_path / "p.tsv", "id\ten\tde\n7\tone\teins\n")
    assert texts(name, Columns(source="de", target="en")) == [("eins", "one")]
    assert texts(name, Columns(source=3, target=2)) == [("de", "en"), ("eins", "one")]


def test_a_quoted_comma_and_line_feed_are_text_in_csv(tmp_path: Path) -> None:
    name = write(tmp_path / "p.csv", 'target,source\n"eins, zwei","one\ntwo"\n')
    assert texts(name) == [("one\ntwo", "eins, zwei")]


def test_a_column_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    jsonl = write(tmp_path / "p.jsonl", '{"en": "one", "de": "eins"}\n')
    assert "p.jsonl:1 has no key 'source'" in problem(jsonl)
    assert "'en', 'de'" in problem(jsonl)
    pyarrow.parquet.write_table(pyarrow.table({"en": ["one"], "de": ["eins"]}), tmp_path / "p.parquet")
    assert "'en', 'de'" in problem(str(tmp_path / "p.parquet"))
    assert "'en', 'de'" in problem(write(tmp_path / "p.tsv", "en\tde\n"), Columns(source="fr"))
    assert texts(str(tmp_path / "p.parquet"), Columns(source=2, target=1)) == [("eins", "one")]


def test_files_that_are_not_there_or_not_files(tmp_path: Path) -> None:
    assert "does not exist" in problem(str(tmp_path / "nowhere.tsv"))
    assert "does not exist" in problem(str(tmp_path / "nowhere.parquet"))
    assert "is a folder" in problem(str(tmp_path))
    assert "is empty" in problem(write(tmp_path / "empty.tsv", b""))
    assert "is empty" in problem(write(tmp_path / "empty.tsv.gz", b""))


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    assert "is a binary file" in problem(write(tmp_path / "p.tsv", bytes(range(256)) * 7))
    assert "is UTF-16" in problem(write(tmp_path / "p.tsv", "a\tb\n".encode("utf-16")))
    later = "a\tb\n" * 5000
    assert "p.tsv:5001 holds a NUL byte" in problem(write(tmp_path / "p.tsv", f"{later}a\0\tb\n"))


def test_latin_1_is_told_by_line_and_offset_with_the_command_that_converts_it(tmp_path: Path) -> None:
    sentence = problem(write(tmp_path / "p.tsv", b"\xef\xbb\xbfa\tb\ncaf\xe9\tx\n"))
    assert "p.tsv:2 is not UTF-8 (byte 0xe9 at offset 10)" in sentence
    assert "iconv -f latin1 -t utf-8" in sentence


def test_a_line_without_a_tab_is_damage(tmp_path: Path) -> None:
    assert "p.tsv:2 has no tab" in problem(write(tmp_path / "p.tsv", "a\tb\nonly one\nc\td\n"))
    assert "p.tsv:1 has 2 columns and column 5" in problem(write(tmp_path / "p.tsv", "a\tb\n"), Columns(target=5))


def test_a_line_of_a_megabyte_is_refused_and_one_below_is_not(tmp_path: Path) -> None:
    below = "x" * (LONGEST_LINE - 3)
    assert texts(write(tmp_path / "p.tsv", f"{below}\ty\n")) == [(below, "y")]
    sentence = problem(write(tmp_path / "p.tsv", f"a\tb\n{below}x\ty\n"))
    assert "p.tsv:2 is a line of 1 MB or more" in sentence
    assert f"{LONGEST_LINE:,}" in sentence


@pytest.mark.parametrize(("sources", "targets"), [(3, 5), (5, 3)])
def test_unequal_line_counts_are_both_told(tmp_path: Path, sources: int, targets: int) -> None:
    entry = Files(source=write(tmp_path / "p.en", "a\n" * sources), target=write(tmp_path / "p.de", "b\n" * targets))
    assert f"p.en has {sources} lines and {entry.target} has {targets}" in problem(entry)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "is not JSON"),
        ("[1, 2]", "is not an object"),
        ('{"source": 7, "target": "b"}', "holds int, not text"),
        ('{"source": "\\ud800", "target": "b"}', "half of a surrogate pair"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_damaged_json_is_told_by_line(tmp_path: Path, line: str, told: str) -> None:
    sentence = problem(write(tmp_path / "p.jsonl", f'{{"source": "a", "target": null}}\n{line}\n'))
    assert "p.jsonl:2" in sentence
    assert told in sentence


def test_damaged_csv_is_told_by_line(tmp_path: Path) -> None:
    assert "p.csv:2 is not CSV" in problem(write(tmp_path / "p.csv", 'source,target\n"a" b,c\n'))


def test_damaged_gzip_is_told(tmp_path: Path) -> None:
    whole = gzip.compress(b"a\tb\n" * 10_000)
    (tmp_path / "cut.tsv.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "odd.tsv.gz").write_bytes(b"a\tb\n")
    assert "damaged gzip" in problem(str(tmp_path / "cut.tsv.gz"))
    assert "damaged gzip" in problem(str(tmp_path / "odd.tsv.gz"))
    flipped = bytearray(whole)
    flipped[-5] ^= 0xFF  # the checksum at the end
    (tmp_path / "flipped.tsv.gz").write_bytes(flipped)
    assert "damaged gzip" in problem(str(tmp_path / "flipped.tsv.gz"))


def test_gzip_is_known_by_its_first_bytes_too(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_bytes(gzip.compress(b"a\tb\n"))
    assert texts(str(tmp_path / "p.tsv")) == [("a", "b")]


def test_damaged_parquet_is_told(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"source": ["a"] * 99, "target": [None] * 99}), tmp_path / "p.parquet")
    whole = (tmp_path / "p.parquet").read_bytes()
    assert texts(str(tmp_path / "p.parquet")) == [("a", "")] * 99
    (tmp_path / "cut.parquet").write_bytes(whole[:-9])
    assert "is not a sound Parquet file" in problem(str(tmp_path / "cut.parquet"))
    (tmp_path / "p.parquet.gz").write_bytes(gzip.compress(whole))
    assert "gunzip" in problem(str(tmp_path / "p.parquet.gz"))
    pyarrow.parquet.write_table(pyarrow.table({"source": [3], "target": ["b"]}), tmp_path / "numbers.parquet")
    assert "numbers.parquet:1 holds int, not text" in problem(str(tmp_path / "numbers.parquet"))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("x" * 5000, "cannot be read (File name too long)"),
        ("a\0b", "is not the name of a file (embedded null byte)"),
        ("~nobody-of-this-name/x", "is not the name of a file"),
        ("/dev/zero", "is a pipe or a device"),
        ("/dev/zero.parquet", "does not exist"),
    ],
)
def test_names_that_cannot_be_those_of_files_are_told(name: str, told: str) -> None:
    sentence = problem(name)
    assert told in sentence
    assert len(sentence) < 500


@pytest.mark.parametrize("name", ["pipe", "pipe.jsonl", "pipe.parquet"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    assert "is a pipe or a device, and data is read more than once" in problem(str(tmp_path / name))


def test_a_parquet_file_with_a_column_twice_is_told(tmp_path: Path) -> None:
    table = pyarrow.Table.from_arrays([pyarrow.array(["a"])] * 3, names=["source", "target", "target"])
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    assert "has more than one column 'target'" in problem(str(tmp_path / "p.parquet"))


def test_a_sentence_does_not_repeat_a_whole_line(tmp_path: Path) -> None:
    write(tmp_path / "p.csv", ",".join(f"column{number}" for number in range(9000)) + "\n")
    assert len(problem(str(tmp_path / "p.csv"))) < 500
    write(tmp_path / "p.jsonl", json.dumps({"k" * 900_000: 1}) + "\n")
    assert len(problem(str(tmp_path / "p.jsonl"))) < 500
