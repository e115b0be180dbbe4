"""Laws of the kinds that see pictures, and one tiny run of each from files to answers, records and resumed weights."""

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.testing import assert_close

import regard
from regard import models, recipes
from regard.attention.recorder import recording
from regard.errors import RegardError
from regard.models.facts import Grid
from regard.tasks.modules import DrawsPlaces, SeesPictures

SMALL: dict[str, dict[str, Any]] = {
    "swin": {"width": 12, "layers": [2, 1], "heads": [2, 3], "window": 3},
    "non_local": {"width": 8, "layers": [1, 2], "look": [1, 2], "pool": True},
    "local_attention": {"width": 8, "layers": [1, 2], "heads": 2, "extent": 3},
    "glimpse": {"width": 24, "glimpses": 3, "patch": 4, "paths": 2},
}
EVERY = pytest.mark.parametrize("kind", SMALL)


def tiny(kind: str, *, rows: int = 13, columns: int = 10, **more: Any) -> Any:
    torch.manual_seed(0)
    config = models.config_class(kind)(**{**SMALL[kind], "dropout": 0.0, **more})
    return models.from_config(config, channels=2, rows=rows, columns=columns, outputs=3).eval()


def pictures(number: int = 3, *, rows: int = 13, columns: int = 10) -> Tensor:
    return torch.randn(number, 2, rows, columns, generator=torch.Generator().manual_seed(1))


def awake(model: Any) -> Any:
    """The model with numbers in what starts at zero."""
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(std=0.5)
    return model


@EVERY
def test_a_picture_alone_has_the_logits_that_it_has_in_a_batch(kind: str) -> None:
    model, x = awake(tiny(kind)), pictures()
    assert isinstance(model, SeesPictures)
    assert isinstance(model, DrawsPlaces) == (kind == "glimpse")
    assert model(x).shape == (3, 3)
    assert_close(model(x), torch.cat([model(x[row : row + 1]) for row in range(3)]), atol=1e-5, rtol=1e-5)


@EVERY
def test_every_weight_learns(kind: str) -> None:
    model = awake(tiny(kind, **({"stochastic_depth": 0.0} if kind == "swin" else {}))).train()
    drawn = model.drawn(pictures()) if kind == "glimpse" else None
    losses = (model(pictures()) if drawn is None else drawn.logits).square().sum(1)
    (losses.sum() if drawn is None else losses.sum() + drawn.surrogate(losses)).backward()
    still = {name for name, each in model.named_parameters() if each.grad is None or not each.grad.any()}
    assert {name for name in still if not name.endswith("key.bias")} == set()  # it adds the same to a whole softmax


@EVERY
def test_weights_are_on_the_grids_that_the_kind_names(kind: str) -> None:
    model, x = awake(tiny(kind)), pictures()
    with recording(model) as seen:
        watched = model(x)
    assert_close(watched, model(x), atol=1e-5, rtol=1e-5)
    grids = model.grids()
    sizes = {name: len(grid.extra) + grid.rows * grid.columns for name, grid in grids.items()}
    assert model.alignment in seen
    assert "source" in {side for path in seen for side in model.looks(path)}
    for path in seen:
        query, key = model.looks(path)
        assert seen[path].shape[2:] == (sizes[query], sizes[key])
        assert (seen[path] >= 0).all()
        assert (seen[path].sum(-1) < 1.0001).all()


def test_the_grids_of_each_kind() -> None:
    assert tiny("swin").grids() == {"source": Grid(7, 5), "4 × 3 places": Grid(4, 3)}
    found = {"source": Grid(13, 10), "7 × 5 places": Grid(7, 5), "4 × 3 places": Grid(4, 3)}
    assert tiny("non_local").grids() == found
    assert tiny("non_local").looks("blocks.1") == ("source", "7 × 5 places")
    assert tiny("local_attention").grids() == {"source": Grid(7, 5), "4 × 3 places": Grid(4, 3)}
    assert tiny("local_attention").looks("blocks.1.spatial") == ("source", "source")  # it looks before it is halved


