"""Picture files of every form become the pixels of one frame; what cannot be read is refused by name."""

import os
import warnings
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import numpy
import pytest
from PIL import Image

from regard.data.pictures import reading
from regard.data.pictures.frames import Frame, Looks, frame_for
from regard.data.pictures.reading import looks_of, quietly, read_picture
from regard.errors import RegardError

COLOURS, GREY = Frame(4, 6, 3), Frame(4, 6, 1)


def drawn(rows: int = 4, columns: int = 6) -> numpy.ndarray:
    return numpy.random.default_rng(0).integers(0, 256, size=(rows, columns, 3), dtype=numpy.uint8)


def saved(image: Image.Image, form: str = "PNG", **options: object) -> bytes:
    file = BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF", "PPM"])
def test_forms_without_loss_are_read_to_the_byte(form: str) -> None:
    assert numpy.array_equal(read_picture(saved(Image.fromarray(drawn()), form), "x", COLOURS), drawn())


def test_a_jpeg_is_close(tmp_path: Path) -> None:
    smooth = numpy.broadcast_to(numpy.linspace(0, 255, 64).astype(numpy.uint8)[:, None, None], (64, 64, 3))
    Image.fromarray(smooth.copy()).save(tmp_path / "x.jpg", quality=95)
    found = read_picture(tmp_path / "x.jpg", "x", Frame(64, 64, 3))
    assert numpy.abs(found.astype(int) - smooth).max() <= 4


def test_every_mode_becomes_the_channels_that_are_wanted() -> None:
    colours = Image.fromarray(drawn())
    grey = numpy.asarray(colours.convert("L"))
    assert numpy.array_equal(read_picture(saved(colours), "x", GREY)[:, :, 0], grey)
    of_grey = read_picture(saved(colours.convert("L")), "x", COLOURS)
    assert all(numpy.array_equal(of_grey[:, :, channel], grey) for channel in range(3))
    palette = colours.quantize(200)
    assert numpy.array_equal(read_picture(saved(palette), "x", COLOURS), numpy.asarray(palette.convert("RGB")))
    inks = colours.convert("CMYK")
    assert numpy.array_equal(read_picture(saved(inks, "TIFF"), "x", COLOURS), numpy.asarray(inks.convert("RGB")))
    bits = colours.convert("1")
    assert numpy.array_equal(read_picture(saved(bits), "x", GREY)[:, :, 0], numpy.asarray(bits.convert("L")))


def test_sixteen_bits_become_eight() -> None:
    deep = numpy.array([[0, 257, 128 * 257], [65535, 300, 255]], dtype=numpy.uint16)
    found = read_picture(saved(Image.fromarray(deep)), "x", Frame(2, 3, 1))
    assert found[:, :, 0].tolist() == [[0, 1, 128], [255, 1, 0]]


def test_transparent_parts_are_white() -> None:
    pixels = numpy.dstack([drawn(), numpy.full((4, 6), 255, dtype=numpy.uint8)])
    pixels[0, 0] = (10, 20, 30, 0)
    found = read_picture(saved(Image.fromarray(pixels)), "x", COLOURS)
    assert found[0, 0].tolist() == [255, 255, 255]
    assert numpy.array_equal(found[1:], drawn()[1:])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_rotation_of_a_camera_is_applied(orientation: int) -> None:
    moves = {2: lambda x: x[:, ::-1], 3: lambda x: x[::-1, ::-1], 4: lambda x: x[::-1], 5: lambda x: x.swapaxes(0, 1)}
    moves |= {6: lambda x: numpy.rot90(x, -1), 7: lambda x: x[::-1, ::-1].swapaxes(0, 1), 8: lambda x: numpy.rot90(x)}
    exif = Image.Exif()
    exif[reading.ROTATION] = orientation
    content = saved(Image.fromarray(drawn()), exif=exif)
    wanted = moves.get(orientation, lambda x: x)(drawn())
    looks = looks_of(content, "x")
    assert looks == Looks(*wanted.shape)
    assert numpy.array_equal(read_picture(content, "x", Frame(*looks)), wanted)


