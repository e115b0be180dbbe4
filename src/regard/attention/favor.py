"""FAVOR+: what a query finds among all keys, from sums over the features of the keys.   Choromanski 2021, 2.2 and 3.1

    φ(q)_r = exp(w_r·q)      φ(k)_r = exp(w_r·k − ‖k‖²/2)      E[φ(q)·φ(k)] ∝ exp(q·k), with a factor for each query
    Z_r = Σ_j φ(k_j)_r [v_j ; 1]                        out_i = num_i / den_i,   [num_i ; den_i] = Σ_r φ(q_i)_r Z_r

`gather` sums over keys, `read` looks with queries at a sum, and `look_back` lets query i look at keys 1 … i.

No feature is ever exponentiated as it is. A sum is kept with its logarithmic scale a_r = max_j l_jr, so that
Z_r exp(−a_r) has a denominator between 1 and the number of keys, and a query's features are divided by their largest
after a_r is added: den_i ≥ 1. `look_back` goes through segments. In a segment the scale is that of the keys before it
and its first key, and each query is scaled further by the largest feature of the keys up to its own. Nothing that is
computed for query i depends on a later key.

Sequences are processed in segments that fit in the processor's cache. `gather` and `read` keep the features of their
segments for the backward pass; `look_back` computes them again, and keeps the sums before each segment alone.

B batch  H heads  N = B·H  L length  D width of a head  m features  P chunks of a segment  C positions of a chunk
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.segments import Place, Space, cut, empty_like, hidden_part, paste, precise_type, segments

ROWS = 4096  # rows of all heads in a segment of `gather` and `read`
CHUNK = 64  # positions within which `look_back` computes every pair
CHUNKS = 8  # of a segment of `look_back`; a sum is kept for each segment
NOTHING = -1e30  # the logarithmic scale of an empty sum
LEAST = 1e-30  # a smaller denominator has too few digits in single precision and counts as 0


class Directions(NamedTuple):
    """The directions w for queries and for keys (m, D): exp(q·k) is estimated for √β q and k/√β, with β = √D."""

    of_queries: Tensor
    of_keys: Tensor

    @classmethod
    def balanced(cls, w: Tensor) -> Directions:
        """w for queries that were divided by √D: both sides are divided by its root instead."""
        root = w.shape[1] ** 0.25
        return cls(w * root, w / root)


class Sums(NamedTuple):
    """Z_r exp(−a_r) (N, m, D + 1) and a_r (N, m)."""

    scaled: Tensor
    logs: Tensor

    @classmethod
    def empty(cls, value: Tensor, w: Tensor) -> Sums:
        """The sum over no keys, for values (B, H, K, D) and directions w (m, D)."""
        rows = value.shape[0] * value.shape[1]
        precise = precise_type(value)
        scaled = torch.zeros(rows, len(w), value.shape[3] + 1, dtype=precise, device=value.device)
        return cls(scaled, torch.full((rows, len(w)), NOTHING, dtype=precise, device=value.device))


def gather(key: Tensor, value: Tensor, w: Directions, *, hidden: Tensor | None, before: Sums | None = None) -> Sums:
    """The sums over keys (B, H, K, D) and values (B, H, K, D) that are not `hidden` (B, K), and over those `before`."""
    before = Sums.empty(value, w.of_keys) if before is None else before
    return Sums(*_Gather.apply(key, value, w.of_keys, hidden, *before))


def read(query: Tensor, sums: Sums, w: Directions) -> Tensor:
    """What queries (B, H, Q, D) find in the sums: (B, H, Q, D), zeros if those are empty."""
    return _Read.apply(query, w.of_queries, *sums)


def look_back(
    query: Tensor, key: Tensor, value: Tensor, w: Directions, *, hidden: Tensor | None, before: Sums | None = None
) -> tuple[Tensor, Sums]:
    """Query i finds keys 1 … i and those `before`: (B, H, L, D) each → (B, H, L, D), and the sums after all."""
    before = Sums.empty(value, w.of_keys) if before is None else before
    out, *after = _LookBack.apply(query, key, value, *w, hidden, *before)
    return out, Sums(*after)


def implied(query: Tensor, key: Tensor, w: Directions, *, allowed: Tensor) -> Tensor:
    """The weights (B, H, Q, K) that the features imply, zero where not `allowed`, which broadcasts to them.

    Double precision has room for the features as they are, relative to the largest of each query and each key.
    """
    queries = query.double() @ w.of_queries.double().mT  # (B, H, Q, m)
    keys = key.double() @ w.of_keys.double().mT
    keys = keys - _half_norm(key.double()).unsqueeze(-1)
    largest = keys.amax(-1)  # (B, H, K)
    alike = (queries - queries.amax(-1, keepdim=True)).exp() @ (keys - largest.unsqueeze(-1)).exp().mT
    scale = largest.unsqueeze(-2).expand_as(alike).masked_fill(~allowed, NOTHING)
    weights = alike * (scale - scale.amax(-1, keepdim=True)).exp() * allowed
    total = weights.sum(-1, keepdim=True)
    return (weights / total.masked_fill(total == 0, 1.0)).to(query.dtype)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, key: Tensor, value: Tensor, w: Tensor, hidden: Tensor | None, scaled: Tensor, logs: Tensor
    ) -> tuple[Tensor, Tensor]:
        first, scaled, space = logs, scaled.clone(), Space(scaled, kept=any(context.needs_input_grad))
        kept: list[Tensor] = []  # the features of each segment, and their scale
        for place in _whole_segments(key):
            k = cut(key, place)
            norm = _half_norm(k, hidden_part(hidden, place, key.device))
            logits = _key_logits(k, w, norm.unsqueeze(2), space)  # (N, m, C)
            now = torch.maximum(logs, logits.amax(-1))
            scaled.mul_((logs - now).exp().unsqueeze(-1))
            features = logits.sub_(now.unsqueeze(-1)).exp_()
            scaled.baddbmm_(features, _with_ones(cut(value, place))[0])
            logs = now
            kept += [features, now] if space.kept else []
        context.save_for_backward(key, value, w, first, logs, *kept)
        context.mark_non_differentiable(logs)
        return scaled, logs

    @staticmethod
    @once_differentiable
    def backward(context: Any, to_scaled: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        key, value, w, first, logs, *kept = context.saved_tensors
        to_key, to_value, space = empty_like(key), empty_like(value), Space(to_scaled)
        for place, features, scale in zip(_whole_segments(key), kept[::2], kept[1::2], strict=True):
            k, v = cut(key, place), _with_ones(cut(value, place))[0]
            to_sum = to_scaled * (scale - logs).exp().unsqueeze(-1)
            to_v = torch.bmm(features.mT, to_sum)
            to_logits = torch.bmm(to_sum, v.mT, out=space("to", *features.shape)).mul_(features)
            paste(to_key, place, _through_keys(to_logits, w, k, (v * to_v).sum(-1, keepdim=True)))
            paste(to_value, place, to_v[..., :-1].unsqueeze(0))
        to_before = to_scaled * (first - logs).exp().unsqueeze(-1)
        return to_key, to_value, None, None, to_before, None


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, query: Tensor, w: Tensor, scaled: Tensor, logs: Tensor) -> Tensor:
        out, space = empty_like(query, scaled.shape[-1] - 1), Space(scaled, kept=any(context.needs_input_grad))
        kept: list[Tensor] = []  # the features of each segment, and 1 / den
        for place in _whole_segments(query):
            features, largest = _query_features(cut(query, place)[0], w, logs, space)
            found, norm = _divided(torch.bmm(features, scaled), largest)
            paste(out, place, found.unsqueeze(0))
            kept += [features, (largest - norm).exp_()] if space.kept else []
        context.save_for_backward(query, w, scaled, out, *kept)
        return out

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        query, w, scaled, out, *kept = context.saved_tensors
        to_query, to_scaled, space = empty_like(query), torch.zeros_like(scaled), Space(scaled)
        for place, features, share in zip(_whole_segments(query), kept[::2], kept[1::2], strict=True):
            to_found = _to_found(cut(above, place), cut(out, place))[0].mul_(share)
            to_scaled.baddbmm_(features.mT, to_found)
            to_logits = torch.bmm(to_found, scaled.mT, out=space("to", *features.shape)).mul_(features)
            paste(to_query, place, _times(to_logits, w).unsqueeze(0))
        return to_query, None, to_scaled, None


class _LookBack(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        w_queries: Tensor,
        w_keys: Tensor,
        hidden: Tensor | None,
        scaled: Tensor,
        logs: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        places = list(segments(query, CHUNK, CHUNKS))
        keeps = any(context.needs_input_grad)
        # the sums before each segment, and after the last; without gradients the last alone
        sums = scaled.new_empty(len(places) + 1 if keeps else 1, *scaled.shape)
        sums[0] = scaled
        scales, norms, out, space = [logs], [], empty_like(value), Space(scaled)
        for number, place in enumerate(places):
            before, after = (sums[number], sums[number + 1]) if keeps else (sums[0], sums[0])
            segment = _Segment(
                cut(key, place), cut(value, place), w_keys, hidden_part(hidden, place, key.device), space
            )
            segment.sum_up(before, scales[-1])
            q = cut(query, place).flatten(0, 1)
            features, largest = _query_features(q, w_queries, segment.reference, space)
            found = torch.bmm(features, segment.before_chunks).mul_(segment.carried)
            found.baddbmm_(torch.bmm(features, segment.features).mul_(segment.pairs), segment.values)
            found, norm = _divided(found, largest)
            paste(out, place, found.unflatten(0, (place.chunks, len(scaled))))
            norms.append(norm)
            scales.append(segment.write_after(after))
        context.save_for_backward(query, key, value, w_queries, w_keys, hidden, out, sums, *scales, *norms)
        context.mark_non_differentiable(scales[-1])
        return out, sums[-1].clone(), scales[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(context: Any, above: Tensor, to_after: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, w_queries, w_keys, hidden, out, sums, *rest = context.saved_tensors
        places = list(segments(query, CHUNK, CHUNKS))
        scales, norms = rest[: len(places) + 1], rest[len(places) + 1 :]
        to_query, to_key, to_value, space = empty_like(query), empty_like(key), empty_like(value), Space(sums)
        for number in reversed(range(len(places))):
            place = places[number]
            k = cut(key, place)
            segment = _Segment(k, cut(value, place), w_keys, hidden_part(hidden, place, key.device), space)
            segment.sum_up(sums[number], scales[number])
            shift = segment.reference.unsqueeze(1) - norms[number]
            features = _query_logits(cut(query, place).flatten(0, 1), w_queries, shift, space).exp_()
            to_found = _to_found(cut(above, place), cut(out, place)).flatten(0, 1)  # (P·N, C, D + 1)
            to_carried = to_found * segment.carried
            later, to_before = segment.to_sums(features, to_carried, to_after)
            to_pairs = torch.bmm(to_found, segment.values.mT).mul_(segment.pairs)
            pairs = torch.bmm(features, segment.features).mul_(segment.pairs)

            to_logits = torch.bmm(to_carried, segment.before_chunks.mT, out=space("to", *features.shape))
            to_logits.baddbmm_(to_pairs, segment.features.mT).mul_(features)
            paste(to_query, place, _times(to_logits, w_queries).unflatten(0, k.shape[:2]))

            to_v = torch.bmm(segment.features.mT, later).mul_(segment.kept).baddbmm_(pairs.mT, to_found)
            to_logits = torch.bmm(later, segment.kept_values.mT, out=space("to", *segment.features.shape))
            to_logits.baddbmm_(features.mT, to_pairs).mul_(segment.features)
            paste(to_key, place, _through_keys(to_logits, w_keys, k, (segment.values * to_v).sum(-1, keepdim=True)))
            paste(to_value, place, to_v[..., :-1].unflatten(0, k.shape[:2]))
            to_after = to_before * (scales[number] - segment.start).exp().unsqueeze(-1)
        return to_query, to_key, to_value, None, None, None, to_after, None


class _Segment:
    """The keys and values of one segment: P chunks of C positions, for all heads.

    The sums before chunk p have the scale exp(start_r + so_far_p), where so_far is the largest logit before the chunk,
    less `start`; the features of key j have the scale exp(start_r + top_j).
    """

    def __init__(self, key: Tensor, value: Tensor, w: Tensor, hidden: Tensor | None, space: Space) -> None:
        self.key, self.w, self.space = key, w, space
        self.norm = _half_norm(key, hidden)  # (P, N, C)
        self.values = _with_ones(value).flatten(0, 1)  # (P·N, C, D + 1)

    def sum_up(self, scaled: Tensor, logs: Tensor) -> None:
        """The sums before each chunk and after the last, from those before the segment."""
        chunks, heads, chunk, _ = self.key.shape
        first = self.key[0, :, 0] @ self.w.mT - self.norm[0, :, :1]
        start = torch.maximum(logs, first)  # (N, m)
        self.start = start.masked_fill(start <= NOTHING, 0.0)
        self.reference = self.start.repeat(chunks, 1)  # (P·N, m)
        logits = _key_logits(self.key, self.w, self.reference.unsqueeze(-1), self.space)  # (P·N, m, C)
        largest = logits.amax(1, keepdim=True)
        self.features = logits.sub_(largest).exp_()
        top = (largest.view(chunks, heads, chunk) - self.norm).clamp_(min=NOTHING)
        self._scale(top)
        self.kept_values = self.values * self.kept
        sums = self.space("sums", chunks + 1, *scaled.shape)
        torch.mul(scaled, (logs - self.start).exp().unsqueeze(-1), out=sums[0])
        torch.bmm(self.features, self.kept_values, out=sums[1:].flatten(0, 1))
        for number in range(chunks):
            sums[number + 1].addcmul_(sums[number], self.fading[number])
        self.before_chunks, self.after = sums[:-1].flatten(0, 1), sums[-1]

    def _scale(self, top: Tensor) -> None:
        """The factors of the sums before a chunk, and of single keys, for each query; top (P, N, C)"""
        chunk = top.shape[2]
        so_far = F.pad(top.amax(-1).clamp_(min=0).cummax(0).values, (0, 0, 1, 0))  # (P + 1, N)
        scale = torch.maximum(top.cummax(-1).values, so_far[:-1].unsqueeze(-1))  # (P, N, C) of each query
        pairs = top.unsqueeze(-2) - scale.unsqueeze(-1)  # query × key
        later = torch.ones(chunk, chunk, dtype=torch.bool, device=top.device).triu_(1)
        self.pairs = pairs.masked_fill_(later, -torch.inf).exp_().flatten(0, 1)  # (P·N, C, C)
        self.carried = (so_far[:-1].unsqueeze(-1) - scale).exp_().view(-1, chunk, 1)  # of the sums, for each query
        self.kept = (top - so_far[1:].unsqueeze(-1)).exp_().view(-1, chunk, 1)  # of each key, in the sums
        self.fading = (so_far[:-1] - so_far[1:]).exp_()[..., None, None]  # (P, N, 1, 1)
        self.last = so_far[-1].unsqueeze(-1)  # (N, 1)

    def write_after(self, place: Tensor) -> Tensor:
        """Write the sums after the segment, with 1 for every denominator that is not too small; return their scale."""
        factor = self._to_one()
        torch.mul(self.after, factor, out=place)
        return (self.start + self.last - factor.squeeze(-1).log()).masked_fill_(self.after[:, :, -1] == 0, NOTHING)

    def to_sums(self, features: Tensor, to_carried: Tensor, to_after: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of the sums after each chunk (P·N, m, D + 1) and before the first (N, m, D + 1)."""
        chunks = len(self.fading)
        gradients = self.space("to sums", chunks + 1, *to_after.shape)
        torch.bmm(features.mT, to_carried, out=gradients[:-1].flatten(0, 1))
        torch.mul(to_after, self._to_one(), out=gradients[-1])
        for number in reversed(range(chunks)):
            gradients[number].addcmul_(gradients[number + 1], self.fading[number])
        return gradients[1:].flatten(0, 1), gradients[0]

    def _to_one(self) -> Tensor:
        total = self.after[:, :, -1:]
        return total.masked_fill(total < LEAST, 1.0).reciprocal_()


