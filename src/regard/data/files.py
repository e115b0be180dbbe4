"""Lines, rows and objects, one at a time, from files of several forms.

The name decides the form: .tsv, .csv, .jsonl, .parquet, all but the last also packed as .gz, .bz2, .xz or .zst; any
other name is read as TSV. A name such as "listops:train" stands for examples that are made and not read (see
`regard.data.made`), a name such as "s3://bucket/a.tsv" for a file elsewhere (see `regard.data.remote`), and a name with
* or ? for all files that it fits.

Exactly a line feed ends a line: other characters that some programs take for line ends (U+2028, a lone carriage
return) are text. A byte-order mark and the carriage return before a line feed are not part of the text. Nothing
else is changed.
"""

import csv
import io
import json
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from regard.data import made, remote
from regard.data.packing import DAMAGED, packing_of, unpacked, without_packing
from regard.data.watching import watched
from regard.errors import RegardError, cut, shown

LONGEST_LINE = 1_000_000  # bytes; a line of this length or more is a damaged or misread file
SNIFFED = 8192  # bytes at the beginning that tell text from anything else
BUFFER = 1 << 17  # bytes read from a file at a time


Column = int | str
Row = tuple[int, list[str]]  # number, and cells
Values = tuple[int, list[object]]  # number, and values of any type


def is_numbered(name: str) -> bool:
    """Whether the columns of a file have numbers unless names are given, as in TSV, and not names, as elsewhere."""
    return not without_packing(name).endswith(tuple(FORMS))


