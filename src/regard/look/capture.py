"""From one input as a task presents it (`tasks.base.Sight`) to a record: weights, choices and saliency."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from regard.look.long import MOST_SALIENT, Long
from regard.look.long import maps_of as long_maps
from regard.look.record import Map, Record
from regard.look.watch import answered, maps_of, named_sides, saliency, shown_of, watched
from regard.tasks.base import Sight

MOST_ROWS = 64  # sights read together
MOST_WEIGHTS = 1 << 18  # weights of one head in a batch: rows × length²


def capture(
    module: nn.Module,
    sight: Sight,
    *,
    only: str = "*",
    head: int | None = None,
    gradients: bool = True,
    first: int | None = None,
) -> Record:
    """Record what `module` looks at when it reads an input, and its choices.

    `only` is a pattern of module paths, such as "decoder.blocks.3.*", `head` the number of a head: no other weights are
    computed. `gradients` adds saliency. Of a long input, parts of the maps are kept (see `look.long`), one of which
    begins at the token `first`.
    """
    long = Long.of(module, sight, only=only, head=head, first=first)
    if long is None:
        logits, seen = watched(module, lambda: sight.logits(None), only=only, head=head)
    else:
        logits, seen, kept = long.look(module, sight, only=only)
    chosen = [] if sight.names is None else list(sight.chosen or logits.argmax(-1).tolist())
    sides, text = {"source": sight.source, **sight.more}, ""
    if sight.outcome is not None and sight.names is not None:
        sides["target"], text = sight.outcome(chosen)
    if long is None:
        maps = maps_of(module, seen, sight, head=head)
        sides = named_sides(sides, maps)
    else:
        maps = long_maps(module, seen, sight, long, kept, sides)
    notes = (*sight.notes, *(long.notes if long else ()))
    if sight.outcome is None or sight.names is None:
        return Record(title=sight.title, sides=sides, maps=maps, notes=notes)
    moved = {}
    if gradients and sight.embedding is not None and (long is None or len(chosen) <= MOST_SALIENT):
        weights = _saliency(module, sight.embedding, sight, torch.tensor(chosen, device=logits.device))
        weights = shown_of(weights, sight, axis=2)
        own = sight.salient == "target"
        moved[sight.salient] = Map(
            name="saliency",
            kind="self" if own else "cross",
            query="target",
            key=sight.salient,
            weights=weights,
            heads=(0,),
            sums="any",
            inputs=sight.inputs if own else None,
        )
    return Record(
        title=f"{sight.title} → {text}",
        sides=sides,
        maps=maps,
        answer=answered(logits, chosen, text, names=sight.names, places=sight.places),
        saliency=moved,
        beam=sight.beam,
        notes=notes,
    )


def capture_maps(module: nn.Module, sights: Iterable[Sight]) -> Iterator[Record]:
    """The maps of many sights, without answers, for statistics over them.

    Sights of the same shape are read in one batch, so no padding enters the weights. Their order may change.
    """
    groups: dict[tuple[int, tuple[torch.Size, ...]], list[Sight]] = {}
    for number, sight in enumerate(sights):
        alone = 0 if sight.shown is None else number + 1  # what it is a part of is read by itself
        groups.setdefault((alone, tuple(each.shape for each in sight.given)), []).append(sight)
    for (_, shapes), group in groups.items():
        longest = max(shape.numel() for shape in shapes)
        size = max(min(MOST_ROWS, MOST_WEIGHTS // longest**2), 1)
        for begin in range(0, len(group), size):
            yield from _maps_together(module, group[begin : begin + size])


def _maps_together(module: nn.Module, sights: Sequence[Sight]) -> Iterator[Record]:
    """The maps of sights of the same shape, in one pass."""
    given = [torch.cat(each) for each in zip(*(sight.given for sight in sights), strict=True)]
    _, seen = watched(module, lambda: sights[0].read(*given), only="*", head=None)
    for row, sight in enumerate(sights):
        sides = {"source": sight.source, **sight.more}
        if sight.outcome is not None and sight.chosen is not None:
            sides["target"], _ = sight.outcome(sight.chosen)
        maps = maps_of(module, seen, sight, row=row)
        yield Record(title=sight.title, sides=named_sides(sides, maps), maps=maps)


def _saliency(module: nn.Module, embedding: nn.Module, sight: Sight, chosen: Tensor) -> Tensor:
    def logprobs(places: Tensor) -> Tensor:
        rows = torch.arange(len(places), device=places.device)
        return sight.logits(places).log_softmax(-1)[rows, chosen[places]]

    return saliency(module, embedding, logprobs, len(chosen), chosen.device)