def _whole_segments(x: Tensor) -> Iterator[Place]:
    """The segments of x (B, H, L, D) for sums over all of it: one chunk each, of up to `ROWS` rows of all heads."""
    return segments(x, max(CHUNK, ROWS // max(x.shape[0] * x.shape[1], 1)))


def _with_ones(value: Tensor) -> Tensor:
    """[v ; 1]: (P, N, C, D) → (P, N, C, D + 1)"""
    return F.pad(value, (0, 1), value=1.0)


def _key_logits(key: Tensor, w: Tensor, shift: Tensor, space: Space) -> Tensor:
    """w·k − shift: key (P, N, C, D), shift broadcastable to (P·N, m, C) → (P·N, m, C)"""
    rows = key.flatten(0, 1)
    logits = space("key logits", len(rows), len(w), rows.shape[1])
    torch.bmm(w.expand(len(rows), *w.shape), rows.mT, out=logits)
    return logits.sub_(shift.flatten(0, 1) if shift.dim() == 4 else shift)


def _half_norm(key: Tensor, hidden: Tensor | None = None) -> Tensor:
    """‖k/√β‖²/2, ∞ where hidden: (P, N, C, D) → (P, N, C)"""
    norm = key.square().sum(-1).div_(2 * key.shape[-1] ** 0.5)
    if hidden is None:
        return norm
    return norm.unflatten(1, (hidden.shape[1], -1)).masked_fill(hidden, torch.inf).flatten(1, 2)


def _through_keys(to_logits: Tensor, w: Tensor, key: Tensor, total: Tensor) -> Tensor:
    """The gradient of keys (P, N, C, D) from that of their logits (P·N, m, C), which sums to `total` (P·N, C, 1)."""
    through = torch.bmm(to_logits.mT, w.expand(len(to_logits), *w.shape)).view(key.shape)
    return through.addcmul_(key, total.view(*key.shape[:3], 1), value=-(key.shape[-1] ** -0.5))


def _query_logits(query: Tensor, w: Tensor, shift: Tensor, space: Space) -> Tensor:
    """w·q + shift: query (N, C, D), shift broadcastable to (N, C, m) → (N, C, m)"""
    logits = space("query logits", *query.shape[:2], len(w))
    torch.mm(query.flatten(0, 1), w.mT, out=logits.flatten(0, 1))
    return logits.add_(shift)


def _query_features(query: Tensor, w: Tensor, logs: Tensor, space: Space) -> tuple[Tensor, Tensor]:
    """exp(w·q + a) divided by the largest of each query, and its logarithm (N, C, 1)."""
    logits = _query_logits(query, w, logs.unsqueeze(1), space)
    largest = logits.amax(-1, keepdim=True)
    return logits.sub_(largest).exp_(), largest


def _times(x: Tensor, matrix: Tensor) -> Tensor:
    """x (N, C, X) times a matrix (X, Y), as one product."""
    return (x.flatten(0, 1) @ matrix).unflatten(0, x.shape[:2])


def _divided(found: Tensor, largest: Tensor) -> tuple[Tensor, Tensor]:
    """num / den of [num ; den] (N, C, D + 1), zeros where den is 0, and log(exp(largest) den) (N, C, 1), ∞ there."""
    total = found[..., -1:]
    nothing = total < LEAST
    out = found[..., :-1] / total.masked_fill(nothing, 1.0)
    return out, (largest + total.log()).masked_fill_(nothing, torch.inf)


def _to_found(above: Tensor, out: Tensor) -> Tensor:
    """The gradient of [num ; den] (…, D + 1) where den is 1."""
    return torch.cat([above, -(above * out).sum(-1, keepdim=True)], -1)
