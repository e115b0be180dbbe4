"""Random changes of pictures against Pillow and NumPy; batches in an order that can be resumed."""

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from regard.data.pictures import augment
from regard.data.pictures.augment import Augment, erased, mixed, operated, shifted
from regard.data.pictures.batches import PictureStream
from regard.data.streams import Share

DRAWN = numpy.random.default_rng(0).integers(0, 200, size=(7, 9, 11, 3), dtype=numpy.uint8)
PICTURES = torch.from_numpy(DRAWN)


def applied(operation: augment.Operation, strength: float) -> numpy.ndarray:
    """What an operation makes of the pictures, as bytes."""
    found = operation(PICTURES.permute(0, 3, 1, 2).float(), torch.full((7,), strength))
    return augment._bytes(found).permute(0, 2, 3, 1).numpy()


@pytest.mark.parametrize(
    ("operation", "strength", "pillow"),
    [
        (augment.auto_contrast, 0.5, ImageOps.autocontrast),
        (augment.equalize, 0.5, ImageOps.equalize),
        (augment.solarize, 0.5, lambda image: ImageOps.solarize(image, 128)),
        (augment.posterize, 0.5, lambda image: ImageOps.posterize(image, 6)),
        (augment.brightness, 0.5, lambda image: ImageEnhance.Brightness(image).enhance(1.45)),
        (augment.contrast, -0.5, lambda image: ImageEnhance.Contrast(image).enhance(0.55)),
        (augment.colour, 0.5, lambda image: ImageEnhance.Color(image).enhance(1.45)),
        (augment.sharpness, -1.0, lambda image: ImageEnhance.Sharpness(image).enhance(0.1)),
    ],
)
def test_operations_on_values_are_those_of_pillow(operation, strength: float, pillow) -> None:  # type: ignore[no-untyped-def]
    wanted = numpy.stack([numpy.asarray(pillow(Image.fromarray(each))) for each in DRAWN])
    assert numpy.abs(applied(operation, strength).astype(int) - wanted).max() <= 1


def test_a_shift_moves_the_pixels_and_black_comes_in() -> None:
    moved = applied(augment.translate_x, 10 / 33)  # 0.6 s of half the width: one pixel
    assert numpy.abs(moved[:, :, :-1].astype(int) - DRAWN[:, :, 1:]).max() <= 1
    assert (moved[:, :, -1] == 0).all()
    moved = applied(augment.translate_y, -10 / 27)
    assert numpy.abs(moved[:, 1:].astype(int) - DRAWN[:, :-1]).max() <= 1


def test_a_rotation_is_that_of_pillow_in_the_middle() -> None:
    smooth = numpy.add.outer(numpy.arange(41) * 3, numpy.arange(31) * 2).astype(numpy.uint8)
    given = torch.from_numpy(smooth)[None, None].float()
    found = augment.rotate(given, torch.tensor([0.5]))[0, 0].numpy()
    wanted = numpy.asarray(Image.fromarray(smooth).rotate(15, Image.Resampling.BILINEAR)).astype(float)
    other = numpy.asarray(Image.fromarray(smooth).rotate(-15, Image.Resampling.BILINEAR)).astype(float)
    middle = (slice(12, 29), slice(10, 21))
    assert min(numpy.abs(found - each)[middle].max() for each in (wanted, other)) < 2


@pytest.mark.parametrize("operation", augment.OPERATIONS)
def test_strength_nothing_changes_nothing(operation: augment.Operation) -> None:
    if operation not in (augment.auto_contrast, augment.equalize):
        assert numpy.abs(applied(operation, 0.0).astype(int) - DRAWN).max() == 0


@given(most=st.integers(0, 3), flip=st.booleans(), seed=st.integers(0, 1000))
def test_shifted_pictures_are_parts_of_padded_ones(most: int, flip: bool, seed: int) -> None:
    found = shifted(PICTURES, most, numpy.random.default_rng(seed), flip=flip).numpy()
    padded = numpy.pad(DRAWN, ((0, 0), (most, most), (most, most), (0, 0)))
    for each, whole in zip(found, padded, strict=True):
        parts = [whole[r : r + 9, c : c + 11] for r in range(2 * most + 1) for c in range(2 * most + 1)]
        parts += [part[:, ::-1] for part in parts] if flip else []
        assert any(numpy.array_equal(each, part) for part in parts)


