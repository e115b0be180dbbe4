"""From a model of pairs and a text to a record: the answer is found without recording, then read once more with it.

One teacher-forced pass gives the weights of the very answer that was found, by greedy, beam or sampling alike, and
costs nothing while searching. What that pass looks at is what the search looked at: steps and the whole are the same
computation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.data.batches import source_batches
from regard.decoding import DecodingConfig, search
from regard.decoding.tree import Tree
from regard.look.record import Map, Record, Side
from regard.look.seen import answered, maps_of, saliency, watched
from regard.tasks.translate import Translate


def capture(
    module: Any,
    task: Translate,
    text: str,
    *,
    decoding: DecodingConfig,
    reference: str | None = None,
    only: str = "*",
    head: int | None = None,
    gradients: bool = True,
    beam: bool = False,
) -> Record:
    """What `module` looks at when it answers `text`, or when it is made to say `reference`.

    `only` is a pattern of module paths, such as "decoder.blocks.3.*", `head` the number of a head: no other weights are
    computed. `gradients` adds saliency, `beam` the tree of the search.
    """
    tokenizers = task.tokenizers
    special = tokenizers.special
    end = tokenizers.target.pieces([special.eos])
    device = next(module.parameters()).device
    (batch,) = source_batches(tokenizers.source.encode([text]), batch_tokens=1, special=special)
    source = batch.source.to(device)
    tree = Tree() if beam and reference is None else None
    if reference is not None:
        said = tokenizers.target.encode([reference])[0]
    else:
        said = list(search(module, source, config=decoding, tree=tree)[0][0].tokens)
    wanted = torch.tensor([*said, special.eos], device=device)
    given = torch.tensor([[special.bos, *said]], device=device)
    logits, seen = watched(module, lambda: module.output(module(source, None, given))[0], only=only, head=head)
    sides = {
        "source": Side((*tokenizers.source.tokens(text), *end), text=text),
        "target": Side((*tokenizers.target.pieces(said), *end), text=tokenizers.target.decode([said])[0]),
    }

    def logprobs(places: Tensor) -> Tensor:
        rows = torch.arange(len(places), device=device)
        hidden = module(source.expand(len(places), -1), None, given.expand(len(places), -1))
        return module.output(hidden[rows, places]).log_softmax(-1)[rows, wanted[places]]

    moved = {}
    if gradients:
        weights = saliency(module, module.source, logprobs, len(wanted), device)
        moved["source"] = Map("saliency", "cross", "target", "source", weights, heads=(0,), sums="any")
    inputs = (*tokenizers.target.pieces([special.bos]), *sides["target"].items[:-1])
    return Record(
        title=f"{text} → {sides['target'].text}",
        sides=sides,
        maps=maps_of(module, seen, head=head, inputs=inputs),
        answer=answered(
            logits, wanted.tolist(), sides["target"].text, names=lambda _, row: tokenizers.target.pieces(row)
        ),
        saliency=moved,
        beam=None if tree is None else tree.to_json(tokenizers.target.pieces),
    )
