"""What `look` shows of a text that is longer than a block, for a model with a memory."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.data.tokenizers import Tokenizer
from regard.decoding.protocol import evaluation
from regard.tasks.base import Side, Sight
from regard.tasks.modules import Continues, SaysNext
from regard.tasks.write.judging import device_of

MEMORY = "↺"  # before an item that is looked at in memory


def last_block(model: SaysNext, tokenizer: Tokenizer, block: int, *, asked: str, whole: list[int], said: str) -> Sight:
    """What the last `block` tokens of a `whole` text look at: themselves, and the memory of the tokens before them."""
    assert isinstance(model, Continues)
    given, state = torch.tensor([whole[:-1]], device=device_of(model)), None
    with evaluation(model):
        for segment in given[:, :-block].split(block, 1):
            _, state = model.read(segment, state)
    assert state is not None
    held = state.tensors()

    def read(tokens: Tensor, *memory: Tensor) -> Tensor:
        recalled = model.recall(dict(zip(held, memory, strict=True)))
        return model.output(model.read(tokens, recalled)[0])

    shown = (given[:, -block:], *held.values())
    kept = min(model.remembers, given.shape[1] - block)
    memory = tokenizer.pieces(whole[-1 - block - kept : -1 - block])
    items = (*(f"{MEMORY}{item}" for item in memory), *tokenizer.pieces(whole[-1 - block : -1]))
    target = Side(tuple(tokenizer.pieces(whole[-block:])), text=said)
    return Sight(
        title=asked,
        source=Side(items, text=asked),
        logits=lambda _places: read(*shown)[0],
        given=shown,
        read=read,
        sides=lambda _path: ("target", "source"),
        embedding=None,
        outcome=lambda _chosen: (target, said),
        names=lambda _, numbers: tokenizer.pieces(numbers),
        chosen=whole[-block:],
        notes=(
            f"The last {block} tokens are shown, each as it was predicted, from the token before it. Items with "
            f"{MEMORY} are the memory: states of the tokens before, kept from earlier blocks.",
        ),
    )
