"""The weights of a model by name: taken from it, put into it, compared with it, and as the bytes of a file."""

from __future__ import annotations

from pathlib import Path

import safetensors.torch
from torch import Tensor, nn

from regard.directory import Note, sum_of
from regard.errors import RegardError, listed

Tensors = dict[str, Tensor]
Shapes = dict[str, tuple[int, ...]]


def weights_of(model: nn.Module) -> Tensors:
    """What a model has learned, by name; weights that two modules share appear once."""
    once = {name for name, _ in model.named_parameters()} | {name for name, _ in model.named_buffers()}
    return {name: tensor for name, tensor in model.state_dict().items() if name in once}


def load_weights(model: nn.Module, weights: Tensors, *, origin: Path) -> None:
    """The opposite of `weights_of`; `origin` is where the weights came from, for the message if they do not fit."""
    require_fit(model, weights, origin=origin)
    model.load_state_dict(weights, strict=False)


def require_fit(model: nn.Module, weights: Tensors, *, origin: Path) -> None:
    """Refuse weights whose names or shapes are not those of the model."""
    require_shapes(model, _shapes(weights), origin=origin)


def _shapes(tensors: Tensors) -> Shapes:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def require_shapes(model: nn.Module, given: Shapes, *, origin: Path) -> None:
    """Refuse names and shapes that are not those of the model's weights."""
    expected = _shapes(weights_of(model))
    wrong = [
        f"{name} is {given.get(name, 'missing')} there and {expected.get(name, 'missing')} here"
        for name in expected.keys() | given.keys()
        if expected.get(name) != given.get(name)
    ]
    if wrong:
        raise RegardError(
            f"{origin} does not fit the model: {listed(wrong)}; was the recipe changed? use the old one, or another "
            "directory"
        )


def to_bytes(tensors: Tensors, note: Note | None = None) -> bytes:
    """The content of a safetensors file; a note is written into its header, with the sum of the tensors."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    if note is None:
        return safetensors.torch.save(plain)
    whole = note.model_copy(update={"sum": sum_of(safetensors.torch.save(plain))})
    return safetensors.torch.save(plain, whole.header())
