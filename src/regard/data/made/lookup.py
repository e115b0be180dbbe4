"""A graph for attention: dictionaries, and nodes that ask them (after Brody 2022, 4.1).

    graph:lookup?keys=5&groups=150&noise=2&seed=1

Each group has `keys` nodes with a key and a value each, both different from node to node, and `keys` nodes that ask for
one key each. All askers of a group see all its entries, and `noise` more entries with keys that nobody asks for. The
label of an asker is the value of the entry with its key. A mean over the neighbours is the same for all askers of a
group, whose labels all differ: it gives one right answer in `keys`. The features of a node are three vectors of 0 and
1: what it asks for, its key, its value.
"""

from __future__ import annotations

from typing import TypedDict
from urllib.parse import parse_qsl

import numpy
from numpy.typing import NDArray
from pydantic import Field

from regard.checking import Settings, check
from regard.errors import RegardError, cut

PREFIX, RULE = "graph:", "lookup"
SHARES = (0.7, 0.85)  # of the groups: the first to learn from, up to the second to validate, the rest to test


class Lookup(Settings):
    """The settings of the rule."""

    keys: int = Field(5, ge=2, le=1000)
    groups: int = Field(150, ge=3, le=10**6)
    noise: int = Field(2, ge=0, le=1000)
    seed: int = Field(1, ge=0)


class Drawn(TypedDict):
    """A graph: features (N, F), edges (E, 2), labels (N,), their names, the nodes of each part, and ids."""

    features: NDArray[numpy.float32]
    edges: NDArray[numpy.int64]
    labels: NDArray[numpy.int64]
    classes: tuple[str, ...]
    parts: dict[str, NDArray[numpy.int64]]
    names: tuple[str, ...]


def is_drawn(name: str) -> bool:
    """Whether a name of [data] stands for a graph that is drawn here, and not for a file."""
    return name.startswith(PREFIX)


def lookups(name: str) -> Drawn:
    """The graph that a name stands for; the same name always gives the same graph."""
    rule, _, query = name.removeprefix(PREFIX).partition("?")
    if rule != RULE:
        raise RegardError(f"{cut(name)} is not a graph that is drawn here; there is {PREFIX}{RULE}")
    given = {key: int(value) if value.isdigit() else value for key, value in parse_qsl(query, keep_blank_values=True)}
    return draw(check(Lookup, given, where=cut(name)))


def draw(rule: Lookup) -> Drawn:
    """Askers come first in each group, then its entries, then the noise."""
    random = numpy.random.default_rng(rule.seed)
    keys, groups, noise = rule.keys, rule.groups, rule.noise
    size, known = 2 * keys + noise, keys + noise  # nodes of a group, keys that an entry may have
    asked = numpy.tile(numpy.arange(keys), (groups, 1))
    values = random.permuted(asked, axis=1)  # the value of the entry with each key
    others = random.integers(0, keys, (groups, noise))
    features = numpy.zeros((groups, size, known + known + keys), dtype=numpy.float32)
    group, key = numpy.indices((groups, keys))
    features[group, key, key] = 1
    entry, own = numpy.indices((groups, known))
    features[entry, keys + own, known + own] = 1
    features[entry, keys + own, 2 * known + numpy.concatenate([values, others], 1)] = 1
    labels = numpy.full((groups, size), -1, dtype=numpy.int64)
    labels[:, :keys] = values
    first = size * numpy.arange(groups)[:, None, None]
    sources = first + keys + numpy.arange(known)[None, :, None] + numpy.zeros((1, 1, keys), dtype=numpy.int64)
    targets = first + numpy.arange(keys)[None, None, :] + numpy.zeros((1, known, 1), dtype=numpy.int64)
    order, cuts = random.permutation(groups), [round(groups * share) for share in SHARES]
    askers = size * numpy.arange(groups)[:, None] + numpy.arange(keys)
    parts = dict(zip(("train", "valid", "test"), numpy.split(askers[order], cuts), strict=True))
    return Drawn(
        features=features.reshape(groups * size, -1),
        edges=numpy.stack([sources.ravel(), targets.ravel()], 1),
        labels=labels.ravel(),
        classes=tuple(map(str, range(keys))),
        parts={part: numpy.sort(nodes.ravel()) for part, nodes in parts.items()},
        names=tuple(name for at in range(groups) for name in _names(at, values[at].tolist(), others[at].tolist())),
    )


def _names(group: int, values: list[int], others: list[int]) -> list[str]:
    """The ids of the nodes of a group: "7:3?" asks for the key 3, "7:3=1" is the entry with the value 1."""
    asking = [f"{group}:{key}?" for key in range(len(values))]
    return [*asking, *(f"{group}:{key}={value}" for key, value in enumerate([*values, *others]))]
