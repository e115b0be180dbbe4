"""Watching a module run: weights become maps, choices become an answer, gradients become saliency."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.recorder import Recorder, Sink, recording
from regard.decoding.protocol import evaluation
from regard.errors import RegardError
from regard.layers.ssru import SSRU
from regard.look.record import Answer, Map
from regard.tasks.base import Side, Sight

ALTERNATIVES = 5  # alternatives kept for each step
MOST_VECTORS = 1_000_000  # numbers in the queries and keys that a record keeps: a few megabytes
SALIENCY_ROWS = 32  # answer items whose gradients are computed together
TOLERANCE = 0.01  # by which weights in half precision may miss a sum of 1


def watched(
    module: nn.Module, run: Callable[[], Tensor], *, only: str, head: int | None, sink: Sink | None = None
) -> tuple[Tensor, Recorder]:
    """The result of `run`, and the weights recorded meanwhile: of paths that match `only`, of one head or all."""
    with evaluation(module), recording(module, only=only, head=head, sink=sink) as seen:
        found = run()
    if not len(seen):
        raise RegardError(
            "this model has nothing to show: it is a recurrent network without attention and gates"
            if only == "*" and head is None
            else "this model has no weights of that layer or head; both count from 0, and without them all are shown"
        )
    return found, seen


def maps_of(
    module: nn.Module, seen: Recorder, sight: Sight, *, head: int | None = None, row: int = 0
) -> tuple[Map, ...]:
    """One map for each attention, and for each layer and direction of a recurrent part, of one row of the batch.

    Queries and keys are kept up to `MOST_VECTORS` numbers in all, those of the alignment first.
    """
    vectors = _vectors(seen, str(module.alignment), row) if sight.rows is None else {}
    maps = []
    for path in seen:
        query, key = sides_of(seen, sight, path)
        # a decoder that goes step by step delivers row by row
        rows = [each[row] for each in seen.calls(path)]
        rows = [shown_of(shown_of(each, sight, axis=1), sight, axis=2) for each in rows]
        weights = torch.cat([each.to_dense() if each.is_sparse else each for each in rows], 1)  # (H, Q, K)
        weights = weights.flip(1, 2) if sight.reads_backwards(path) else weights
        weights = weights if sight.rows is None else weights[:, -sight.rows :]
        gates = is_recurrent(module, seen, path)
        maps.append(
            Map(
                name=path,
                kind="gates" if gates else "self" if query == key else "cross",
                query=query,
                key=key,
                weights=weights.float().cpu(),
                heads=tuple(range(weights.shape[0])) if head is None else (head,),
                layer=layer_of(path),
                sums="any" if gates else sums_of(weights),
                inputs=inputs_of(sight, query, key),
                vectors=vectors.get(path),
            )
        )
    return tuple(maps)


def sums_of(weights: Tensor) -> Literal["one", "any"]:
    """What the rows of weights (H, Q, K) add up to: `one` if it is 1 for each that looks at anything."""
    totals = weights.float().sum(-1)
    return "one" if bool((((totals - 1).abs() < TOLERANCE) | (totals == 0)).all()) else "any"


def shown_of(x: Tensor, sight: Sight, *, axis: int) -> Tensor:
    """The part of x, which has an entry for each item that is read, that belongs to the items that are shown."""
    if sight.shown is None:
        return x
    return x.index_select(axis, torch.tensor(sight.shown, device=x.device))


def sides_of(seen: Recorder, sight: Sight, path: str) -> tuple[str, str]:
    """The side that the attention at `path` looks from, and what its columns are."""
    query, looked_at = sight.sides(path)
    return query, seen.columns(path) or looked_at


def is_recurrent(module: nn.Module, seen: Recorder, path: str) -> bool:
    """Whether the weights at `path` are gates of a recurrent part."""
    return isinstance(module.get_submodule(seen.place(path).rpartition(".")[0]), nn.RNNBase | SSRU)


def named_sides(sides: Mapping[str, Side], maps: Sequence[Map]) -> dict[str, Side]:
    """The sides of a record, with those whose items are numbers: projected positions, experts, steps."""
    found = dict(sides)
    for each in maps:
        if each.key not in found:
            items = tuple(f"{each.key} {number + 1}" for number in range(each.weights.shape[2]))
            found[each.key] = Side(items, kind="steps")
    return found


def inputs_of(sight: Sight, query: str, key: str) -> tuple[str, ...] | None:
    """The tokens in the columns of a causal map."""
    return sight.inputs if (query, key) == ("target", "target") else None


def answered(
    logits: Tensor,
    wanted: Sequence[int],
    text: str,
    *,
    names: Callable[[int, list[int]], Sequence[str]],
    places: Sequence[int] = (),
) -> Answer:
    """The choices `wanted` (T,) with their probabilities by logits (T, C), and the alternatives to each.

    `names(t, numbers)` are the names of some of the choices at t.
    """
    logprobs = logits.float().log_softmax(-1).cpu()
    likeliest, numbers = logprobs.topk(min(ALTERNATIVES, logprobs.shape[1]))
    alternatives = tuple(
        tuple(zip(names(at, row), values, strict=True))
        for at, (row, values) in enumerate(zip(numbers.tolist(), likeliest.tolist(), strict=True))
    )
    chosen = tuple(float(row[number]) for row, number in zip(logprobs, wanted, strict=True))
    return Answer(text, chosen, alternatives, tuple(places))


def saliency(
    module: nn.Module, embedding: nn.Module, logprobs: Callable[[Tensor], Tensor], count: int, device: torch.device
) -> Tensor:
    """Gradient × input (Shrikumar 2016): how much each input item moved the log-probability of each answer item.

        s_ti = Σ_d  x_id · ∂ log p(y_t) / ∂ x_id        x the output of `embedding` when it is first called

    `logprobs(t)` gives log p(y_t) of some of the `count` answer items (n,), each from a row of the batch of its own, so
    that one backward pass serves `SALIENCY_ROWS` of them. → (1, count, items read)
    """
    rows = []
    for places in torch.arange(count, device=device).split(SALIENCY_ROWS):
        inputs: list[Tensor] = []

        def keep(_module: nn.Module, _arguments: object, output: Tensor, inputs: list[Tensor] = inputs) -> Tensor:
            if not inputs:  # the source is embedded before the target, which may share its table
                inputs.append(output.detach().requires_grad_())
                return inputs[0]
            return output

        hook = embedding.register_forward_hook(keep)
        try:
            with evaluation(module, gradients=True):
                (gradient,) = torch.autograd.grad(logprobs(places).sum(), inputs)
        finally:
            hook.remove()
        rows.append((gradient * inputs[0]).sum(-1).detach().float().cpu())
    return torch.cat(rows).unsqueeze(0)


def _vectors(seen: Recorder, first: str, row: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Queries (H, Q, D) and keys (H, K, D) of each attention that compares by dot product, `first` first."""
    kept, count = {}, 0
    for path in sorted(filter(seen.has_vectors, seen), key=lambda path: path != first):
        calls = seen.vectors(path)
        queries, keys = torch.cat([query[row] for query, _ in calls], 1), calls[-1][1][row]
        size = queries.numel() + keys.numel()
        if count + size <= MOST_VECTORS:
            count += size
            kept[path] = (queries.float().cpu(), keys.float().cpu())
    return kept


def layer_of(path: str) -> int | None:
    numbers = [int(part) for part in path.split(".") if part.isdigit()]
    return numbers[0] if numbers else None
