"""A model directory: the one place that knows the names of its files. Torch is imported only to read weights."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from regard import durable
from regard.data.tokenizers import Tokenizers
from regard.errors import RegardError
from regard.special import OWN, Special
from regard.tasks.base import Codec

if TYPE_CHECKING:
    from torch import Tensor

RECIPE, WEIGHTS, REPORT, LABELS, CURVE = "recipe.toml", "weights.safetensors", "report.json", "labels.json", "curve.png"
TOKENIZERS = ("tokenizer.json", "source.json", "target.json")
CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class ModelDirectory:
    """The files of one model, by name; a file that is damaged or missing is a RegardError that names it."""

    path: Path

    @property
    def work(self) -> Path:
        """The folder for what a run needs while it trains."""
        return self.path / CHECKPOINTS

    @property
    def is_model(self) -> bool:
        return (self.path / RECIPE).is_file()

    def require(self) -> None:
        """Refuse a directory that holds no trained model."""
        if not (self.path / WEIGHTS).is_file():
            raise RegardError(
                f"{self.path} is not a model directory: it has no {WEIGHTS}; train one with: regard train"
            )

    def tables(self) -> dict[str, Any]:
        """The tables of the recipe, unchecked; for those who cannot wait for torch."""
        self.require()
        try:
            return tomllib.loads((self.path / RECIPE).read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise RegardError(
                f"{self.path / RECIPE} cannot be read ({error}); copy the model directory again"
            ) from None

    def special(self) -> Special:
        """The special ids that the recipe states, or those that all vocabularies learned here share."""
        model = self.tables().get("model")
        stated = model.get("special") if isinstance(model, dict) else None
        try:
            return OWN if stated is None else Special.model_validate(stated)
        except ValidationError:
            raise RegardError(f"{self.path / RECIPE}: model.special must be a table of token numbers") from None

    def tokenizers(self, special: Special) -> Tokenizers | None:
        """tokenizer.json, or source.json and target.json; None where there is no file of these names."""
        if not any((self.path / name).exists() for name in TOKENIZERS):
            return None
        return Tokenizers.load(self.path, special=special)

    def codec(self, special: Special) -> Codec:
        """What was learned from the data before training."""
        return Codec(self.tokenizers(special), self._labels())

    def write(self, codec: Codec) -> None:
        """Keep a codec; files of an earlier attempt with other settings are removed."""
        files = codec_files(codec)
        for name in (*TOKENIZERS, LABELS):
            if name in files:
                durable.write_file(self.path / name, files[name])
            else:
                durable.remove_file(self.path / name)

    def report(self) -> dict[str, Any]:
        """report.json, or nothing if there is none."""
        path = self.path / REPORT
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise RegardError(
                f"{path} is damaged ({error}); copy the model directory again, or delete that file"
            ) from None
        if not isinstance(found, dict):
            raise RegardError(
                f"{path} is damaged (it is not an object); copy the model directory again, or delete that file"
            )
        return found

    def weights(self) -> dict[str, Tensor]:
        """weights.safetensors: numbers, and no code."""
        import safetensors.torch

        path = self.path / WEIGHTS
        try:
            return safetensors.torch.load_file(path)
        except (OSError, safetensors.SafetensorError) as error:
            raise RegardError(
                f"{path} is damaged ({error}); copy the model directory again, or train it anew"
            ) from None

    def _labels(self) -> tuple[str, ...]:
        path = self.path / LABELS
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, RecursionError) as error:
            raise RegardError(f"{path} is damaged ({error}); copy the model directory again") from None
        if not isinstance(found, list) or not all(isinstance(label, str) for label in found):
            raise RegardError(f"{path} must be a list of texts; copy the model directory again")
        return tuple(found)


def codec_files(codec: Codec) -> dict[str, bytes]:
    """The files of a codec, by name."""
    sides = [] if codec.tokenizers is None else [codec.tokenizers.source, codec.tokenizers.target]
    shared = codec.tokenizers is not None and codec.tokenizers.shared
    names = TOKENIZERS[:1] if shared else TOKENIZERS[1:]
    files = {name: side.json.encode() for name, side in zip(names, sides, strict=False)}
    return files | ({LABELS: json.dumps(codec.labels, ensure_ascii=False).encode()} if codec.labels else {})
