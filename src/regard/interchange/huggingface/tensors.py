"""Their tensors ↔ our parameters. Files are safetensors and nothing else: reading one runs nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from regard.errors import RegardError, listed
from regard.interchange.huggingface.architecture import Architecture, Name, Tensors
from regard.training.checkpoint import weights_of

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
OLD = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}  # as the first BERTs were saved


def read_tensors(directory: Path) -> dict[str, Tensor]:
    """Every tensor of a directory, from one file or from the parts that an index names."""
    if (directory / WHOLE).is_file():
        files = [WHOLE]
    elif (directory / INDEX).is_file():
        files = sorted(set(_read_index(directory / INDEX).values()))
    else:
        unsafe = sorted(path.name for path in directory.glob("*.bin"))
        if unsafe:
            raise RegardError(
                f"{directory} has its weights in {unsafe[0]}, which can run code when it is read, and regard never "
                f"reads such files; convert it once where you trust it, with transformers: "
                f"AutoModel.from_pretrained(DIR).save_pretrained(NEW_DIR)"
            )
        raise RegardError(f"{directory} has no {WHOLE}; name a directory that save_pretrained has written")
    tensors: dict[str, Tensor] = {}
    for name in files:
        try:
            tensors.update(safetensors.torch.load_file(directory / name))
        except (OSError, SafetensorError) as error:
            raise RegardError(f"{directory / name} is damaged ({error}); copy or download it again") from None
    return tensors


def _read_index(path: Path) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads(path.read_bytes())["weight_map"]
        inside = all(Path(name).name == name for name in found.values())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        inside = False
    if not inside:
        raise RegardError(f"{path} does not say which files beside it hold the weights; copy or download it again")
    return found


def plain_names(tensors: Tensors, architecture: Architecture) -> dict[str, Tensor]:
    """The tensors by the names of the architecture's table: without prefix, without names that are out of use."""
    plain = {}
    for name, tensor in tensors.items():
        for old, new in OLD.items():
            name = name.replace(old, new)
        plain[name.removeprefix(architecture.prefix)] = tensor
    return plain


def to_ours(
    tensors: Tensors, architecture: Architecture, table: Iterable[Name], module: nn.Module, config: Any, *, where: Path
) -> dict[str, Tensor]:
    """Our parameters from their tensors (under plain names), as `table` and the shapes of `module` say.

    What is missing, left over or misshapen is one error.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in weights_of(module).items()}
    left, ours, missing, wrong = dict(tensors), {}, [], []
    for name in table:
        tensor = left.pop(name.theirs, None)
        expected = _their_shape(name, [shapes[own] for own in name.ours])
        if tensor is None:
            missing.append(name.theirs)
        elif tuple(tensor.shape) != expected:
            wrong.append(f"{name.theirs} is {tuple(tensor.shape)} and must be {expected}")
        else:
            ours.update(_split(name, tensor, shapes))
    for copy, of in architecture.copies(config).items():
        tensor = left.pop(copy, None)
        if tensor is not None and of in tensors and not torch.equal(tensor, tensors[of]):
            wrong.append(f"{copy} differs from {of}, and must be the same")
    extra = [name for name in left if not re.fullmatch(architecture.constant, name)]
    problems = {"missing": missing, "not known here": extra, "not as expected": wrong}
    if any(problems.values()):
        said = "; ".join(f"{what}: {listed(names)}" for what, names in problems.items() if names)
        raise RegardError(f"{where}: the weights do not fit its config.json as a {architecture.model_type}: {said}")
    return ours


def to_theirs(weights: Tensors, architecture: Architecture, table: Sequence[Name]) -> dict[str, Tensor]:
    """The opposite of `to_ours`, with the prefix that the architecture's file has."""
    alone = not any(name.theirs.startswith(architecture.heads) for name in table)
    prefix = "" if alone and architecture.bare else architecture.prefix
    found = {}
    for name in table:
        outer = "" if name.theirs.startswith(architecture.heads) else prefix
        found[outer + name.theirs] = _joined(name, [weights[own] for own in name.ours]).contiguous()
    return found


def _their_shape(name: Name, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    joined = (sum(shape[0] for shape in shapes), *shapes[0][1:])
    return {"same": joined, "transposed": joined[::-1], "row": (1, *joined)}[name.form]


def _split(name: Name, tensor: Tensor, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    tensor = tensor.float()
    if name.form == "transposed":
        tensor = tensor.T
    elif name.form == "row":
        tensor = tensor[0]
    parts = tensor.split([shapes[own][0] for own in name.ours])
    return {own: part.contiguous() for own, part in zip(name.ours, parts, strict=True)}


def _joined(name: Name, parts: list[Tensor]) -> Tensor:
    tensor = torch.cat(parts) if len(parts) > 1 else parts[0]
    if name.form == "row":
        return tensor.unsqueeze(0)
    return tensor.T if name.form == "transposed" else tensor
