"""A model directory of regard → a directory of CTranslate2. No torch is imported here.

    transformer    a translator: source → target
    gpt            a generator: prompt → continuation
    bert           an encoder: tokens → vectors; its heads, which CTranslate2 does not know, become head.safetensors

`expressible.py` says what can be expressed at all, and `stacks.py` writes the layers down.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import safetensors.numpy

from regard import durable
from regard.data.pairs import shortlist
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.directory import WEIGHTS, ModelDirectory
from regard.errors import RegardError
from regard.interchange.expressible import obstacle
from regard.interchange.files import require_new
from regard.interchange.stacks import Shape, Stack, Weights
from regard.special import Special

POSITIONS = 1024  # how far tables of positions reach unless longer ones are asked for
EPSILON = 1e-5  # of every norm of a transformer
TOKENIZERS = ("tokenizer.json", "source.json", "target.json")
HEAD = "head.safetensors"
UNDER_A_HEAD = "encoder."  # where the weights of a body stand in those of a model with a head
HEADS = ("pooler.", "transform.", "output.", "next_sentence.")  # what stands on a bert


def export(directory: Path, out: Path) -> None:
    """Write a CTranslate2 directory that can be used alone: the model, and the tokenizers beside it."""
    new = require_new(out)
    files = convert(directory)
    files |= {name: (directory / name).read_bytes() for name in TOKENIZERS if (directory / name).exists()}
    durable.write_directory(new, files)


@dataclass(frozen=True)
class _Stored:
    """A model directory as it is read for a conversion."""

    model: Mapping[str, Any]  # the [model] of the recipe
    weights: Weights
    tokenizers: Tokenizers
    special: Special
    specs: Any
    positions: int

    def stack(self, shape: Shape) -> Any:
        return Stack(self.specs, shape, self.weights, positions=self.positions).spec


def convert(directory: Path, *, positions: int = POSITIONS) -> dict[str, bytes]:
    """The files of the CTranslate2 model, by name; tables that can be of any length reach `positions`."""
    directories = ModelDirectory(directory)
    found = directories.tables().get("model")
    model = found if isinstance(found, dict) else {}
    reason = obstacle(model)
    if reason is not None:
        raise RegardError(f"{directory} cannot be exported: {reason}")
    special = directories.special()
    tokenizers = directories.codec(special).texts()
    stored = _Stored(model, Weights(directory / WEIGHTS), tokenizers, special, _specs(), positions)
    spec, more = CONVERTED[model["kind"]](stored)
    stored.weights.require_all_read()
    files = _files(spec, directory) | more
    if (directory / shortlist.NAME).exists():
        listed = shortlist.Shortlist.load(directory / shortlist.NAME)
        vmap = listed.to_vmap(_names(tokenizers.source), _names(tokenizers.target))
        files |= {} if vmap is None else {"vmap.txt": vmap}
    return files


def _files(spec: Any, directory: Path) -> dict[str, bytes]:
    try:
        spec.validate()
    except ValueError as error:
        raise RegardError(f"{directory} does not fit together: {error}; copy the model directory again") from None
    spec.optimize()
    try:
        with tempfile.TemporaryDirectory() as folder:
            spec.save(folder)
            return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
    except OSError as error:
        raise RegardError(
            f"the converted model cannot be written to {tempfile.gettempdir()}: {error.strerror or error}; "
            "free some space there, or set TMPDIR to another directory"
        ) from None


def _translator(stored: _Stored) -> tuple[Any, dict[str, bytes]]:
    model = stored.model
    depths = [model.get(f"{name}_layers") or model["layers"] for name in ("encoder", "decoder")]
    alphas = deep_norm_alphas(*depths) if model["wiring"] == "deep_norm" else (1.0, 1.0)

    def side(embedding: str, stack: str, number: int, tokenizer: Tokenizer) -> Any:
        shape = Shape(
            embedding=embedding,
            stack=stack,
            decodes=bool(number),
            crosses=bool(number),
            layers=depths[number],
            width=model["width"],
            heads=model["heads"],
            hidden=model["hidden"],
            vocabulary=tokenizer.size,
            position=model["position"],
            maximum=model["maximum"],
            wiring=model["wiring"],
            alpha=alphas[number],
            activation=model["activation"],
            scale=math.sqrt(model["width"]),
        )
        return stored.stack(shape)

    encoder = side("source", "encoder", 0, stored.tokenizers.source)
    decoder = side("target", "decoder", 1, stored.tokenizers.target)
    _say_words(decoder, stored)
    spec = stored.specs.TransformerSpec(encoder, decoder)
    spec.register_source_vocabulary(_names(stored.tokenizers.source))
    spec.register_target_vocabulary(_names(stored.tokenizers.target))
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = EPSILON
    return spec, {}


def _generator(stored: _Stored) -> tuple[Any, dict[str, bytes]]:
    model = stored.model
    shape = _alone(stored, "", decodes=True, norm=model["norm"], bias=model["bias"])
    decoder = stored.stack(shape)
    _say_words(decoder, stored)
    spec = stored.specs.TransformerDecoderModelSpec(decoder)
    names = _names(stored.tokenizers.source, rows=shape.vocabulary)
    spec.register_vocabulary(names)
    spec.config.bos_token, spec.config.eos_token = names[stored.special.bos], names[stored.special.eos]
    spec.config.unk_token = names[stored.special.eos if stored.special.unk is None else stored.special.unk]
    spec.config.layer_norm_epsilon = model["epsilon"]
    return spec, {}


def _encoder(stored: _Stored) -> tuple[Any, dict[str, bytes]]:
    model, weights = stored.model, stored.weights
    under = UNDER_A_HEAD if weights.has(f"{UNDER_A_HEAD}embedding.table.weight") else ""
    shape = _alone(
        stored,
        under,
        decodes=False,
        offset=model["offset"],
        segments=model["segments"],
        embedding_norm=f"{under}norm",
    )
    spec = stored.specs.TransformerEncoderModelSpec(stored.stack(shape))
    spec.register_vocabulary(_names(stored.tokenizers.source, rows=shape.vocabulary))
    spec.config.layer_norm_epsilon = model["epsilon"]
    heads = [name for name in weights.rest() if name.removeprefix(under).startswith(HEADS)]
    head = {name: weights.taken(name) for name in heads}
    if weights.has("transform.linear.weight"):  # the map to the vocabulary that follows is the embedding's
        head["output.weight"] = weights.read("embedding.table.weight", shape.vocabulary, shape.width)
    return spec, {HEAD: safetensors.numpy.save(head)}


def _alone(stored: _Stored, under: str, *, decodes: bool, **more: Any) -> Shape:
    """The stack of a model that has one; `under` begins the names of its weights."""
    model = stored.model
    return Shape(
        embedding=f"{under}embedding",
        stack=f"{under}body",
        decodes=decodes,
        crosses=False,
        layers=model["layers"],
        width=model["width"],
        heads=model["heads"],
        hidden=model.get("hidden") or 4 * model["width"],
        vocabulary=model.get("vocabulary") or stored.tokenizers.source.size,
        position=model["position"],
        maximum=model["maximum"],
        wiring=model["wiring"],
        alpha=deep_norm_alpha(model["layers"]) if model["wiring"] == "deep_norm" else 1.0,
        activation=model["activation"],
        key_value_heads=model.get("key_value_heads"),
        **more,
    )


def _say_words(decoder: Any, stored: _Stored) -> None:
    """Give a decoder its map to the vocabulary."""
    table = decoder.embeddings.weight
    decoder.projection.weight = table if stored.model["tied"] else stored.weights.read("output.weight", *table.shape)
    decoder.alignment_heads = numpy.int16(0)  # the mean over all


CONVERTED: dict[str, Callable[[_Stored], tuple[Any, dict[str, bytes]]]] = {
    "transformer": _translator,
    "gpt": _generator,
    "bert": _encoder,
}


def deep_norm_alphas(encoder_layers: int, decoder_layers: int) -> tuple[float, float]:
    """The weight α of the residual in encoder and decoder: 0.81 (N⁴M)^(1/16) and (3M)^¼ (Wang 2022, figure 2)."""
    return 0.81 * (encoder_layers**4 * decoder_layers) ** (1 / 16), float((3 * decoder_layers) ** 0.25)


def deep_norm_alpha(layers: int) -> float:
    """The same for a stack that stands alone: (2N)^¼."""
    return float((2 * layers) ** 0.25)


def _names(tokenizer: Tokenizer, *, rows: int | None = None) -> list[str]:
    """The name of each token by number. Rows of a table that have no token get names that no text has."""
    names = sorted(tokenizer.vocabulary, key=tokenizer.vocabulary.__getitem__)
    return names + [f"\0{number}" for number in range(len(names), rows or 0)]


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
