"""What tasks share whose answers are texts said token by token: the loss, the answers of a search, and what is seen.

B batch  T tokens of an answer
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.data.tokenizers import Tokenizer
from regard.decoding import Hypothesis
from regard.decoding.tree import Tree
from regard.kernels.r_drop import r_drop_loss
from regard.kernels.vocabulary_loss import vocabulary_loss
from regard.tasks.base import Side, Sight
from regard.tasks.modules import Draws, Says
from regard.tasks.surfaces import Answer


def target_loss(
    model: Says,
    source: Tensor,
    lengths: Tensor | None,
    target: Tensor,
    *,
    pad: int,
    smoothing: float = 0.0,
    divergence: float = 0.0,
) -> Tensor:
    """−log P(y_t | y_<t, x), smoothed, summed over the tokens of the targets; R-Drop with the weight `divergence`.

    source and lengths as the model reads them, target (B, 1 + T) from BOS on. A model that draws at random while it
    learns (hard attention) has a `rollout`, which adds what its draws can learn from.
    """
    wanted, given = target[:, 1:], target[:, :-1]
    if divergence:  # two passes with different dropout, as one batch twice as high
        wanted, source, given = (torch.cat([x, x]) for x in (wanted, source, given))
        lengths = None if lengths is None else torch.cat([lengths, lengths])
    real = wanted.ne(pad)
    rollout = model.rollout(source, lengths, given) if isinstance(model, Draws) else None
    hidden, targets = (model(source, lengths, given) if rollout is None else rollout.hidden)[real], wanted[real]
    if divergence:
        first, second = hidden.chunk(2)
        total, losses = r_drop_loss(
            first, second, model.output, targets.chunk(2)[0], weight=divergence, smoothing=smoothing
        )
    else:
        total, losses = vocabulary_loss(hidden, model.output, targets, smoothing=smoothing)
    if rollout is not None:
        surrogate = rollout.surrogate(losses.new_zeros(wanted.shape).masked_scatter(real, losses), real)
        total = total + (surrogate / 2 if divergence else surrogate)
    return total


def answers_of(hypotheses: Sequence[Hypothesis], tokenizer: Tokenizer) -> list[Answer]:
    """What a search has found, as texts."""
    texts = tokenizer.decode([list(found.tokens) for found in hypotheses])
    return [
        Answer(text, found.score, found.tokens, found.logprobs, truncated=not found.ended)
        for text, found in zip(texts, hypotheses, strict=True)
    ]


def sight_of(
    model: Says,
    source: Tensor,
    said: Sequence[int],
    *,
    title: str,
    side: Side,
    tokenizer: Tokenizer,
    embedding: nn.Module,
    tree: Tree | None = None,
) -> Sight:
    """What the model looks at when it gives the answer `said` (T,), which the search of `tree` has found.

    source (1, …) as the model reads it, `side` the same for people. One teacher-forced pass gives the weights of the
    very answer that was found, by whatever search: steps and the whole are the same computation.
    """
    said, special = list(said), tokenizer.special
    given = torch.tensor([[special.bos, *said]], device=source.device)
    target = Side((*tokenizer.pieces(said), *tokenizer.pieces([special.eos])), text=tokenizer.decode([said])[0])

    def logits(places: Tensor | None) -> Tensor:
        if places is None:
            return model.output(model(source, None, given))[0]
        rows = torch.arange(len(places), device=source.device)
        copies = source.expand(len(places), *source.shape[1:])
        return model.output(model(copies, None, given.expand(len(places), -1))[rows, places])

    return Sight(
        title=title,
        source=side,
        logits=logits,
        given=(source, given),
        read=lambda source, given: model(source, None, given),
        sides=model.looks,
        embedding=embedding,
        outcome=lambda _chosen: (target, target.text),
        names=lambda _, numbers: tokenizer.pieces(numbers),
        chosen=[*said, special.eos],
        inputs=(*tokenizer.pieces([special.bos]), *target.items[:-1]),
        beam=None if tree is None else tree.to_json(tokenizer.pieces),
    )
