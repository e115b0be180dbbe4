"""Sequences in segments that fit in the processor's cache, and memory that one segment takes over from another.

B batch  H heads  N = B·H  L length  D width of a head  P chunks of a segment  C positions of a chunk
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Space:
    """Memory that all segments use, one after the other: asking the system for it each time would take long.

    What is `kept` for the backward pass has memory of its own.
    """

    def __init__(self, like: Tensor, *, kept: bool = False) -> None:
        self._like, self.kept, self._held = like, kept, dict[str, Tensor]()

    def __call__(self, name: str, *shape: int) -> Tensor:
        if self.kept:
            return self._like.new_empty(shape)
        size = math.prod(shape)
        if name not in self._held or self._held[name].numel() < size:
            self._held[name] = self._like.new_empty(size)
        return self._held[name][:size].view(shape)


class Place(NamedTuple):
    """Positions of a segment: `chunks` of `chunk` positions from `start` on, of which `length` exist."""

    start: int
    length: int
    chunk: int
    chunks: int


def segments(x: Tensor, chunk: int, chunks: int = 1) -> Iterator[Place]:
    """The segments of x (B, H, L, D), of up to `chunks` chunks each."""
    length = x.shape[2]
    chunk = max(1, min(chunk, length))
    for start in range(0, length, chunk * chunks):
        here = min(chunk * chunks, length - start)
        yield Place(start, here, chunk, -(-here // chunk))


def cut(x: Tensor, place: Place) -> Tensor:
    """A segment of x (B, H, L, D), filled up with zeros: (P, N, C, D); one chunk of one text is a view"""
    part = x[:, :, place.start : place.start + place.length].to(precise_type(x))
    missing = place.chunk * place.chunks - place.length
    part = F.pad(part, (0, 0, 0, missing)) if missing else part
    if place.chunks == 1:
        return part.flatten(0, 1).unsqueeze(0)
    return part.unflatten(2, (place.chunks, place.chunk)).permute(2, 0, 1, 3, 4).flatten(1, 2).contiguous()


def hidden_part(hidden: Tensor | None, place: Place, device: torch.device) -> Tensor | None:
    """Which keys of a segment are hidden, or beyond its end: (P, B, 1, C), or None for none."""
    missing = place.chunk * place.chunks - place.length
    if hidden is None:
        if not missing:
            return None
        beyond = torch.arange(place.chunk * place.chunks, device=device) >= place.length
        return beyond.view(place.chunks, 1, 1, place.chunk)
    part = F.pad(hidden[:, place.start : place.start + place.length], (0, missing), value=True)
    return part.unflatten(1, (place.chunks, place.chunk)).transpose(0, 1).unsqueeze(2)


def paste(whole: Tensor, place: Place, part: Tensor) -> None:
    """Write a segment (P, N, C, D) into a tensor (B, H, L, D)."""
    batch, heads = whole.shape[:2]
    rows = part.unflatten(1, (batch, heads)).permute(1, 2, 0, 3, 4).flatten(2, 3)  # (B, H, P·C, D)
    whole[:, :, place.start : place.start + place.length] = rows[:, :, : place.length]


def empty_like(x: Tensor, width: int | None = None) -> Tensor:
    """An empty tensor (B, H, L, D) whose heads of one position are adjacent, so that merging heads copies nothing."""
    batch, heads, length, own = x.shape
    return x.new_empty(batch, length, heads, own if width is None else width).transpose(1, 2)


def precise_type(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
