"""A record of attention: a plain value that saves, loads and shows itself. `docs/record.md` describes its JSON.

All drawing is done from a record and never from a model, so that files, servers and notebooks show the same.
"""

from __future__ import annotations

import base64
import html
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self

import numpy
import torch
from torch import Tensor

from regard.durable import write_file
from regard.errors import RegardError, shown
from regard.look.show import LONGEST, printable
from regard.tasks.base import Side

FORMAT, VERSION = "regard.record", 1
PRECISE = 1_000_000  # a record with more weights than these in all stores them as bytes
COMPRESSED = 4096  # with more bytes than these, they are compressed
PRECISE_VECTORS = 20_000  # with more numbers than these in its queries and keys, a map has them in half precision

Kind = Literal["self", "cross", "gates", "graph", "image"]


@dataclass(frozen=True)
class Map:
    """The weights (H, Q, K) of one attention; row i has the weights of item i of side `query` on side `key`."""

    name: str
    kind: Kind
    query: str
    key: str
    weights: Tensor = field(repr=False)
    heads: tuple[int, ...]
    layer: int | None = None
    sums: Literal["one", "any"] = "one"
    inputs: tuple[str, ...] | None = field(default=None, repr=False)  # the tokens read at the positions of a causal map
    # (H, Q, D) and (H, K, D), whose dot products are the scores
    vectors: tuple[Tensor, Tensor] | None = field(default=None, repr=False)
    part: str = ""  # a sentence that says what these are of all weights, if they are not all


@dataclass(frozen=True)
class Answer:
    """The answer, the log-probability of each item, and the alternatives to each."""

    text: str
    logprobs: tuple[float, ...]
    alternatives: tuple[tuple[tuple[str, float], ...], ...] = ()
    places: tuple[int, ...] = ()  # the source item that each item is about, if there is one


