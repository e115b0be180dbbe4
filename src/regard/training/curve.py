"""The learning curve as a picture."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from regard.tasks.base import Objective

TRAINING, VALIDATION, QUIET = "#4c72b0", "#c44e52", "#666666"
Points = Sequence[Mapping[str, float]]


def draw(history: Points, validations: Points, *, objective: Objective, best: int, title: str = "") -> bytes:
    """A PNG of loss against steps and, below, of the score that models are compared by.

    `best` is the place of the best validation, which is marked; without validations it means nothing.
    A validation loss is drawn beside the training loss, on the same axis.
    """
    scored = bool(validations) and objective.name != "loss"
    figure = Figure(figsize=(8, 6.4 if scored else 4), layout="constrained", dpi=120)
    axes = figure.subplots(2 if scored else 1, 1, sharex=True, squeeze=False)[:, 0]
    losses: Axes = axes[0]
    _plot(losses, history, "loss", color=TRAINING, label="training", marker="")
    losses.set_ylabel("loss per target (nats)")
    judged = [point for point in validations if "loss" in point]
    if judged:
        _plot(losses, judged, "loss", color=VALIDATION, label="validation", marker="o")
    if validations and not scored:
        _mark_best(losses, validations, objective, best)
    losses.legend(frameon=False)
    if scored:
        label = objective.name.replace("_", " ")
        _plot(axes[1], validations, objective.name, color=VALIDATION, label="validation", marker="o")
        axes[1].set_ylabel(f"{label} (validation, {'higher' if objective.higher else 'lower'} is better)")
        _mark_best(axes[1], validations, objective, best)
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.grid(axis="y", color="#e5e5e5", linewidth=0.8)
        each.set_axisbelow(True)
    axes[-1].set_xlabel("step")
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[-1].xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    losses.set_title(title, loc="left", fontsize=11)
    content = io.BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


def _plot(axes: Axes, points: Points, name: str, *, color: str, label: str, marker: str) -> None:
    steps, values = [point["step"] for point in points], [point[name] for point in points]
    axes.plot(steps, values, color=color, label=label, marker=marker, markersize=3, linewidth=1.6)


def _mark_best(axes: Axes, validations: Points, objective: Objective, best: int) -> None:
    at = (validations[best]["step"], validations[best][objective.name])
    axes.plot(*at, "o", markersize=9, markerfacecolor="none", markeredgecolor=VALIDATION)
    axes.annotate(
        f"best {at[1]:.4g}\nat step {at[0]:,.0f}",
        at,
        xytext=(0, -14 if objective.higher else 14),
        textcoords="offset points",
        ha="right" if at[0] > 0.8 * max(point["step"] for point in validations) else "center",
        va="top" if objective.higher else "bottom",
        color=QUIET,
        fontsize=9,
    )
