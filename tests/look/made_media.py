"""Records of pictures, a graph and a series whose weights are known, for the tests of all ways to show them."""

from __future__ import annotations

import numpy as np
from made_records import Floats, Record, attention_map, png, record, softmax, tokens

SUN = 12  # the patch of 6 × 8 with most of the sun: row 1, column 5, counted without the class token
ROWS, COLUMNS = 6, 8
WORDS = ["a", "yellow", "sun", "over", "a", "green", "hill", "</s>"]
CLASSES = ["theory", "vision", "language", "graphs"]
MONTHS, AHEAD = 144, 24


def patches(rows: int, columns: int, before: tuple[str, ...] = (), *, picture: bool = True) -> Record:
    """A side of patches of the picture of a sun over a hill."""
    names = [f"row {row}, column {column}" for row in range(rows) for column in range(columns)]
    side: Record = {"kind": "patches", "items": [*before, *names], "rows": rows, "columns": columns}
    return side | ({"picture": png(256, 192)} if picture else {})


def near(rows: int, columns: int, aims: list[tuple[float, float]], sharp: float) -> Floats:
    """Scores of each aim (row, column) for all patches: the nearer, the larger (aims, rows · columns)."""
    down, right = np.mgrid[0:rows, 0:columns].reshape(2, -1)
    scores = [-sharp * np.hypot(down - row, right - column) for row, column in aims]
    return np.array(scores, dtype=np.float32)


def seen(layers: int = 3, heads: int = 2) -> Record:
    """A Vision Transformer: a class token that looks at the sun, and patches that look around themselves."""
    generator = np.random.default_rng(3)
    own = [(row, column) for row in range(ROWS) for column in range(COLUMNS)]
    maps = []
    for layer in range(layers):
        scores = generator.normal(size=(heads, 1 + len(own), 1 + len(own))) * 0.4
        scores[:, 1:, 1:] += near(ROWS, COLUMNS, own, 1.2)
        scores[:, 0, 1:] += 3 + near(ROWS, COLUMNS, [(1.3, 5.2)], 0.4 + 0.5 * layer)[0]
        fields = {"kind": "self", "query": "source", "key": "source", "layer": layer}
        maps.append(attention_map(f"blocks.{layer}.attention", softmax(scores.astype(np.float32)), **fields))
    answer = {
        "text": "landscape",
        "logprobs": [-0.2],
        "alternatives": [[["landscape", -0.2], ["portrait", -2.1], ["still life", -3.3]]],
        "places": [0],
    }
    sides = {"source": patches(ROWS, COLUMNS, ("[CLS]",)), "target": tokens(["landscape"])}
    return record(sides, maps, title="sun.png → landscape", answer=answer, model={"name": "runs/vit", "task": "see"})


def windowed() -> Record:
    """Swin: windows of 4 × 4 in a grid of 8 × 12, shifted in the second layer, then a coarser grid of 4 × 6 whole."""
    generator = np.random.default_rng(4)

    def inside(rows: int, columns: int, size: int, shift: int) -> Floats:
        down, right = np.mgrid[0:rows, 0:columns].reshape(2, -1)
        window = (down + shift) // size * 100 + (right + shift) // size
        scores = generator.normal(size=(2, rows * columns, rows * columns)).astype(np.float32)
        return softmax(np.where(window[:, None] == window, scores, -np.inf))

    fields = {"kind": "self", "query": "source", "key": "source"}
    coarse = {"kind": "self", "query": "stage 1", "key": "stage 1", "layer": 2}
    maps = [
        attention_map("stages.0.0", inside(8, 12, 4, 0), **fields, layer=0),
        attention_map("stages.0.1", inside(8, 12, 4, 2), **fields, layer=1),
        attention_map("stages.1.0", inside(4, 6, 99, 0), **coarse),
    ]
    sides = {"source": patches(8, 12), "stage 1": patches(4, 6, picture=False)}
    return record(sides, maps, title="windows", model={"name": "runs/swin", "task": "see"})


def captioned() -> Record:
    """A caption whose words look at what they name, in a picture of 6 × 8 patches."""
    aims = [(2, 4), (1.3, 5.2), (1.3, 5.2), (3, 4), (5, 3), (5, 3), (5, 4), (3, 4)]
    sharp = np.array([0.1, 1.5, 2, 0.2, 0.3, 0.6, 0.7, 0.05])[:, None]
    weights = softmax((near(ROWS, COLUMNS, aims, 1) * sharp)[None].astype(np.float32))
    answer = {"text": "a yellow sun over a green hill", "logprobs": [-0.1] * len(WORDS), "alternatives": []}
    sides = {"source": patches(ROWS, COLUMNS), "target": tokens(WORDS)}
    return record(
        sides,
        [attention_map("decoder.attention", weights)],
        title="sun.png → a yellow sun over a green hill",
        answer=answer,
        model={"name": "runs/captions", "task": "caption"},
    )


