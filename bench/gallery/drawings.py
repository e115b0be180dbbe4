"""Pictures of the gallery that no single command makes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import regard
from bench import deep
from regard.attention.patterns import Blocks, Causal, Global, Matrix, Random, Window
from regard.attention.positions import Alibi, Sinusoidal
from regard.data.made import drawn
from regard.layers.feature_map import AttentionLayer2d
from regard.look import recording
from regard.look.palette import ramp
from regard.training import schedule

RUNS = Path("runs/gallery")
LINE = "#4c72b0"


def one_map(model: str, text: str, name: str, path: Path) -> None:
    """One map of a record."""
    record = regard.load(RUNS / model).look(text)
    replace(record, maps=(record.map(name),)).save(path)


def masks(path: Path) -> None:
    """Who may look at whom, in four patterns."""
    count = 24
    rank = torch.randperm(count, generator=torch.Generator().manual_seed(1))  # the place of each in another order
    patterns = {
        "causal": Causal(),
        "another order": Matrix(rank.unsqueeze(1) >= rank),
        "window": Window(5),
        "Big Bird": Blocks(2, Window(3) | Global(1) | Random(1, seed=0)),
    }
    figure, axes = _panels(len(patterns))
    for axis, (title, pattern) in zip(axes, patterns.items(), strict=True):
        _heat(axis, pattern.dense(count, count).float().reshape(count, count), title)
    _save(figure, path)


def positions(path: Path) -> None:
    """The sinusoidal signal, its inner products, and ALiBi's bias of one head."""
    at = torch.arange(48)
    signal = Sinusoidal().on_input(torch.zeros(1, 48, 64), at)[0]
    bias = Alibi().on_scores(torch.zeros(1, 4, 48, 1), at.unsqueeze(1), at.unsqueeze(0))  # (4, 48, 48)
    figure, axes = _panels(3)
    _heat(axes[0], signal, "sinusoidal: position by number")
    _heat(axes[1], signal @ signal.T, "inner products of positions")
    _heat(axes[2], bias[1], "ALiBi: added to the scores")
    _save(figure, path)


def schedules(path: Path) -> None:
    """The learning rate by step."""
    steps = range(1, 2001)
    rates: dict[str, list[float]] = {
        "noam": [schedule.noam(step, learning_rate=0.5, warmup=400, width=512) for step in steps],
        "inverse_sqrt": [schedule.inverse_sqrt(step, learning_rate=0.001, warmup=400) for step in steps],
        "cosine": [schedule.cosine(step, learning_rate=0.001, warmup=400, steps=2000) for step in steps],
        "linear": [schedule.linear(step, learning_rate=0.001, warmup=400, steps=2000) for step in steps],
    }
    _lines(path, steps, rates, "step", "learning rate")


def curve(model: str, path: Path) -> None:
    """The curve that training wrote."""
    path.write_bytes((RUNS / model / "curve.png").read_bytes())


def deepnet(path: Path) -> None:
    """The losses of two Transformers of a hundred layers, by step."""
    options = argparse.Namespace(layers=100, width=32, steps=60, rate=0.001, seed=1)
    losses = {wiring: list(deep.learn(wiring, options)) for wiring in deep.WIRINGS}
    _lines(path, range(1, options.steps + 1), losses, "step", "loss")


def beam(path: Path) -> None:
    """The tree of a beam search: a column for each step, the better hypotheses on top."""
    record = regard.load(RUNS / "transformer").look("3 1 4 1 5 9", beam=3)
    assert record.beam is not None
    nodes: list[dict[str, Any]] = record.beam["nodes"]
    places: dict[int, tuple[int, int]] = {}
    for step in sorted({node["step"] for node in nodes}):
        found = sorted((n for n, node in enumerate(nodes) if node["step"] == step), key=lambda n: -nodes[n]["sum"])
        places.update({number: (step, -row) for row, number in enumerate(found)})
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axis = figure.subplots()
    for number, node in enumerate(nodes):
        x, y = places[number]
        before = places.get(node["parent"], (-1, 0))
        colour = {"answer": "#123a6b", "kept": "#7aa6c2", "finished": "#7aa6c2"}.get(node["state"], "#cccccc")
        axis.plot(
            [before[0], x], [before[1], y], color=colour, linewidth=2 if node["state"] == "answer" else 1, zorder=1
        )
        box = {"boxstyle": "circle", "facecolor": colour, "edgecolor": "none"}
        axis.text(x, y, node["token"], ha="center", va="center", fontsize=9, color="white", zorder=2, bbox=box)
    axis.set_axis_off()
    _save(figure, path)