@dataclass(frozen=True, repr=False)
class Record:
    """What a model looked at while it answered, or read, one input.

    `notes` are sentences for the reader, such as "The text was cut to 256 tokens."; every way of showing the record
    shows them.
    """

    title: str
    sides: Mapping[str, Side]
    maps: tuple[Map, ...]
    model: Mapping[str, str] = field(default_factory=dict)
    answer: Answer | None = None
    saliency: Mapping[str, Map] = field(default_factory=dict)
    beam: Mapping[str, Any] | None = None
    statistics: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One short line; the numbers are in `maps`."""
        sides = ", ".join(f"{printable(name, most=LONGEST)} {len(side.items)}" for name, side in self.sides.items())
        title = printable(self.title, most=2 * LONGEST)
        return f"Record({title!r}, sides: {sides or 'none'}, maps: {len(self.maps)})"

    def map(self, name: str) -> Map:
        """The map called `name`."""
        for each in self.maps:
            if each.name == name:
                return each
        raise KeyError(f"there is no map {name!r}; there are {', '.join(each.name for each in self.maps)}")

    def only(self, *, layer: int | None = None, head: int | None = None) -> Self:
        """The record with the maps of one layer, one head, or both."""
        maps = [each for each in self.maps if layer is None or each.layer == layer]
        if head is not None:
            maps = [_one_head(each, head) for each in maps if head in each.heads]
        if not maps:
            layers = sorted({each.layer for each in self.maps if each.layer is not None})
            raise RegardError(
                f"there are no weights of layer {layer}, head {head}; layers are {layers}, heads count from 0"
            )
        return replace(self, maps=tuple(maps))

    def to_json(self) -> dict[str, Any]:
        """The JSON of `docs/record.md`."""
        compact = sum(each.weights.numel() for each in self.maps) > PRECISE
        stored = {
            "format": FORMAT,
            "version": VERSION,
            "title": self.title,
            "model": dict(self.model),
            "sides": {name: _finite(_without_none(asdict(side))) for name, side in self.sides.items()},
            "maps": [_map_to_json(each, compact=compact) for each in self.maps],
            "answer": None if self.answer is None else _finite(_answer_to_json(self.answer)),
            "saliency": {name: _map_to_json(each, compact=compact) for name, each in self.saliency.items()},
            "beam": _finite(self.beam),
            "statistics": _finite(self.statistics),
        }
        return {**stored, "notes": list(self.notes)} if self.notes else stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The record of a result of `to_json`; another format or version is a RegardError."""
        if not isinstance(stored, Mapping):
            raise RegardError("this is JSON, and not a record; make one with: regard look")
        if stored.get("format") != FORMAT or stored.get("version") != VERSION:
            found = f"{stored.get('format')!r}, version {stored.get('version')!r}"
            raise RegardError(
                f"this is {found}, and not a record of version {VERSION}; make it again with: regard look"
            )
        try:
            answer = stored["answer"]
            return cls(
                title=stored["title"],
                model=stored["model"],
                sides={name: _side_from_json(side) for name, side in stored["sides"].items()},
                maps=tuple(map(_map_from_json, stored["maps"])),
                answer=None if answer is None else _answer_from_json(answer),
                saliency={name: _map_from_json(each) for name, each in stored["saliency"].items()},
                beam=stored["beam"],
                statistics=stored["statistics"],
                notes=tuple(map(str, stored.get("notes", ()))),
            )
        except (AttributeError, KeyError, TypeError, ValueError, zlib.error) as error:
            raise RegardError(f"the record is damaged ({error!r}); make it again with: regard look") from None

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """A record saved as JSON."""
        try:
            return cls.from_json(json.loads(Path(path).read_text("utf-8")))
        except (OSError, ValueError, RecursionError) as error:
            raise RegardError(f"{path} cannot be read as a record: {error}") from None

    def save(self, path: str | Path) -> None:
        """By the ending of `path`: .json (the record), .html (the page), .png, .svg or .pdf (a picture).

        The file is either whole or not there; a place that cannot be written to is a RegardError.
        """
        from regard.look import page, pictures

        if not isinstance(path, str | PathLike):
            raise RegardError(f"a record is saved to a file with a name, such as record.html, and not to {shown(path)}")
        path = Path(path)
        if path.suffix == ".json":
            # a lone surrogate, which UTF-8 cannot encode, becomes its JSON escape
            write_file(path, json.dumps(self.to_json(), ensure_ascii=False).encode(errors="backslashreplace"))
        elif path.suffix == ".html":
            page.save([self.to_json()], path)
        elif path.suffix in pictures.SUFFIXES:
            write_file(path, pictures.draw(self, path.suffix))
        else:
            raise RegardError(f"{path}: a record is saved as .json, .html, {', '.join(pictures.SUFFIXES)}")

    def _repr_html_(self) -> str:
        """In a notebook: the page, in a sandboxed frame."""
        from regard.look import page

        inside = html.escape(page.render([self.to_json()]), quote=True)
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{inside}" style="width: 100%; height: 640px; border: 0"></iframe>'
        )


def _one_head(each: Map, head: int) -> Map:
    place = slice(each.heads.index(head), each.heads.index(head) + 1)
    vectors = None if each.vectors is None else (each.vectors[0][place], each.vectors[1][place])
    return replace(each, weights=each.weights[place], heads=(head,), vectors=vectors)


def _map_to_json(each: Map, *, compact: bool) -> dict[str, Any]:
    fields = {name: value for name, value in vars(each).items() if name not in ("weights", "inputs", "vectors", "part")}
    if each.part:
        fields["part"] = each.part
    if each.inputs is not None:
        fields["inputs"] = list(each.inputs)
    if each.vectors is not None:
        fields["vectors"] = _encode_vectors(*each.vectors)
    weights = _encode(each.weights, compact=compact)
    return {**fields, "heads": list(each.heads), "shape": list(each.weights.shape), **weights}


def _map_from_json(stored: Mapping[str, Any]) -> Map:
    fields = {name: stored[name] for name in ("name", "kind", "query", "key", "layer", "sums")}
    inputs = tuple(stored["inputs"]) if "inputs" in stored else None
    vectors = _decode_vectors(stored) if "vectors" in stored else None
    return Map(
        **fields,
        heads=tuple(stored["heads"]),
        weights=_decode(stored),
        inputs=inputs,
        vectors=vectors,
        part=str(stored.get("part", "")),
    )