def glimpsed() -> Record:
    """Five glimpses of 3 × 3 patches each, one after the other."""
    centres = [(4, 1), (3, 3), (2, 4), (1, 5), (1, 6)]
    weights = np.zeros((1, len(centres), ROWS, COLUMNS), dtype=np.float32)
    for glimpse, (row, column) in enumerate(centres):
        weights[0, glimpse, row - 1 : row + 2, column - 1 : column + 2] = 1
    weights = (weights / weights.sum((2, 3), keepdims=True)).reshape(1, len(centres), -1)
    steps = {"kind": "steps", "items": [f"glimpse {number + 1}" for number in range(len(centres))]}
    made = attention_map("glimpses", weights, query="glimpses")
    return record({"source": patches(ROWS, COLUMNS), "glimpses": steps}, [made], title="glimpses")


def citations(count: int = 40) -> Record:
    """The neighbourhood of paper 0: four classes that cite their own more often; two layers, two heads."""
    generator = np.random.default_rng(5)
    classes = np.arange(count) % len(CLASSES)
    pairs = {(0, node) for node in range(1, 9)}
    while len(pairs) < 2 * count:
        one, other = sorted(generator.integers(count, size=2).tolist())
        if one != other and (classes[one] == classes[other] or generator.random() < 0.15):
            pairs.add((one, other))
    allowed = np.eye(count, dtype=bool)
    for one, other in pairs:
        allowed[one, other] = allowed[other, one] = True
    fields = {"kind": "self", "query": "source", "key": "source"}
    maps = []
    for layer in range(2):
        scores = generator.normal(size=(2, count, count)).astype(np.float32)
        scores += 1.5 * (classes[:, None] == classes)
        maps.append(
            attention_map(f"layers.{layer}", softmax(np.where(allowed, scores, -np.inf)), layer=layer, **fields)
        )
    side = {
        "kind": "nodes",
        "items": [f"paper {node}" for node in range(count)],
        "edges": [list(pair) for pair in sorted(pairs)],
        "labels": [CLASSES[number] for number in classes],
    }
    answer = {
        "text": "theory",
        "logprobs": [-0.3],
        "alternatives": [[["theory", -0.3], ["vision", -1.9], ["graphs", -2.6]]],
        "places": [0],
    }
    sides = {"source": side, "target": tokens(["theory"])}
    model = {"name": "runs/graph", "kind": "gat", "task": "nodes"}
    return record(sides, maps, title="paper 0 → theory", answer=answer, model=model)


def passengers() -> Record:
    """Twelve years of months and two more as a forecast, whose steps look at the same month of earlier years."""
    generator = np.random.default_rng(6)
    month = np.arange(MONTHS + AHEAD)
    values = (120 + 2.4 * month) * (1 + 0.22 * np.sin(2 * np.pi * (month - 3) / 12)) + generator.normal(size=len(month))
    names = [f"{1949 + at // 12}-{at % 12 + 1:02}" for at in month]
    ahead = values[MONTHS:]
    spread = 10 + 1.5 * np.arange(AHEAD)
    bands = [
        [0.5, (ahead - spread).round(2).tolist(), (ahead + spread).round(2).tolist()],
        [0.8, (ahead - 2 * spread).round(2).tolist(), (ahead + 2 * spread).round(2).tolist()],
    ]
    back = (MONTHS + np.arange(AHEAD))[:, None] - np.arange(MONTHS)
    scores = np.where(back % 12 == 0, 4.0, 0.0) - back / 30
    heads = np.stack([scores, -back / 8.0]).astype(np.float32)
    past = {"kind": "steps", "items": names[:MONTHS], "values": values[:MONTHS].round(2).tolist()}
    future = {"kind": "steps", "items": names[MONTHS:], "values": ahead.round(2).tolist(), "bands": bands}
    gates = np.tril(np.power(0.93, np.maximum(np.arange(MONTHS)[:, None] - np.arange(MONTHS), 0)) * 0.5)
    maps = [
        attention_map("decoder.attention", softmax(heads)),
        attention_map("encoder.gates", gates[None], kind="gates", query="source", key="source", sums="any"),
    ]
    return record(
        {"source": past, "target": future}, maps, title="passengers", model={"name": "runs/series", "task": "forecast"}
    )


def pooled() -> Record:
    """A set of ten numbers that one seed pools, two heads."""
    numbers = [3, 97, 12, 45, 97, 8, 60, 22, 91, 5]
    scores = np.stack([np.array(numbers) / 10.0, np.array(numbers) / 40.0])[:, None].astype(np.float32)
    sides = {"source": tokens([str(number) for number in numbers]), "seed": {"kind": "steps", "items": ["seed 1"]}}
    made = attention_map("pool", softmax(scores), query="seed")
    return record(sides, [made], title="3 97 12 … → 97", model={"name": "runs/sets", "task": "sets"})
