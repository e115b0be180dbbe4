from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator

import pytest

from regard.commands import lines
from regard.commands.lines import LARGEST, arriving, typed
from regard.errors import RegardError

TEXT = "one\n\nthree\u2028 is one line\r\nfour\rtoo\nlast"
LINES = ["one", "", "three\u2028 is one line", "four\rtoo", "last"]


@pytest.fixture
def pipe() -> Iterator[tuple[int, io.BufferedReader]]:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        yield writing, stream


def test_a_file_is_one_group(tmp_path):
    (tmp_path / "lines.txt").write_bytes(TEXT.encode())
    with (tmp_path / "lines.txt").open("rb") as stream:
        assert [list(group) for group in arriving(stream)] == [LINES]
    assert [list(group) for group in arriving(io.BytesIO(TEXT.encode()))] == [LINES]


def test_what_is_in_a_pipe_does_not_wait_for_what_is_not(pipe):
    writing, stream = pipe
    groups = arriving(stream)
    os.write(writing, b"first\nsecond\nthi")
    assert list(next(groups)) == ["first", "second"]
    os.write(writing, b"rd\n")
    assert list(next(groups)) == ["third"]
    os.write(writing, b"the end")
    os.close(writing)
    assert [list(group) for group in groups] == [["the end"]]


def test_a_line_is_answered_at_once_and_more_is_awaited_after_whole_blocks_alone(pipe, monkeypatch):
    writing, stream = pipe
    awaited = []
    monkeypatch.setattr(lines.select, "select", lambda *given: (awaited.append(given[3]), ([], [], []))[1])
    groups = arriving(stream)
    os.write(writing, b"one line\nand another\n")
    assert list(next(groups)) == ["one line", "and another"]
    assert awaited == []
    os.write(writing, b"x" * lines.BLOCK + b"\n")
    assert list(next(groups)) == ["x" * lines.BLOCK]
    assert awaited == [lines.PAUSE]
    os.close(writing)


def test_a_pipe_has_the_lines_of_the_file(pipe):
    writing, stream = pipe
    whole = (TEXT + "\n").encode() * 2000 + b"x" * (LARGEST + 1) + b"\n"

    def write() -> None:
        with os.fdopen(writing, "wb") as sink:
            sink.write(whole)

    writer = threading.Thread(target=write)
    writer.start()
    found = [line for group in arriving(stream) for line in group]
    writer.join()
    assert found == LINES * 2000 + ["x" * (LARGEST + 1)]


def test_lines_are_counted_through_all_groups(pipe):
    writing, stream = pipe
    groups = arriving(stream)
    os.write(writing, b"one\ntwo\n")
    assert list(next(groups)) == ["one", "two"]
    os.write(writing, b"three\n\xff\n")
    with pytest.raises(RegardError, match="line 4 of standard input is not UTF-8"):
        list(next(groups))
    os.close(writing)


def test_a_byte_order_mark_at_the_beginning_is_no_text():
    assert [list(group) for group in arriving(io.BytesIO("\ufeffone\ntwo\ufeff".encode()))] == [["one", "two\ufeff"]]


def test_a_line_without_an_end_is_refused(pipe, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST", 1000)
    with pytest.raises(RegardError, match="line 2 of standard input has more than"):
        [list(group) for group in arriving(io.BytesIO(b"one\n" + b"x" * 1001))]
    writing, stream = pipe
    os.write(writing, b"one\n" + b"x" * 1001)  # and it stays open
    with pytest.raises(RegardError, match="line 2 of standard input has more than"):
        [list(group) for group in arriving(stream)]
    os.close(writing)


@pytest.mark.parametrize("argument", ["é", "w1"])
def test_a_text_of_the_command_line_is_utf_8_whatever_the_locale(argument):
    assert typed(os.fsdecode(argument.encode())) == argument
    with pytest.raises(RegardError, match="is not UTF-8"):
        typed(os.fsdecode(b"\xff"))
