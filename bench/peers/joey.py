"""JoeyNMT's Transformer with the weights of regard's.

JoeyNMT has <unk> at 0 and <pad> at 1, regard the other way round.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch
from answering import Settings
from joeynmt.batch import Batch
from joeynmt.config import _check_special_symbols
from joeynmt.model import Model, build_model
from joeynmt.vocabulary import Vocabulary
from reading import read_weights
from torch import Tensor

SPECIAL = 4
PARTS = {"query": "q_layer", "key": "k_layer", "value": "v_layer", "output": "output_layer"}


def build(settings: Settings) -> Model:
    """Post-norm, as the others; dropout where JoeyNMT has it."""
    names = [f"token {number}" for number in range(SPECIAL, settings["vocabulary"])]
    vocabulary = Vocabulary(names, SimpleNamespace(**_check_special_symbols({})))
    side = {
        "type": "transformer",
        "num_layers": settings["layers"],
        "num_heads": settings["heads"],
        "embeddings": {"embedding_dim": settings["width"], "scale": True},
        "hidden_size": settings["width"],
        "ff_size": settings["hidden"],
        "dropout": settings.get("dropout", 0.0),
        "layer_norm": "post",
    }
    whole = {"tied_embeddings": True, "tied_softmax": True, "encoder": side, "decoder": side}
    model = build_model(whole, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", settings.get("smoothing", 0.0))
    _copy(model, read_weights(settings["weights"]))
    return model


def swapped(ids: Tensor) -> Tensor:
    """regard's ids as JoeyNMT's, and back."""
    return torch.where(ids < 2, 1 - ids, ids)


def batch(source: Tensor, lengths: Tensor, target: Tensor | None = None) -> Batch:
    return Batch(
        src=swapped(source),
        src_length=lengths,
        src_prompt_mask=None,
        trg=None if target is None else swapped(target),
        trg_prompt_mask=None,
        indices=torch.arange(len(source)),
        device=torch.device("cpu"),
        pad_index=1,
        eos_index=3,
        is_train=target is not None,
    )


def _copy(model: Model, weights: dict[str, Tensor]) -> None:
    """Under JoeyNMT's names, all of them."""
    table = weights["source.table.weight"].clone()
    table[:2] = table[:2].flip(0)
    shared = ("src_embed.lut.weight", "trg_embed.lut.weight", "decoder.output_layer.weight")
    found = dict.fromkeys(shared, table)
    for name, value in weights.items():
        stack, _, rest = name.partition(".blocks.")
        if rest:
            number, _, inside = rest.partition(".")
            found[f"{stack}.layers.{number}.{_renamed(stack, inside)}"] = value
    positions = {name: value for name, value in model.state_dict().items() if name.endswith("pe.pe")}
    model.load_state_dict({**found, **positions})


def _renamed(stack: str, name: str) -> str:
    attention = {"encoder": "src_src_att", "decoder": "trg_trg_att"}[stack]
    norm = {"encoder": "layer_norm", "decoder": "x_layer_norm"}[stack]
    for ours, theirs in {
        "attention.": f"{attention}.",
        "cross.": "src_trg_att.",
        "around_attention.norm.": f"{norm}.",
        "around_cross.norm.": "dec_layer_norm.",
        "around_feed_forward.norm.": "feed_forward.layer_norm.",
        "feed_forward.inner.": "feed_forward.pwff_layer.0.",
        "feed_forward.outer.": "feed_forward.pwff_layer.3.",
    }.items():
        if name.startswith(ours):
            part, _, leaf = name.removeprefix(ours).rpartition(".")
            return f"{theirs}{PARTS[part]}.{leaf}" if part else f"{theirs}{leaf}"
    raise KeyError(name)
