"""How well a query matches a key.

A score is written for one pair; broadcasting makes it a matrix, an edge list or a window:

    q′ = score.queries(q)           each side is projected or normalised once
    k′ = score.keys(k)
    score.compare(q′, k′)           (…, D′), (…, D′) → (…)      for chosen pairs
    score.matrix(q′, k′)            (…, Q, D′), (…, K, D′) → (…, Q, K)      for every pair

There are no loops over heads or time: a score takes any number of leading dimensions.
"""

import math
from typing import ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import RegardError, unknown_name

ScoreName = Literal["cosine", "additive", "location", "general", "dot", "scaled_dot"]


class Score(nn.Module):
    """The base of all scores: the dot product of q′ and k′, unless a subclass compares otherwise.

    `dot` is True when `compare` is that plain dot product, so that a kernel may use a matrix product or torch's fused
    attention with scale 1.
    """

    dot: ClassVar[bool] = True

    def queries(self, query: Tensor) -> Tensor:
        """(…, Q, D_q) → (…, Q, D′)"""
        return query

    def keys(self, key: Tensor) -> Tensor:
        """(…, K, D_k) → (…, K, D′)"""
        return key

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        """Pair by pair, for results of `queries` and `keys`: (…, D′), (…, D′) → (…)"""
        return (query * key).sum(-1)

    def matrix(self, query: Tensor, key: Tensor) -> Tensor:
        """Every pair, for results of `queries` and `keys`: (…, Q, D′), (…, K, D′) → (…, Q, K)"""
        if self.dot:
            return query @ key.transpose(-1, -2)
        return self.compare(query.unsqueeze(-2), key.unsqueeze(-3))

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Every pair, for queries and keys as they are: (…, Q, D_q), (…, K, D_k) → (…, Q, K)"""
        return self.matrix(self.queries(query), self.keys(key))


class Dot(Score):
    """The dot product of query and key.

        score(q, k) = qᵀ k                      Luong 2015, section 3.1: h_t is our q, h̄_s our k

    q (…, D), k (…, D) → (…).   No parameters.
    """


class ScaledDot(Score):
    """The dot product, with a variance that does not grow with the width.

        score(q, k) = qᵀ k / √D                 Vaswani 2017, equation 1: d_k is our D

    q (…, D), k (…, D) → (…).   No parameters.
    """

    def queries(self, query: Tensor) -> Tensor:
        return query / math.sqrt(query.shape[-1])


class General(Score):
    """The dot product after a learned map from the space of queries to the space of keys.

        score(q, k) = qᵀ W k                    Luong 2015, section 3.1: h_t is our q, h̄_s our k

    q (…, D_q), k (…, D_k) → (…).   The map is applied once for each query.
    """

    def __init__(self, query_width: int, *, key_width: int | None = None) -> None:
        super().__init__()
        self.project = nn.Linear(query_width, key_width or query_width, bias=False)

    def queries(self, query: Tensor) -> Tensor:
        return self.project(query)


class Cosine(Score):
    """The cosine of the angle between query and key, times a learned sharpness.

        score(q, k) = β qᵀ k / (|q| |k|),   β = exp(b) > 0          Graves 2014, equations 5 and 6: K[u, v] and β_t

    q (…, D), k (…, D) → (…).   A zero vector has cosine 0 with everything. β is one number here, not one for each step;
    it starts at `sharpness`.
    """

    def __init__(self, *, sharpness: float = 10.0) -> None:
        super().__init__()
        if sharpness <= 0:
            raise RegardError(f"sharpness={sharpness} of a cosine score must be greater than 0")
        self.log_sharpness = nn.Parameter(torch.tensor([math.log(sharpness)]))

    def queries(self, query: Tensor) -> Tensor:
        return self.log_sharpness.exp().to(query.dtype) * _unit(query)

    def keys(self, key: Tensor) -> Tensor:
        return _unit(key)


def _unit(x: Tensor) -> Tensor:
    """x / |x|, and 0 where x is 0; the norm is taken in single precision at least, where half would overflow."""
    precision = torch.promote_types(x.dtype, torch.float32)
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=precision)  # (…, L, 1)
    return (x / norm.masked_fill(norm == 0, 1.0)).to(x.dtype)


class Additive(Score):
    """A feed-forward network of query and key with one hidden layer.

        score(q, k) = vᵀ tanh(W q + U k + b)        Bahdanau 2015, A.1.2: s_{i−1} is our q, h_j our k, e_ij the score

    q (…, D_q), k (…, D_k) → (…).   Time and memory grow with Q·K·hidden: tanh does not factor.
    """

    dot = False

    def __init__(self, query_width: int, *, key_width: int | None = None, hidden: int | None = None) -> None:
        super().__init__()
        hidden = hidden or query_width
        self.project_query = nn.Linear(query_width, hidden, bias=False)
        self.project_key = nn.Linear(key_width or query_width, hidden)
        self.combine = nn.Linear(hidden, 1, bias=False)

    def queries(self, query: Tensor) -> Tensor:
        return self.project_query(query)

    def keys(self, key: Tensor) -> Tensor:
        return self.project_key(key)

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return self.combine(torch.tanh(query + key)).squeeze(-1)


class Location(Score):
    """Where to look, computed from the query alone; the content of the keys is ignored.

        score(q, k_j) = (W q)_j                     Luong 2015, equation 8: h_t is our q, a_t the softmax of all j

    q (…, D_q), k (…, D_k) → (…).   k′_j is row j of the identity matrix, so that the dot product picks entry j; there
    are `maximum` rows in W and no keys beyond them.
    """

    def __init__(self, query_width: int, *, maximum: int) -> None:
        super().__init__()
        self.maximum = maximum
        self.project = nn.Linear(query_width, maximum, bias=False)

    def queries(self, query: Tensor) -> Tensor:
        return self.project(query)

    def keys(self, key: Tensor) -> Tensor:
        count = key.shape[-2]
        if count > self.maximum:
            raise RegardError(
                f"a location score with maximum={self.maximum} cannot look at {count} keys; "
                f"build it with maximum={count} or shorten the input"
            )
        identity = torch.eye(count, self.maximum, dtype=key.dtype, device=key.device)
        return identity.expand(*key.shape[:-2], count, self.maximum)


class LeakySum(Score):
    """One number from each side, added: the score of graph attention.

        score(q, k) = LeakyReLU(aᵀ_left q + aᵀ_right k)     Veličković 2018, equation 3: a = [a_left ; a_right],
                                                            W h_i is our q, W h_j our k, slope 0.2

    q (…, D), k (…, D) → (…).   With `heads`, each head has its own a: q (…, H, Q, D), k (…, H, K, D).
    """

    dot = False

    def __init__(self, width: int, *, heads: int | None = None) -> None:
        super().__init__()
        shape = (width, 1) if heads is None else (heads, width, 1)
        bound = math.sqrt(6 / (width + 1))  # Glorot, as in the paper
        self.left = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.right = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))

    def queries(self, query: Tensor) -> Tensor:
        return _one_number(query, self.left)

    def keys(self, key: Tensor) -> Tensor:
        return _one_number(key, self.right)

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return F.leaky_relu(query + key, 0.2).squeeze(-1)


def _one_number(x: Tensor, a: Tensor) -> Tensor:
    """xᵀ a: x (…, L, D), a (D, 1) → (…, L, 1); or x (…, H, L, D), a (H, D, 1) → (…, H, L, 1).

    For all heads this is one product with a matrix (H·D, H) that has their vectors on its diagonal; H thin products
    would take longer.
    """
    if a.dim() == 2:
        return x @ a
    spread = (a * torch.eye(len(a), dtype=a.dtype, device=a.device).unsqueeze(1)).flatten(0, 1)
    return (x.transpose(-2, -3).flatten(-2) @ spread).transpose(-1, -2).unsqueeze(-1)


class LeakyAdditive(Score):
    """A weighted sum of what both sides add up to, feature by feature: the score of GATv2.

        score(q, k) = aᵀ LeakyReLU(q + k)           Brody 2022, equation 7: W [h_i ‖ h_j] is our q + k, slope 0.2

    q (…, D), k (…, D) → (…).   With `heads`, each head has its own a: q (…, H, Q, D), k (…, H, K, D).

    LeakyReLU(x) = 0.6 x + 0.4 |x|, so that a LeakyReLU(x) = 0.6 (a x) + 0.4 sign(a) |a x|: both sides are multiplied by
    a once, and the sign of a goes with the query. `compare` then needs to know nothing of heads.
    """

    dot = False

    def __init__(self, width: int, *, heads: int | None = None) -> None:
        super().__init__()
        bound = math.sqrt(6 / (width + 1))  # Glorot
        self.combine = nn.Parameter(torch.empty((width,) if heads is None else (heads, 1, width)))
        nn.init.uniform_(self.combine, -bound, bound)

    def queries(self, query: Tensor) -> Tensor:
        return torch.cat([query * self.combine, self.combine.detach().sign().expand_as(query)], -1)

    def keys(self, key: Tensor) -> Tensor:
        return key * self.combine

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        scaled, sign = query.chunk(2, -1)
        both = scaled + key
        return (0.6 * both + 0.4 * sign * both.abs()).sum(-1)


def build(
    name: str, *, width: int, key_width: int | None = None, hidden: int | None = None, maximum: int = 512
) -> Score:
    """The score called `name`, for queries of `width` and keys of `key_width` (the same unless given).

    `hidden` is the width of the additive score's network, `maximum` the most keys that a location score can look at.
    """
    if name in ("cosine", "dot", "scaled_dot") and key_width not in (None, width):
        raise RegardError(
            f"score={name!r} compares vectors of one width, but width={width} and key_width={key_width}; "
            "choose score='general' or 'additive'"
        )
    match name:
        case "cosine":
            return Cosine()
        case "additive":
            return Additive(width, key_width=key_width, hidden=hidden)
        case "location":
            return Location(width, maximum=maximum)
        case "general":
            return General(width, key_width=key_width)
        case "dot":
            return Dot()
        case "scaled_dot":
            return ScaledDot()
    raise unknown_name("score", name, get_args(ScoreName))
