"""−log P of every token of a long text, in pieces that a model can read.

Attention looks through windows of `block` tokens, half a window apart: each token is predicted after at least half a
window. A model that carries its state reads on from beginning to end, in parts side by side that each begin some tokens
early: `LEAD`, or as many as a memory of limited length depends on.

N tokens  M width
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor, nn

from regard.data.pairs.corpus import Ids
from regard.data.streams import Share
from regard.data.text.blocks import read_at, sliding
from regard.kernels.vocabulary_loss import vocabulary_loss
from regard.special import Special
from regard.tasks.counting import counter
from regard.tasks.modules import Carries, Continues, SaysNext

TOGETHER = 4096  # tokens judged together
LANES = 32  # parts of a text that a recurrent model is judged on side by side
LEAD = 256  # tokens that it reads before each part, so that its state is that of the text
WORTHWHILE = 4  # tokens of a part for each that is read before it, at least


class Lanes(NamedTuple):
    """Parts of a text that are read side by side: how many, how long, how many tokens early they begin, and how many
    tokens of each are read at a time."""

    number: int
    length: int
    lead: int
    step: int


def losses(
    model: nn.Module, ids: Ids, share: Share, *, block: int, special: Special
) -> Iterator[tuple[Tensor, Tensor]]:
    """Places (N,) and −log P of the tokens there (N,), for the share of this process."""
    assert isinstance(model, SaysNext)
    more = counter(len(ids))
    with torch.no_grad():
        reading = _by_lanes if isinstance(model, Carries) else _by_windows
        for places, hidden in reading(model, ids, share, block, special):
            wanted = torch.from_numpy(ids[places.numpy()].astype(numpy.int64)).to(hidden.device)
            yield places, vocabulary_loss(hidden, model.output, wanted)[1].float().cpu()
            more(len(places))


def _by_windows(
    model: SaysNext, ids: Ids, share: Share, block: int, special: Special
) -> Iterator[tuple[Tensor, Tensor]]:
    """Places (N,), and the output of the model for all tokens before them (N, M)."""
    window = min(block, len(ids))
    rows, at = max(TOGETHER // window, 1), 0
    for number, batch in enumerate(sliding(ids, block=window, rows=rows, special=special)):
        places = torch.arange(at, at + batch.targets)
        at += batch.targets
        if number % share.world != share.rank:
            continue
        hidden = model(batch.tokens.to(device_of(model)))
        yield places, hidden[batch.counted.to(hidden.device)]


def _by_lanes(model: SaysNext, ids: Ids, share: Share, block: int, special: Special) -> Iterator[tuple[Tensor, Tensor]]:
    """The same for a model that carries its state: each step reads a few more tokens of all parts."""
    assert isinstance(model, Carries)
    lanes = _lanes(model, len(ids), block)
    begin = torch.arange(lanes.number)[share.rank :: share.world].unsqueeze(1) * lanes.length
    if not len(begin):
        return

    def tokens_at(places: Tensor) -> Tensor:
        inside = places.clamp(0, len(ids) - 1).numpy()
        return torch.from_numpy(read_at(ids, inside, special=special)).to(device_of(model))

    state = None
    for start in range(-lanes.lead, 0, lanes.step):
        places = begin + torch.arange(start, min(start + lanes.step, 0))
        _, state = model.read(tokens_at(places), state)
    if state is not None:
        state = state.where((begin > 0).to(device_of(model)))
    for start in range(0, lanes.length, lanes.step):
        places = begin + torch.arange(start, min(start + lanes.step, lanes.length))
        hidden, state = model.read(tokens_at(places), state)
        inside = places < len(ids)
        yield places[inside], hidden[inside.to(hidden.device)]


def _lanes(model: Carries[Any], tokens: int, block: int) -> Lanes:
    """The parts of a text that are read side by side. For a memory of limited length they are such that each token
    is predicted as if the whole text was read from beginning to end, block by block."""
    if not isinstance(model, Continues):
        number = max(min(LANES, tokens // LEAD), 1)
        return Lanes(number, -(-tokens // number), lead=LEAD, step=max(TOGETHER // number, 1))
    block = min(block, tokens)
    lead = -(-model.lead(block) // block) * block
    number = max(min(LANES, tokens // (WORTHWHILE * max(lead, block))), 1)
    return Lanes(number, -(-tokens // (number * block)) * block, lead=lead if number > 1 else 0, step=block)


def device_of(model: SaysNext) -> torch.device:
    return next(model.parameters()).device
