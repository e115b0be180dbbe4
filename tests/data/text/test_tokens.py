"""A text as ids on disk: all of it, made once, made again when something changed."""

import numpy
import pytest

from regard.data.text import tokens
from regard.data.text.text import Text
from regard.data.text.tokens import pieces, tokenise
from regard.data.tokenizers import Tokenizer

WRITTEN = 'The cat sat.\n\n"On  the mat," she said – again!\n\tIndented line \nÉté 2 3 and more words \n' * 7
SURVIVING = ("characters", "bytes", "byte_bpe", "bpe", "unigram")


@pytest.fixture
def text(tmp_path):
    (tmp_path / "a.txt").write_text(WRITTEN, encoding="utf-8", newline="")
    return Text((str(tmp_path / "a.txt"),))


def learned(kind):
    return Tokenizer.train([WRITTEN], kind=kind, vocabulary=300)


@pytest.mark.parametrize("kind", [*SURVIVING, "words"])
@pytest.mark.parametrize("longest", [30, 101])
def test_pieces_give_the_ids_of_the_whole_text(text, kind, longest):
    tokenizer = learned(kind)
    found = list(pieces(text, tokenizer, longest=longest))
    assert len(found) > 3
    assert sum(length for length, _ in found) == len(WRITTEN)
    ids = [token for _, piece in found for token in tokenizer.encode([piece])[0]]
    assert ids == tokenizer.encode([WRITTEN])[0]


@pytest.mark.parametrize("kind", SURVIVING)
def test_every_character_survives(text, kind, tmp_path):
    tokenizer = learned(kind)
    found = tokenise(text, tokenizer, folder=tmp_path / "new", name="train")
    assert tokenizer.decode([found.ids.tolist()]) == [WRITTEN]
    assert (found.characters, found.unknown) == (len(WRITTEN), 0)


def test_line_ends_are_words_of_their_own(text, tmp_path):
    tokenizer = learned("words")
    found = tokenise(text, tokenizer, folder=tmp_path, name="train")
    apart = [word for word in WRITTEN.replace("\n", " \n ").split(" ") if word]
    assert tokenizer.decode([found.ids.tolist()]) == [" ".join(apart)]


def test_ids_are_mapped_and_used_again_until_something_changes(text, tmp_path, monkeypatch):
    tokenizer = learned("characters")
    first = tokenise(text, tokenizer, folder=tmp_path, name="train")
    assert isinstance(first.ids, numpy.memmap)
    assert first.ids.dtype == numpy.uint16
    with monkeypatch.context() as patched:
        patched.setattr(tokens, "pieces", lambda *_, **__: pytest.fail("made again"))
        again = tokenise(text, tokenizer, folder=tmp_path, name="train")
    assert (again.ids == first.ids).all()
    assert (again.checksum, again.characters) == (first.checksum, first.characters)
    other = tokenise(Text(text.files, end=50), tokenizer, folder=tmp_path, name="train")
    assert len(other) == 50
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "train.json", "train.npy"]


def test_damaged_ids_are_made_again(text, tmp_path):
    tokenizer = learned("characters")
    first = tokenise(text, tokenizer, folder=tmp_path, name="train").ids.tolist()
    with (tmp_path / "train.npy").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert tokenise(text, tokenizer, folder=tmp_path, name="train").ids.tolist() == first


def test_unknown_tokens_are_counted(tmp_path):
    (tmp_path / "a.txt").write_text("cat dog cat", encoding="utf-8")
    tokenizer = Tokenizer.train(["cat"], kind="words", vocabulary=9)
    found = tokenise(Text((str(tmp_path / "a.txt"),)), tokenizer, folder=tmp_path, name="valid")
    assert (len(found), found.unknown) == (3, 1)
    assert "1 of them unknown" in str(found)
