"""Records of attention, and the ways to show them."""

from regard.attention.recorder import Recorder, recording
from regard.look.bertviz import head_view, model_view
from regard.look.record import Record

__all__ = ["Record", "Recorder", "head_view", "model_view", "recording"]
