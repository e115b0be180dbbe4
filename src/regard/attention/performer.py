"""Performer: exp(q·k) is the mean of φ(q)·φ(k) over random features, so that the cost grows with n.

    φ(x)_r = exp(w_r·x − ‖x‖²/2) / √m        w_1 … w_m orthogonal, each normal        Choromanski 2021 (FAVOR+)
    out_i = Σ_j φ(q_i)·φ(k_j) v_j / Σ_j φ(q_i)·φ(k_j)

The kernel is in favor.py, the drawing of w in features.py.

B batch  H heads  Q queries  K keys  D width of a head  M width of the model  m features
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import ClassVar, NamedTuple, Self, cast

import torch
from torch import Tensor

from regard.attention import favor
from regard.attention.algebra import Delayed
from regard.attention.cache import CAPACITY, Cache, Past, Projected
from regard.attention.exact import Bias
from regard.attention.favor import Directions, Sums
from regard.attention.features import draw
from regard.attention.heads import MultiHead
from regard.attention.patterns import All, And, Causal, Delay, Padding, Pattern, Shifted
from regard.attention.positions import Position
from regard.attention.recorder import deliver, recorded, watching
from regard.errors import RegardError


class Performer(MultiHead):
    """MultiHead over itself by positive random features.   x (B, Q, M) → (B, Q, M)

    Every `redraw` forward passes of training, the next one draws new features; evaluation has those of the last one.
    The buffer `drawing` holds a seed and the number of passes so far; with them a resumed run, and a loaded model,
    draws the same features.
    """

    REDRAW: ClassVar[int] = 1000  # training steps

    drawing: Tensor

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        key_value_heads: int | None = None,
        pattern: Pattern | None = None,
        position: Position | None = None,
        bias: bool = True,
        features: int | None = None,
        redraw: int = REDRAW,
        hyperbolic: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(
            width, heads=heads, key_value_heads=key_value_heads, pattern=pattern, position=position, bias=bias
        )
        self.head_width = width // heads
        self.features = default_features(self.head_width) if features is None else features
        self.redraw, self.hyperbolic = redraw, hyperbolic
        if hyperbolic and self.features % 2:
            raise RegardError(f"features={self.features}: hyperbolic features come in pairs; choose an even number")
        self.seed = seed
        drawing = torch.randint(2**31, (2,))  # another seed of training draws other features
        drawing[1] = 0
        self.register_buffer("drawing", drawing)
        self._drawn: tuple[tuple[int, ...], Directions] | None = None

    def look(self, query: Tensor, new: Projected, cache: Past | None, *, pattern: Pattern, bias: Bias | None) -> Tensor:
        if bias is not None:
            raise RegardError(
                "Performer never computes the score of a pair, so nothing can be added to it; "
                'choose position = "sinusoidal", "learned" or "rotary"'
            )
        reach = _reach(pattern)
        if reach.first is not None:
            query, new = self._from_the_start(query, new, reach.first)
        w = self.directions(query)
        if isinstance(cache, Cache) or (cache is None and watching()):
            return self._watched(query, new if cache is None else cache.append(new), w, pattern)
        assert cache is None or isinstance(cache, Running)
        if cache is not None and watching():
            raise RegardError("this state keeps no weights; begin recording before model.start(memory)")
        start, before = (0, None) if cache is None else (cache.length, cache.sums)
        key, value = (self._for_all_heads(x) for x in new)
        hidden = reach.hidden(start, key)
        with torch.autocast(query.device.type, enabled=False):
            if reach.causal and query.shape[2] > 1:
                out, sums = favor.look_back(query, key, value, w, hidden=hidden, before=before)
            else:
                sums = favor.gather(key, value, w, hidden=hidden, before=before)
                out = favor.read(query, sums, w)
        if cache is not None:
            cache.sums, cache.length = sums, start + key.shape[2]
        return out

    def past(self, capacity: int = CAPACITY) -> Past:
        """The empty sums; while weights are recorded, all keys are kept instead, for their weights."""
        return Cache(capacity) if recorded() else Running(self.heads)

    def directions(self, like: Tensor) -> Directions:
        """The directions of this pass, in the precision of `like` or single; a pass of training is counted."""
        seed, passes = self.drawing.tolist()
        if self.training:
            self.drawing[1] += 1
        last = passes if self.training else max(passes - 1, 0)
        which = (seed, self.seed, last // self.redraw)
        if self._drawn is None or self._drawn[0] != which:
            w = draw(self.features, self.head_width, hyperbolic=self.hyperbolic, seed=_one_seed(which))
            self._drawn = which, Directions.balanced(w)
        precise = torch.promote_types(like.dtype, torch.float32)
        return Directions(*(x.to(like.device, precise) for x in self._drawn[1]))

    def _from_the_start(self, query: Tensor, new: Projected, first: Tensor) -> tuple[Tensor, Projected]:
        """Queries and keys as if row b began at position 0 and not in column first[b].

        Turning both by the same angle leaves their product as it is, but not the estimate of it by fixed directions.
        """
        back = -first.to(query.device)
        rows = query.transpose(0, 2), new.keys.transpose(0, 2)  # (L, H, B, D): each row at its own place
        query, key = (x.transpose(0, 2) for x in self.position.on_heads(*rows, back, back))
        return query, Projected(key, new.values)

    def _watched(self, query: Tensor, seen: Projected, w: Directions, pattern: Pattern) -> Tensor:
        """The output, computed from the weights that the features imply, which are delivered."""
        key, value = (self._for_all_heads(x) for x in seen)
        allowed = pattern.dense(query.shape[2], key.shape[2], device=query.device)
        weights = favor.implied(query, key, w, allowed=allowed)
        deliver(weights)
        return weights @ value

    def _for_all_heads(self, x: Tensor) -> Tensor:
        return x.repeat_interleave(self.heads // x.shape[1], 1) if x.shape[1] != self.heads else x


class Running(Past):
    """The sums over the keys of the first `length` positions: as much memory after a million as after one."""

    def __init__(self, heads: int) -> None:
        self.heads, self.length = heads, 0
        self.sums: Sums | None = None

    def reorder(self, rows: Tensor) -> Self:
        moved = type(self)(self.heads)
        moved.length = self.length
        if self.sums is not None:
            kept = (x.unflatten(0, (-1, self.heads)).index_select(0, rows).flatten(0, 1) for x in self.sums)
            moved.sums = Sums(*kept)
        return moved


def default_features(width: int) -> int:
    """D ln D features for heads of width D."""
    return max(1, round(width * math.log(width)))


def _one_seed(numbers: Iterable[int]) -> int:
    """One seed of several numbers, so that neighbours have nothing in common."""
    mixed = 0
    for number in numbers:
        mixed = (mixed ^ number) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        mixed ^= mixed >> 29
    return mixed >> 1


class _Reach(NamedTuple):
    """Which keys a pattern lets queries find: all or those so far, from column `first` on, before column `end`."""

    causal: bool = False
    first: Tensor | None = None  # (B,)
    end: Tensor | None = None  # (B,)

    def hidden(self, start: int, key: Tensor) -> Tensor | None:
        """True for keys (B, H, K, D), from position `start` on, that nobody finds: (B, K)"""
        if self.first is None and self.end is None:
            return None
        at = torch.arange(start, start + key.shape[2], device=key.device)
        hidden = torch.zeros(len(key), len(at), dtype=torch.bool, device=key.device)
        if self.first is not None:
            hidden |= at < self.first.to(key.device).unsqueeze(1)
        if self.end is not None:
            hidden |= at >= self.end.to(key.device).unsqueeze(1)
        return hidden


def _reach(pattern: Pattern) -> _Reach:
    match pattern:
        case All():
            return _Reach()
        case Causal():
            return _Reach(causal=True)
        case Padding(lengths):
            return _Reach(end=lengths)
        case Delay(missing):
            return _Reach(first=missing)
        case Delayed(inner, missing) if isinstance(inner, All | Causal):
            return _reach(inner)._replace(first=missing)
        case Shifted(inner):
            return _reach(inner)
        case And(left, right):
            return _both(_reach(left), _reach(right))
    raise RegardError(
        f"Performer sums over all keys, or over all so far, so the pattern {type(pattern).__name__} cannot be; "
        "take exact attention (MultiHead), which computes only the pairs of the pattern"
    )


def _both(left: _Reach, right: _Reach) -> _Reach:
    def one(a: Tensor | None, b: Tensor | None, meet: str) -> Tensor | None:
        return b if a is None else a if b is None else cast(Tensor, getattr(torch, meet)(a, b))

    return _Reach(
        left.causal or right.causal, one(left.first, right.first, "maximum"), one(left.end, right.end, "minimum")
    )
