"""Which source token does each token of an answer come from?

    a_t = mean over heads of the weights with which y_t looked at x,    source of y_t = argmax_i a_ti

B rows  H heads  T tokens of an answer  S source positions
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.attention.recorder import recording
from regard.decoding.protocol import Aligned, evaluation, source_lengths
from regard.errors import RegardError
from regard.special import UNK


def align(
    model: nn.Module, source: Tensor, answers: Sequence[Sequence[int]], lengths: Tensor | None = None
) -> list[Tensor]:
    """The weights (T, S) of each answer, cut to its own length and that of its source, in one teacher-forced pass.

    source (B, S) padded with PAD; answers: tokens without BOS and EOS, one for each row. Row t of the result holds
    the weights that the module at `model.alignment` had when the model predicted token t.
    """
    if not isinstance(model, Aligned) or not model.alignment:
        raise RegardError(f"{type(model).__name__} does not look at its source by attention, so nothing can be aligned")
    if len(answers) != source.shape[0]:
        raise RegardError(f"{len(answers)} answers for {source.shape[0]} rows of source; give one each")
    path, special = model.alignment, model.special
    ends = source_lengths(source, lengths, special=special)
    longest = max(map(len, answers), default=0)
    target = torch.full((len(answers), longest), special.pad or 0, device=source.device)
    for row, answer in enumerate(answers):
        said = [special.bos, *answer][: len(answer)]
        target[row, : len(said)] = torch.tensor(said, dtype=torch.int64)
    if not target.numel():
        return [torch.zeros(0, int(end)) for end in ends]
    with evaluation(model), recording(model) as record:
        model(source, lengths, target)
        calls = [weights.to_dense() if weights.is_sparse else weights for weights in record.calls(path)]
    weights = torch.cat(calls, 2).mean(
        1
    )  # an RNN delivers (B, H, 1, S) at each step, a Transformer (B, H, T, S) at once
    return [weights[row, : len(answer), : int(ends[row])] for row, answer in enumerate(answers)]


def hard_alignment(weights: Tensor) -> list[int]:
    """The source position with the largest weight for each token of an answer. weights (T, S) → T positions."""
    return weights.argmax(1).tolist() if weights.numel() else []


def unknown_sources(tokens: Sequence[int], weights: Tensor, *, unk: int | None = UNK) -> dict[int, int]:
    """{position of an UNK in the answer: source position to copy a word from}. tokens (T), weights (T, S)."""
    return {place: source for place, source in enumerate(hard_alignment(weights)) if tokens[place] == unk}
