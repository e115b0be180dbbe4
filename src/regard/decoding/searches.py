"""From a batch of sources to their answers, by the search that the config names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from regard.decoding.beam import beam_search
from regard.decoding.config import DecodingConfig
from regard.decoding.constraints import constraints
from regard.decoding.coverage import Coverage, covering
from regard.decoding.greedy import greedy
from regard.decoding.protocol import (
    Hypothesis,
    MemoryT,
    Model,
    StateT,
    evaluation,
    first_token,
    source_lengths,
)
from regard.decoding.sampling import sample, uniform_numbers
from regard.decoding.tree import Tree
from regard.errors import RegardError
from regard.kernels.allocator import tune_for_answers


def search(
    model: Model[MemoryT, StateT],
    source: Tensor,
    lengths: Tensor | None = None,
    *,
    config: DecodingConfig,
    prefix: Sequence[Sequence[int]] | None = None,
    tree: Tree | None = None,
) -> list[list[Hypothesis]]:
    """Answer each row of source: `n_best` hypotheses, best first (fewer if there are not so many different ones).

    source (B, S) padded at the end, lengths (B,); prefix: tokens with which the answer to each row must begin (they are
    part of the answer, of its length and of its score). An answer depends on its row alone, not on the batch.
    `tree` keeps the candidates of a beam search of a single source.

    The model decodes without gradients and in evaluation mode, and is put back into the mode it was in.
    """
    special = model.special
    rules = constraints(config, prefix, rows=source.shape[0], device=source.device, special=special)
    if not source.shape[0]:
        return []
    if tree is not None and source.shape[0] > 1:
        raise RegardError(f"a tree is made for one source, and {source.shape[0]} were given")
    if source.device.type == "cpu":
        tune_for_answers()
    with evaluation(model), _covering(model, source, lengths, config) as coverage:
        memory = model.encode(source, lengths)
        state = model.start(memory)
        rows = torch.arange(source.shape[0], device=source.device)
        first = first_token(model, memory, rows=len(rows), device=source.device)
        if config.sample:
            numbers = uniform_numbers(source, lengths, config=config, special=special)
            finished = sample(model, state, rows, first, config=config, constraints=rules, uniform=numbers)
        elif config.beam == 1:
            finished = greedy(model, state, rows, first, config=config, constraints=rules)
        else:
            finished = beam_search(
                model, state, rows, first, config=config, constraints=rules, coverage=coverage, tree=tree
            )
    found = finished.best(source.shape[0], config.n_best)
    if tree is not None:
        tree.mark(found[0][0].tokens, eos=special.eos)
    return found


def _covering(
    model: Model[MemoryT, StateT], source: Tensor, lengths: Tensor | None, config: DecodingConfig
) -> AbstractContextManager[Coverage | None]:
    """The recorder of a beam search with a coverage penalty; None for all other searches."""
    if config.sample or config.beam == 1 or not config.coverage_penalty:
        return nullcontext()
    ends = source_lengths(source, lengths, special=model.special)
    return covering(model, alignment=model.alignment, lengths=ends, penalty=config.coverage_penalty)
