"""A model directory: the one place that knows the names of its files. Torch is imported only to read weights."""

from __future__ import annotations

import json
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, JsonValue, ValidationError
from safetensors import SafetensorError, safe_open

from regard import durable
from regard.data.whole import VOCABULARY, read_bytes, read_text
from regard.errors import RegardError, cut, shown
from regard.special import OWN, Special

if TYPE_CHECKING:
    from torch import Tensor

    from regard.data.tokenizers import Tokenizers
    from regard.tasks.base import Codec

RECIPE, WEIGHTS, REPORT, CURVE = "recipe.toml", "weights.safetensors", "report.json", "curve.png"
LABELS, NUMBERS = "labels.json", "numbers.json"
TOKENIZERS = ("tokenizer.json", "source.json", "target.json")
CHECKPOINTS = "checkpoints"
LAYERS = ("layers", "encoder_layers", "decoder_layers")
SIZES = (*LAYERS, "width", "embedding", "heads", "hidden", "vocabulary", "target_vocabulary")
NOTE = "regard"  # the name of the note in the header of weights.safetensors
CHUNK = 1 << 20  # bytes


class Note(BaseModel):
    """What weights.safetensors says of its weights. A file from elsewhere, or of version 0.1, says nothing.

    model   the [model] that they were trained with, keys without a value included: many of its keys, such as heads and
            activation, change the answers and leave every shape as it is
    sum     the CRC-32 of their bytes, against accidents
    ended   the step that the run ended at
    kept    the steps whose mean they are
    files   the CRC-32 of the tokenizers that the model was trained with, by name: other ids mean other words
    """

    model: dict[str, JsonValue] = {}
    sum: int | None = None
    ended: int = 0
    kept: list[int] = []
    files: dict[str, int] = {}

    def header(self) -> dict[str, str]:
        """One note for all: safetensors writes several in any order, and equal weights make equal files."""
        return {NOTE: self.model_dump_json()}


def read_note(path: Path) -> Note:
    """The note of a weights.safetensors."""
    try:
        with safe_open(path, framework="numpy") as file:
            said = (file.metadata() or {}).get(NOTE)
        return Note() if said is None else Note.model_validate_json(said, strict=True)
    except (OSError, SafetensorError, ValidationError) as error:
        raise damaged_weights(path, error) from None


def require_whole(path: Path) -> None:
    """Refuse a weights.safetensors whose numbers are not those that were written."""
    written, found = read_note(path).sum, 0
    if written is None:
        return
    with path.open("rb") as file:
        file.seek(_header_of(file.read(8)))
        while chunk := file.read(CHUNK):
            found = zlib.crc32(chunk, found)
    if found != written:
        raise damaged_weights(path, "its numbers are not those that were written")


def sum_of(content: bytes) -> int:
    """The CRC-32 of all numbers in the content of a safetensors file."""
    return zlib.crc32(memoryview(content)[_header_of(content[:8]) :])


def _header_of(first: bytes) -> int:
    """How many bytes stand before the numbers: eight that say how long the header is, and the header."""
    return 8 + int.from_bytes(first, "little")