def test_a_place_of_swin_looks_only_at_its_window() -> None:
    model = tiny("swin", rows=12, columns=12, layers=[2], heads=[2])
    with recording(model) as seen:
        model(pictures(1, rows=12, columns=12))
    at = torch.arange(36)
    row, column = at // 6, at % 6

    def together(shift: int) -> Tensor:
        """Pairs in the same window, where windows begin `shift` places later and end at the edges."""
        rows, columns = (row + 3 - shift) // 3, (column + 3 - shift) // 3
        return (rows.unsqueeze(1) == rows) & (columns.unsqueeze(1) == columns)

    assert torch.equal(seen["blocks.0.attention"][0, 0] > 0, together(0))
    assert torch.equal(seen["blocks.1.attention"][0, 0] > 0, together(1))


@pytest.mark.parametrize(
    ("kind", "settings", "told"),
    [
        ("swin", {"layers": [2, 2, 2]}, "one number for each stage"),
        ("swin", {"heads": [2, 5]}, "does not divide its width 24"),
        ("non_local", {"look": [3]}, "has 2 stages"),
        ("local_attention", {"heads": 3}, "heads = 3 must divide"),
    ],
)
def test_impossible_settings_are_refused(kind: str, settings: dict[str, Any], told: str) -> None:
    with pytest.raises((RegardError, ValueError), match=told):
        tiny(kind, **settings)


# from files to answers

TRAINING = ["training.steps=40", "training.batch_size=16", "training.learning_rate=5e-3", "training.warmup=5"]
TRAINING += ["training.validate_every=40", "training.checkpoint_every=3", "data.hold_out=6", "data.augment.flip=true"]


def squares(folder: Path) -> Path:
    """Bright or dark squares on grey; which of them is the label."""
    generator = numpy.random.default_rng(0)
    for label, light in (("bright", 250), ("dark", 5)):
        (folder / label).mkdir(parents=True)
        for number in range(20):
            pixels = generator.integers(100, 150, size=(12, 12), dtype=numpy.uint8)
            row, column = generator.integers(0, 7, size=2)
            pixels[row : row + 5, column : column + 5] = light
            Image.fromarray(pixels).save(folder / label / f"{number}.png")
    return folder


def recipe(kind: str, folder: Path, *more: str) -> Any:
    text = f'task = "see"\n[data]\ntrain = "{folder}"\n[model]\nkind = "{kind}"\n'
    sizes = [f"model.{name}={str(size).lower()}" for name, size in SMALL[kind].items()]
    return recipes.parse(text, where="test", changes=[*sizes, *TRAINING, *more])


@EVERY
def test_from_files_to_answers_and_records(kind: str, tmp_path: Path) -> None:
    folder = squares(tmp_path / "squares")
    model = regard.train(recipe(kind, folder), out=tmp_path / "model")
    assert model.evaluate(str(folder))["accuracy"].value > 90
    again = regard.load(model.path)
    assert again(folder / "dark" / "3.png") == model(folder / "dark" / "3.png")
    record = again.look(folder / "bright" / "2.png")
    assert record.sides["source"].kind == "patches"
    assert [each.name for each in record.maps].count(str(again.module.alignment)) == 1
    for each in record.maps:
        assert each.weights.shape[1:] == (len(record.sides[each.query].items), len(record.sides[each.key].items))
    if kind == "glimpse":
        assert record.sides["glimpses"].kind == "steps"
        assert record.sides["glimpses"].items == ("glimpse 1", "glimpse 2", "glimpse 3")
    record.save(tmp_path / "look.html")


@EVERY
def test_a_run_that_is_resumed_ends_with_the_same_weights(kind: str, tmp_path: Path) -> None:
    folder = squares(tmp_path / "squares")

    def weights(name: str, steps: int) -> bytes:
        changes = (f"training.steps={steps}", "training.validate_every=0", "training.schedule=constant")
        regard.train(recipe(kind, folder, *changes), out=tmp_path / name)
        return (tmp_path / name / "weights.safetensors").read_bytes()

    assert weights("one", 4) != weights("one", 6)
    assert weights("one", 6) == weights("other", 6)


def test_another_kind_in_a_bundled_recipe_has_its_own_settings() -> None:
    told: list[str] = []
    found = recipes.load("cifar10", ["model.kind=swin", "model.window=4"], tell=told.append)
    assert found.model == models.config_class("swin")(window=4)
    assert any('for kind = "vit" and is not used' in each for each in told)
    told.clear()
    same = recipes.load("cifar10", ["model.kind=vit"], tell=told.append)
    assert same.model == recipes.load("cifar10").model
    assert told == []
