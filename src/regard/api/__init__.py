"""The verbs, in Python: `train` and `load` give a `Model`, which answers, scores itself and shows what it looks at.

model        the model of every task
translator   more verbs where a task can tell which words looked at which: alignment, compare
loading      from a model directory to a model
writer       more verbs where a task can tell an answer while it comes: write, stream
training     from a recipe to a trained model
comparing    one recipe with several values of some keys
body         what a model takes from a pretrained one
exchange     models from elsewhere, and back
"""

from __future__ import annotations

from regard.api.comparing import compare
from regard.api.exchange import export_model, import_model
from regard.api.loading import load
from regard.api.model import Model
from regard.api.training import train

__all__ = ["Model", "compare", "export_model", "import_model", "load", "train"]
