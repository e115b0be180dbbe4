"""`head_view` and `model_view` with the arguments of BertViz, so that a call can be pasted; pages need no network.

Attention is a list, one entry a layer, of tensors (1, heads, queries, keys), as transformers returns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from regard.errors import RegardError
from regard.look.record import Map, Record
from regard.tasks.base import Side

Attention = Sequence[Tensor]
Tokens = Sequence[str]


def head_view(
    attention: Attention | None = None,
    tokens: Tokens | None = None,
    sentence_b_start: int | None = None,
    prettify_tokens: bool = True,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    encoder_attention: Attention | None = None,
    decoder_attention: Attention | None = None,
    cross_attention: Attention | None = None,
    encoder_tokens: Tokens | None = None,
    decoder_tokens: Tokens | None = None,
    include_layers: Sequence[int] | None = None,
    html_action: Literal["view", "return"] = "view",
) -> Record:
    """The record of these weights; in a notebook it shows itself, `.save("page.html")` writes it.

    `layer` and `heads` are shown first; with `sentence_b_start` the page can show attention from A or B to A or B.
    """
    if html_action not in ("view", "return"):
        raise ValueError(f"html_action={html_action!r}: expected 'view' or 'return'")
    pretty = _pretty if prettify_tokens else tuple
    both = (encoder_attention, decoder_attention, cross_attention, encoder_tokens, decoder_tokens)
    if attention is not None:
        if any(part is not None for part in both):
            raise ValueError("give attention and tokens, or the encoder, decoder and cross arguments, not both")
        if tokens is None:
            raise ValueError("tokens is missing: give the names of the rows and columns of attention")
        sides, parts = _one_sequence(attention, pretty(tokens), sentence_b_start)
    else:
        sides, parts = _encoder_decoder(
            encoder_attention, decoder_attention, cross_attention, encoder_tokens, decoder_tokens, pretty
        )
    maps = [
        _map(name, query, key, weights, number, sides, heads)
        for name, query, key, layers in parts
        for number, weights in enumerate(layers)
        if include_layers is None or number in include_layers
    ]
    if layer is not None:
        maps.sort(key=lambda each: each.layer != layer)
    return Record(title=" ".join(next(iter(sides.values())).items), sides=sides, maps=tuple(maps))


def model_view(
    attention: Attention | None = None,
    tokens: Tokens | None = None,
    sentence_b_start: int | None = None,
    prettify_tokens: bool = True,
    display_mode: Literal["dark", "light"] = "dark",
    encoder_attention: Attention | None = None,
    decoder_attention: Attention | None = None,
    cross_attention: Attention | None = None,
    encoder_tokens: Tokens | None = None,
    decoder_tokens: Tokens | None = None,
    include_layers: Sequence[int] | None = None,
    include_heads: Sequence[int] | None = None,
    html_action: Literal["view", "return"] = "view",
) -> Record:
    """As `head_view`; the page shows all layers and heads at once, light or dark as the reader's system is."""
    if display_mode not in ("dark", "light"):
        raise ValueError(f"display_mode={display_mode!r}: expected 'dark' or 'light'")
    return head_view(
        attention=attention,
        tokens=tokens,
        sentence_b_start=sentence_b_start,
        prettify_tokens=prettify_tokens,
        heads=include_heads,
        encoder_attention=encoder_attention,
        decoder_attention=decoder_attention,
        cross_attention=cross_attention,
        encoder_tokens=encoder_tokens,
        decoder_tokens=decoder_tokens,
        include_layers=include_layers,
        html_action=html_action,
    )


Parts = list[tuple[str, str, str, Attention]]


def _one_sequence(attention: Attention, tokens: tuple[str, ...], border: int | None) -> tuple[dict[str, Side], Parts]:
    if border is not None and not 0 < border < len(tokens):
        raise ValueError(f"sentence_b_start={border}: expected a place from 1 to {len(tokens) - 1}")
    return {"tokens": Side(tokens, border=border)}, [("attention", "tokens", "tokens", attention)]


def _encoder_decoder(
    encoder: Attention | None,
    decoder: Attention | None,
    cross: Attention | None,
    encoder_tokens: Tokens | None,
    decoder_tokens: Tokens | None,
    pretty: type[tuple[str, ...]] | object,
) -> tuple[dict[str, Side], Parts]:
    if encoder is None and decoder is None and cross is None:
        raise ValueError("give attention, or at least one of encoder_attention, decoder_attention and cross_attention")
    sides = {}
    needed = {"source": (encoder, cross, encoder_tokens), "target": (decoder, cross, decoder_tokens)}
    for name, (own, shared, tokens) in needed.items():
        if (own is not None or shared is not None) and tokens is None:
            raise ValueError(
                f"{'encoder' if name == 'source' else 'decoder'}_tokens is missing: give the names of these items"
            )
        if tokens is not None:
            sides[name] = Side(pretty(tokens))  # type: ignore[operator]
    parts = [
        ("encoder", "source", "source", encoder),
        ("decoder", "target", "target", decoder),
        ("cross", "target", "source", cross),
    ]
    return sides, [(name, query, key, layers) for name, query, key, layers in parts if layers is not None]


def _map(
    name: str, query: str, key: str, weights: Tensor, layer: int, sides: dict[str, Side], heads: Sequence[int] | None
) -> Map:
    size = len(sides[query].items), len(sides[key].items)
    if weights.dim() != 4 or weights.shape[0] != 1 or tuple(weights.shape[2:]) != size:
        raise RegardError(
            f"{name} attention of layer {layer} has shape {tuple(weights.shape)}; expected (1, heads, {size[0]}, "
            f"{size[1]}), one row and one column for each token"
        )
    chosen = tuple(range(weights.shape[1])) if heads is None else tuple(heads)
    kept = weights[0, list(chosen)].detach().float().cpu()
    return Map(f"{name}.{layer}", "self" if query == key else "cross", query, key, kept, heads=chosen, layer=layer)


def _pretty(tokens: Tokens) -> tuple[str, ...]:
    """The tokens without the marks that tokenizers put in front of words."""
    return tuple(token.replace("Ġ", " ").replace("▁", " ").replace("</w>", "").strip() or token for token in tokens)
