"""Plain text: what is read, what is held out, and what is refused."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.text.text import Text, hold_out_the_end, open_text, read_text
from regard.errors import RegardError

PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\ufeff"), min_size=1)


def test_everything_is_read_but_the_mark_and_returns_before_line_ends(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf one\r\n\r\ntwo\xe2\x80\xa8\tthree \n\n")
    assert "".join(read_text(str(tmp_path / "a.txt"))) == " one\n\ntwo\u2028\tthree \n\n"


def test_a_return_at_the_border_of_two_pieces_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.data.text.text.READ", 3)
    (tmp_path / "a.txt").write_bytes(b"ab\r\ncd\ref\r")
    assert "".join(read_text(str(tmp_path / "a.txt"))) == "ab\ncd\ref\r"


def test_packed_files_and_several_files_follow_one_another(tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"two"))
    text = open_text([str(tmp_path / "a.txt"), str(tmp_path / "b.txt.gz")], key="data.train")
    assert "".join(text) == "one\ntwo"


def test_the_end_of_the_text_is_held_out(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.data.text.text.READ", 7)
    whole = "".join(chr(97 + number % 26) for number in range(101))
    (tmp_path / "a.txt").write_text(whole[:50])
    (tmp_path / "b.txt").write_text(whole[50:])
    train, valid = hold_out_the_end(Text((str(tmp_path / "a.txt"), str(tmp_path / "b.txt"))), share=0.3)
    assert ("".join(train), "".join(valid)) == (whole[:70], whole[70:])


@given(PLAIN, st.integers(1, 40))
def test_pieces_are_short_and_together_the_text(tmp_path_factory, written, longest):
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_text(written, encoding="utf-8", newline="")
    pieces = list(Text((str(path),)).cuts(longest))
    assert "".join(pieces) == written
    assert all(0 < len(piece) <= longest for piece in pieces)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"a" * 9000 + b"\0", "NUL byte"),
        (b"a\0b", "is a binary file"),
        (b"abc \xe4 de", "is not UTF-8 (byte 0xe4"),
        ("text".encode("utf-16"), "is UTF-16"),
        (b"a", "too few to hold some out"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path, content, told):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(RegardError) as error:
        hold_out_the_end(open_text(str(tmp_path / "a.txt"), key="data.train"), share=0.1)
    assert told in str(error.value)
    assert "a.txt" in str(error.value)


def test_a_missing_key_is_named():
    with pytest.raises(RegardError, match=r"data\.train is missing"):
        open_text(None, key="data.train")
