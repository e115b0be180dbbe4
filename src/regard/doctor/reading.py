"""Files as blocks of examples, whatever is wrong with their bytes: it is reported, and mended where it can be.

A file of pairs or of labelled texts has a tab between its columns, or is CSV, JSONL or Parquet; two files belong
together line by line; a file of plain text has a text on each line.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, islice
from typing import Any

from regard.data.files import Column, is_numbered, opened, read_rows
from regard.doctor.block import Block
from regard.doctor.report import Report
from regard.errors import RegardError

TOGETHER = 1 << 13  # examples of a block
SEPARATORS = {"|||": "|||", ";": "a semicolon", ",": "a comma", "|": "a vertical bar"}
CHUNK = 1 << 20  # bytes decoded together

Line = tuple[int, str]


def lines(name: str, report: Report) -> Iterator[Line]:
    """Number and text of each line, decoded. Line ends of other systems and wrong bytes are reported and mended."""
    for number, texts in _together(name, report):
        yield from enumerate(texts, number)


def _together(name: str, report: Report) -> Iterator[tuple[int, list[str]]]:
    """The same, many lines at a time, with the number of the first."""
    with opened(name) as file:
        head = file.peek(4)[:4]
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            report.found("UTF-16", "a file in UTF-16", "mended", name, 1, "")
            with io.TextIOWrapper(file, "utf-16", errors="replace", newline="\n") as text:
                yield from ((number, [_ended(line)]) for number, line in enumerate(text, 1))
            return
        number = 1
        for content in _whole_lines(file):
            texts = _decoded_together(content, name, number, report)
            yield number, texts
            number += len(texts)


def _whole_lines(file: io.BufferedReader[Any]) -> Iterator[bytes]:
    """The content of a file in pieces that end where a line ends."""
    rest = b""
    while some := file.read(CHUNK):
        rest += some
        end = rest.rfind(b"\n") + 1
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def lengths(name: str) -> list[int]:
    """How many characters each line has."""
    return [length for _, texts in _together(name, Report([])) for length in map(len, texts)]


def _ended(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def _decoded_together(content: bytes, name: str, number: int, report: Report) -> list[str]:
    """Lines as text, the first of which has this number."""
    if b"\r" not in content and not content.startswith(codecs.BOM_UTF8):
        try:
            return content.decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            pass
    lines = content.removesuffix(b"\n").split(b"\n")
    return [_decoded(line, name, place, report) for place, line in enumerate(lines, number)]


def _decoded(content: bytes, name: str, number: int, report: Report) -> str:
    if number == 1 and content.startswith(codecs.BOM_UTF8):
        content = content.removeprefix(codecs.BOM_UTF8)
        report.found("byte-order mark", "a byte-order mark", "mended", name, number, "")
    if content.endswith(b"\r"):
        content = content[:-1]
        if number == 1:
            report.found("carriage returns", "line ends of Windows", "mended", name, number, "")
    try:
        return content.decode()
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")
        report.found("encoding", "bytes that are not UTF-8, read as Windows-1252", "mended", name, number, text)
        return text


def tables(
    name: str, width: int, report: Report, columns: Sequence[Column] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """The rows of one file with `width` columns; a row with more or fewer is reported and left out."""
    if not is_numbered(name) or columns is not None:
        for number, cells in read_rows(name, columns or list(range(1, width + 1)), numbers=True):
            yield number, [cell.replace("\t", " ").replace("\n", " ") for cell in cells]
        return
    for first, texts in _together(name, report):
        rows = [text.split("\t") for text in texts]
        if set(map(len, rows)) == {width}:
            yield from enumerate(rows, first)
        else:
            yield from _of_width(name, width, report, enumerate(rows, first))


def _of_width(
    name: str, width: int, report: Report, rows: Iterable[tuple[int, list[str]]]
) -> Iterator[tuple[int, list[str]]]:
    """The rows with `width` columns; others are reported."""
    for number, cells in rows:
        text = "\t".join(cells)
        if len(cells) == width:
            yield number, cells
        elif not text.strip():
            report.examples += 1
            report.found("empty", "no text", "dropped", name, number, "")
        elif len(cells) > width:
            report.examples += 1
            report.found("columns", f"a line with more than {width} columns", "dropped", name, number, text)
        else:
            _refuse_other_separator(name, number, text)
            report.examples += 1
            report.found("columns", f"a line with fewer than {width} columns", "dropped", name, number, text)


def _refuse_other_separator(name: str, number: int, text: str) -> None:
    """Refuse a file whose first line has another separator than a tab: all of its lines would be dropped."""
    if number > 1:
        return
    for separator, called in SEPARATORS.items():
        if text.count(separator) == 1:
            raise RegardError(
                f"{name}:1 has {called} where a tab is expected between two columns; replace it by a tab, "
                "or name the file .csv if it is CSV"
            )


def side_by_side(first: str, second: str, report: Report) -> Iterator[tuple[int, list[str]]]:
    """The lines of two files that belong together; a tab inside a line is reported and becomes a space."""
    texts = (chain.from_iterable(_without_tabs(name, report)) for name in (first, second))
    return zip(count(1), map(list, zip(*texts, strict=False)), strict=False)


def _without_tabs(name: str, report: Report) -> Iterator[list[str]]:
    """The lines of a file, many at a time. A tab is reported and becomes a space."""
    for number, texts in _together(name, report):
        if "\t" in "\n".join(texts):
            for place, text in enumerate(texts, number):
                if "\t" in text:
                    report.found("tabs", "a tab inside a text", "mended", name, place, text)
            yield [text.replace("\t", " ") for text in texts]
        else:
            yield texts


def plain(name: str, report: Report) -> Iterator[tuple[int, list[str]]]:
    """The lines of one file; blank lines separate paragraphs and are left alone."""
    texts = chain.from_iterable(_without_tabs(name, report))
    return ((number, [text]) for number, text in enumerate(texts, 1) if text.strip())


def blocks(rows: Iterable[tuple[int, list[str]]]) -> Iterator[Block]:
    """Rows, many at a time."""
    remaining: Iterator[Any] = iter(rows)
    while some := list(islice(remaining, TOGETHER)):
        numbers, cells = zip(*some, strict=True)
        yield Block(numbers, list(cells))
