"""regard: train attention models on your own data, and see what they look at.

    model = regard.train("pairs", changes=["data.train=my.tsv"])      or  regard.load("runs/pairs")
    model("a text")

Names are imported when they are first used, so that `import regard` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from regard.errors import RegardError
from regard.version import __version__

if TYPE_CHECKING:
    from regard import attention, layers, look, models, recipes
    from regard.api import Model, compare, export_model, import_model, load, train

_VERBS = {"Model", "compare", "export_model", "import_model", "load", "train"}
_ROOMS = {"attention", "layers", "look", "models", "recipes"}

__all__ = [
    "Model",
    "RegardError",
    "__version__",
    "attention",
    "compare",
    "export_model",
    "import_model",
    "layers",
    "load",
    "look",
    "models",
    "recipes",
    "train",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _VERBS:
        return getattr(importlib.import_module("regard.api"), name)
    if name in _ROOMS:
        return importlib.import_module(f"regard.{name}")
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
