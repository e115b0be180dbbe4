"""Pictures to labels: the loss by its equation, and a tiny model from files to answers, records and resumed weights."""

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

import regard
from regard import recipes
from regard.commands.run import run
from regard.data.pictures.batches import PictureBatch
from regard.errors import RegardError
from regard.recipes.own_data import recipe_for
from regard.tasks.base import RunOptions
from regard.tasks.see import Measured, See

RECIPE = """
task = "see"
[data]
train = "{folder}"
hold_out = 8
[data.augment]
flip = true
crop = 1
[model]
kind = "vit"
patch = "conv"
convolutions = 2
first = 8
layers = 1
width = 16
heads = 2
hidden = 16
pooling = "attention"
dropout = 0.0
[training]
steps = 120
batch_size = 16
learning_rate = 1e-2
warmup = 10
schedule = "cosine"
optimiser = "adamw"
validate_every = 60
checkpoint_every = 60
label_smoothing = 0.05
"""
COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (50, 60, 210)}


def draw(folder: Path, count: int = 20, size: int = 12) -> Path:
    """Squares of a colour on noise; the colour is the label."""
    generator = numpy.random.default_rng(0)
    for label, colour in COLOURS.items():
        (folder / label).mkdir(parents=True)
        for number in range(count):
            pixels = generator.integers(0, 120, size=(size, size, 3), dtype=numpy.uint8)
            row, column = generator.integers(0, size - 5, size=2)
            pixels[row : row + 5, column : column + 5] = colour
            Image.fromarray(pixels).save(folder / label / f"{number}.png")
    return folder


def recipe(folder: Path, *changes: str) -> Any:
    return recipes.parse(RECIPE.format(folder=folder), where="test", changes=changes)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("see")
    return regard.train(recipe(draw(path / "squares")), out=path / "model"), path


def task_of(**changes: Any) -> See:
    measured = {"rows": 2, "columns": 2, "channels": 1, "mean": [0.5], "deviation": [0.25]}
    return See(("a", "b", "c"), Measured.model_validate(measured), **changes)


def test_the_loss_is_the_cross_entropy_of_all_labels_by_their_shares() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    pictures = torch.randint(0, 256, (5, 1, 2, 2), dtype=torch.uint8)
    wanted, shares = torch.tensor([[0, 1], [1, 1], [2, 0], [0, 2], [1, 2]]), torch.rand(5, 1)
    shares = torch.cat([shares, 1 - shares], 1)
    batch = PictureBatch(pictures, wanted, shares)
    logits = model((pictures.float() / 255 - 0.5) / 0.25)
    sought = sum(shares[:, k] @ -logits.log_softmax(1)[torch.arange(5), wanted[:, k]] for k in range(2))
    assert_close(task_of().loss(model, batch), sought)
    smooth = 0.9 * sought + 0.1 * -logits.log_softmax(1).mean(1).sum()
    assert_close(task_of(smoothing=0.1).loss(model, batch), smooth)
    assert_close(task_of(smoothing=0.1).loss(model, batch, plain=True), sought)
    alone = PictureBatch(pictures, wanted[:, :1], torch.ones(5, 1))
    assert_close(task_of().loss(model, alone), F.cross_entropy(logits, wanted[:, 0], reduction="sum"))


def test_a_tiny_model_learns_colours(trained: Any) -> None:
    model, path = trained
    assert model.report["scores"]["accuracy"] == 100
    assert model.task.labels == ("blue", "green", "red")
    numbers = json.loads((path / "model" / "numbers.json").read_text())
    assert (numbers["rows"], numbers["columns"], numbers["channels"]) == (12, 12, 3)
    pixels = model.task.read(str(path / "squares"), model.recipe.data, key="data").pixels(model.task.measured.frame)
    assert numbers["mean"] == pytest.approx((pixels / 255).mean((0, 1, 2)).tolist(), abs=0.02)
    scores = model.evaluate(str(path / "squares"))
    assert set(scores) == {"accuracy", "recall"}


def test_scores_are_those_of_their_definitions(trained: Any) -> None:
    model, path = trained
    examples = model.task.read(str(path / "squares"), model.recipe.data, key="data").take(range(0, 60, 3))
    logits = torch.randn(len(examples), 3, generator=torch.Generator().manual_seed(0))
    rows = iter(logits.split(128))
    other = model.task
    numbers = torch.tensor([other.labels.index(label) for label in examples.labels])
    fake = nn.Linear(1, 1)
    fake.forward = lambda _pictures: next(rows)  # type: ignore[method-assign]
    found = other.exam(examples, RunOptions()).scores(fake)
    right = (logits.argmax(1) == numbers).double()
    assert found["accuracy"].value == pytest.approx(100 * float(right.mean()))
    recalls = [float(right[numbers == label].mean()) for label in range(3)]
    assert found["recall"].value == pytest.approx(100 * sum(recalls) / 3)


def test_every_form_of_an_input_means_the_same(trained: Any) -> None:
    model, path = trained
    name = path / "squares" / "red" / "3.png"
    image = Image.open(name)
    array = numpy.asarray(image)
    answers = [model(each) for each in (str(name), name, {"path": str(name)}, image, array, array / 255)]
    assert answers[0][0]["label"] == "red"
    assert sum(each["score"] for each in answers[0]) == pytest.approx(1)
    assert all(answer == answers[0] for answer in answers)
    with pytest.raises(RegardError, match="has the shape"):
        model(numpy.zeros((2, 2, 2, 2), dtype=numpy.uint8))
    with pytest.raises(RegardError, match="give the path"):
        model(7)


