"""The learning curves of several runs in one picture, with their scores."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from regard.training.curve import QUIET, Points

Named = tuple[str, Points, Points]  # the name of a run, its history, its validations


def draw(runs: Sequence[Named], scores: Sequence[Mapping[str, float]], *, score: str, title: str) -> bytes:
    """A PNG of the training loss and a validation score against steps, and of the score of each run.

    A bar around a score is the interval of its difference from the first, if it has `low` and `high`.
    """
    figure = Figure(figsize=(12, 4.4 + 0.12 * len(runs)), layout="constrained", dpi=120)
    losses, validated, judged = figure.subplots(1, 3)
    colors = _colors(len(runs))
    name = _validated(runs, score)
    for (label, history, validations), color in zip(runs, colors, strict=True):
        _plot(losses, history, "loss", color, label)
        _plot(validated, [point for point in validations if name in point], name, color, label)
    _dress(losses, "training loss per target (nats)")
    _dress(validated, f"validation {name.replace('_', ' ')}")
    losses.legend(frameon=False, fontsize=8)
    losses.set_title(title, loc="left", fontsize=11)
    _judge(judged, [label for label, _, _ in runs], scores, score, colors)
    content = io.BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


def _colors(count: int) -> list[object]:
    if count <= 10:
        return [colormaps["tab10"](place) for place in range(count)]
    return [colormaps["viridis"](place / (count - 1)) for place in range(count)]


def _validated(runs: Sequence[Named], score: str) -> str:
    """The validation score to draw: the one that the models are judged by, or the loss."""
    points = [point for _, _, validations in runs for point in validations]
    return score if any(score in point for point in points) else "loss"


def _plot(axes: Axes, points: Points, name: str, color: object, label: str) -> None:
    steps, values = [point["step"] for point in points], [point[name] for point in points]
    axes.plot(steps, values, color=color, label=label, linewidth=1.4, marker="." if len(points) < 30 else "")


def _dress(axes: Axes, label: str) -> None:
    axes.set_ylabel(label)
    axes.set_xlabel("step")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))


def _judge(
    axes: Axes, labels: Sequence[str], scores: Sequence[Mapping[str, float]], score: str, colors: Sequence[object]
) -> None:
    """The scores from top to bottom, with the interval of the difference from the first, which a line marks."""
    first = scores[0]["value"]
    axes.axvline(first, color=QUIET, linewidth=0.8, linestyle=":")
    for place, (row, color) in enumerate(zip(scores, colors, strict=True)):
        axes.plot([row["value"]], [place], "o", color=color)
        if "low" in row:
            axes.plot([first + row["low"], first + row["high"]], [place, place], color=color, linewidth=1.6)
        at = (row["value"], place)
        axes.annotate(f"{at[0]:.4g}", at, xytext=(0, 7), textcoords="offset points", ha="center", fontsize=9)
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlabel(f"{score.replace('_', ' ')}  (bar: 95 % of the difference)")
    axes.margins(x=0.2)
    axes.spines[["top", "right"]].set_visible(False)
