"""One stack of layers with its embedding, as CTranslate2 writes it down. No torch is imported here.

    layers       by the names of the weights; query, key and value become one matrix
    positions    sinusoidal, learned and none as tables; rotary and shaw as they are; alibi as a bias by distance
    deep_norm    CTranslate2 has no norm(α x + f(x)), so α is moved into the weights (see `Stack`)

M width  V vocabulary  N positions that tables reach
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from regard.directory import damaged_weights, require_whole
from regard.errors import RegardError

Array = NDArray[numpy.float32]

BASE = 10_000.0
FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


@dataclass(frozen=True)
class Shape:
    """What a stack is, whatever kind of model it is in."""

    embedding: str  # the path of the embedding in the weights
    stack: str  # the path of the layers
    decodes: bool  # whether a position looks only at those before it
    crosses: bool  # whether the layers also look at a memory
    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int
    position: str
    maximum: int  # how many learned positions
    wiring: str
    alpha: float  # weight of the residual in deep_norm; 1 otherwise
    activation: str
    scale: float = 1.0  # of embeddings
    norm: str = "layer"
    bias: bool = True  # of the linear maps
    key_value_heads: int | None = None
    offset: int = 0  # the position of the first token
    segments: int = 0  # how many kinds of segment have a vector
    embedding_norm: str = ""  # the path of a norm after the embedding


class Stack:
    """The spec of a stack.

    DeepNorm's norm(α x + f(x)) becomes a plain norm(y + g(y)) of y = α x: what the first layer reads and every norm but
    the last are multiplied by α, and what reads y is divided by it. For the other wirings α is 1.
    """

    def __init__(self, specs: Any, shape: Shape, weights: Weights, *, positions: int) -> None:
        self.specs, self.shape, self.weights, self.positions = specs, shape, weights, positions
        self.spec = self._build()

    def _build(self) -> Any:
        shape, spec = self.shape, self._empty()
        embeddings = spec.embeddings if shape.decodes else spec.embeddings[0]
        embeddings.weight = self.weights.of(shape.embedding, "table.weight", shape.vocabulary, shape.width)
        if shape.segments:
            spec.embeddings[1].weight = self.weights.read(self._beside("segments.weight"), shape.segments, shape.width)
        first = 1.0 if shape.embedding_norm else shape.alpha  # α comes with what the first layer reads
        spec.scale_embeddings = float(shape.scale * first)
        if shape.position in ("none", "sinusoidal", "learned"):
            spec.position_encodings.encodings = self._positions() * numpy.float32(first)
        self.weights.pass_over(f"{shape.embedding}.position.table")  # shaw's, which only attention uses
        if shape.embedding_norm:
            self._norm(spec.layernorm_embedding, shape.embedding_norm, scale=shape.alpha)
        for number, layer in enumerate(spec.layer):
            self._layer(layer, f"{shape.stack}.blocks.{number}", last=number == shape.layers - 1)
        if shape.wiring == "pre_norm":
            self._norm(spec.layer_norm, f"{shape.stack}.final", scale=1.0)
        return spec

    def _empty(self) -> Any:
        """The spec without weights."""
        shape = self.shape
        options: dict[str, Any] = {
            "pre_norm": shape.wiring == "pre_norm",
            "activation": _activation(self.specs, shape.activation),
            "ffn_glu": shape.activation == "swiglu",
            "rms_norm": shape.norm == "rms",
            "num_heads_kv": shape.key_value_heads,
            "layernorm_embedding": bool(shape.embedding_norm),
            "relative_position": shape.position == "shaw",
            "relative_attention_bias": shape.position == "alibi",
            "rotary_dim": 0 if shape.position == "rotary" else None,
            "rotary_interleave": False,
        }
        if shape.decodes:
            options["with_encoder_attention"] = shape.crosses
            return self.specs.TransformerDecoderSpec(shape.layers, shape.heads, **options)
        options["num_source_embeddings"] = 2 if shape.segments else 1
        options["embeddings_merge"] = self.specs.EmbeddingsMerge.ADD
        return self.specs.TransformerEncoderSpec(shape.layers, shape.heads, **options)

    def _beside(self, name: str) -> str:
        """The path of a weight that stands beside the embedding."""
        return self.shape.embedding.removesuffix("embedding") + name

    def _positions(self) -> Array:
        """A vector for each position: (N, M)."""
        width, offset = self.shape.width, self.shape.offset
        if self.shape.position == "learned":
            return self.weights.of(self.shape.embedding, "position.table", self.shape.maximum, width)[offset:]
        if self.shape.position == "sinusoidal":
            return sinusoidal(self.positions + offset, width)[offset:]
        return numpy.zeros((self.positions, width), numpy.float32)

    def _layer(self, layer: Any, name: str, *, last: bool) -> None:
        shape, alpha = self.shape, self.shape.alpha
        self._self_attention(layer.self_attention, f"{name}.attention")
        self._norm(layer.self_attention.layer_norm, f"{name}.around_attention.norm", scale=alpha)
        if shape.crosses:
            linears = layer.attention.linear
            self._linear(linears[0], f"{name}.cross.query", reads=True)
            self._linear(linears[1], f"{name}.cross.key", f"{name}.cross.value")
            self._linear(linears[2], f"{name}.cross.output")
            self._norm(layer.attention.layer_norm, f"{name}.around_cross.norm", scale=alpha)
        gated, inwards = shape.activation == "swiglu", (shape.hidden, shape.width)
        inner = f"{name}.feed_forward.{'gate' if gated else 'inner'}"
        self._linear(layer.ffn.linear_0, inner, reads=True, shape=inwards)
        if gated:
            self._linear(layer.ffn.linear_0_noact, f"{name}.feed_forward.inner", reads=True, shape=inwards)
        self._linear(layer.ffn.linear_1, f"{name}.feed_forward.outer", shape=(shape.width, shape.hidden))
        self._norm(layer.ffn.layer_norm, f"{name}.around_feed_forward.norm", scale=1.0 if last else alpha)

    def _self_attention(self, attention: Any, name: str) -> None:
        each = self.shape.width // self.shape.heads
        shared = (self.shape.key_value_heads or self.shape.heads) * each, self.shape.width
        queries = self._joined(f"{name}.query", reads=True)
        keys = self._joined(f"{name}.key", f"{name}.value", reads=True, shape=shared)
        self._set(attention.linear[0], *(numpy.concatenate(both) for both in zip(queries, keys, strict=True)))
        self._linear(attention.linear[1], f"{name}.output")
        if self.shape.position == "shaw":
            attention.relative_position_keys = self.weights.read(f"{name}.position.table", None, each)
            attention.relative_position_values = self.specs.model_spec.OPTIONAL
        elif self.shape.position == "alibi":
            attention.relative_attention_bias = self._distances()
            attention.relative_attention_max_distance = numpy.int32(2 * self.positions)

    def _distances(self) -> Array:
        """ALiBi's −m_h |i − j|, by distance and head.

        Of such a table the first half of a direction counts single distances, so a direction has 2 N rows; an encoder
        looks in both.
        """
        away = numpy.arange(2 * self.positions, dtype=numpy.float32)[:, None]
        table: Array = -away * slopes(self.shape.heads)
        return table if self.shape.decodes else numpy.concatenate([table, table])

    def _linear(self, linear: Any, *names: str, reads: bool = False, shape: tuple[int, int] | None = None) -> None:
        self._set(linear, *self._joined(*names, reads=reads, shape=shape))

    def _set(self, linear: Any, weight: Array, bias: Array) -> None:
        linear.weight = weight
        if self.shape.bias:
            linear.bias = bias

    def _joined(self, *names: str, reads: bool = False, shape: tuple[int, int] | None = None) -> tuple[Array, Array]:
        """Several maps of the same vectors as one; those that read the residual read it α times too large.

        shape: (features out, features in) of each, (M, M) unless given. Without biases the second array is empty.
        """
        wide, narrow = shape or (self.shape.width, self.shape.width)
        weight = numpy.concatenate([self.weights.read(f"{name}.weight", wide, narrow) for name in names])
        biases = [self.weights.read(f"{name}.bias", wide) for name in names] if self.shape.bias else []
        bias = numpy.concatenate(biases) if biases else numpy.zeros(0, numpy.float32)
        return (weight / self.shape.alpha).astype(numpy.float32) if reads else weight, bias

    def _norm(self, norm: Any, name: str, *, scale: float) -> None:
        norm.gamma = self.weights.read(f"{name}.weight", self.shape.width) * numpy.float32(scale)
        if self.shape.norm == "layer":
            norm.beta = self.weights.read(f"{name}.bias", self.shape.width) * numpy.float32(scale)


class Weights:
    """The weights of a model by name, and which of them were read. Tied weights occur once, under their first name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            require_whole(path)
            stored = dict(deserialize(path.read_bytes()))
        except (OSError, SafetensorError) as error:
            raise damaged_weights(path, error) from None
        self._weights = {name: _floats(path, name, **tensor) for name, tensor in stored.items()}
        self._unread = set(self._weights)

    def read(self, name: str, *shape: int | None) -> Array:
        """A weight, which must have this shape; None stands for any size."""
        if name not in self._weights:
            raise self._unfitting(f"{name} is missing")
        found = self._weights[name]
        if len(found.shape) != len(shape) or any(n not in (None, m) for n, m in zip(shape, found.shape, strict=True)):
            raise self._unfitting(f"{name} has the shape {found.shape}")
        self._unread.discard(name)
        return found

    def of(self, embedding: str, name: str, *shape: int | None) -> Array:
        """A weight of an embedding; of the source's, where both sides of a model share one."""
        found = f"{embedding}.{name}" in self._weights
        return self.read(f"{embedding if found else 'source'}.{name}", *shape)

    def taken(self, name: str) -> Array:
        """A weight of any shape, which exists."""
        self._unread.discard(name)
        return self._weights[name]

    def has(self, name: str) -> bool:
        return name in self._weights

    def rest(self) -> Iterator[str]:
        """The names of the weights that were not read, in alphabetical order."""
        yield from sorted(self._unread)

    def require_all_read(self) -> None:
        """Refuse weights that were not read: they would be a part of the model that was left out."""
        for name in self.rest():
            raise self._unfitting(f"{name} has no place")

    def pass_over(self, name: str) -> None:
        """Count a weight as read, if it exists: the model does not use it."""
        self._unread.discard(name)

    def _unfitting(self, what: str) -> RegardError:
        return RegardError(f"{self.path} does not fit recipe.toml: {what}; was the recipe changed? use the old one")


