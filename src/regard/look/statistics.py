"""What each head tends to do, averaged over many sentences (Clark 2019).

Of a head with weights w (Q, K), averaged over the rows of all sentences:

    entropy         −Σ_j w_ij log w_ij, in nats: how widely it looks
    previous, same, next        the weight on j = i − 1, i, i + 1 (where query and key are the same items)
    first, last     the weight on the first and on the last item
    punctuation     the weight on items that are punctuation only
    special         the weight on <s>, </s>, [CLS], [SEP] and the like
    distance        Σ_j w_ij |i − j|

and between two heads of the same sides the Jensen–Shannon divergence of their rows, √ of it, so that it is a distance.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.look.record import Map, Record
from regard.look.show import axes

SPECIAL = {"<s>", "</s>", "<pad>", "<unk>", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "<|endoftext|>"}
MARKS = set(string.punctuation) | set("“”„«»‘’…–—¿¡、。，！？；：（）「」")


@dataclass
class _Head:
    """Sums over the rows seen so far."""

    map: str
    head: int
    rows: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def add(self, values: dict[str, Tensor]) -> None:
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value.sum())
        self.rows += len(next(iter(values.values())))

    def result(self) -> dict[str, Any]:
        return {"map": self.map, "head": self.head, **{name: total / self.rows for name, total in self.sums.items()}}


def statistics(records: Iterable[Record]) -> dict[str, Any]:
    """`Record.statistics` from the records of many sentences of one model."""
    heads: dict[tuple[str, int], _Head] = {}
    distances: Tensor | None = None
    sentences = 0
    for record in records:
        sentences += 1
        rows = [(each, head) for each in record.maps for head in range(len(each.heads))]
        for each, place in rows:
            entry = heads.setdefault((each.name, each.heads[place]), _Head(each.name, each.heads[place]))
            entry.add(habits(each, place, record))
        found = torch.tensor([[_divergence(*one, *other) for other in rows] for one in rows])
        distances = found if distances is None else distances + found
    if distances is None:
        return {"sentences": 0, "heads": [], "similarity": []}
    similarity = [
        [None if value != value else round(value, 4) for value in row] for row in (distances / sentences).tolist()
    ]
    return {"sentences": sentences, "heads": [head.result() for head in heads.values()], "similarity": similarity}


def habits(each: Map, place: int, record: Record) -> dict[str, Tensor]:
    """The figures above, row by row: each (Q,)."""
    weights = each.weights[place]
    shares = weights / weights.sum(-1, keepdim=True).clamp(min=1e-12)
    _, items = axes(record, each)
    column = torch.arange(weights.shape[1])
    row = torch.arange(weights.shape[0]).unsqueeze(1)
    marks = torch.tensor([bool(name := item.strip("▁Ġ# ")) and all(c in MARKS for c in name) for item in items])
    special = torch.tensor([item in SPECIAL for item in items])
    found = {
        "entropy": torch.special.entr(shares).sum(-1),
        "first": weights[:, 0],
        "last": weights[:, -1],
        "punctuation": (weights * marks).sum(-1),
        "special": (weights * special).sum(-1),
        "distance": (shares * (row - column).abs()).sum(-1),
    }
    if each.query == each.key:
        for name, offset in (("previous", -1), ("same", 0), ("next", 1)):
            found[name] = (weights * (column == row + offset)).sum(-1)
    return found


def _divergence(one: Map, place: int, other: Map, other_place: int) -> float:
    """√ of the Jensen–Shannon divergence between the rows of two heads, on average; NaN if their sides differ."""
    if (one.query, one.key) != (other.query, other.key):
        return float("nan")
    p, q = (
        each.weights[at] / each.weights[at].sum(-1, keepdim=True).clamp(min=1e-12)
        for each, at in ((one, place), (other, other_place))
    )
    middle = (p + q) / 2
    entropy = torch.special.entr
    divergence = entropy(middle).sum(-1) - (entropy(p).sum(-1) + entropy(q).sum(-1)) / 2
    return float(divergence.clamp(min=0).sqrt().mean())