def statistics(path: Path) -> None:
    """Entropy and habits of each head of the model `bert`."""
    model = regard.load(RUNS / "bert")
    lines = (RUNS / "sentences.txt").read_text("utf-8").split("\n\n")[:200]
    heads = model.statistics([model.surface.parse(line) for line in lines])["heads"]
    measures = [name for name in heads[0] if name not in ("map", "head")]
    layers = list(dict.fromkeys(each["map"] for each in heads))
    figure, axes = _panels(len(measures))
    for axis, measure in zip(axes, measures, strict=True):
        rows = [[each[measure] for each in heads if each["map"] == layer] for layer in layers]
        _heat(axis, torch.tensor(rows), measure.replace("_", " "))
        axis.set_xlabel("head")
        axis.set_yticks(range(len(layers)), [f"layer {number}" for number in range(len(layers))])
    _save(figure, path)


def memory(path: Path) -> None:
    """What the second of two segments looks at, in the last layer of a Transformer-XL: the memory, and itself."""
    model = regard.load(RUNS / "transformer-xl")
    tokenizer = model.task.tokenizer
    words = ["the red cat likes the old dog .", "the old dog hears the red bird ."]
    (first, second), names = tokenizer.encode(words), [tokenizer.tokens(each) for each in words]
    with torch.no_grad():
        _, remembered = model.module.read(torch.tensor([first]), None)
        with recording(model.module) as seen:
            model.module.read(torch.tensor([second]), remembered)
    weights = seen["body.blocks.1.attention"][0]  # (heads, T, K + T)
    figure, axes = _panels(2, size=4.0)
    for head, axis in enumerate(axes):
        _heat(axis, weights[head], f"head {head}: the memory | the segment")
        axis.axvline(len(first) - 0.5, color=LINE)
        axis.set_xticks(range(len(first) + len(second)), names[0] + names[1], rotation=90)
        axis.set_yticks(range(len(second)), names[1])
    _save(figure, path)


def feature_map(path: Path) -> None:
    """What two pixels look at, if queries and keys are colours."""
    scene = drawn.pictures(["red circle 14 20 11, blue square 37 24 6"])[0]  # (H, W, 3)
    layer = AttentionLayer2d(3, key_width=3, width=3)
    with torch.no_grad(), recording(layer) as seen:
        for each in (layer.query, layer.key):
            each.weight.copy_(4.0 * torch.eye(3))
        x = torch.from_numpy(scene).permute(2, 0, 1).unsqueeze(0).float() / 128 - 1
        layer(x)
    weights = seen[""][0, 0].view(*scene.shape[:2], *scene.shape[:2])
    figure, axes = _panels(3)
    axes[0].imshow(scene)
    axes[0].set_title("picture", fontsize=9)
    for axis, (row, column) in zip(axes[1:], ((20, 14), (24, 37)), strict=True):
        _heat(axis, weights[row, column], f"weights of pixel {row}, {column}")
        axis.plot(column, row, marker="s", markersize=7, markerfacecolor="none", markeredgecolor="#d95f02")
    for axis in axes:
        axis.set_axis_off()
        axis.set_aspect("equal")
    _save(figure, path)


def _panels(count: int, size: float = 2.4) -> tuple[Figure, Sequence[Axes]]:
    rows = 1 if count <= 4 else 2
    figure = Figure(figsize=(size * -(-count // rows), size * rows), layout="constrained")
    axes = list(figure.subplots(rows, -(-count // rows), squeeze=False).flatten())
    for axis in axes[count:]:
        axis.set_axis_off()
    return figure, axes[:count]


def _heat(axis: Axes, numbers: torch.Tensor, title: str) -> None:
    axis.imshow(numbers.numpy(), cmap=ListedColormap(ramp().tolist()), aspect="auto", interpolation="nearest")
    axis.set_title(title, fontsize=9)
    axis.tick_params(labelsize=7, length=0)


def _lines(path: Path, x: Sequence[int], series: dict[str, list[float]], across: str, up: str) -> None:
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axis = figure.subplots()
    for name, values in series.items():
        axis.plot(x, values, label=name)
    axis.set_xlabel(across)
    axis.set_ylabel(up)
    axis.legend(frameon=False)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=110)