def _floats(path: Path, name: str, *, dtype: str, shape: list[int], data: bytes) -> Array:
    """The numbers of a tensor in single precision. bfloat16 is the upper half of it, which NumPy does not know."""
    if dtype == "BF16":
        return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    if dtype not in FLOATS:
        raise RegardError(f"{path}: {name} is of type {dtype}; only {', '.join([*FLOATS, 'BF16'])} can be weights")
    return numpy.frombuffer(data, FLOATS[dtype]).astype(numpy.float32, copy=False).reshape(shape)


def sinusoidal(positions: int, width: int) -> Array:
    """sin(i / 10000^{2p/M}) on the even and cos on the odd features, in single precision: (N, M)."""
    rates = (BASE ** (-2 * numpy.arange((width + 1) // 2) / width)).astype(numpy.float32)
    angles = numpy.arange(positions, dtype=numpy.float32)[:, None] * rates
    return numpy.stack([numpy.sin(angles), numpy.cos(angles)], -1).reshape(positions, -1)[:, :width].copy()


def slopes(heads: int) -> Array:
    """ALiBi's m_h; for a number of heads that is no power of two, followed by every other slope of twice that power."""
    power = 1 << (heads.bit_length() - 1)
    step = 8 / power
    exponents = numpy.concatenate([step * numpy.arange(1, power + 1), step * (numpy.arange(heads - power) + 0.5)])
    return (2.0**-exponents).astype(numpy.float32)


def _activation(specs: Any, name: str) -> Any:
    known = {
        "relu": specs.Activation.RELU,
        "gelu": specs.Activation.GELU,
        "gelu_tanh": specs.Activation.GELUTanh,
        "silu": specs.Activation.SWISH,
        "swiglu": specs.Activation.SWISH,
    }
    return known[name]