def read_rows(name: str, columns: Sequence[Column], *, numbers: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Number and chosen cells of each row of a file in any form; a blank line is empty cells.

    With `numbers`, numbers in JSONL and Parquet are taken for what they look like as text.
    """
    if made.is_made(name):
        return _read_table(name, enumerate(map(list, made.rows(name)), 1), columns, separator="tab")
    if without_packing(name).endswith(".parquet") and not name.lower().endswith(".parquet"):
        raise RegardError(
            f"{name} is a packed Parquet file, which is packed inside already; unpack it, as with: gunzip"
        )
    for suffix, read in FORMS.items():
        if without_packing(name).endswith(suffix):
            return read(name, columns, numbers)
    return _read_tsv(name, columns)


def read_values(name: str, columns: Sequence[Column]) -> Iterator[Values]:
    """Number and chosen values of each row of a .jsonl or .parquet file, lists among them; a blank line is None."""
    if without_packing(name).endswith(".jsonl"):
        return _jsonl_values(name, columns)
    if name.lower().endswith(".parquet"):
        return _parquet_values(name, columns)
    raise RegardError(f"{cut(name)} can hold no lists; give a .jsonl or .parquet file")


def has_column(name: str, column: Column) -> bool:
    """Whether the first row of a file has the column; other errors of the file are reported when it is read."""
    try:
        return next(read_rows(name, [column], numbers=True), None) is not None
    except RegardError:
        return False


def read_json(name: str) -> Any:
    """A whole file as JSON, plain or packed."""
    with opened(name) as file:
        try:
            return json.load(file)
        except (ValueError, RecursionError) as error:
            raise RegardError(
                f"{name} is not JSON ({cut(error)}); check the file, or name it .jsonl if it has lines"
            ) from None


def expanded(name: str) -> list[str]:
    """The files that a name stands for: itself, or with * or ? in it all files that it fits, in the order of names."""
    if made.is_made(name) or not any(sign in name for sign in "*?["):
        return [name]
    if remote.is_url(name):
        found = remote.matching(name)
    else:
        try:
            path = Path(name).expanduser()
            if path.exists():
                return [name]
            fitting = Path(path.anchor).glob(str(path.relative_to(path.anchor)))
            found = [str(each) for each in fitting if each.is_file()]
        except (OSError, RuntimeError, ValueError, NotImplementedError) as error:
            raise RegardError(f"{shown(name)} is not the name of files ({error}); check it") from None
    if not found:
        raise RegardError(f"{cut(name)} fits no file; check the path (here it starts from {Path.cwd()})")
    return sorted(found)


def stamp(name: str) -> tuple[str, int, int | str]:
    """Place, size and time of a file: they change when the file does. Of made examples, the version of their rule."""
    if made.is_made(name):
        return name, made.VERSION, 0
    if remote.is_url(name):
        return remote.stamp(name)
    with opened(name):
        path = _path(name).resolve()
        return str(path), path.stat().st_size, path.stat().st_mtime_ns


def read_lines(name: str) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of each line of a UTF-8 file, plain or packed."""
    offset = 0
    with opened(name) as file:
        refuse_other_than_text(name, file.peek(SNIFFED)[:SNIFFED])
        for number in count(1):
            raw = file.readline(LONGEST_LINE)
            if not raw:
                return
            if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                raise RegardError(
                    f"{name}:{number} is a line of 1 MB or more, over the limit of {LONGEST_LINE:,} bytes; "
                    "break it into lines, or look whether this is the right file"
                )
            yield number, _decode(name, number, offset, raw)
            offset += len(raw)


@contextmanager
def opened(name: str) -> Iterator["io.BufferedReader[Any]"]:
    """The bytes of a file, unpacked; what is wrong with it is a RegardError."""
    packing = None
    try:
        with _raw(name) as raw, io.BufferedReader(watched(raw), BUFFER) as plain:
            head = plain.peek(8)[:8]
            if not head:
                raise RegardError(f"{name} is empty; give a file with at least one line")
            packing = packing_of(name, head)
            if packing is None:
                yield plain
            else:
                with io.BufferedReader(unpacked(plain, packing), BUFFER) as content:
                    yield content
    except FileNotFoundError:
        raise RegardError(f"{cut(name)} does not exist; check the path (here it starts from {Path.cwd()})") from None
    except IsADirectoryError:
        raise RegardError(f"{name} is a folder; name a file in it") from None
    except DAMAGED as error:
        if packing is None or (isinstance(error, OSError) and error.errno is not None):
            raise _unreadable(name, error) from None
        raise RegardError(f"{name} is damaged {packing} ({cut(error)}); fetch or pack it again") from None


def _unreadable(name: str, error: Exception) -> RegardError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return RegardError(f"{cut(name)} cannot be read ({cut(reason)}); check the file and your rights")


def _raw(name: str) -> io.RawIOBase:
    """The bytes of a file as they are stored."""
    return remote.opened(name) if remote.is_url(name) else _path(name).open("rb", buffering=0)


def _path(name: str) -> Path:
    """The path of a regular file. Pipes and devices are refused: data is read more than once, and they only once."""
    try:
        path = Path(name).expanduser()
        mode = path.stat().st_mode
    except (RuntimeError, ValueError) as error:  # ~nobody, and a NUL in the name
        raise RegardError(f"{shown(name)} is not the name of a file ({error}); check it") from None
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise RegardError(
            f"{name} is a pipe or a device, and data is read more than once; write it to a file and name that"
        )
    return path


def refuse_other_than_text(name: str, head: bytes) -> None:
    """Refuse a file whose first bytes are not those of UTF-8 text."""
    if not head:
        raise RegardError(f"{name} is empty; give a file with at least one line")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise RegardError(f"{name} is UTF-16; convert it with: iconv -f utf-16 -t utf-8")
    if b"\0" in head:
        raise RegardError(f"{name} is a binary file; give UTF-8 text, .jsonl or .parquet, named as such")


def _decode(name: str, number: int, offset: int, raw: bytes) -> str:
    text = raw.removesuffix(b"\n").removesuffix(b"\r")
    if number == 1:
        text = text.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in text:
        raise RegardError(f"{name}:{number} holds a NUL byte: the file is damaged or binary; give UTF-8 text")
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        at = offset + raw.index(text) + error.start
        raise RegardError(
            f"{name}:{number} is not UTF-8 (byte 0x{text[error.start]:02x} at offset {at}); "
            "convert the file, if it is Latin-1 with: iconv -f latin1 -t utf-8"
        ) from None


def _read_tsv(name: str, columns: Sequence[Column]) -> Iterator[Row]:
    rows = ((number, text.split("\t")) for number, text in read_lines(name))
    return _read_table(name, rows, columns, separator="tab")


def _read_csv(name: str, columns: Sequence[Column], numbers: bool) -> Iterator[Row]:  # noqa: ARG001 - all is text
    reader = csv.reader((f"{text}\n" for _, text in read_lines(name)), strict=True)

    def rows() -> Iterator[tuple[int, list[str]]]:
        try:
            for cells in reader:
                yield reader.line_num, cells or [""]
        except csv.Error as error:
            raise RegardError(f"{name}:{reader.line_num} is not CSV ({error}); check the quotes there") from None

    return _read_table(name, rows(), columns, separator="comma")


def _read_table(name: str, rows: Iterator[Row], columns: Sequence[Column], *, separator: str) -> Iterator[Row]:
    """The chosen ones of rows of cells; a column given by name makes the first row a header."""
    header: list[str] = []
    if any(isinstance(column, str) for column in columns):
        header = next(rows, (1, [""]))[1]
    places = [column - 1 if isinstance(column, int) else _find(name, column, header) for column in columns]
    needed = max(places) + 1
    for number, cells in rows:
        if header and separator == "comma" and any(cells[len(header) :]):
            raise RegardError(
                f"{name}:{number} has {len(cells)} columns, and the header has {len(header)}; put quotes around a text "
                "with a comma, and write 1.5 and not 1,5"
            )
        if len(cells) >= needed:
            yield number, [cells[place] for place in places]
        elif cells == [""]:
            yield number, [""] * len(places)
        elif len(cells) == 1:
            raise RegardError(
                f"{name}:{number} has no {separator}; each line needs {needed} columns with a {separator} between them"
            )
        else:
            raise RegardError(
                f"{name}:{number} has {len(cells)} columns and column {needed} is wanted; "
                "mend the line or set data.columns"
            )


def _find(name: str, column: str, there: list[str]) -> int:
    if column not in there:
        names = shown(there) if there else "none"
        raise RegardError(f"{name} has no column {shown(column)}; it has {names}: choose with data.columns")
    return there.index(column)


def _read_jsonl(name: str, columns: Sequence[Column], numbers: bool) -> Iterator[Row]:
    for number, values in _jsonl_values(name, columns):
        cells = zip(columns, values, strict=True)
        yield number, [_text(f"{name}:{number}, key {key!r}", value, numbers=numbers) for key, value in cells]


def _jsonl_values(name: str, columns: Sequence[Column]) -> Iterator[Values]:
    keys = [key for key in columns if isinstance(key, str)]
    if len(keys) < len(columns):
        raise RegardError(f"data.columns gives a number, but {name} is JSONL; give the names of the keys")
    for number, text in read_lines(name):
        yield number, _picked(f"{name}:{number}", text, keys) if text.strip() else [None] * len(keys)


def read_object(place: str, text: str, keys: Sequence[str]) -> dict[str, Any]:
    """A line of JSONL."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RegardError(f"{place} is not JSON ({cut(error)}); each line must be one object") from None
    if not isinstance(record, dict):
        example = ", ".join(f'"{key}": "…"' for key in keys)
        raise RegardError(f"{place} is not an object; each line must look like {{{example}}}")
    return record


def _picked(place: str, text: str, keys: Sequence[str]) -> list[object]:
    """The values of these keys in a line of JSONL."""
    record = read_object(place, text, keys)
    for key in keys:
        if key not in record:
            there = shown(list(record)) if record else "none"
            raise RegardError(f"{place} has no key {key!r}; it has {there}: choose with data.columns")
    return [record[key] for key in keys]


def _text(place: str, value: object, *, numbers: bool = False) -> str:
    """A cell as text: a missing value is the empty text; values other than text (and `numbers`) are refused."""
    if value is None:
        return ""
    if numbers and isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        raise RegardError(f"{place} holds {type(value).__name__}, not text; put it in quotes or choose another column")
    if len(value) >= LONGEST_LINE:
        raise RegardError(f"{place} is a text of 1 MB or more, over the limit of {LONGEST_LINE:,}; break it up")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise RegardError(f"{place} holds half of a surrogate pair, which is no character; mend the text")
    return value


def _read_parquet(name: str, columns: Sequence[Column], numbers: bool) -> Iterator[Row]:
    for line, values in _parquet_values(name, columns):
        yield line, [_text(f"{name}:{line}", value, numbers=numbers) for value in values]


def _parquet_values(name: str, columns: Sequence[Column]) -> Iterator[Values]:
    import pyarrow.parquet  # slow to import, and those who only encode text do not read any file

    stamp(name)  # a missing or empty file has the same error as in other forms
    try:
        with _parquet(name) as place, pyarrow.parquet.ParquetFile(place) as file:
            there = file.schema_arrow.names
            places = [_find(name, column, there) if isinstance(column, str) else column - 1 for column in columns]
            if max(places) >= len(there):
                raise RegardError(f"{name} has {len(there)} columns and column {max(places) + 1} is wanted")
            chosen = [there[place] for place in places]
            if twice := [column for column in chosen if there.count(column) > 1]:
                raise RegardError(f"{name} has more than one column {shown(twice[0])}; give each a name of its own")
            line = 0
            for batch in file.iter_batches(batch_size=4096, columns=list(set(chosen))):
                for cells in zip(*(batch[column].to_pylist() for column in chosen), strict=True):
                    line += 1
                    yield line, list(cells)
    except RegardError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise RegardError(f"{name} is not a sound Parquet file ({cut(error)}); fetch or write it again") from None


@contextmanager
def _parquet(name: str) -> Iterator["Path | io.BufferedReader[Any]"]:
    """Where Parquet is read from: the path of a file here, the bytes of a file elsewhere."""
    if not remote.is_url(name):
        yield _path(name)
        return
    with opened(name) as file:
        yield file


FORMS: dict[str, Callable[[str, Sequence[Column], bool], Iterator[Row]]] = {
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
