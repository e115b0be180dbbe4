"""A model directory of regard → a directory of CTranslate2. No torch is imported here.

    encoder, decoder    layer by layer, by the names of the weights; query, key and value become one matrix
    positions           sinusoidal, learned and none as tables; rotary and shaw as they are; alibi as a bias by distance
    deep_norm           CTranslate2 has no norm(α x + f(x)), so α is moved into the weights (see `_Stack`)

`expressible.py` says what can be expressed at all.

M width  V vocabulary  N positions that tables reach
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from regard import durable
from regard.data.pairs import shortlist
from regard.data.tokenizers import Tokenizer
from regard.directory import WEIGHTS, ModelDirectory, damaged_weights, require_whole
from regard.errors import RegardError
from regard.interchange.expressible import obstacle
from regard.interchange.files import require_new

Array = NDArray[numpy.float32]

POSITIONS = 1024  # how far tables of positions reach unless longer ones are asked for
BASE = 10_000.0
EPSILON = 1e-5  # of every norm
FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
TOKENIZERS = ("tokenizer.json", "source.json", "target.json")


def export(directory: Path, out: Path) -> None:
    """Write a CTranslate2 directory that can be used alone: the model, and the tokenizers beside it."""
    new = require_new(out)
    files = convert(directory)
    files |= {name: (directory / name).read_bytes() for name in TOKENIZERS if (directory / name).exists()}
    durable.write_directory(new, files)


def convert(directory: Path, *, positions: int = POSITIONS) -> dict[str, bytes]:
    """The files of the CTranslate2 model, by name; tables that can be of any length reach `positions`."""
    stored = ModelDirectory(directory)
    found = stored.tables().get("model")
    model = found if isinstance(found, dict) else {}
    reason = obstacle(model)
    if reason is not None:
        raise RegardError(f"{directory} cannot be exported: {reason}")
    tokenizers = stored.codec(stored.special()).texts()
    weights = _Weights(directory / WEIGHTS)
    specs = _specs()
    encoder, decoder = (
        _Stack(specs, model, weights, side=side, vocabulary=tokenizer.size, positions=positions).spec
        for side, tokenizer in (("source", tokenizers.source), ("target", tokenizers.target))
    )
    weights.require_all_read()
    spec = specs.TransformerSpec(encoder, decoder)
    spec.register_source_vocabulary(_names(tokenizers.source))
    spec.register_target_vocabulary(_names(tokenizers.target))
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = EPSILON
    try:
        spec.validate()
    except ValueError as error:
        raise RegardError(f"{directory} does not fit together: {error}; copy the model directory again") from None
    spec.optimize()
    try:
        with tempfile.TemporaryDirectory() as folder:
            spec.save(folder)
            files = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
    except OSError as error:
        raise RegardError(
            f"the converted model cannot be written to {tempfile.gettempdir()}: {error.strerror or error}; "
            "free some space there, or set TMPDIR to another directory"
        ) from None
    if (directory / shortlist.NAME).exists():
        listed = shortlist.Shortlist.load(directory / shortlist.NAME)
        vmap = listed.to_vmap(_names(tokenizers.source), _names(tokenizers.target))
        files |= {} if vmap is None else {"vmap.txt": vmap}
    return files


def deep_norm_alphas(encoder_layers: int, decoder_layers: int) -> tuple[float, float]:
    """The weight α of the residual in encoder and decoder: 0.81 (N⁴M)^(1/16) and (3M)^¼ (Wang 2022, figure 2)."""
    return 0.81 * (encoder_layers**4 * decoder_layers) ** (1 / 16), (3 * decoder_layers) ** 0.25


class _Stack:
    """The encoder or the decoder, with its embeddings.

    DeepNorm's norm(α x + f(x)) becomes a plain norm(y + g(y)) of y = α x: embeddings, positions and every norm but the
    last are multiplied by α, and what reads y is divided by it. For the other wirings α is 1.
    """

    def __init__(
        self, specs: Any, model: Mapping[str, Any], weights: _Weights, *, side: str, vocabulary: int, positions: int
    ) -> None:
        self.specs, self.model, self.weights, self.side, self.positions = specs, model, weights, side, positions
        self.stack = "encoder" if side == "source" else "decoder"
        depths = [model.get(f"{name}_layers") or model["layers"] for name in ("encoder", "decoder")]
        alphas = deep_norm_alphas(*depths) if model["wiring"] == "deep_norm" else (1.0, 1.0)
        self.layers, self.alpha = (depths[0], alphas[0]) if side == "source" else (depths[1], alphas[1])
        self.width, self.hidden = model["width"], model["hidden"]
        self.spec = self._build(vocabulary)

    def _build(self, vocabulary: int) -> Any:
        position = self.model["position"]
        kinds = {"source": self.specs.TransformerEncoderSpec, "target": self.specs.TransformerDecoderSpec}
        spec = kinds[self.side](
            self.layers,
            self.model["heads"],
            pre_norm=self.model["wiring"] == "pre_norm",
            activation=_activation(self.specs, self.model["activation"]),
            ffn_glu=self.model["activation"] == "swiglu",
            relative_position=position == "shaw",
            relative_attention_bias=position == "alibi",
            rotary_dim=0 if position == "rotary" else None,
            rotary_interleave=False,
        )
        embeddings = spec.embeddings[0] if self.side == "source" else spec.embeddings
        embeddings.weight = self.weights.table(self.side, vocabulary, self.width)
        spec.scale_embeddings = float(numpy.sqrt(self.width) * self.alpha)
        if position in ("none", "sinusoidal", "learned"):
            spec.position_encodings.encodings = self._positions()
        self.weights.pass_over(f"{self.side}.position.table")  # shaw's, which only attention uses
        for number, layer in enumerate(spec.layer):
            self._layer(layer, f"{self.stack}.blocks.{number}", last=number == self.layers - 1)
        if self.model["wiring"] == "pre_norm":
            self._norm(spec.layer_norm, f"{self.stack}.final", scale=1.0)
        if self.side == "target":
            shape = vocabulary, self.width
            tied = self.model["tied"]
            spec.projection.weight = embeddings.weight if tied else self.weights.read("output.weight", *shape)
            spec.alignment_heads = numpy.int16(0)  # the mean over all
        return spec

    def _positions(self) -> Array:
        """A vector for each position: (N, M)."""
        width = self.width
        if self.model["position"] == "learned":
            table = self.weights.of_side(self.side, "position.table", self.model["maximum"], width)
        elif self.model["position"] == "sinusoidal":
            table = sinusoidal(self.positions, width)
        else:
            table = numpy.zeros((self.positions, width), numpy.float32)
        return table * numpy.float32(self.alpha)

    def _layer(self, layer: Any, name: str, *, last: bool) -> None:
        self._self_attention(layer.self_attention, f"{name}.attention")
        self._norm(layer.self_attention.layer_norm, f"{name}.around_attention.norm", scale=self.alpha)
        if self.side == "target":
            linears = layer.attention.linear
            self._linear(linears[0], f"{name}.cross.query", reads=True)
            self._linear(linears[1], f"{name}.cross.key", f"{name}.cross.value")
            self._linear(linears[2], f"{name}.cross.output")
            self._norm(layer.attention.layer_norm, f"{name}.around_cross.norm", scale=self.alpha)
        gated = self.model["activation"] == "swiglu"
        inner, shape = layer.ffn.linear_0, (self.hidden, self.width)
        self._linear(inner, f"{name}.feed_forward.{'gate' if gated else 'inner'}", reads=True, shape=shape)
        if gated:
            self._linear(layer.ffn.linear_0_noact, f"{name}.feed_forward.inner", reads=True, shape=shape)
        self._linear(layer.ffn.linear_1, f"{name}.feed_forward.outer", shape=(self.width, self.hidden))
        scale = 1.0 if last else self.alpha
        self._norm(layer.ffn.layer_norm, f"{name}.around_feed_forward.norm", scale=scale)

    def _self_attention(self, attention: Any, name: str) -> None:
        self._linear(attention.linear[0], f"{name}.query", f"{name}.key", f"{name}.value", reads=True)
        self._linear(attention.linear[1], f"{name}.output")
        if self.model["position"] == "shaw":
            attention.relative_position_keys = self.weights.read(
                f"{name}.position.table", None, self.width // self.model["heads"]
            )
            attention.relative_position_values = self.specs.model_spec.OPTIONAL
        elif self.model["position"] == "alibi":
            attention.relative_attention_bias = self._distances()
            attention.relative_attention_max_distance = numpy.int32(2 * self.positions)

    def _distances(self) -> Array:
        """ALiBi's −m_h |i − j|, by distance and head.

        Of such a table the first half of a direction counts single distances, so a direction has 2 N rows; the encoder
        looks in both.
        """
        away = numpy.arange(2 * self.positions, dtype=numpy.float32)[:, None]
        table: Array = -away * slopes(self.model["heads"])
        return numpy.concatenate([table, table]) if self.side == "source" else table

    def _linear(self, linear: Any, *names: str, reads: bool = False, shape: tuple[int, int] | None = None) -> None:
        """Several maps of the same vectors as one; those that read the residual read it α times too large.

        shape: (features out, features in) of each, (M, M) unless given.
        """
        wide, narrow = shape or (self.width, self.width)
        weight = numpy.concatenate([self.weights.read(f"{name}.weight", wide, narrow) for name in names])
        linear.weight = weight / numpy.float32(self.alpha) if reads else weight
        linear.bias = numpy.concatenate([self.weights.read(f"{name}.bias", wide) for name in names])

    def _norm(self, norm: Any, name: str, *, scale: float) -> None:
        norm.gamma = self.weights.read(f"{name}.weight", self.width) * numpy.float32(scale)
        norm.beta = self.weights.read(f"{name}.bias", self.width) * numpy.float32(scale)


class _Weights:
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

    def of_side(self, side: str, name: str, *shape: int | None) -> Array:
        """A weight of the embedding of one side; of the source's, where both sides share one."""
        return self.read(f"{side}.{name}" if f"{side}.{name}" in self._weights else f"source.{name}", *shape)

    def table(self, side: str, *shape: int) -> Array:
        return self.of_side(side, "table.weight", *shape)

    def require_all_read(self) -> None:
        """Refuse weights that were not read: they would be a part of the model that was left out."""
        for name in sorted(self._unread):
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
    known = {"relu": specs.Activation.RELU, "gelu": specs.Activation.GELU, "swiglu": specs.Activation.SWISH}
    return known[name]


def _names(tokenizer: Tokenizer) -> list[str]:
    return sorted(tokenizer.vocabulary, key=tokenizer.vocabulary.__getitem__)


def _specs() -> Any:
    """CTranslate2's specs. They import torch if it is installed, for tensors that are not used here; this prevents
    it."""
    barred = "torch" not in sys.modules
    if barred:
        sys.modules["torch"] = None  # type: ignore[assignment]  # importing it fails as if it were not there
    try:
        import ctranslate2.specs
    finally:
        if barred:
            del sys.modules["torch"]
    return ctranslate2.specs
