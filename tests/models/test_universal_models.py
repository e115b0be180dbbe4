"""The Universal Transformer in its three forms: parts of other systems, and the whole road from a file to a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import regard
from regard import recipes
from regard.attention.positions import Timed
from regard.decoding import search
from regard.decoding.config import DecodingConfig
from regard.errors import RegardError
from regard.layers.penalty import penalties
from regard.look.record import Record
from regard.look.show import main_map
from regard.models import build

SIZES: dict[str, Any] = {"layers": 3, "width": 12, "heads": 3, "hidden": 17, "dropout": 0.0}


def pondering(kind: str, **more: Any) -> Any:
    """A model whose positions halt at different steps."""
    torch.manual_seed(0)
    model: Any = build(kind, vocabulary=19, **SIZES, **more).double().eval()
    for name, part in model.named_modules():
        if name.endswith("halts"):
            nn.init.normal_(part.weight, std=1.2)
            nn.init.constant_(part.bias, -1.0)
    return model


def test_weights_do_not_grow_with_the_steps():
    for kind in ("universal", "universal_encoder", "universal_decoder"):
        few, many = (build(kind, vocabulary=19, **{**SIZES, "layers": layers}) for layers in (1, 5))
        assert {n: p.shape for n, p in few.named_parameters()} == {n: p.shape for n, p in many.named_parameters()}


def test_positions_start_to_halt_after_two_steps():
    """σ(1) = 0.73 < 0.99 ≤ 2 · 0.73: no initialisation of a model changes that of its halting unit."""
    for kind in ("universal", "universal_encoder", "universal_decoder"):
        halts = [part for name, part in build(kind, vocabulary=19, **SIZES).named_modules() if name.endswith("halts")]
        assert len(halts) == (2 if kind == "universal" else 1)
        assert all(part.bias.item() == 1 and not part.weight.any() for part in halts)


def test_sentences_together_are_answered_as_each_alone():
    model = pondering("universal")
    source = torch.randint(4, 19, (3, 6), generator=torch.Generator().manual_seed(1))
    source[0, 2:] = source[1, 5:] = 0
    config = DecodingConfig(beam=3, n_best=2, max_length=9)
    together = search(model, source, config=config)
    for row, length in enumerate((2, 5, 6)):
        (alone,) = search(model, source[row : row + 1, :length], config=config)
        assert [answer.tokens for answer in together[row]] == [answer.tokens for answer in alone]
        assert [answer.score for answer in together[row]] == pytest.approx([answer.score for answer in alone])


def test_while_learning_positions_begin_anywhere_in_source_and_target_alike(monkeypatch: pytest.MonkeyPatch):
    model, plain = pondering("universal", offset=50), pondering("universal")
    source, target = torch.randint(4, 19, (2, 4, 6), generator=torch.Generator().manual_seed(1))
    assert_close(model(source, None, target), plain(source, None, target), rtol=0, atol=0)
    model.train()
    first, second = model(source, None, target), model(source, None, target)
    assert not torch.allclose(first, second)
    places: list[torch.Tensor] = []
    monkeypatch.setattr(Timed, "on_input", lambda _, x, at, **__: (places.append(at), x)[1])
    model(source, None, target)
    assert all(torch.equal(places[0], each) for each in places)
    assert places[0].shape == (4, 6)
    assert len(set(places[0][:, 0].tolist())) > 1
    assert torch.equal(places[0] - places[0][:, :1], torch.arange(6).expand(4, 6))


def test_each_side_has_its_cost():
    model = pondering("universal")
    with penalties() as added:
        model(torch.full((2, 4), 7), None, torch.full((2, 3), 8))
    assert len(added) == 2
    assert all(0.01 * 1 < each.item() <= 0.01 * (3 + 1) for each in added)


def test_wirings_that_depend_on_layers_with_weights_of_their_own_are_refused():
    with pytest.raises(RegardError, match="wiring"):
        recipes.parse('[model]\nkind = "universal"\nwiring = "deep_norm"', where="test")


# the whole road

ROADS = {
    "translate": ("universal", "{text}\t{text}", "the cat"),
    "write": ("universal_decoder", "{text}.", "the"),
    "fill": ("universal_encoder", "{text}.\n{text}.\n", "the [MASK] sat"),
    "classify": ("universal_encoder", "{text}\t{label}", "the cat"),
}
TEXTS = [f"the {who} {what}" for who in ("cat", "dog", "fox", "bird") for what in ("sat", "ran", "ate", "is here")]
RECIPE = """
task = "{task}"
[data]
train = "{train}"
valid = "{train}"
{more}
[tokenizer]
kind = "words"
vocabulary = 40
[model]
kind = "{kind}"
layers = 3
width = 16
heads = 2
hidden = 24
dropout = 0.0
[training]
steps = 6
batch_tokens = 64
warmup = 2
validate_every = 3
checkpoint_every = 3
threads = 1
"""


def road(task: str, folder: Path) -> regard.Model:
    kind, line, _ = ROADS[task]
    train = folder / ("train.txt" if task in ("write", "fill") else "train.tsv")
    lines = [line.format(text=text, label=text.split()[1]) for text in TEXTS]
    train.write_text("\n".join(lines * 4), encoding="utf-8")
    more = {"write": "block = 8", "fill": "max_length = 16"}.get(task, "")
    recipe = RECIPE.format(task=task, train=train, kind=kind, more=more)
    recipe += "" if kind == "universal_encoder" else "[decoding]\nbeam = 1\nmax_length = 6\n"
    return regard.train(recipes.parse(recipe, where=task), out=folder / "model")


@pytest.mark.parametrize("task", ROADS)
def test_the_whole_road(task: str, tmp_path: Path):
    model, asked = road(task, tmp_path), ROADS[task][2]
    again = regard.load(tmp_path / "model")
    assert again(asked) == model(asked)
    assert again.evaluate().keys() == model.report["scores"].keys()
    record = again.look(asked)
    halting = [each for each in record.maps if each.name.endswith("halting")]
    assert len(halting) == (2 if task == "translate" else 1)
    assert record.sides["step"].items == ("step 1", "step 2", "step 3")
    for each in halting:
        assert each.key == "step"
        assert each.weights.shape == (1, len(record.sides[each.query].items), 3)
        assert_close(each.weights.sum(-1), torch.ones(each.weights.shape[:2]))
    attentions = {each.name: each.layer for each in record.maps if each.name.endswith("attention")}
    assert sorted(set(attentions.values())) == [0, 1, 2]
    assert Record.from_json(record.to_json()).sides == record.sides
    assert main_map(record).key != "step"
    if task == "translate":
        counted = again.statistics([asked, asked])["heads"]
        assert {each["map"] for each in counted} == {each.name for each in record.maps}
    for name in ("record.html", "record.svg", "record.json"):
        record.save(tmp_path / name)
    assert "step 2" in (tmp_path / "record.html").read_text("utf-8")


def test_a_run_that_is_gone_on_with_ends_with_the_same_weights(tmp_path: Path):
    """Where positions are counted from is drawn, and drawn again alike."""
    (tmp_path / "train.tsv").write_text("\n".join(f"{text}\t{text}" for text in TEXTS * 4), encoding="utf-8")
    text = RECIPE.format(task="translate", train=tmp_path / "train.tsv", kind="universal", more="")
    ends = []
    for name, stops in (("whole", [6]), ("parts", [3, 6])):
        for steps in stops:
            changes = ["model.offset=9", "training.schedule=constant", f"training.steps={steps}"]
            made = recipes.parse(text, where=name, changes=changes)
            model = regard.train(made, out=tmp_path / name)
        ends.append(model.module.state_dict())
    assert_close(ends[0], ends[1], rtol=0, atol=0)