def test_half_of_the_pictures_are_flipped() -> None:
    many = PICTURES[:1].expand(4000, -1, -1, -1)
    found = shifted(many, 0, numpy.random.default_rng(0), flip=True)
    share = float((found == many.flip(2)).flatten(1).all(1).float().mean())
    assert 0.45 < share < 0.55


def test_rectangles_are_erased_in_a_share_of_the_pictures() -> None:
    white = torch.full((4000, 16, 16, 1), 255, dtype=torch.uint8)
    changed = (erased(white, 0.3, numpy.random.default_rng(0)) != 255)[..., 0]
    touched = changed.flatten(1).any(1)
    assert 0.27 < float(touched.float().mean()) < 0.33
    sizes = changed[touched].flatten(1).float().mean(1)
    assert float(sizes.max()) < 0.45
    assert float(sizes.min()) > 0.005


def test_mixed_pictures_are_the_sum_of_two_by_their_shares() -> None:
    wanted = torch.arange(7)
    found, labels, shares = mixed(PICTURES, wanted, 0.4, numpy.random.default_rng(0))
    sums = torch.stack(
        [
            sum((s * PICTURES[n].float() for n, s in zip(pair, share, strict=True)), torch.zeros(9, 11, 3))
            for pair, share in zip(labels.tolist(), shares.tolist(), strict=True)
        ]
    )
    assert float((found.float() - sums).abs().max()) <= 0.51
    assert torch.allclose(shares.sum(1), torch.ones(7))
    assert torch.equal(labels[:, 0], wanted)


def test_operations_differ_from_picture_to_picture_and_depend_on_the_seed() -> None:
    many = PICTURES[:1].expand(200, -1, -1, -1)
    found = operated(many, 8.0, numpy.random.default_rng(0))
    assert len(found.flatten(1).unique(dim=0)) > 10
    assert torch.equal(found, operated(many, 8.0, numpy.random.default_rng(0)))


EVERYTHING = Augment(flip=True, crop=2, operations=2, strength=6.0, erase=0.5, mixup=0.3)


def stream(**changes: object) -> PictureStream:
    settings = {"batch_size": 3, "seed": 5, "augment": EVERYTHING, **changes}
    return PictureStream(DRAWN, [0, 1, 2, 0, 1, 2, 0], **settings)  # type: ignore[arg-type]


def tensors(stream: PictureStream, epoch: int, position: int = 0) -> list[tuple[Tensor, ...]]:
    batches = stream.epoch(epoch, position=position)
    return [(each.pictures, each.wanted, each.shares) for each in batches if not each.idle]


def equal(one: list[tuple[Tensor, ...]], other: list[tuple[Tensor, ...]]) -> bool:
    return len(one) == len(other) and all(
        torch.equal(a, b) for left, right in zip(one, other, strict=True) for a, b in zip(left, right, strict=True)
    )


def test_an_epoch_goes_on_where_it_was_left() -> None:
    whole = tensors(stream(), 1)
    assert [len(each[0]) for each in whole] == [3, 3, 1]
    assert equal(tensors(stream(), 1, 1), whole[1:])
    assert not equal(tensors(stream(), 2), whole)
    assert not equal(tensors(stream(seed=6), 1), whole)


def test_every_picture_comes_once_for_all_processes() -> None:
    plain = Augment()
    for world in (1, 2, 3):
        parts = [tensors(stream(augment=plain, share=Share(rank, world)), 0) for rank in range(world)]
        seen = torch.cat([batch[0] for part in parts for batch in part])
        assert torch.equal(seen.flatten(1).unique(dim=0), PICTURES.permute(0, 3, 1, 2).flatten(1).unique(dim=0))
        assert len(seen) == 7


def test_validation_reads_all_in_order_and_unchanged() -> None:
    batches = list(stream().in_order())
    assert torch.equal(torch.cat([each.pictures for each in batches]), PICTURES.permute(0, 3, 1, 2))
    assert torch.cat([each.wanted for each in batches])[:, 0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert [each.targets for each in batches] == [3, 3, 1]


def test_the_checksum_changes_with_pixels_and_labels() -> None:
    other = DRAWN.copy()
    other[3, 0, 0, 0] += 1
    assert stream().checksum == stream().checksum
    assert PictureStream(other, stream().wanted, batch_size=3, seed=5).checksum != stream().checksum
    assert PictureStream(DRAWN, [1] * 7, batch_size=3, seed=5).checksum != stream().checksum
