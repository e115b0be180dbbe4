"""Which options CTranslate2 answers as torch does.

It normalises log p over what may be said, where torch normalises over the whole vocabulary and then leaves out what may
not. The most probable token is the same, so greedy search may forbid things. In a beam the sums of log p decide, and
what is forbidden differs from hypothesis to hypothesis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.decoding.config import DecodingConfig
from regard.interchange.expressible import obstacle, reach


def reason_for_torch(
    model: Mapping[str, Any], decoding: DecodingConfig, *, vocabulary: int, prefix: Sequence[int] = ()
) -> str | None:
    """Why CTranslate2 cannot answer, as a sentence; None if it gives the same answers.

    model: the [model] of a recipe; vocabulary: how many tokens the target has; prefix: those answers must begin with.
    """
    found = obstacle(model)
    if found is None:
        found = _of_lengths(model, decoding, prefix)
    if found is None:
        found = _of_search(decoding) if decoding.beam == 1 else _of_beam(decoding, vocabulary, prefix)
    return found


def _of_lengths(model: Mapping[str, Any], decoding: DecodingConfig, prefix: Sequence[int]) -> str | None:
    positions = reach(model)
    if positions is not None and decoding.max_length > positions:
        return f"answers of max_length = {decoding.max_length} may go beyond the {positions} learned positions"
    if len(prefix) > decoding.max_length:
        return f"the prefix has {len(prefix)} tokens and answers at most {decoding.max_length}"
    return None


def _of_search(decoding: DecodingConfig) -> str | None:
    if decoding.sample:
        return "CTranslate2 draws other random numbers, so a seed would not give the same answers"
    if decoding.min_length and decoding.no_repeat_ngram:
        return "CTranslate2 continues where min_length and no_repeat_ngram together forbid every token"
    return None


def _of_beam(decoding: DecodingConfig, vocabulary: int, prefix: Sequence[int]) -> str | None:
    if decoding.sample:
        return _of_search(decoding)
    if not decoding.early_stopping:
        return "CTranslate2 always stops at `beam` finished answers, which early_stopping = false does not"
    forbidding = {"min_length": decoding.min_length, "no_repeat_ngram": decoding.no_repeat_ngram}
    for name, value in forbidding.items():
        if value:
            return f"with a beam, CTranslate2 ranks hypotheses differently under {name} = {value}; greedy would do"
    if prefix:
        return "with a beam, CTranslate2 does not count the prefix in the score; greedy would do"
    if decoding.beam + 3 > vocabulary:
        return f"a beam of {decoding.beam} is too wide for a vocabulary of {vocabulary} in CTranslate2"
    return None


def reason_for_torch_to_write(decoding: DecodingConfig, *, vocabulary: int) -> str | None:
    """The same for a causal language model, which continues prompts."""
    for name, value in {"min_length": decoding.min_length, "no_repeat_ngram": decoding.no_repeat_ngram}.items():
        if value and not decoding.sample:
            return f"CTranslate2 counts the prompt in {name} = {value}, and torch only what follows it"
    return _of_search(decoding) if decoding.beam == 1 else _of_beam(decoding, vocabulary, ())
