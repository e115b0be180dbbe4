"""From a model that writes, and a prompt, to a record: what it looks at when it says each token.

The prompt and what follows are read once more, all together: row i of a map is what was looked at when item i was said,
from the token before it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.decoding import DecodingConfig
from regard.decoding.tree import Tree
from regard.errors import RegardError
from regard.look.record import Map, Record, Side
from regard.look.seen import answered, maps_of, saliency, watched
from regard.tasks.write import Write

SALIENT = 128  # items of a text for all of which gradients are computed


def capture_writing(
    module: Any,
    task: Write,
    text: str,
    *,
    decoding: DecodingConfig,
    reference: str | None = None,
    only: str = "*",
    head: int | None = None,
    gradients: bool = True,
) -> Record:
    """What `module` looks at when it goes on from `text`, or when it is made to go on with `reference`.

    It writes until it would have to forget its beginning. `only`, `head` and `gradients` are as those of `capture`; of
    more than `SALIENT` items there is no saliency.
    """
    tokenizer = task.tokenizer
    tree = Tree()
    if reference is None:
        whole, said = _written(module, task, text, decoding, tree)
    else:
        whole, said = _forced(task, text, reference), reference
    device = next(module.parameters()).device
    given, wanted = torch.tensor([whole[:-1]], device=device), torch.tensor(whole[1:], device=device)
    logits, seen = watched(module, lambda: module.output(module(given))[0], only=only, head=head)
    inputs = tuple(tokenizer.pieces(whole[:-1]))

    def logprobs(places: Tensor) -> Tensor:
        rows = torch.arange(len(places), device=device)
        hidden = module(given.expand(len(places), -1))
        return module.output(hidden[rows, places]).log_softmax(-1)[rows, wanted[places]]

    moved = {}
    if gradients and len(wanted) <= SALIENT:
        weights = saliency(module, module.embedding, logprobs, len(wanted), device)
        moved["target"] = Map("saliency", "self", "target", "target", weights, heads=(0,), sums="any", inputs=inputs)
    return Record(
        title=f"{text} → {said}",
        sides={
            "source": Side(tuple(tokenizer.tokens(text)), text=text),
            "target": Side(tuple(tokenizer.pieces(whole[1:])), text=text + said),
        },
        maps=maps_of(module, seen, head=head, inputs=inputs),
        answer=answered(logits, whole[1:], said, names=lambda _, numbers: tokenizer.pieces(numbers)),
        saliency=moved,
        beam=tree.to_json(tokenizer.pieces),
    )


def _written(module: Any, task: Write, text: str, decoding: DecodingConfig, tree: Tree) -> tuple[list[int], str]:
    """The prompt, as far as the model looks back on it, and what it says next: as tokens, and the latter as text."""
    special = task.tokenizer.special
    prompt = task.tokenizer.encode([text])[0] or [special.bos]
    if task.reach is not None:
        if len(prompt) > task.reach:
            prompt = prompt[-max(task.reach // 2, 1) :]
        decoding = shortened(decoding, max(task.reach - len(prompt), 1))
    answer = task.answer(module, [text], decoding=decoding, tree=tree)[0][0]
    ended = len(answer.logprobs) > len(answer.tokens)
    return [*prompt, *answer.tokens, *([special.eos] if ended else [])], answer.text


def shortened(decoding: DecodingConfig, most: int) -> DecodingConfig:
    """The same for answers of no more than so many tokens."""
    longest = min(decoding.max_length, most)
    return decoding.model_copy(update={"max_length": longest, "min_length": min(decoding.min_length, longest)})


def _forced(task: Write, text: str, reference: str) -> list[int]:
    """Text and reference as one, the last tokens that a model can look back on."""
    whole = task.tokenizer.encode([text + reference])[0]
    if not whole:
        raise RegardError("there is no text to look at; give some")
    whole = whole if len(whole) > 1 else [task.tokenizer.special.bos, *whole]
    return whole if task.reach is None else whole[-task.reach - 1 :]
