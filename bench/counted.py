"""What a step of a large model costs, counted on a small machine: layers are alike, so two of them are enough.

    cost(L) = cost(2) + (L − 2) · (cost(2) − cost(1))

The same holds for rows: what is kept for the backward pass is counted in batches of one row and of two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from bench.scaling import Work
from regard import models
from regard.data.pairs.batches import PairBatch
from regard.data.text.blocks import BlockBatch
from regard.kernels.vocabulary_loss import vocabulary_loss
from regard.special import OWN
from regard.tasks.saying import target_loss
from regard.training.flops import Counting
from regard.training.size import count_parameters


class Pairs:
    """The loss of pairs of texts, with smoothing."""

    def loss(self, model: nn.Module, batch: PairBatch) -> Tensor:
        return target_loss(model, batch.source, batch.source_lengths, batch.target, pad=OWN.pad or 0, smoothing=0.1)

    def batch(self, rows: int, length: int, vocabulary: int) -> PairBatch:
        """Random pairs, all of one length on both sides."""
        source = torch.randint(4, vocabulary, (rows, length))
        target = torch.cat([torch.full((rows, 1), OWN.bos), torch.randint(4, vocabulary, (rows, length))], dim=1)
        lengths = torch.full((rows,), length)
        return PairBatch(source, lengths, target, lengths, rows * length, ())


class Blocks:
    """The loss of a language model."""

    def loss(self, model: nn.Module, batch: BlockBatch) -> Tensor:
        return vocabulary_loss(model(batch.tokens).flatten(0, 1), model.output, batch.wanted.flatten())[0]

    def batch(self, rows: int, length: int, vocabulary: int) -> BlockBatch:
        tokens = torch.randint(4, vocabulary, (rows, length + 1))
        every = torch.ones(rows, length, dtype=torch.bool)
        return BlockBatch(tokens[:, :0], tokens[:, :-1], tokens[:, 1:], every, rows * length)


@dataclass(frozen=True)
class Model:
    """A model with a name, its sizes, and how long its texts are."""

    name: str
    kind: str
    settings: Mapping[str, Any]
    vocabulary: int
    length: int  # targets of a row

    @property
    def task(self) -> Pairs | Blocks:
        return Pairs() if models.KINDS[self.kind].form == "pairs" else Blocks()

    def work(self, targets: int) -> Work:
        """A step of one process that learns from so many targets."""
        costs = [self._cost(layers) for layers in (1, 2)]
        flops, kept, operations = (
            second + (self.settings["layers"] - 2) * (second - first) for first, second in zip(*costs, strict=True)
        )
        config = models.config_class(self.kind).model_validate(dict(self.settings))
        return Work(
            parameters=count_parameters(lambda each: models.from_config(each, vocabulary=self.vocabulary), config),
            targets=targets,
            flops=flops * targets,
            operations=operations,
            activations=kept * targets,
        )

    def _cost(self, layers: int) -> tuple[float, float, float]:
        """Floating-point operations and kept bytes for each target, and the operations that a step starts."""
        torch.manual_seed(1)
        model = models.build(self.kind, vocabulary=self.vocabulary, **{**self.settings, "layers": layers})
        found = []
        for rows in (1, 2):
            counting, kept = Operations(), Kept(model.parameters())
            with counting, kept.hooks():
                self.task.loss(model, self.task.batch(rows, self.length, self.vocabulary)).backward()
            found.append((counting.total, kept.bytes))
        (flops, once), (more, twice) = found
        return (more - flops) / self.length, (twice - once) / self.length, counting.operations


class Operations(Counting):
    """Counts the operations too that are started, whatever they cost."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, function: Any, types: object, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        self.operations += 1
        return super().__torch_dispatch__(function, types, tuple(args), kwargs)


class Kept:
    """Sums the bytes of tensors that are kept for the backward pass, each once and without the weights."""

    def __init__(self, parameters: Any) -> None:
        self.seen = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        self.bytes = 0
        self.held: list[Tensor] = []  # so that no storage is used again for another tensor

    def hooks(self) -> saved_tensors_hooks:
        return saved_tensors_hooks(self._pack, lambda tensor: tensor)

    def _pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.seen:
            self.seen.add(storage.data_ptr())
            self.held.append(tensor)
            self.bytes += storage.nbytes()
        return tensor
