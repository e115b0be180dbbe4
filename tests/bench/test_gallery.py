"""The gallery: every entry has its picture, small, and its commands are those that the command line takes."""

import io
from pathlib import Path

import pytest
from PIL import Image

from bench import gallery
from bench.gallery.data import TAGS, sentences, write_files
from bench.gallery.table import GALLERY, Picture
from regard import recipes

ROOT = Path(gallery.__file__).parent.parent.parent
EVERY = [picture for pictures in GALLERY.values() for picture in pictures]
LARGEST = 60_000  # bytes


@pytest.mark.parametrize("picture", EVERY, ids=lambda picture: picture.name)
def test_every_picture_is_there_and_small(picture: Picture):
    path = ROOT / gallery.OUT / f"{picture.name}.png"
    assert path.stat().st_size <= LARGEST
    with Image.open(path) as image:
        assert 200 <= image.width <= gallery.WIDEST


def test_names_are_unique_and_no_picture_is_left_over():
    names = [picture.name for picture in EVERY]
    assert len(set(names)) == len(names)
    assert {path.stem for path in (ROOT / gallery.OUT).glob("*.png")} == set(names)


@pytest.mark.parametrize("picture", EVERY, ids=lambda picture: picture.name)
def test_what_a_command_trains_is_a_recipe_and_what_it_draws_is_the_picture(
    picture: Picture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(ROOT)
    assert picture.shown
    for command in picture.commands:
        words = gallery.words_of(command)
        if words[1] == "train":
            recipes.load(words[2], [words[at + 1] for at, word in enumerate(words) if word == "--set"])
    if picture.draw is None:
        assert picture.commands[-1].endswith(f"-o docs/gallery/{picture.name}.png")


def test_the_page_is_what_the_table_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    assert gallery.PAGE.read_text("utf-8") == gallery.page()


def test_the_files_say_what_the_sentences_say(tmp_path: Path):
    write_files(tmp_path)
    first = sentences()[0]
    lines = {
        name: (tmp_path / name).read_text("utf-8").splitlines() for name in ("labels.tsv", "tags.tsv", "pairs.tsv")
    }
    assert lines["labels.tsv"][0] == f"{first.text}\t{first.subject}"
    assert lines["tags.tsv"][: len(TAGS)] == [
        f"{word}\t{tag}" for word, tag in zip(first.text.split(), TAGS, strict=True)
    ]
    for line in lines["pairs.tsv"][:50]:
        one, other, label = line.split("\t")
        assert (one.split()[2] == other.split()[2]) == (label == "same")


def test_a_picture_is_made_small():
    written = io.BytesIO()
    Image.effect_noise((2000, 100), 50).save(written, "PNG")
    with Image.open(io.BytesIO(gallery.small(written.getvalue()))) as image:
        assert image.size == (gallery.WIDEST, 45)
        assert len(image.getcolors() or []) <= gallery.COLOURS
