"""From a model that reads texts, and a text, to a record: what each token looks at, and what is chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.data.text_batches import TextBatch, in_order_of_length
from regard.look.record import Map, Record, Side
from regard.look.seen import answered, maps_of, saliency, watched
from regard.models.elmo import Elmo
from regard.tasks.reading import Reading, Sight


def capture_reading(
    module: Any, reading: Reading, sight: Sight, *, only: str = "*", head: int | None = None, gradients: bool = True
) -> Record:
    """What `module` looks at when it reads the row of `sight`; what it chooses is the record's `target`.

    `only`, `head` and `gradients` are as those of `capture`.
    """
    device = next(module.parameters()).device
    (row,) = in_order_of_length([sight.row], batch_tokens=1, special=reading.framing.special)
    batch = row.to(device)
    logits, seen = watched(module, lambda: sight.logits(batch)[0], only=only, head=head)
    maps = maps_of(module, seen, head=head, looks=lambda _path: ("source", "source"), turned=Elmo.BACKWARD)
    sides = {"source": Side(tuple(reading.tokenizer.pieces(list(sight.row.ids))), text=sight.text)}
    if not sight.names:
        return Record(title=sight.text, sides=sides, maps=maps)
    chosen = list(sight.chosen or logits.argmax(-1).tolist())
    text = sight.said(chosen)
    sides["target"] = Side(tuple(names[each] for names, each in zip(sight.names, chosen, strict=True)), text=text)
    wanted = torch.tensor(chosen, device=device)

    def logprobs(places: Tensor) -> Tensor:
        rows = torch.arange(len(places), device=device)
        return sight.logits(_copies(batch, len(places)))[rows, places].log_softmax(-1)[rows, wanted[places]]

    moved = {}
    if gradients:
        embedding = getattr(module, "encoder", module).embedding
        weights = saliency(module, embedding, logprobs, len(chosen), device)
        moved["source"] = Map("saliency", "cross", "target", "source", weights, heads=(0,), sums="any")
    return Record(
        title=f"{sight.text} → {text}",
        sides=sides,
        maps=maps,
        answer=answered(
            logits,
            chosen,
            text,
            names=lambda at, numbers: [sight.names[at][number] for number in numbers],
            places=sight.places,
        ),
        saliency=moved,
    )


def _copies(batch: TextBatch, count: int) -> TextBatch:
    """The one row of a batch, so many times."""
    return replace(
        batch,
        tokens=batch.tokens.expand(count, -1),
        lengths=batch.lengths.expand(count),
        segments=batch.segments.expand(count, -1),
    )
