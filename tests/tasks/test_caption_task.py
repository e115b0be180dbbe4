"""Captions: the loss against its equation, scores of what the model says by itself, and the whole road."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

import regard
from regard import cli, models
from regard.data.captions.batches import CaptionStream
from regard.data.captions.examples import Captioned
from regard.data.made import drawn
from regard.data.made.drawn import Thing
from regard.data.tokenizers import Tokenizer
from regard.decoding import DecodingConfig, Hypothesis
from regard.errors import RegardError
from regard.models.caption import CaptionConfig
from regard.models.facts import Grid
from regard.tasks.base import Looking, RunOptions
from regard.tasks.caption import task as room
from regard.tasks.caption.pointing import pointing, words_of
from regard.tasks.caption.task import Caption
from regard.tasks.pictures import Asked, Measured

SCENES = ["red circle 14 20 11, blue square 37 24 6", "black star 24 12 9, green cross 24 38 5"]
CAPTIONS = ["a red circle left of a blue square", "a black star above a green cross"]
EXAMPLES = Captioned(tuple(f"scene:{scene}" for scene in SCENES), tuple((caption,) for caption in CAPTIONS))
WORDS = [" ".join([*drawn.COLOURS, *drawn.SHAPES, "a left of right above below"])]


def made(**settings: Any) -> tuple[Caption, Any]:
    torch.manual_seed(1)
    tokenizer = Tokenizer.train(WORDS, kind="words", vocabulary=40)
    measured = Measured(rows=48, columns=48, channels=3, mean=[0.9, 0.8, 0.7], deviation=[0.2, 0.25, 0.3])
    task = Caption(tokenizer, measured, smoothing=0.2)
    config = CaptionConfig(**{"width": 12, "filters": 4, "stride": 8, "dropout": 0.0, **settings})
    return task, task.module(config).eval()


def stream(task: Caption) -> CaptionStream:
    ids = task.tokenizer.encode(CAPTIONS)
    shown = EXAMPLES.pixels(task.measured.frame)
    return CaptionStream(shown, ids, [0, 1], batch_size=5, seed=1, special=task.tokenizer.special)


def test_the_loss_is_the_cross_entropy_of_the_captions() -> None:
    task, model = made(decoder="transformer", heads=3, hidden=8)
    (batch,) = stream(task).in_order()
    mean, deviation = (numpy.array(each) for each in (task.measured.mean, task.measured.deviation))
    total = smooth = 0.0
    for picture, ids in zip(drawn.pictures(SCENES), task.tokenizer.encode(CAPTIONS), strict=True):
        levelled = torch.tensor((picture / 255 - mean) / deviation, dtype=torch.float32).permute(2, 0, 1)[None]
        logits = model.output(model(levelled, None, torch.tensor([[2, *ids]])))[0]
        total += F.cross_entropy(logits, torch.tensor([*ids, 3]), reduction="sum").item()
        smooth += F.cross_entropy(logits, torch.tensor([*ids, 3]), reduction="sum", label_smoothing=0.2).item()
    assert batch.targets == sum(len(caption.split()) + 1 for caption in CAPTIONS)
    assert task.loss(model, batch, plain=True).item() == pytest.approx(total, rel=1e-4)
    assert task.loss(model, batch).item() == pytest.approx(smooth, rel=1e-4)


def test_scores_are_of_what_the_model_says_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The captions of the examples are never shown to the model: what a search finds is scored."""
    task, model = made()
    said = ["a red circle left of a blue square", "a black cross above a green cross"]

    def found(_model: object, pictures: Tensor, *_: object, **__: object) -> list[list[Hypothesis]]:
        rows = task.tokenizer.encode(said)[: len(pictures)]
        return [[Hypothesis(tuple(row), 0.0, ())] for row in rows]

    monkeypatch.setattr(room, "search", found)
    scores = task.exam(EXAMPLES, RunOptions()).scores(model)
    assert scores["exact"].value == 50
    assert {"bleu", "chrf", "ter", "pointing"} <= scores.keys()
    several = Captioned(EXAMPLES.lines, (("wrong", CAPTIONS[0]), (said[1], "other")))
    assert task.exam(several, RunOptions()).scores(model)["exact"].value == 100
    assert set(task.quick_exam(EXAMPLES, stream(task)).scores(model)) == {"bleu", "exact", "pointing"}


def one_hot(place: int) -> Tensor:
    return F.one_hot(torch.tensor(place), 16).float()


def test_the_pointing_game_counts_words_that_look_inside_their_object() -> None:
    things = [Thing("red", "circle", 12, 12, 6), Thing("blue", "square", 36, 36, 8)]
    grid, size = Grid(4, 4), (48, 48)  # places of 12 pixels: the middle of the first is (6, 6)

    def score(*said: tuple[str, int]) -> float:
        return pointing([[(word, one_hot(place)) for word, place in said]], [things], grid, size).value

    rest = [("left", 0), ("of", 0), ("a", 0)]
    assert score(("a", 3), ("red", 0), ("circle", 5), *rest, ("blue", 10), ("square", 15)) == 100
    assert score(("red", 2), ("circle", 0), *rest, ("blue", 10), ("square", 11)) == 75
    assert score(("red", 0), ("square", 0), *rest, ("blue", 10), ("square", 11)) == 75  # said wrongly
    assert score(("red", 0), ("circle", 0)) == 50  # the other object is not named
    assert score(("blue", 10), ("square", 10), *rest, ("red", 0), ("circle", 0)) == 0  # named in the wrong places
    assert score() == 0


