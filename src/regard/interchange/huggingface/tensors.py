"""Their tensors ↔ our parameters. Only safetensors files are read: reading one executes no code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from regard.errors import RegardError, listed
from regard.interchange.files import cut, read_json
from regard.interchange.huggingface.architecture import Architecture, Name, Tensors
from regard.training.weights import weights_of

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
OLD = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}  # as the first BERTs were saved


def read_tensors(directory: Path) -> dict[str, Tensor]:
    """Every tensor of a directory, from one file or from the parts that an index names."""
    if (directory / INDEX).exists() and not (directory / WHOLE).exists():
        files = sorted(set(_read_index(directory / INDEX).values()))
    else:
        files = [WHOLE]
    tensors: dict[str, Tensor] = {}
    for name in files:
        path = directory / name
        if not path.is_file():
            raise RegardError(f"{directory} has no {cut(name)}; name a directory that save_pretrained has written")
        try:
            tensors.update(safetensors.torch.load_file(path))
        except (OSError, SafetensorError, TypeError, ValueError, RuntimeError) as error:  # of shapes that torch refuses
            raise RegardError(f"{path} is damaged ({cut(error)}); copy or download it again") from None
    return tensors


def _read_index(path: Path) -> dict[str, str]:
    found = read_json(path).get("weight_map")
    inside = isinstance(found, dict) and all(
        isinstance(name, str) and name not in ("", "..") and "\0" not in name and Path(name).name == name
        for name in found.values()
    )
    if not isinstance(found, dict) or not found or not inside:
        raise RegardError(f"{path} does not say which files beside it hold the weights; copy or download it again")
    return found


def longest_axis(tensors: Tensors) -> int:
    """The longest axis of a tensor that is not empty; 0 if there is none."""
    return max((max(tensor.shape, default=1) for tensor in tensors.values() if tensor.numel()), default=0)


def plain_names(tensors: Tensors, architecture: Architecture, *, where: Path) -> dict[str, Tensor]:
    """The tensors by the names of the architecture's table: without the prefix, and old names replaced."""
    plain: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        for old, new in OLD.items():
            name = name.replace(old, new)
        name = name.removeprefix(architecture.prefix)
        if name in plain:
            raise RegardError(f"{where} has the tensor {cut(name)} twice, under two names; copy or download it again")
        plain[name] = tensor
    return plain


def to_ours(
    tensors: Tensors, architecture: Architecture, table: Iterable[Name], module: nn.Module, config: Any, *, where: Path
) -> dict[str, Tensor]:
    """Our parameters from their tensors (under plain names), as `table` and the shapes of `module` say.

    One error names everything that is missing, left over, misshapen or not made of finite floating-point numbers.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in weights_of(module).items()}
    left, ours, missing, wrong = dict(tensors), {}, [], []
    for name in table:
        tensor = left.pop(name.theirs, None)
        expected = _their_shape(name, [shapes[own] for own in name.ours])
        if tensor is None:
            missing.append(name.theirs)
        elif tuple(tensor.shape) != expected:
            wrong.append(f"{name.theirs} is {cut(tuple(tensor.shape))} and must be {expected}")
        elif tensor.dtype not in FLOATS:
            wrong.append(f"{name.theirs} has the type {tensor.dtype} and must be one of {', '.join(map(str, FLOATS))}")
        elif not tensor.float().isfinite().all():
            wrong.append(f"{name.theirs} has entries that are not finite numbers")
        else:
            ours.update(_split(name, tensor, shapes))
    for copy, of in architecture.copies(config).items():
        tensor = left.pop(copy, None)
        if tensor is not None and of in tensors and not _equal(tensor, tensors[of]):
            wrong.append(f"{copy} differs from {of}, and must be the same")
    extra = [cut(name) for name in left if not re.fullmatch(architecture.constant, name)]
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


def _equal(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers, whatever their precision."""
    return one.dtype in FLOATS and other.dtype in FLOATS and torch.equal(one.float(), other.float())


def _their_shape(name: Name, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    joined = (sum(shape[0] for shape in shapes), *shapes[0][1:])
    found = {"same": joined, "transposed": joined[::-1], "row": (1, *joined)}[name.form]
    return found if name.axes is None else tuple(torch.empty(found, device="meta").unflatten(-1, name.axes).shape)


def _split(name: Name, tensor: Tensor, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    tensor = tensor.float()
    if name.axes is not None:
        tensor = tensor.flatten(-len(name.axes))
    if name.form == "transposed":
        tensor = tensor.T
    elif name.form == "row":
        tensor = tensor[0]
    parts = tensor.split([shapes[own][0] for own in name.ours])
    return {own: part.contiguous() for own, part in zip(name.ours, parts, strict=True)}


def _joined(name: Name, parts: list[Tensor]) -> Tensor:
    tensor = torch.cat(parts) if len(parts) > 1 else parts[0]
    if name.form == "row":
        tensor = tensor.unsqueeze(0)
    elif name.form == "transposed":
        tensor = tensor.T
    return tensor if name.axes is None else tensor.unflatten(-1, name.axes)
