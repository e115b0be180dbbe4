"""Records whose every number is known, for the tests of the page."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Record = dict[str, Any]
Floats = NDArray[np.float32]

SOURCE = ["▁a", "▁man", "▁sleeps", "▁on", "▁the", "▁old", "▁green", "▁bench", "</s>"]
TARGET = ["▁ein", "▁mann", "▁schläft", "▁auf", "▁der", "▁alten", "▁grünen", "▁bank", ".", "</s>"]
HOSTILE = [
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=2>",
    "\u202eright to left\u202c",
    "nul\x00nul",
    "x" * 10_000,
    "\u2028\u2029]]>&amp;<!--",
    "\ud800",
    "",
    "שלום",
]


def encode(weights: ArrayLike, encoding: str = "f32") -> Record:
    """The fields `encoding`, `weights` and, for bytes, `scales`: rows are all axes but the last."""
    values = np.asarray(weights, dtype="<f4")
    fields: Record = {"encoding": encoding}
    if encoding.startswith("u8"):
        scales = values.max(-1, keepdims=True)
        numbers = np.rint(values / np.where(scales > 0, scales, 1) * 255).astype(np.uint8)
        fields["scales"] = base64.b64encode(scales.astype("<f4").tobytes()).decode()
    else:
        numbers = values
    raw = numbers.tobytes()
    fields["weights"] = base64.b64encode(zlib.compress(raw, 6) if encoding.endswith("deflate") else raw).decode()
    return fields


def attention_map(name: str, weights: ArrayLike, *, encoding: str = "f32", **fields: Any) -> Record:
    heads, queries, keys = np.asarray(weights).shape
    return {
        "name": name,
        "kind": "cross",
        "query": "target",
        "key": "source",
        "layer": None,
        "heads": list(range(heads)),
        "shape": [heads, queries, keys],
        "sums": "one",
        **encode(weights, encoding),
        **fields,
    }


def tokens(items: list[str], text: str | None = None) -> Record:
    return {"kind": "tokens", "items": items, "text": " ".join(items) if text is None else text}


def record(sides: Record, maps: list[Record], **fields: Any) -> Record:
    return {
        "format": "regard.record",
        "version": 1,
        "title": "made for a test",
        "model": {"name": "runs/made", "kind": "transformer", "task": "translate"},
        "sides": sides,
        "maps": maps,
        "answer": None,
        "saliency": None,
        "beam": None,
        "statistics": None,
        **fields,
    }


TWO_HEADS = np.array(
    [[[0.75, 0.25, 0.0], [0.125, 0.5, 0.375]], [[0.0, 0.0, 1.0], [0.3125, 0.0625, 0.625]]], dtype=np.float32
)


def two_heads(encoding: str = "f32") -> Record:
    """Two heads, two queries, three keys, written by hand; the mean of query 1 and key 2 is exactly one half."""
    sides = {"source": tokens(["one", "two", "three"]), "target": tokens(["eins", "zwei"])}
    return record(sides, [attention_map("cross", TWO_HEADS, encoding=encoding)], title="one two three → eins zwei")


def softmax(scores: Floats) -> Floats:
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    result: Floats = (exponents / exponents.sum(-1, keepdims=True)).astype(np.float32)
    return result


def looking(generator: np.random.Generator, heads: int, queries: int, keys: int, *, causal: bool = False) -> Floats:
    """Weights as heads have them: near the diagonal, one step beside it, at the ends, or spread out."""
    row, column = np.arange(queries)[:, None] * (keys / max(queries, 1)), np.arange(keys)[None, :]
    scores = generator.normal(size=(heads, queries, keys))
    for head in range(heads):
        sharp = 0.5 + 3.5 * generator.random()
        aim = [row, row - 1, row + 1, row * 0, row * 0 + keys - 1, row][head % 6]
        scores[head] += 0.0 if head % 6 == 5 else -sharp * np.minimum(np.abs(column - aim), 6.0)
    if causal:
        scores = np.where(np.tri(queries, keys, dtype=bool), scores, -np.inf)
    return softmax(scores.astype(np.float32))


def answer(generator: np.random.Generator, target: list[str]) -> Record:
    logprobs = [round(float(-generator.exponential(0.25)), 4) for _ in target]
    others = ["▁eine", "▁das", "▁schlafen", ","]
    alternatives = [
        [[token, logprob], *([other, round(logprob - 1.0 - rank, 4)] for rank, other in enumerate(others))]
        for token, logprob in zip(target, logprobs, strict=True)
    ]
    return {"text": "ein mann schläft auf der alten grünen bank.", "logprobs": logprobs, "alternatives": alternatives}


def beam(target: list[str]) -> Record:
    """A beam of three: the answer, a runner-up that finished, and what was dropped on the way."""
    nodes: list[Record] = []

    def grow(parent: int, token: str, logprob: float, state: str) -> int:
        before = nodes[parent] if parent >= 0 else {"sum": 0.0, "step": -1}
        node = {"parent": parent, "token": token, "logprob": logprob, "sum": round(before["sum"] + logprob, 4)}
        nodes.append({**node, "step": before["step"] + 1, "state": state})
        return len(nodes) - 1

    best = other = -1
    for step, token in enumerate(target):
        last = step == len(target) - 1
        parent = best
        best = grow(parent, token, -0.1 - 0.02 * step, "answer" if last else "kept")
        grow(parent, "▁das", -3.2, "dropped")
        if step == 2:
            other = grow(parent, "▁schlummert", -1.4, "kept")
        elif other >= 0 and step < 6:
            other = grow(other, token if step < 5 else "</s>", -0.5, "kept" if step < 5 else "finished")
            if step == 5:
                other = -1
    return {"nodes": nodes}


def wide_beam(steps: int, width: int) -> Record:
    """A beam search over so many steps: each keeps `width` and drops as many, and the best end as the answer."""
    generator = np.random.default_rng(5)
    words = ["▁ein", "▁junger", "▁mann", "▁backsteingebäude", "▁und", ".", "▁in", "▁straßenbahnhaltestelle"]
    nodes: list[Record] = []
    alive = [-1]
    for step in range(steps):
        begun = len(nodes)
        for place in range(2 * width):
            parent = alive[0] if place == 0 else alive[int(generator.integers(len(alive)))]
            logprob = round(float(-generator.exponential(0.5)), 4)
            total = round(logprob + (nodes[parent]["sum"] if parent >= 0 else 0.0), 4)
            state = ("answer" if place == 0 else "kept") if place < width else "dropped"
            token = words[int(generator.integers(len(words)))]
            node = {"parent": parent, "token": token, "logprob": logprob, "sum": total, "step": step, "state": state}
            nodes.append(node)
        alive = list(range(begun, begun + width))
    return {"nodes": nodes}


def statistics(maps: list[Record], generator: np.random.Generator) -> Record:
    measures = ["previous", "same", "next", "first", "last", "punctuation", "special"]
    heads = [
        {"map": each["name"], "head": head, "entropy": round(float(3 * generator.random()), 4)}
        | {
            name: round(float(value), 4)
            for name, value in zip(measures, generator.dirichlet([0.5] * 7), strict=True)
            if each["query"] == each["key"] or name not in measures[:3]
        }
        | {"distance": round(float(8 * generator.random()), 4)}
        for each in maps
        for head in each["heads"]
    ]
    points = generator.normal(size=(len(heads), 2))
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1).round(6).tolist()
    sides = [(each["query"], each["key"]) for each in maps for _ in each["heads"]]
    similarity = [
        [distance if one == other else None for distance, other in zip(row, sides, strict=True)]
        for row, one in zip(distances, sides, strict=True)
    ]
    return {"sentences": 100, "heads": heads, "similarity": similarity}


def vectors_of(queries: Floats, keys: Floats, encoding: str = "f32") -> Record:
    """The field `vectors` of a map: queries (H, Q, D) and keys (H, K, D)."""
    kind = {"f32": "<f4", "f16": "<f2"}[encoding]
    stored = [base64.b64encode(x.astype(kind).tobytes()).decode() for x in (queries, keys)]
    return {"width": queries.shape[-1], "encoding": encoding, "queries": stored[0], "keys": stored[1]}


def decode_vectors(stored: Record) -> tuple[Floats, Floats]:
    """Queries and keys of a map, as numpy reads them."""
    heads, queries, keys = stored["shape"]
    kind = {"f32": "<f4", "f16": "<f2"}[stored["vectors"]["encoding"]]

    def read(name: str, length: int) -> Floats:
        numbers = np.frombuffer(base64.b64decode(stored["vectors"][name]), kind).astype(np.float32)
        return numbers.reshape(heads, length, stored["vectors"]["width"])

    return read("queries", queries), read("keys", keys)


def transformer(layers: int = 4, heads: int = 8, encoding: str = "f32", vectors: str = "f32") -> Record:
    """What a Transformer that translates gives, everything asked for; no queries and keys of its first layer."""
    generator = np.random.default_rng(7)
    source, target = len(SOURCE), len(TARGET)
    maps = []
    for layer in range(layers):
        shared = {"layer": layer, "encoding": encoding}
        inside = {"kind": "self", "query": "source", "key": "source"}
        said = {"kind": "self", "query": "target", "key": "target", "inputs": ["<s>", *TARGET[:-1]]}
        own = looking(generator, heads, source, source)
        maps.append(attention_map(f"encoder.blocks.{layer}.attention", own, **shared, **inside))
        own = looking(generator, heads, target, target, causal=True)
        maps.append(attention_map(f"decoder.blocks.{layer}.attention", own, **shared, **said))
        queries, keys = generator.normal(size=(heads, target, 16)) / 2, generator.normal(size=(heads, source, 16))
        across = softmax((queries @ keys.transpose(0, 2, 1)).astype(np.float32))
        known = {"vectors": vectors_of(queries, keys, vectors)} if layer else {}
        maps.append(attention_map(f"decoder.blocks.{layer}.cross", across, **shared, **known))
    saliency = generator.normal(size=(target, source)) * 0.2 + np.eye(target, source)
    return record(
        {"source": tokens(SOURCE, "a man sleeps on the old green bench"), "target": tokens(TARGET)},
        maps,
        title="a man sleeps on the old green bench → ein mann schläft auf der alten grünen bank.",
        answer=answer(generator, TARGET),
        saliency={"source": attention_map("saliency", saliency[None], sums="any")},
        beam=beam(TARGET),
        statistics=statistics(maps, generator),
    )


def long_self_attention(length: int = 512, layers: int = 6, heads: int = 8) -> Record:
    """Self-attention over a long text, as compactly as the record can hold it."""
    generator = np.random.default_rng(11)
    items = [f"▁word{place}" for place in range(length)]
    shared = {"kind": "self", "query": "source", "key": "source", "encoding": "u8+deflate"}
    maps = [
        attention_map(f"blocks.{layer}", looking(generator, heads, length, length), layer=layer, **shared)
        for layer in range(layers)
    ]
    return record({"source": tokens(items)}, maps, title=f"{length} words")


def hostile() -> Record:
    """Text that would like to be code, everywhere a record holds text."""
    generator = np.random.default_rng(13)
    count = len(HOSTILE)
    maps = [
        attention_map(f"{HOSTILE[0]}{layer}", looking(generator, 2, count, count), layer=layer, kind=kind, key=key)
        for layer in range(2)
        for kind, key in (("cross", "source"), ("self", "target"))
    ]
    alternatives = [[[token, -0.5], [HOSTILE[0], -1.5]] for token in HOSTILE]
    sides = {"source": tokens(HOSTILE), "target": tokens(HOSTILE)}
    made = record(sides, maps, title=HOSTILE[0] + HOSTILE[2] + HOSTILE[4])
    made["model"] = {"name": HOSTILE[1], "kind": HOSTILE[0], "task": HOSTILE[2]}
    made["answer"] = {"text": "".join(HOSTILE), "logprobs": [-0.5] * count, "alternatives": alternatives}
    made["saliency"] = {HOSTILE[0]: attention_map(HOSTILE[0], np.eye(count)[None])}
    made["beam"] = beam(HOSTILE)
    made["statistics"] = statistics(maps, generator)
    maps[0]["vectors"] = vectors_of(generator.normal(size=(2, count, 3)), generator.normal(size=(2, count, 3)))
    return made


def gates() -> Record:
    """Weights over the past that need not sum to one."""
    weights = np.tril(np.full((1, 5, 5), 0.75, dtype=np.float32))
    steps = {"kind": "steps", "items": [f"step {number}" for number in range(5)]}
    return record({"past": steps}, [attention_map("cell", weights, kind="gates", query="past", key="past", sums="any")])


def picture() -> Record:
    """A picture of 3 × 4 patches and a class token before them, looking at itself."""
    rows, columns = 3, 4
    weights = np.zeros((1, 13, 13), dtype=np.float32)
    weights[0, :, 0] = 0.25
    weights[0, np.arange(13), np.arange(13)[::-1]] += 0.75
    items = ["[CLS]", *(f"row {row}, column {column}" for row in range(rows) for column in range(columns))]
    side = {
        "kind": "patches",
        "items": items,
        "rows": rows,
        "columns": columns,
        "picture": png(columns * 16, rows * 16),
    }
    return record(
        {"image": side}, [attention_map("blocks.0", weights, kind="image", query="image", key="image", layer=0)]
    )


def png(width: int, height: int) -> str:
    """A small picture (a sun over a hill) as a data URL."""
    down, right = np.mgrid[0:height, 0:width].astype(float)
    sun = np.hypot(down - height * 0.3, right - width * 0.7) < height * 0.18
    hill = down > height * 0.62 + height * 0.12 * np.sin(right / width * 6)
    pixels = np.empty((height, width, 3), dtype=np.uint8)
    pixels[...] = (120, 180, 230)
    pixels[hill] = (70, 130, 60)
    pixels[sun] = (250, 210, 60)
    lines = b"".join(b"\x00" + line.tobytes() for line in pixels)

    def chunk(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + name + data + zlib.crc32(name + data).to_bytes(4)

    signature = b"\x89PNG\r\n\x1a\n"
    header = width.to_bytes(4) + height.to_bytes(4) + bytes([8, 2, 0, 0, 0])
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return f"data:image/png;base64,{base64.b64encode(signature + body).decode()}"


def graph() -> Record:
    """Seven papers that cite each other in a ring with one chord; two heads."""
    count = 7
    pairs = [(node, (node + 1) % count) for node in range(count)] + [(0, 3)]
    scores = np.full((2, count, count), -np.inf, dtype=np.float32)
    for head in range(2):
        for one, other in pairs:
            scores[head, one, other] = scores[head, other, one] = (one * (head + 1)) % 4
        scores[head, np.arange(count), np.arange(count)] = 0
    side = {
        "kind": "nodes",
        "items": [f"paper {node}" for node in range(count)],
        "edges": [list(pair) for pair in pairs],
    }
    return record(
        {"papers": side}, [attention_map("gat.0", softmax(scores), kind="graph", query="papers", key="papers")]
    )


def decode(stored: Record) -> Floats:
    """The weights of a map, as numpy reads them."""
    kind, _, packing = stored["encoding"].partition("+")
    raw = base64.b64decode(stored["weights"])
    raw = zlib.decompress(raw) if packing else raw
    if kind == "f32":
        return np.frombuffer(raw, "<f4").reshape(stored["shape"])
    scales = np.frombuffer(base64.b64decode(stored["scales"]), "<f4").reshape(*stored["shape"][:-1], 1)
    result: Floats = np.frombuffer(raw, np.uint8).reshape(stored["shape"]) * (scales / 255)
    return result


def find(made: Record, name: str) -> Record:
    (found,) = (each for each in made["maps"] if each["name"] == name)
    result: Record = found
    return result


PAIR = ["[CLS]", "a", "cat", "sat", "[SEP]", "a", "cat", "slept", "[SEP]"]
BORDER = 5


def pair(layers: int = 3) -> Record:
    """Self-attention over two texts, of which the second begins at BORDER; two heads."""
    generator = np.random.default_rng(17)
    shared = {"kind": "self", "query": "source", "key": "source"}
    maps = [
        attention_map(
            f"blocks.{layer}", softmax(generator.normal(size=(2, len(PAIR), len(PAIR)))), layer=layer, **shared
        )
        for layer in range(layers)
    ]
    return record({"source": tokens(PAIR) | {"border": BORDER}}, maps, title="a pair")


SAID = ["O", "Romeo", ",", "Romeo", "!"]  # after "RO"
READ = ["RO", "O", "Romeo", ",", "Romeo"]


def writer(layers: int = 2, encoding: str = "f32", kept: int = -1) -> Record:
    """What a model that writes gives: causal maps, and the queries and keys of one layer."""
    generator = np.random.default_rng(19)
    count, width = len(SAID), 8
    maps = []
    for layer in range(layers):
        queries, keys = (generator.normal(size=(2, count, width)) for _ in range(2))
        scores = np.where(np.tri(count, dtype=bool), queries @ keys.transpose(0, 2, 1), -np.inf)
        fields = {"kind": "self", "query": "target", "key": "target", "layer": layer, "inputs": READ}
        known = {"vectors": vectors_of(queries, keys)} if layer == kept % layers else {}
        maps.append(
            attention_map(f"blocks.{layer}", softmax(scores.astype(np.float32)), encoding=encoding, **fields, **known)
        )
    sides = {"source": tokens(["RO"]), "target": tokens(SAID)}
    return record(sides, maps, title="RO → O Romeo, Romeo!", model={"name": "runs/writer", "task": "write"})


def classifier() -> Record:
    """A reader whose answer is a label: saliency of the label, and no attention on the same axes."""
    made = pair(1)
    made["sides"]["target"] = tokens(["same"])
    made["answer"] = {"text": "same", "logprobs": [-0.2], "alternatives": [[["same", -0.2]]], "places": [0]}
    made["saliency"] = {"source": attention_map("saliency", np.linspace(-1, 1, len(PAIR))[None, None], sums="any")}
    return made
