"""Heads on a body: what one of their classes gives logits for, and the labels it tells apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import RegardError
from regard.interchange.huggingface.architecture import HeadClass, Settings, Shape, refuse

ENDS = ("start", "end")
CHOICE = "single_label_classification"  # one label of several


@dataclass(frozen=True)
class Head:
    """What a head gives logits for, and its labels in the order of its rows."""

    shape: Shape
    labels: tuple[str, ...]

    @property
    def pooled(self) -> bool:
        """Whether the logits are of the whole text, and not of each token."""
        return self.shape == "text"


def read_head(settings: Settings, top: HeadClass) -> Head:
    """The head that a config.json describes."""
    if top.shape == "span":
        return Head(top.shape, ENDS)
    return Head(top.shape, read_labels(settings))


def read_labels(settings: Settings) -> tuple[str, ...]:
    """The labels of a classifier, in the order of its logits."""
    if settings.get("problem_type", CHOICE) != CHOICE:
        settings.require(problem_type=CHOICE)
    found = settings.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    if not isinstance(found, dict) or not all(isinstance(label, str | int) for label in found.values()):
        raise settings.wrong("id2label", "must give a text for each of 0, 1, 2, …")
    labels = tuple(str(found.get(str(number))) for number in range(len(found)))
    if len(set(labels)) < len(labels) or any(str(number) not in found for number in range(len(labels))):
        raise RegardError(f"{settings.where}: id2label must have a label of its own for each of 0, 1, 2, …")
    if len(labels) < 2:
        raise RegardError(f"{settings.where}: id2label has fewer than two labels, so there is no choice")
    return labels


def head_settings(head: Head, top: HeadClass) -> dict[str, Any]:
    """The opposite of `read_head`."""
    if head.shape == "span":
        return {"architectures": [top.name]}
    return {"architectures": [top.name], **label_settings(head.labels)}


def label_settings(labels: Sequence[str]) -> dict[str, Any]:
    """The opposite of `read_labels`."""
    numbers = {label: number for number, label in enumerate(labels)}
    return {"id2label": {str(number): label for label, number in numbers.items()}, "label2id": numbers}


def body_for(config: Any, top: HeadClass) -> Any:
    """The body that their class has: with the parts that the head depends on, and without other heads."""
    others = {name: False for name in ("masked_words", "next_sentence") if name in type(config).model_fields}
    return config.model_copy(update={**others, **top.body})


def require_body_for(config: Any, top: HeadClass) -> None:
    """Refuse a body of ours that their class cannot have, and say why."""
    pooling = {"pooling": "pooler"} if top.shape == "text" else {}
    as_computed = config.model_copy(update={"pooling": config.pooling or "pooler"})
    refuse(as_computed, top.name, **pooling, **top.body)
