"""Statistics of each head, averaged over many sentences (Clark 2019).

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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.look.record import Map, Record
from regard.look.show import axes

SPECIAL = {"<s>", "</s>", "<pad>", "<unk>", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "<|endoftext|>"}
TOGETHER = 1 << 16  # numbers compared in one operation: few enough to stay in the cache of a CPU
MARKS = set(string.punctuation) | set("“”„«»‘’…–—¿¡、。，！？；：（）「」")


@dataclass
class _Heads:
    """Sums over the rows of one map seen so far, head by head."""

    heads: tuple[int, ...]
    rows: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)

    def add(self, values: dict[str, Tensor]) -> None:
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, torch.zeros(())) + value.double().sum(-1)
        self.rows += next(iter(values.values())).shape[-1]

    def results(self, name: str) -> list[dict[str, Any]]:
        means = {measure: (total / self.rows).tolist() for measure, total in self.sums.items()}
        return [
            {"map": name, "head": head, **{measure: values[place] for measure, values in means.items()}}
            for place, head in enumerate(self.heads)
        ]


def statistics(records: Iterable[Record]) -> dict[str, Any]:
    """`Record.statistics` from the records of many sentences of one model."""
    maps: dict[str, _Heads] = {}
    distances: Tensor | None = None
    sentences = 0
    for record in records:
        sentences += 1
        with _one_thread():
            for each in record.maps:
                maps.setdefault(each.name, _Heads(each.heads)).add(habits(each, record))
            found = divergences(record.maps).double()
        distances = found if distances is None else distances + found
    if distances is None:
        return {"sentences": 0, "heads": [], "similarity": []}
    similarity = [
        [None if value != value else round(value, 4) for value in row] for row in (distances / sentences).tolist()
    ]
    results = [result for name, heads in maps.items() for result in heads.results(name)]
    return {"sentences": sentences, "heads": results, "similarity": similarity}


def habits(each: Map, record: Record) -> dict[str, Tensor]:
    """The figures above for every head and row of a map: each (H, Q)."""
    weights = each.weights
    shares = _shares(weights)
    _, items = axes(record, each)
    column = torch.arange(weights.shape[-1])
    row = torch.arange(weights.shape[-2]).unsqueeze(1)
    marks = torch.tensor([bool(name := item.strip("▁Ġ# ")) and all(c in MARKS for c in name) for item in items])
    special = torch.tensor([item in SPECIAL for item in items])
    found = {
        "entropy": _entropy(shares),
        "first": weights[..., 0],
        "last": weights[..., -1],
        "punctuation": (weights * marks).sum(-1),
        "special": (weights * special).sum(-1),
        "distance": (shares * (row - column).abs()).sum(-1),
    }
    if each.query == each.key:
        for name, offset in (("previous", -1), ("same", 0), ("next", 1)):
            found[name] = (weights * (column == row + offset)).sum(-1)
    return found


def divergences(maps: Sequence[Map]) -> Tensor:
    """√ of the Jensen–Shannon divergence between the rows of every two heads, on average (N, N), N heads in all.

        JS(p, q) = H((p + q) / 2) − (H(p) + H(q)) / 2        H the entropy of a row

    It is NaN between heads whose sides differ. Heads of the same sides are compared together, and of each two heads
    once: n heads cost n (n − 1) / 2 entropies of Q × K numbers, `TOGETHER` numbers at a time.
    """
    numbers = torch.arange(sum(len(each.heads) for each in maps)).split([len(each.heads) for each in maps])
    found = torch.full((sum(map(len, numbers)),) * 2, torch.nan)
    sides = [(each.query, each.key) for each in maps]
    for side in dict.fromkeys(sides):
        own = [place for place, other in enumerate(sides) if other == side]
        places = torch.cat([numbers[place] for place in own])
        shares = _shares(torch.cat([maps[place].weights for place in own]))  # (n, Q, K)
        entropies = _entropy(shares)  # (n, Q)
        distances = torch.zeros(len(places), len(places))
        pairs = torch.triu_indices(len(places), len(places), 1)
        for one, other in pairs.split(max(TOGETHER // max(shares[0].numel(), 1), 1), 1):
            middle = (shares[one] + shares[other]) / 2
            divergence = _entropy(middle) - (entropies[one] + entropies[other]) / 2
            distances[one, other] = divergence.clamp(min=0).sqrt().mean(-1)
        found[places.unsqueeze(1), places] = distances + distances.T
    return found


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread of torch: these operations are many and short, and threads would mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _shares(weights: Tensor) -> Tensor:
    """The same rows, made to sum to one."""
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-12)


def _entropy(shares: Tensor) -> Tensor:
    """−Σ p log p over the last axis, 0 log 0 being 0."""
    return -torch.xlogy(shares, shares).sum(-1)
