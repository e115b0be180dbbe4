"""regard's Transformer as a CTranslate2 model, written by hand through CTranslate2's own specification."""

from __future__ import annotations

import json
import math
from pathlib import Path

import ctranslate2
import numpy
from ctranslate2.specs import common_spec, transformer_spec

Weights = dict[str, numpy.ndarray]
LONGEST = 512


def write(weights_path: str, vocabulary_path: str, *, heads: int, out: str) -> str:
    """A directory that `ctranslate2.Translator` opens."""
    with numpy.load(weights_path) as found:
        weights = {name: found[name] for name in found.files}
    stacks = "encoder.blocks.", "decoder.blocks."
    depths = [len({name.split(".")[2] for name in weights if name.startswith(stack)}) for stack in stacks]
    pre_norm = "encoder.final.weight" in weights
    spec = transformer_spec.TransformerSpec.from_config(
        tuple(depths), heads, pre_norm=pre_norm, activation=common_spec.Activation.RELU
    )
    names = json.loads(Path(vocabulary_path).read_text(encoding="utf-8"))
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = "<unk>", "<s>", "</s>"
    spec.config.decoder_start_token = "<s>"
    table = weights["source.table.weight"]
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = table
    for stack in ("encoder", "decoder"):
        side = getattr(spec, stack)
        side.scale_embeddings = True
        side.position_encodings.encodings = _waves(table.shape[1])
        if pre_norm:
            _norm(side.layer_norm, _inside(weights, f"{stack}.final."))
        for number, layer in enumerate(side.layer if hasattr(side, "layer") else side.layers):
            _layer(layer, _inside(weights, f"{stack}.blocks.{number}."))
    spec.validate()
    Path(out).mkdir(parents=True, exist_ok=True)
    spec.save(out)
    return out


def _layer(layer: transformer_spec.TransformerEncoderLayerSpec, block: Weights) -> None:
    _attention(layer.self_attention, [["query", "key", "value"], ["output"]], _inside(block, "attention."))
    _norm(layer.self_attention.layer_norm, _inside(block, "around_attention.norm."))
    if "cross.query.weight" in block:
        _attention(layer.attention, [["query"], ["key", "value"], ["output"]], _inside(block, "cross."))
        _norm(layer.attention.layer_norm, _inside(block, "around_cross.norm."))
    for theirs, ours in ((layer.ffn.linear_0, "inner"), (layer.ffn.linear_1, "outer")):
        theirs.weight, theirs.bias = block[f"feed_forward.{ours}.weight"], block[f"feed_forward.{ours}.bias"]
    _norm(layer.ffn.layer_norm, _inside(block, "around_feed_forward.norm."))


def _attention(attention: object, groups: list[list[str]], weights: Weights) -> None:
    for linear, group in zip(attention.linear, groups, strict=True):  # type: ignore[attr-defined]
        linear.weight = numpy.concatenate([weights[f"{name}.weight"] for name in group])
        linear.bias = numpy.concatenate([weights[f"{name}.bias"] for name in group])


def _norm(norm: common_spec.LayerNormSpec, weights: Weights) -> None:
    norm.gamma, norm.beta = weights["weight"], weights["bias"]


def _waves(width: int) -> numpy.ndarray:
    """Sines and cosines in turn."""
    at, rate = numpy.arange(LONGEST)[:, None], numpy.exp(numpy.arange(0, width, 2) * (-math.log(10000.0) / width))
    return numpy.stack([numpy.sin(at * rate), numpy.cos(at * rate)], -1).reshape(LONGEST, width).astype("float32")


def _inside(weights: Weights, prefix: str) -> Weights:
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def translator(folder: str, *, workers: int, threads: int, precision: str) -> ctranslate2.Translator:
    return ctranslate2.Translator(
        folder, device="cpu", inter_threads=workers, intra_threads=threads, compute_type=precision
    )