def damaged_weights(path: Path, error: object) -> RegardError:
    return RegardError(f"{path} is damaged ({cut(error)}); copy the model directory again, or train it anew")


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
        return durable.is_file(self.path / RECIPE)

    def require(self) -> None:
        """Refuse a directory that holds no trained model."""
        if not durable.is_file(self.path / WEIGHTS):
            raise RegardError(
                f"{cut(self.path)} is not a model directory: it has no {WEIGHTS}; train one with: regard train"
            )

    def tables(self) -> dict[str, Any]:
        """The tables of the recipe, for those who cannot wait for torch: only [model] is compared with the weights."""
        self.require()
        found = self._tables()
        model = found.get("model")
        if isinstance(model, dict):
            self._require_same(model)
            self._require_sizes(model)
        return found

    def _tables(self) -> dict[str, Any]:
        try:
            return tomllib.loads(read_text(self.path / RECIPE))
        except (OSError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise RegardError(
                f"{self.path / RECIPE} cannot be read ({cut(error)}); copy the model directory again"
            ) from None

    def _require_same(self, model: Mapping[str, object]) -> None:
        """Refuse a [model] that is not the one that the weights were trained with.

        A key that the weights do not know came with a later version, and has its default.
        """
        for change in _changes(read_note(self.path / WEIGHTS).model, model):
            raise RegardError(
                f"{self.path / RECIPE} is not the recipe that {WEIGHTS} was trained with: {change}; "
                "undo the change, or copy the model directory again"
            )

    def _require_sizes(self, model: Mapping[str, object]) -> None:
        """Refuse sizes that the weights cannot have, before anybody makes room for a model of these sizes."""
        path = self.path / WEIGHTS
        try:
            with safe_open(path, framework="numpy") as file:
                shapes = [file.get_slice(name).get_shape() for name in list(file.keys())]
        except (OSError, SafetensorError) as error:
            raise damaged_weights(path, error) from None
        tensors, largest = len(shapes), max((size for shape in shapes for size in shape), default=0)
        for key in SIZES:
            size, most = model.get(key), tensors if key in LAYERS else largest
            if isinstance(size, int) and size > most:
                raise RegardError(
                    f"{self.path / RECIPE}: model.{key} = {shown(size)} does not fit {WEIGHTS}, which has {tensors:,} "
                    f"tensors of at most {largest:,} rows; was the recipe changed? use the old one"
                )

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
        self._require_same_tokenizers()
        from regard.data.tokenizers import Tokenizers

        return Tokenizers.load(self.path, special=special, rows=self._rows())

    def tokenizer_sums(self) -> dict[str, int]:
        """The CRC-32 of each tokenizer that is there, by name."""
        names = [name for name in TOKENIZERS if durable.is_file(self.path / name)]
        return tokenizer_sums({name: read_bytes(self.path / name, most=VOCABULARY) for name in names})

    def _require_same_tokenizers(self) -> None:
        """Refuse tokenizers that are not those that the weights were trained with. Damaged weights are refused by those
        who read them."""
        try:
            written = read_note(self.path / WEIGHTS).files
        except RegardError:
            return
        for name, number in self.tokenizer_sums().items():
            if written.get(name, number) != number:
                raise RegardError(
                    f"{self.path / name} is not the tokenizer that {WEIGHTS} was trained with; "
                    "undo the change, or copy the model directory again"
                )

    def _rows(self) -> tuple[int | None, int | None]:
        """How many tokens the recipe says that source and target have, where it does."""
        model = self._tables().get("model") if durable.is_file(self.path / WEIGHTS) else None
        stated = [model.get(key) if isinstance(model, dict) else None for key in ("vocabulary", "target_vocabulary")]
        source, target = (size if isinstance(size, int) else None for size in stated)
        return source, target

    def codec(self, special: Special) -> Codec:
        """What was learned from the data before training."""
        from regard.tasks.base import Codec

        return Codec(self.tokenizers(special), self._labels(), self._numbers())

    def write(self, codec: Codec) -> None:
        """Keep a codec; files of an earlier attempt with other settings are removed."""
        files = codec_files(codec)
        for name in (*TOKENIZERS, LABELS, NUMBERS):
            if name in files:
                durable.write_file(self.path / name, files[name])
            else:
                durable.remove_file(self.path / name)

    def report(self) -> dict[str, Any]:
        """report.json, or nothing if there is none."""
        path = self.path / REPORT
        try:
            found = json.loads(read_bytes(path))
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError) as error:
            raise RegardError(
                f"{path} is damaged ({cut(error)}); copy the model directory again, or delete that file"
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
            require_whole(path)
            return safetensors.torch.load_file(path)
        except (OSError, SafetensorError) as error:
            raise damaged_weights(path, error) from None

    def _labels(self) -> tuple[str, ...]:
        found = self._json(LABELS, [])
        labels = [label for label in found if isinstance(label, str)] if isinstance(found, list) else []
        if labels != found:
            raise RegardError(f"{self.path / LABELS} must be a list of texts; copy the model directory again")
        return tuple(labels)

    def _numbers(self) -> dict[str, JsonValue]:
        found = self._json(NUMBERS, {})
        if not isinstance(found, dict):
            raise RegardError(f"{self.path / NUMBERS} must be an object; copy the model directory again")
        return found

    def _json(self, name: str, absent: JsonValue) -> JsonValue:
        """What a JSON file holds; `absent` if there is no such file."""
        path = self.path / name
        try:
            found: JsonValue = json.loads(read_bytes(path))
        except FileNotFoundError:
            return absent
        except (ValueError, RecursionError) as error:
            raise RegardError(f"{path} is damaged ({cut(error)}); copy the model directory again") from None
        return found


def _changes(trained: Mapping[str, JsonValue], stated: Mapping[str, object], table: str = "model") -> Iterator[str]:
    """The keys of a table whose values are not those of the training; a key without a value is left out of TOML."""
    for key, before in trained.items():
        now = stated.get(key)
        if isinstance(before, dict) and isinstance(now, dict):
            yield from _changes(before, now, f"{table}.{key}")
        elif now != before:
            said = ["not given" if value is None else shown(value) for value in (now, before)]
            yield f"{table}.{key} is {said[0]} and was {said[1]}"


def tokenizer_sums(files: Mapping[str, bytes]) -> dict[str, int]:
    """The CRC-32 of the tokenizers among these files, by name."""
    return {name: zlib.crc32(content) for name, content in files.items() if name in TOKENIZERS}


def codec_files(codec: Codec) -> dict[str, bytes]:
    """The files of a codec, by name."""
    sides = [] if codec.tokenizers is None else [codec.tokenizers.source, codec.tokenizers.target]
    shared = codec.tokenizers is not None and codec.tokenizers.shared
    names = TOKENIZERS[:1] if shared else TOKENIZERS[1:]
    files = {name: side.json.encode() for name, side in zip(names, sides, strict=False)}
    kept = {LABELS: list(codec.labels), NUMBERS: dict(codec.numbers)}
    return files | {name: json.dumps(value, ensure_ascii=False).encode() for name, value in kept.items() if value}
