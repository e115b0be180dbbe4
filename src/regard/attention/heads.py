"""Multi-head attention: project, split, attend, merge."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention import exact, scores
from regard.attention.cache import CAPACITY, Cache, Past, Projected
from regard.attention.exact import Bias
from regard.attention.formula import attend_projected, choose
from regard.attention.patterns import All, Pattern
from regard.attention.positions import Position
from regard.attention.recorder import watching
from regard.attention.rounded import MOST_KEYS, attend_rounded
from regard.attention.scores import Location, ScaledDot, Score
from regard.errors import RegardError
from regard.kernels.linear import Linear, map_together, rounding


class MultiHead(nn.Module):
    """Attention of a sequence over itself or over a memory, with several heads.

        MultiHead(x, m) = [head_1 ; … ; head_h] W^O     head_i = attend(x W_i^Q, m W_i^K, m W_i^V)   Vaswani 2017, 3.2.2

    x (B, Q, M), memory (B, K, M) → (B, Q, M).   With `key_value_heads` fewer than `heads`, groups of heads share their
    keys and values (Ainslie 2023). The constructor's `pattern` holds in every call, together with the call's own.
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        key_value_heads: int | None = None,
        score: str | Score = "scaled_dot",
        pattern: Pattern | None = None,
        position: Position | None = None,
        memory_width: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        shared = heads if key_value_heads is None else key_value_heads
        memory_width = width if memory_width is None else memory_width
        _check_sizes(width, heads, shared, memory_width)
        self.heads, self.key_value_heads = heads, shared
        head_width = width // heads
        self.query = Linear(width, width, bias=bias)
        self.key = Linear(memory_width, shared * head_width, bias=bias)
        self.value = Linear(memory_width, shared * head_width, bias=bias)
        self.output = Linear(width, width, bias=bias)
        self.score = scores.build(score, width=head_width) if isinstance(score, str) else score
        self.position = Position() if position is None else position
        self.pattern = All() if pattern is None else pattern
        for linear in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(linear.weight)
            if bias:
                nn.init.zeros_(linear.bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | Projected | None = None,
        *,
        pattern: Pattern | None = None,
        cache: Past | None = None,
    ) -> Tensor:
        """Attend to `memory` (raw, or projected by `remember`); without it, to x itself and the positions in `cache`.

        With a cache, positions and patterns count from the first position in it.
        """
        _check_width("x", x, self.query.in_features)
        if cache is not None and memory is not None:
            raise RegardError("MultiHead: a cache is for looking at x itself; for a memory, call remember(memory) once")
        if cache is not None and isinstance(self.score, Location):
            raise RegardError("MultiHead: a location score counts keys from the first, and cannot be used with a cache")
        if isinstance(memory, Tensor):
            _check_width("memory", memory, self.key.in_features)
        allowed = self.pattern if pattern is None else self.pattern & pattern
        if cache is None and not isinstance(memory, Projected) and self._as_one(x, memory, allowed):
            return self._rounded(x, memory, allowed)
        start = 0 if cache is None else cache.length
        bias = None
        if memory is not None:
            query = self._split(self.query(x), self.heads)  # (B, H, Q, D)
            new = memory if isinstance(memory, Projected) else self.remember(memory)
        else:
            at = torch.arange(start, start + x.shape[1], device=x.device)
            mapped = map_together(x, self.query, self.key, self.value)
            query, key, value = map(self._split, mapped, (self.heads, self.key_value_heads, self.key_value_heads))
            query, key = self.position.on_heads(query, key, at, at)
            new = Projected(self.score.keys(key), value)
            bias = self._bias_from(start)
        allowed = allowed if cache is None else allowed.shift(start)
        result = self.look(self.score.queries(query), new, cache, pattern=allowed, bias=bias)
        return self.output(result.transpose(1, 2).flatten(2))  # (B, H, Q, D) → (B, Q, M)

    def look(self, query: Tensor, new: Projected, cache: Past | None, *, pattern: Pattern, bias: Bias | None) -> Tensor:
        """How the heads compute: query (B, H, Q, D) over the keys and values that are new, and those in the cache.

        Subclasses that compute otherwise than by an exact softmax override this and `past`. → (B, H, Q, D)
        """
        assert cache is None or isinstance(cache, Cache)
        seen = new if cache is None else cache.append(new)
        return attend_projected(query, *seen, score=self.score, pattern=pattern, bias=bias)

    def past(self, capacity: int = CAPACITY) -> Past:
        """The empty cache for decoding with these heads, with room for `capacity` positions to begin with."""
        return Cache(capacity)

    def remember(self, memory: Tensor) -> Projected:
        """Keys and values of a memory (B, K, M), projected once for many calls."""
        _check_width("memory", memory, self.key.in_features)
        key, value = (self._split(x, self.key_value_heads) for x in map_together(memory, self.key, self.value))
        return Projected(self.score.keys(key), value)

    def _as_one(self, x: Tensor, memory: Tensor | None, pattern: Pattern) -> bool:
        """Whether all of this can be one function in half precision, and is then faster."""
        batch, queries, keys = len(x), x.shape[1], x.shape[1] if memory is None else memory.shape[1]
        learns = rounding(self.query, self.key, self.value, self.output) is not None and x.device.type == "cpu"
        fits = batch and queries and 0 < keys <= MOST_KEYS and (memory is None or len(memory) == batch)
        if not (learns and fits) or watching():
            return False
        plain = type(self.score) is ScaledDot and type(self.position).on_heads is Position.on_heads
        plain = plain and type(self).look is MultiHead.look and self._bias_from(0) is None
        return plain and self.heads == self.key_value_heads and choose(pattern, queries, keys) is exact.dense

    def _rounded(self, x: Tensor, memory: Tensor | None, pattern: Pattern) -> Tensor:
        """`forward` for such a case."""
        queries, keys = x.shape[1], x.shape[1] if memory is None else memory.shape[1]
        pattern.check(len(x), self.heads, queries, keys)
        bias = None
        if not isinstance(pattern, All):
            allowed = pattern.allows(torch.arange(queries).unsqueeze(1), torch.arange(keys).unsqueeze(0), keys)
            bias = torch.zeros(allowed.shape, dtype=x.dtype).masked_fill_(~allowed, -torch.inf)
        return attend_rounded(x, memory, bias, (self.query, self.key, self.value, self.output), heads=self.heads)

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)  # (B, L, H·D) → (B, H, L, D)

    def _bias_from(self, start: int) -> Bias | None:
        """The bias that the position scheme adds to the scores of queries that begin at position `start`."""
        if type(self.position).on_scores is Position.on_scores:
            return None
        return lambda query, i, j: self.position.on_scores(query, i + start, j)

    @classmethod
    def from_torch(cls, theirs: nn.MultiheadAttention) -> MultiHead:
        """The same attention with the weights of torch's own module (where True forbids; here True may look)."""
        if theirs.bias_k is not None or theirs.add_zero_attn or theirs.kdim != theirs.vdim:
            raise RegardError(
                "MultiHead.from_torch: add_bias_kv, add_zero_attn and kdim ≠ vdim have no counterpart here"
            )
        width, biased = theirs.embed_dim, theirs.in_proj_bias is not None
        ours = cls(width, heads=theirs.num_heads, memory_width=theirs.kdim, bias=biased).to(theirs.out_proj.weight)
        if theirs.kdim == width:
            weights = theirs.in_proj_weight.chunk(3)
        else:
            weights = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
        with torch.no_grad():
            for linear, weight in zip((ours.query, ours.key, ours.value), weights, strict=True):
                linear.weight.copy_(weight)
            ours.output.weight.copy_(theirs.out_proj.weight)
            if biased:
                for linear, bias in zip((ours.query, ours.key, ours.value), theirs.in_proj_bias.chunk(3), strict=True):
                    linear.bias.copy_(bias)
                ours.output.bias.copy_(theirs.out_proj.bias)
        return ours


def _check_sizes(width: int, heads: int, key_value_heads: int, memory_width: int) -> None:
    sizes = {"width": width, "heads": heads, "key_value_heads": key_value_heads, "memory_width": memory_width}
    for name, number in sizes.items():
        if number < 1:
            raise RegardError(f"MultiHead: {name}={number}; expected a whole number of at least 1")
    if width % heads:
        nearest = min((n for n in range(1, width + 1) if width % n == 0), key=lambda n: abs(n - heads))
        raise RegardError(f"MultiHead: heads={heads} does not divide width={width}; try heads={nearest}")
    if heads % key_value_heads:
        raise RegardError(f"MultiHead: key_value_heads={key_value_heads} does not divide heads={heads}")


def _check_width(name: str, x: Tensor, width: int) -> None:
    if x.dim() != 3 or x.shape[2] != width:
        raise RegardError(f"MultiHead: {name} has shape {tuple(x.shape)}; expected (batch, length, {width})")
