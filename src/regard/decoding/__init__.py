"""From the probabilities of each step to whole answers: greedy, beam and sampling, on the step protocol alone.

Names are imported when they are first used: `regard.decoding.config` is read by processes that never load torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.decoding.alignment import align, hard_alignment, unknown_sources
    from regard.decoding.config import DecodingConfig
    from regard.decoding.protocol import Hypothesis, Model, State
    from regard.decoding.searches import search
    from regard.decoding.threads import side_by_side

_FOUND_IN = {
    "DecodingConfig": "config",
    "Hypothesis": "protocol",
    "Model": "protocol",
    "State": "protocol",
    "align": "alignment",
    "hard_alignment": "alignment",
    "search": "searches",
    "side_by_side": "threads",
    "unknown_sources": "alignment",
}

__all__ = [
    "DecodingConfig",
    "Hypothesis",
    "Model",
    "State",
    "align",
    "hard_alignment",
    "search",
    "side_by_side",
    "unknown_sources",
]


def __getattr__(name: str) -> Any:
    if name in _FOUND_IN:
        return getattr(importlib.import_module(f"regard.decoding.{_FOUND_IN[name]}"), name)
    raise AttributeError(f"module 'regard.decoding' has no attribute {name!r}")