def test_files_are_answered_and_printed(trained: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model, path = trained
    names = [str(path / "squares" / label / "1.png") for label in COLOURS]
    run(model.path, [names], {})
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [label for label, _ in lines] == list(COLOURS)
    assert all(0.4 < float(score) <= 1 for _, score in lines)
    run(model.path, [names[:1]], {}, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["input"] == names[0]
    assert [each["label"] for each in found["answers"]][:1] == ["red"]
    with pytest.raises(RegardError, match=r"none\.png does not exist"):
        run(model.path, [[names[0], str(path / "none.png")]], {})
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_look_shows_the_patches(trained: Any, tmp_path: Path) -> None:
    model, path = trained
    record = model.look(path / "squares" / "green" / "2.png")
    source = record.sides["source"]
    assert (source.kind, source.rows, source.columns, len(source.items)) == ("patches", 3, 3, 9)
    assert source.picture.startswith("data:image/png;base64,")
    assert record.sides["target"].items == ("green",)
    assert {each.name: (each.query, each.key, tuple(each.weights.shape)) for each in record.maps} == {
        "body.blocks.0.attention": ("source", "source", (2, 9, 9)),
        "pool": ("target", "source", (1, 1, 9)),
    }
    assert record.saliency["source"].weights.shape == (1, 1, 9)
    forced = model.look(path / "squares" / "green" / "2.png", reference="blue")
    assert forced.sides["target"].items == ("blue",)
    with pytest.raises(RegardError, match="cannot be chosen"):
        model.look(path / "squares" / "green" / "2.png", reference="pink")
    record.save(tmp_path / "look.html")
    assert model.statistics([model.surface.parse(str(path / "squares" / "red" / f"{n}.png")) for n in range(3)])


def test_a_run_that_is_resumed_ends_with_the_same_weights(tmp_path: Path) -> None:
    draw(tmp_path / "squares")
    everything = ["data.augment.operations=1", "data.augment.erase=0.3", "data.augment.mixup=0.2"]

    def weights(name: str, steps: int) -> bytes:
        changes = [f"training.steps={steps}", "training.validate_every=0", "training.checkpoint_every=3"]
        changes += ["training.schedule=constant", "model.stochastic_depth=0.2", "model.layers=2", *everything]
        regard.train(recipe(tmp_path / "squares", *changes), out=tmp_path / name)
        return (tmp_path / name / "weights.safetensors").read_bytes()

    assert weights("one", 4) != weights("one", 7)
    assert weights("one", 7) == weights("other", 7)


def test_mixed_sizes_and_modes_learn_together(tmp_path: Path) -> None:
    draw(tmp_path / "squares", 6)
    first = tmp_path / "squares" / "red" / "0.png"
    Image.open(first).resize((30, 17)).convert("L").save(first)
    model = regard.train(
        recipe(tmp_path / "squares", "training.steps=2", "data.hold_out=4", "data.size=10"), out=tmp_path / "model"
    )
    assert (model.task.measured.rows, model.task.measured.channels) == (10, 3)
    assert model(first)[0]["label"] in COLOURS


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("data.train=none", "none does not exist"),
        ("data.size=0", "data.size"),
        ("data.augment.mixup=-1", "mixup"),
        ("training.batch_tokens=100", "batch_tokens.*has no effect"),
        ("data.test={other}", "has the label 'pink'"),
    ],
)
def test_recipes_that_cannot_be_are_refused(tmp_path: Path, change: str, sentence: str) -> None:
    draw(tmp_path / "squares", 6)
    (tmp_path / "other" / "pink").mkdir(parents=True)
    Image.new("RGB", (12, 12)).save(tmp_path / "other" / "pink" / "0.png")
    with pytest.raises(RegardError, match=sentence):
        regard.train(
            recipe(tmp_path / "squares", change.format(other=tmp_path / "other"), "data.hold_out=4"), out=tmp_path / "m"
        )


def test_one_label_alone_is_refused(tmp_path: Path) -> None:
    draw(tmp_path / "squares", 6)
    for label in ("red", "green"):
        for path in (tmp_path / "squares" / label).iterdir():
            path.unlink()
    with pytest.raises(RegardError, match="only the label 'blue'"):
        regard.train(recipe(tmp_path / "squares", "data.hold_out=2"), out=tmp_path / "m")


def test_the_recipe_for_pictures_of_ones_own_is_found(tmp_path: Path) -> None:
    folder = draw(tmp_path / "squares", 2)
    assert recipe_for(str(folder))[0] == "pictures"
    chosen: Any = recipes.load(str(folder))
    assert (chosen.task, chosen.data.train) == ("see", str(folder))
    (tmp_path / "list.csv").write_text("path,label\n" + f"{folder}/red/0.png,red\n" * 3)
    assert recipe_for(str(tmp_path / "list.csv"))[0] == "pictures"
    numpy.savez(tmp_path / "x.npz", images=numpy.zeros((2, 4, 4)), labels=[0, 1])
    assert recipe_for(str(tmp_path / "x.npz"))[0] == "pictures"
    for part in ("train", "test"):
        draw(tmp_path / "parts" / part, 1)
    both: Any = recipes.load(str(tmp_path / "parts"))
    assert (both.data.train, both.data.test) == (str(tmp_path / "parts" / "train"), str(tmp_path / "parts" / "test"))
    with pytest.raises(RegardError, match="is a folder without pictures"):
        recipes.load(str(tmp_path))
