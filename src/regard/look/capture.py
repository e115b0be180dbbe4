"""From a model and a text to a record: the answer is found without recording, then read once more with it.

One teacher-forced pass gives the weights of the very answer that was found, by greedy, beam or sampling alike, and
costs nothing while searching. What that pass looks at is what the search looked at: steps and the whole are the same
computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.recorder import Recorder, recording
from regard.data.batches import source_batches
from regard.decoding import DecodingConfig, search
from regard.decoding.protocol import evaluation
from regard.decoding.tree import Tree
from regard.errors import RegardError
from regard.look.record import Answer, Map, Record, Side
from regard.tasks.translate import Translate

ALTERNATIVES = 5  # what else could have been said, at each step
MOST_VECTORS = 1_000_000  # numbers in the queries and keys that a record keeps: a few megabytes of it
SALIENCY_ROWS = 32  # answer items whose gradients are computed together


def capture(
    module: Any,
    task: Translate,
    text: str,
    *,
    decoding: DecodingConfig,
    reference: str | None = None,
    only: str = "*",
    head: int | None = None,
    saliency: bool = True,
    beam: bool = False,
) -> Record:
    """What `module` looks at when it answers `text`, or when it is made to say `reference`.

    `only` is a pattern of module paths, such as "decoder.blocks.3.*", `head` the number of a head: no other weights are
    computed. `beam` adds the tree of the search. The queries and keys behind the scores are kept as far as
    `MOST_VECTORS` goes, those of the alignment first.
    """
    tokenizers = task.tokenizers
    special = tokenizers.special
    end = tokenizers.target.pieces([special.eos])
    device = next(module.parameters()).device
    (batch,) = source_batches(tokenizers.source.encode([text]), batch_tokens=1, special=special)
    source = batch.source.to(device)
    tree = Tree() if beam and reference is None else None
    if reference is not None:
        said = tokenizers.target.encode([reference])[0]
    else:
        said = list(search(module, source, config=decoding, tree=tree)[0][0].tokens)
    given = torch.tensor([[special.bos, *said]], device=device)
    with evaluation(module), recording(module, only=only, head=head) as seen:
        logits = module.output(module(source, None, given))[0]
    if not len(seen):
        raise RegardError(
            f"nothing that looks at something matches only={only!r}, head={head}; look without layer and head to see "
            "what this model has (a plain recurrent network without attention has nothing)"
        )
    sides = {
        "source": Side((*tokenizers.source.tokens(text), *end), text=text),
        "target": Side((*tokenizers.target.pieces(said), *end), text=tokenizers.target.decode([said])[0]),
    }
    gradients = {"source": _saliency(module, source, given, [*said, special.eos])} if saliency else {}
    return Record(
        title=f"{text} → {sides['target'].text}",
        sides=sides,
        maps=tuple(_maps(module, seen, (*tokenizers.target.pieces([special.bos]), *sides["target"].items[:-1]), head)),
        answer=_answer(task, logits, [*said, special.eos], sides["target"].text),
        saliency=gradients,
        beam=None if tree is None else tree.to_json(tokenizers.target.pieces),
    )


def _maps(module: Any, seen: Recorder, inputs: tuple[str, ...], head: int | None) -> list[Map]:
    """One map for each attention, and for each layer and direction of a recurrent part."""
    vectors = _vectors(seen, module.alignment)
    maps = []
    for path in seen:
        query, key = module.looks(path)
        # a decoder that goes step by step delivers row by row
        weights = torch.cat([each.to_dense() if each.is_sparse else each for each in seen.calls(path)], 2)
        gates = isinstance(module.get_submodule(path.rpartition(".")[0]), nn.RNNBase)
        maps.append(
            Map(
                name=path,
                kind="gates" if gates else "self" if query == key else "cross",
                query=query,
                key=key,
                weights=weights[0].float().cpu(),
                heads=tuple(range(weights.shape[1])) if head is None else (head,),
                layer=_layer(path),
                sums="any" if gates else "one",
                inputs=inputs if (query, key) == ("target", "target") else None,
                vectors=vectors.get(path),
            )
        )
    return maps


def _vectors(seen: Recorder, first: str) -> dict[str, tuple[Tensor, Tensor]]:
    """Queries (H, Q, D) and keys (H, K, D) of each attention that compares by dot product, `first` first."""
    kept, count = {}, 0
    for path in sorted(filter(seen.has_vectors, seen), key=lambda path: path != first):
        calls = seen.vectors(path)
        queries, keys = torch.cat([query for query, _ in calls], 2), calls[-1][1]
        size = queries[0].numel() + keys[0].numel()
        if count + size <= MOST_VECTORS:
            count += size
            kept[path] = (queries[0].float().cpu(), keys[0].float().cpu())
    return kept


def _layer(path: str) -> int | None:
    numbers = [int(part) for part in path.split(".") if part.isdigit()]
    return numbers[-1] if numbers else None


def _answer(task: Translate, logits: Tensor, wanted: Sequence[int], text: str) -> Answer:
    logprobs = logits.float().log_softmax(-1).cpu()
    likeliest, tokens = logprobs.topk(min(ALTERNATIVES, logprobs.shape[1]))
    names = [task.tokenizers.target.pieces(row) for row in tokens.tolist()]
    alternatives = tuple(
        tuple(zip(row, values, strict=True)) for row, values in zip(names, likeliest.tolist(), strict=True)
    )
    return Answer(text, tuple(float(row[token]) for row, token in zip(logprobs, wanted, strict=True)), alternatives)


def _saliency(module: Any, source: Tensor, given: Tensor, wanted: Sequence[int]) -> Map:
    """Gradient × input (Shrikumar 2016): how much each source item moved the log-probability of each answer item.

        s_ti = Σ_d  x_id · ∂ log p(y_t) / ∂ x_id        x the embedded source

    A row of the batch for each answer item, so that one backward pass serves `SALIENCY_ROWS` of them.
    """
    rows = []
    for start in range(0, len(wanted), SALIENCY_ROWS):
        part = torch.tensor(wanted[start : start + SALIENCY_ROWS], device=source.device)
        inputs: list[Tensor] = []

        def keep(_module: Any, _arguments: Any, output: Tensor, inputs: list[Tensor] = inputs) -> Tensor:
            if not inputs:  # the source is embedded first; a shared table embeds the target next
                inputs.append(output.detach().requires_grad_())
                return inputs[0]
            return output

        hook = module.source.register_forward_hook(keep)
        try:
            with evaluation(module, gradients=True):
                hidden = module(source.expand(len(part), -1), None, given.expand(len(part), -1))
                at = torch.arange(len(part), device=source.device)
                logprobs = module.output(hidden[at, start + at]).log_softmax(-1)[at, part]
                (gradient,) = torch.autograd.grad(logprobs.sum(), inputs)
        finally:
            hook.remove()
        rows.append((gradient * inputs[0]).sum(-1).detach().float().cpu())
    weights = torch.cat(rows).unsqueeze(0)
    return Map("saliency", "cross", "target", "source", weights, heads=(0,), sums="any")