def _side_from_json(stored: Mapping[str, Any]) -> Side:
    lists: dict[str, Any] = {name: tuple(stored[name]) for name in ("items", "labels") if name in stored}
    if "edges" in stored:
        lists["edges"] = tuple((int(i), int(j)) for i, j in stored["edges"])
    if "values" in stored:
        lists["values"] = _numbers(stored["values"])
    if "bands" in stored:
        lists["bands"] = tuple((float(level), _numbers(low), _numbers(high)) for level, low, high in stored["bands"])
    return Side(**{**stored, **lists})


def _numbers(stored: Sequence[float | None]) -> tuple[float, ...]:
    """Numbers of a series; null means that there is none at this step."""
    return tuple(math.nan if value is None else float(value) for value in stored)


def _answer_to_json(answer: Answer) -> dict[str, Any]:
    return {name: value for name, value in asdict(answer).items() if name != "places" or value}


def _answer_from_json(stored: Mapping[str, Any]) -> Answer:
    alternatives = tuple(tuple((name, _logprob(value)) for name, value in step) for step in stored["alternatives"])
    logprobs = tuple(map(_logprob, stored["logprobs"]))
    return Answer(stored["text"], logprobs, alternatives, tuple(stored.get("places", ())))


def _logprob(stored: float | None) -> float:
    """A log-probability; null means a probability of zero."""
    return -math.inf if stored is None else stored


def _finite(value: Any) -> Any:
    """The same value for JSON, with null for numbers that are not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


def _encode(weights: Tensor, *, compact: bool) -> dict[str, str]:
    """Numbers as base64. If `compact` and none is negative, they are bytes with a scale for each row; long data is
    compressed."""
    numbers = weights.detach().to("cpu", torch.float32).numpy()
    scales: dict[str, str] = {}
    encoding, data = "f32", numbers.astype("<f4").tobytes()
    if compact and numbers.min(initial=0) >= 0:
        largest = numbers.max(-1, keepdims=True, initial=0)
        encoding = "u8"
        data = numpy.round(numbers / numpy.where(largest > 0, largest, 1) * 255).astype(numpy.uint8).tobytes()
        scales = {"scales": base64.b64encode(largest.astype("<f4").tobytes()).decode()}
    if len(data) > COMPRESSED:
        encoding, data = f"{encoding}+deflate", zlib.compress(data, 6)
    return {"encoding": encoding, **scales, "weights": base64.b64encode(data).decode()}


def _decode(stored: Mapping[str, Any]) -> Tensor:
    kind, _, compressed = stored["encoding"].partition("+")
    data = base64.b64decode(stored["weights"])
    data = zlib.decompress(data) if compressed else data
    if kind == "f32":
        return torch.from_numpy(numpy.frombuffer(data, "<f4").reshape(stored["shape"]).copy())
    scales = numpy.frombuffer(base64.b64decode(stored["scales"]), "<f4").reshape(*stored["shape"][:-1], 1)
    numbers = numpy.frombuffer(data, numpy.uint8).reshape(stored["shape"]).astype(numpy.float32)
    return torch.from_numpy(numbers / 255 * scales)


def _encode_vectors(queries: Tensor, keys: Tensor) -> dict[str, Any]:
    """Both as base64, in single precision if they are few or too large for half."""
    both = [x.detach().to("cpu", torch.float32).numpy() for x in (queries, keys)]
    many = sum(x.size for x in both) > PRECISE_VECTORS
    half = many and all(numpy.abs(x).max(initial=0) <= numpy.finfo(numpy.float16).max for x in both)
    stored = [base64.b64encode(x.astype("<f2" if half else "<f4").tobytes()).decode() for x in both]
    return {
        "width": queries.shape[-1],
        "encoding": "f16" if half else "f32",
        "queries": stored[0],
        "keys": stored[1],
    }


def _decode_vectors(each: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    stored, (heads, queries, keys) = each["vectors"], each["shape"]
    kind = {"f16": "<f2", "f32": "<f4"}[stored["encoding"]]

    def read(name: str, length: int) -> Tensor:
        numbers = numpy.frombuffer(base64.b64decode(stored[name]), kind).astype(numpy.float32)
        return torch.from_numpy(numbers.reshape(heads, length, stored["width"]))

    return read("queries", queries), read("keys", keys)


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