def test_the_weights_of_a_word_are_those_of_its_pieces() -> None:
    tokenizer = Tokenizer.train(["red circle"] * 3, kind="characters", vocabulary=30)
    tokens = tokenizer.encode(["red circle"])[0]
    weights = torch.rand(len(tokens), 6)
    (first, red), (second, circle) = words_of(tokens, weights, tokenizer)
    assert (first, second) == ("red", "circle")
    space = tokenizer.decode([tokens[:4]])[0].strip() == "red"  # the space counts as the word before it
    assert torch.allclose(red, weights[: 3 + space].sum(0))
    assert torch.allclose(circle, weights[3 + space :].sum(0))


@pytest.mark.parametrize("settings", [{}, {"choice": "hard"}, {"decoder": "transformer", "heads": 3}], ids=str)
def test_what_is_seen_are_the_places_and_the_words(settings: dict[str, Any]) -> None:
    task, model = made(**settings)
    sight = task.sight(model, Asked(EXAMPLES.lines[0]), Looking(DecodingConfig(beam=2, max_length=5)))
    assert (sight.source.kind, sight.source.rows, sight.source.columns) == ("patches", 6, 6)
    assert (sight.source.picture or "").startswith("data:image/png;base64,")
    assert len(sight.source.items) == 36
    assert sight.beam is not None
    assert sight.outcome is not None
    forced = task.sight(model, Asked(EXAMPLES.lines[0]), Looking(reference=CAPTIONS[0]))
    target, text = forced.outcome(list(forced.chosen or ())) if forced.outcome else (None, "")
    assert text == CAPTIONS[0]
    assert target is not None
    assert target.items == (*CAPTIONS[0].split(), "</s>")
    assert forced.logits(None).shape[0] == len(target.items)
    assert torch.allclose(forced.logits(torch.tensor([2, 4])), forced.logits(None)[[2, 4]], atol=1e-5)


RECIPE = """
task = "caption"
[data]
train = "drawn:train?examples=60&objects=1"
valid = "drawn:valid?examples=8&objects=1"
test = "drawn:test?examples=8&objects=1"
[model]
kind = "caption"
width = 12
filters = 4
stride = 8
[training]
steps = 4
batch_size = 16
warmup = 1
validate_every = 2
checkpoint_every = 2
threads = 1
precision = "float32"
[decoding]
beam = 2
max_length = 8
"""


def test_the_whole_road(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def call(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        cli.main()
        return capsys.readouterr().out

    monkeypatch.setenv("COLUMNS", "200")
    recipe, model = tmp_path / "recipe.toml", tmp_path / "model"
    recipe.write_text(RECIPE)
    assert "pointing" in call("train", recipe, "-o", model)
    photo = tmp_path / "photo.png"
    Image.new("L", (30, 70), 90).save(photo)
    assert len(call("run", model, photo, "scene:red star 20 20 9").splitlines()) == 2
    (line,) = map(json.loads, call("run", model, photo, "--json", "--n-best", 2, "--prefix", "a red").splitlines())
    assert line["input"] == str(photo)
    assert len(line["answers"]) == 2
    assert all(answer["tokens"][:2] == ["a", "red"] for answer in line["answers"])
    scores = json.loads(call("evaluate", model, "--json"))
    assert scores.keys() >= {"bleu", "exact", "pointing"}
    assert json.loads(call("evaluate", model, "--json", "--beam", 3)).keys() == scores.keys()
    (tmp_path / "captions.tsv").write_text("photo.png\ta grey picture\nphoto.png\ta black square\n")
    own = json.loads(call("evaluate", model, "--json", "--data", tmp_path / "captions.tsv"))
    assert "exact" in own
    assert "pointing" not in own  # where the right place is not known
    page = tmp_path / "page.html"
    assert str(page) in call("look", model, photo, "-o", page)
    assert "data:image/png;base64," in page.read_text("utf-8")
    record = regard.load(model).look(str(photo))
    assert record.map("decoder.attention").weights.shape[2] == 36
    assert regard.load(model)(Image.open(photo)) == regard.load(model)(str(photo))
    with pytest.raises(RegardError, match=r"nowhere\.png does not exist"):
        regard.load(model)("nowhere.png")
    with pytest.raises(RegardError, match="--alignment has no effect"):
        regard.load(model)(str(photo), alignment=True)


def test_a_run_that_was_broken_off_ends_with_the_same_weights(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    for form in ("soft", "hard"):
        changes = [f"model.choice={form}"]
        whole = regard.train(tmp_path / "recipe.toml", out=tmp_path / form, changes=changes)
        regard.train(tmp_path / "recipe.toml", out=tmp_path / f"{form}2", changes=[*changes, "training.steps=2"])
        again = regard.train(tmp_path / "recipe.toml", out=tmp_path / f"{form}2", changes=changes)
        for name, weight in whole.module.state_dict().items():
            assert torch.equal(weight, again.module.state_dict()[name]), name


def test_captions_that_are_too_long_are_left_out_and_told(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    with pytest.raises(RegardError, match=r"no caption of data\.train has 1 to 2 tokens"):
        regard.train(tmp_path / "recipe.toml", out=tmp_path / "model", changes=["data.max_length=2"])
    assert models.kinds("captions") == ["caption"]
