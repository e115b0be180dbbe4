"""From what a model believes at each step to whole answers: greedy, beam and sampling, on the step protocol alone."""

from regard.decoding.alignment import align, hard_alignment, unknown_sources
from regard.decoding.config import DecodingConfig
from regard.decoding.protocol import Hypothesis, Model, State
from regard.decoding.search import search

__all__ = [
    "DecodingConfig",
    "Hypothesis",
    "Model",
    "State",
    "align",
    "hard_alignment",
    "search",
    "unknown_sources",
]
