"""Seeing what a model looks at."""

from regard.attention.recorder import Recorder, recording

__all__ = ["Recorder", "recording"]
