"""Pictures with captions: what files may hold, what is refused with file and row, and batches that begin again."""

import json
from pathlib import Path

import numpy
import pytest
import torch
from PIL import Image

from regard.data.captions.batches import CaptionStream
from regard.data.captions.examples import Captioned, CaptionsData, Columns, looks_of, open_splits, pixels, read_captions
from regard.data.made import drawn
from regard.data.pictures.frames import Frame, Looks
from regard.data.streams import Share
from regard.errors import RegardError
from regard.special import OWN

FRAME = Frame(8, 8, 3)
SCENE = "scene:red circle 14 20 11, blue square 37 24 6"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four pictures of one colour each, with one or two captions."""
    lines = []
    for number, colour in enumerate(["red", "green", "blue", "white"]):
        Image.new("RGB", (10 + number, 8), colour).save(tmp_path / f"{number}.png")
        lines += [f"{number}.png\ta {colour} picture", f"{number}.png#1\t{colour}  everywhere"][: 1 + number % 2]
    (tmp_path / "captions.tsv").write_text("\n".join(lines) + "\n\n")
    return tmp_path


def test_a_picture_has_all_its_captions(folder: Path) -> None:
    found = read_captions(str(folder), Columns(), key="data.train")
    assert found == read_captions(str(folder / "captions.tsv"), Columns(), key="data.train")
    assert [Path(line).name for line in found.lines] == ["0.png", "1.png", "2.png", "3.png"]
    assert found.captions[1] == ("a green picture", "green everywhere")
    shown = found.pixels(FRAME)
    assert shown.shape == (4, 8, 8, 3)
    assert (shown[2] == (0, 0, 255)).all()
    assert found.pixels(FRAME) is shown
    assert set(looks_of(found.lines)) == {Looks(8, 10 + number, 3) for number in range(4)}
    assert found.things() == []


def test_other_forms_have_named_columns(folder: Path) -> None:
    rows = [{"image": f"{number}.png", "sentence": f"caption {number}"} for number in range(3)]
    (folder / "some.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "some.csv").write_text('n,path,caption\n7,0.png,"one, two"\n')
    (folder / "odd.csv").write_text("what,where\nthis,0.png\n")
    assert read_captions(str(folder / "some.jsonl"), Columns(), key="x").captions[2] == ("caption 2",)
    assert read_captions(str(folder / "some.csv"), Columns(), key="x").captions == (("one, two",),)
    odd = Columns(picture="where", caption="what")
    assert read_captions(str(folder / "odd.csv"), odd, key="x").captions == (("this",),)


def test_drawn_pictures_and_files_may_stand_together(folder: Path) -> None:
    lines = [str(folder / "0.png"), SCENE, str(folder / "3.png")]
    frame = Frame(drawn.SIZE, drawn.SIZE, 3)
    found = pixels(lines, frame)
    assert (found[1] == drawn.pictures([SCENE.removeprefix("scene:")])[0]).all()
    assert (found[0] == (255, 0, 0)).all()
    assert pixels([SCENE], FRAME).shape == (1, 8, 8, 3)
    assert len(Captioned((SCENE,), (("x",),)).things()[0]) == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("9.png\ta caption", r"captions.tsv:7 names .*9.png, which is not a file; correct the path"),
        ("0.png\t", "captions.tsv:7 has no caption; fill it in"),
        ("\ta caption", "captions.tsv:7 has no path of a picture"),
        ("0.png", "captions.tsv:7 has no tab"),
    ],
)
def test_a_row_that_is_wrong_is_named(folder: Path, line: str, told: str) -> None:
    with (folder / "captions.tsv").open("a") as file:
        file.write(line + "\n")
    (folder / "captions.tsv").write_text((folder / "captions.tsv").read_text().replace("\n\n", "\n", 1))
    with pytest.raises(RegardError, match=told):
        read_captions(str(folder), Columns(), key="data.train")


def test_what_holds_no_captions_is_refused(folder: Path) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(RegardError, match="has no captions; put a file captions"):
        read_captions(str(folder / "empty"), Columns(), key="data.train")
    with pytest.raises(RegardError, match=r"data\.test is missing"):
        read_captions(None, Columns(), key="data.test")
    (folder / "blank.tsv").write_text("\n\n")
    with pytest.raises(RegardError, match=r"data\.test = .* has no captions; name another file"):
        read_captions(str(folder / "blank.tsv"), Columns(), key="data.test")
    (folder / "1.png").write_bytes(b"no picture")
    with pytest.raises(RegardError, match=r"1\.png"):
        read_captions(str(folder), Columns(), key="data.train").pixels(FRAME)


def test_held_out_pictures_keep_their_captions(folder: Path) -> None:
    splits = open_splits(CaptionsData(train=str(folder), hold_out=2), seed=3)
    assert not set(splits.train.lines) & set(splits.valid.lines)
    assert len(splits.train) + len(splits.valid) == 4
    for part in (splits.train, splits.valid):
        for line, captions in zip(part.lines, part.captions, strict=True):
            assert len(captions) == 1 + int(Path(line).stem) % 2


def stream(rank: int = 0, world: int = 1) -> CaptionStream:
    pictures = numpy.random.default_rng(0).integers(0, 255, (5, 4, 6, 3), dtype=numpy.uint8)
    captions = [[4 + number] * (1 + number % 3) for number in range(11)]
    owners = [number % 5 for number in range(11)]
    return CaptionStream(pictures, captions, owners, batch_size=3, seed=7, special=OWN, share=Share(rank, world))


def test_a_batch_has_the_pictures_of_its_captions() -> None:
    made = stream()
    for batch in made.in_order():
        for row, picture, target in zip(batch.rows, batch.pictures, batch.target.tolist(), strict=True):
            assert torch.equal(picture, torch.from_numpy(made.pictures[row % 5]).permute(2, 0, 1))
            wanted = [OWN.bos, *[4 + row] * (1 + row % 3), OWN.eos]
            assert target == wanted + [OWN.pad] * (len(target) - len(wanted))
        assert batch.targets == int((batch.target[:, 1:] != OWN.pad).sum())
    assert made.describe() == ["5 colour pictures of 6 × 4 pixels, 11 captions"]


def test_every_caption_comes_once_in_an_epoch_and_an_epoch_goes_on_where_it_was_left() -> None:
    whole = [batch.rows for batch in stream().epoch(2)]
    assert sorted(row for rows in whole for row in rows) == list(range(11))
    assert [batch.rows for batch in stream().epoch(2, position=2)] == whole[2:]
    assert [batch.rows for batch in stream().epoch(3)] != whole
    shared = [row for rank in range(2) for batch in stream(rank, 2).epoch(2) for row in batch.rows if not batch.idle]
    assert sorted(shared) == list(range(11))
    other = stream()
    other.pictures = other.pictures.copy()
    other.pictures[4, 3, 5, 2] ^= 1
    assert stream().checksum == stream().checksum != other.checksum
