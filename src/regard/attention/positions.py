"""Position schemes, which encode the order of items: attention alone does not depend on it.

A scheme has three methods and uses one of them; the others return their arguments unchanged.

    on_input    the vectors, before the first layer    Sinusoidal  Learned  Timed
    on_heads    queries and keys, in every layer       Rotary
    on_scores   the scores, in every layer             Shaw  Alibi

Every method receives the positions themselves and not an offset, so that it serves caches, blocks and lists of edges.
Sines, angles and slopes are computed when they are used, in single precision at least, and rounded to the tensor they
are added to: a scheme has no buffers that `half()` could round or that a checkpoint must contain.

B batch  H heads  L length  Q queries  K keys  D width of a head  M width of the model
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RegardError, unknown_name

BASE = 10_000.0

INSIDE = ("shaw", "rotary", "alibi")  # schemes that work inside attention, and not on the input


class Position(nn.Module):
    """The scheme that encodes nothing, and the interface of all schemes."""

    def on_input(self, x: Tensor, at: Tensor) -> Tensor:  # noqa: ARG002
        """The vectors that enter the first layer: x (B, L, M), its positions `at` (L,) or (B, L) → (B, L, M)."""
        return x

    def on_heads(self, query: Tensor, key: Tensor, at: Tensor, key_at: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """The queries and keys to compare: query (B, H, Q, D) at (Q,), key (B, H, K, D) at `key_at` (K,) → both.

        Shapes stay as they are. Keys may have fewer heads than queries.
        """
        return query, key

    def on_scores(self, query: Tensor, i: Tensor, j: Tensor) -> Tensor | None:  # noqa: ARG002
        """The bias on the scores, or None. Queries come as the score compares them, so already scaled.

        query (B, H, *rows, D), its positions i (*rows, 1), those of the keys j, broadcastable to (*rows, columns)
        → broadcastable to (B, H, *rows, columns).
        """
        return None


class Sinusoidal(Position):
    """A sine and a cosine for each pair of features, with wavelengths from 2π to 10000 · 2π positions.

        P_{i,2p} = sin(i / 10000^{2p/M})    P_{i,2p+1} = cos(i / 10000^{2p/M})    x_i ← x_i + P_i    Vaswani 2017, 3.5

    Every length and every width, even or odd, is possible; there are no parameters. With `halves`, all sines stand
    before all cosines, as in tensor2tensor and Marian: the same features in another order.
    """

    def __init__(self, *, halves: bool = False) -> None:
        super().__init__()
        self.halves = halves

    def on_input(self, x: Tensor, at: Tensor) -> Tensor:
        one = at.shape == (1,) and at.device.type == "cpu"  # a step of decoding
        waves = _wave(int(at), x.shape[-1], _precise(x)) if one else _waves(at, like=x)
        if self.halves:
            waves = torch.cat((waves[..., 0::2], waves[..., 1::2]), dim=-1)
        return x + waves.to(x.dtype)


class Learned(Position):
    """A vector of its own for each of the first `maximum` positions.

        x_i ← x_i + T_i        T (maximum, M) is learned                            Gehring 2017, 3.1

    A position beyond the maximum has no vector, and is refused.
    """

    def __init__(self, maximum: int, *, width: int) -> None:
        super().__init__()
        _require_positive(maximum=maximum, width=width)
        self.table = nn.Parameter(torch.empty(maximum, width))
        nn.init.normal_(self.table, std=0.02)

    def on_input(self, x: Tensor, at: Tensor) -> Tensor:
        maximum, width = self.table.shape
        _require_width("x", x, width)
        if at.numel() > 0:
            first, last = (int(at),) * 2 if at.numel() == 1 else (int(end) for end in at.aminmax())
            if first < 0:
                raise RegardError(f"position {first} is negative; learned positions begin at 0")
            if last >= maximum:
                raise RegardError(
                    f"position {last} is beyond the {maximum} learned positions (0 to {maximum - 1}); shorten the "
                    f"input, train with maximum={last + 1} or more, or choose a scheme without a maximum: "
                    f"sinusoidal, shaw, rotary or alibi"
                )
        return x + F.embedding(at, self.table).to(x.dtype)


class Timed(Position):
    """Sinusoidal in two coordinates: the position, and how many times the shared block has been applied.

        P^t_{i,2p}   = sin(i / 10000^{2p/M}) + sin(t / 10000^{2p/M})
        P^t_{i,2p+1} = cos(i / 10000^{2p/M}) + cos(t / 10000^{2p/M})               Dehghani 2019 (Universal), 2.1

    The block's t-th application, counted from 1 as in the paper, begins with x ← position.on_input(x, at, time=t).
    """

    def on_input(self, x: Tensor, at: Tensor, time: int = 1) -> Tensor:
        moment = at.new_full((1,), time)
        return x + (_waves(at, like=x) + _waves(moment, like=x)).to(x.dtype)


class Shaw(Position):
    """A learned vector for each distance between query and key, up to `clip` either way, the same for all heads.

        score_ij = q_i · (k_j + a_{clip(j − i)}) / √D        clip(d) = max(−clip, min(clip, d))        Shaw 2018, 3.2

    Only keys have such vectors: the paper's second table, for values, is left out, which costs no quality in its
    ablation.

    `on_scores` is the term with a, of q/√D as the scaled score compares it; a (2 clip + 1, D) is learned, `width` is D.
    Each query is multiplied by the table once and the products are picked by distance, so that time and memory grow
    with Q·K and never with Q·K·D.
    """

    def __init__(self, clip: int = 16, *, width: int) -> None:
        super().__init__()
        _require_positive(clip=clip, width=width)
        self.clip = clip
        self.table = nn.Parameter(torch.empty(2 * clip + 1, width))
        nn.init.xavier_uniform_(self.table)

    def on_scores(self, query: Tensor, i: Tensor, j: Tensor) -> Tensor:
        _require_width("query", query, self.table.shape[1])
        by_distance = query @ self.table.to(query.dtype).T  # (B, H, *rows, 2 clip + 1)
        distance = (j - i).clamp(-self.clip, self.clip) + self.clip  # (*rows, columns)
        return by_distance.gather(-1, distance.expand(*query.shape[:-1], distance.shape[-1]))


class Rotary(Position):
    """Queries and keys are rotated by their position, so that their product depends only on distance (Su 2021).

        (x_p, x_{p+D/2}) ← (x_p cos θ − x_{p+D/2} sin θ,  x_{p+D/2} cos θ + x_p sin θ)        θ = i / 10000^{2p/D}

    Feature p is paired with p + D/2, as in Llama and GPT-NeoX; the paper and GPT-J pair neighbours (2p, 2p + 1), which
    is the same scheme with the features of a head in another order. D must be even.
    """

    def on_heads(self, query: Tensor, key: Tensor, at: Tensor, key_at: Tensor) -> tuple[Tensor, Tensor]:
        turn = self._turn(at, like=query)
        key_turn = turn if key_at is at else self._turn(key_at, like=key)
        return self._rotate(query, *turn), self._rotate(key, *key_turn)

    def on_step(self, x: Tensor, position: int) -> Tensor:
        """Queries or keys that are all at one position: (…, D) → (…, D)"""
        return self._rotate(x, *_turn_of(position, x.shape[-1], x.dtype, x.device))

    @staticmethod
    def _turn(at: Tensor, *, like: Tensor) -> tuple[Tensor, Tensor]:
        angles = _angles(at, like=like)
        return angles.cos().to(like.dtype), angles.sin().to(like.dtype)  # both (L, D/2)

    @staticmethod
    def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if x.shape[-1] % 2 == 1:
            raise RegardError(
                f"rotary turns pairs of features, so the width of a head must be even and is {x.shape[-1]}; "
                f"choose width and heads so that width / heads is even"
            )
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Alibi(Position):
    """Scores fall with the distance, at a rate of each head's own; there are no parameters, and any length is possible.

        score_ij ← score_ij − m_h |i − j|        m_h = 2^{−8h/H}, h = 1…H, when H is a power of two        Press 2022, 3

    For another H, the slopes of the power of two below it are followed by every other slope of twice that power, as in
    the authors' code. The paper's attention is causal, where |i − j| = i − j; here keys on both sides count by
    distance.
    """

    def on_scores(self, query: Tensor, i: Tensor, j: Tensor) -> Tensor:
        distance = (i - j).abs()  # (*rows, columns)
        slopes = self._slopes(query).view(-1, *[1] * distance.dim())
        return (-slopes * distance).to(query.dtype)  # (H, *rows, columns)

    @staticmethod
    def _slopes(query: Tensor) -> Tensor:
        heads, dtype, device = query.shape[1], _precise(query), query.device
        power = 1 << (heads.bit_length() - 1)
        rest, step = heads - power, 8 / power
        slopes = torch.logspace(-step, -8, power, base=2.0, dtype=dtype, device=device)
        between = torch.logspace(-step / 2, step / 2 - step * rest, rest, base=2.0, dtype=dtype, device=device)
        return torch.cat((slopes, between))  # (H,)


def build(name: str, *, width: int, heads: int, maximum: int = 1024) -> Position:
    """The scheme of that name, for a model of this width and number of heads; `maximum` is for learned positions."""
    _require_positive(width=width, heads=heads, maximum=maximum)
    schemes: dict[str, Callable[[], Position]] = {
        "none": Position,
        "sinusoidal": Sinusoidal,
        "sinusoidal_halves": lambda: Sinusoidal(halves=True),
        "learned": lambda: Learned(maximum, width=width),
        "shaw": lambda: Shaw(width=width // heads),
        "rotary": Rotary,
        "alibi": Alibi,
        "timed": Timed,
    }
    if name not in schemes:
        raise unknown_name("position", name, schemes)
    return schemes[name]()


def input_and_inside(name: str, *, width: int, heads: int, maximum: int) -> tuple[Position, Callable[[], Position]]:
    """The scheme of that name for models that add it to their input or, as rotary and ALiBi do, use it inside every
    attention: what the input gets, and what makes that of one attention."""
    inside = name in INSIDE

    def scheme(name: str) -> Position:
        return build(name, width=width, heads=heads, maximum=maximum)

    return scheme("none" if inside else name), lambda: scheme(name if inside else "none")


def _precise(tensor: Tensor) -> torch.dtype:
    """Single precision, or that of the tensor if it is higher."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _angles(at: Tensor, *, like: Tensor) -> Tensor:
    """i / 10000^{2p/W} for every position i and every pair p of the W features of `like`: (…) → (…, ⌈W/2⌉)."""
    width = like.shape[-1]
    pairs = (width + 1) // 2
    slowest = -2 * (pairs - 1) / width
    return at.unsqueeze(-1) * torch.logspace(0, slowest, pairs, base=BASE, dtype=_precise(like), device=at.device)


def _waves(at: Tensor, *, like: Tensor) -> Tensor:
    """Sine on the even and cosine on the odd features: (…) → (…, W)."""
    angles = _angles(at, like=like)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)[..., : like.shape[-1]]


@lru_cache(maxsize=4096)
@torch.inference_mode(mode=False)  # tensors made in inference mode could not be used in training later
def _wave(position: int, width: int, precision: torch.dtype) -> Tensor:
    """`_waves` of one position: (1, W)"""
    return _waves(torch.tensor([position]), like=torch.empty(width, dtype=precision))


@lru_cache(maxsize=4096)
@torch.inference_mode(mode=False)
def _turn_of(position: int, width: int, precision: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines of one position, (1, D/2) each."""
    like = torch.empty(width, dtype=precision, device=device)
    return Rotary._turn(torch.tensor([position], device=device), like=like)


def _require_positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise RegardError(f"{name}={size} must be at least 1")


def _require_width(name: str, tensor: Tensor, width: int) -> None:
    if tensor.shape[-1] != width:
        raise RegardError(f"{name} has width {tensor.shape[-1]}, but these positions were made with width={width}")
