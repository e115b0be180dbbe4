"""Records of attention, and the ways to show them. Torch is imported only when one of these names is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.attention.recorder import Recorder, recording
    from regard.look.bertviz import head_view, model_view
    from regard.look.record import Record

_PLACES = {
    "Record": "regard.look.record",
    "Recorder": "regard.attention.recorder",
    "head_view": "regard.look.bertviz",
    "model_view": "regard.look.bertviz",
    "recording": "regard.attention.recorder",
}

__all__ = ["Record", "Recorder", "head_view", "model_view", "recording"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'regard.look' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)