def test_another_size_is_cropped_in_the_middle_or_stretched() -> None:
    wide = numpy.zeros((10, 30, 3), dtype=numpy.uint8)
    wide[:, 10:20] = 200
    content = saved(Image.fromarray(wide))
    assert (read_picture(content, "x", Frame(10, 10, 3)) == 200).all()
    stretched = read_picture(content, "x", Frame(10, 10, 3, "stretch"))
    assert stretched[:, 0].max() == 0
    assert stretched[:, 5].min() == 200
    assert numpy.array_equal(
        stretched, numpy.asarray(Image.fromarray(wide).resize((10, 10), Image.Resampling.BILINEAR))
    )


def test_a_large_jpeg_is_decoded_at_a_fraction_and_without_a_warning(tmp_path: Path) -> None:
    Image.new("RGB", (12_000, 9_000), (200, 30, 30)).save(tmp_path / "large.jpg")  # 108 megapixels
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with quietly():
            found = read_picture(tmp_path / "large.jpg", "large.jpg", Frame(32, 32, 3))
            assert looks_of(tmp_path / "large.jpg", "large.jpg")[:2] == (9_000, 12_000)
    assert numpy.abs(found.astype(int) - [200, 30, 30]).max() <= 3


def test_too_large_a_picture_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST", 23)
    with pytest.raises(RegardError, match=r"far\.png is larger than"):
        read_picture(saved(Image.fromarray(drawn())), "far.png", COLOURS)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF", "GIF", "WEBP", "BMP"])
def test_a_file_that_was_cut_off_is_refused_by_name(form: str) -> None:
    whole = saved(Image.fromarray(drawn(60, 60)), form)
    with pytest.raises(RegardError, match=r"my\.file"):
        read_picture(whole[: len(whole) * 2 // 3], "my.file", COLOURS)


@pytest.mark.parametrize("seed", range(40))
def test_damage_is_a_sentence_or_a_picture(seed: int) -> None:
    generator = numpy.random.default_rng(seed)
    form = ["PNG", "JPEG", "TIFF", "GIF", "BMP"][seed % 5]
    content = bytearray(saved(Image.fromarray(drawn(30, 30)), form))
    for at in generator.integers(0, len(content), size=12):
        content[at] = generator.integers(0, 256)
    with quietly(), suppress(RegardError):
        assert read_picture(bytes(content), "my.file", COLOURS).shape == (4, 6, 3)


def test_what_is_no_picture_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "note.png").write_text("hello")
    with pytest.raises(RegardError, match=r"note\.png is not a picture"):
        read_picture(tmp_path / "note.png", "note.png", COLOURS)
    with pytest.raises(RegardError, match="does not exist"):
        read_picture(tmp_path / "no.png", "no.png", COLOURS)
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(RegardError, match=r"pipe\.png is a pipe or a device"):
        read_picture(tmp_path / "pipe.png", "pipe.png", COLOURS)
    with pytest.raises(RegardError, match="is a folder"):
        read_picture(tmp_path, "here", COLOURS)
    with pytest.raises(RegardError, match="floating-point"):
        read_picture(saved(Image.new("F", (3, 3)), "TIFF"), "x.tif", COLOURS)


def test_the_frame_is_the_size_of_all_or_a_square() -> None:
    assert frame_for([Looks(5, 7, 1)] * 3, size=None, channels=None) == Frame(5, 7, 1)
    assert frame_for([Looks(5, 7, 1), Looks(5, 7, 3)], size=None, channels=None) == Frame(5, 7, 3)
    assert frame_for([Looks(5, 7, 1), Looks(7, 5, 1)], size=None, channels=None) == Frame(64, 64, 1)
    assert frame_for([Looks(5, 7, 3)], size=[8, 9], channels=1) == Frame(8, 9, 1)
    assert frame_for([Looks(5, 7, 3)], size=8, channels=None, fit="stretch") == Frame(8, 8, 3, "stretch")
    with pytest.raises(RegardError, match=r"data\.size"):
        frame_for([Looks(5000, 7000, 3)], size=None, channels=None)
    with pytest.raises(RegardError, match=r"data\.size"):
        frame_for([Looks(5, 7, 3)], size=[1, 2, 3], channels=None)
