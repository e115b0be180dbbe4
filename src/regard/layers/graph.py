"""Graph attention: every node looks at its neighbours.

    h′_i = Σ_j w_ij W h_j + b        w_i = softmax_j( score(i, j) )   over the edges (i, j)

    gat      score = LeakyReLU(aᵀ [W h_i ‖ W h_j])          Veličković 2018, equations 3 and 4
    gatv2    score = aᵀ LeakyReLU(U h_i + W h_j)            Brody 2022, equation 7

All nodes of `gat` rank their neighbours alike: by aᵀ W h_j. Those of `gatv2` may rank them differently.

H heads  D width of a head  N nodes  E edges
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.graph import attend_graph
from regard.attention.scores import LeakyAdditive, LeakySum
from regard.kernels.linear import Linear
from regard.kernels.sparse import Cells, Sparse, mixed
from regard.layers.dropout import Dropout

GraphScore = Literal["gat", "gatv2"]
Features = Tensor | Sparse  # a row for each node: (N, F)


class GraphAttention(nn.Module):
    """Features (N, F) → (N, H·D) if the heads are concatenated, and otherwise their mean, (N, D).

    Dropout is applied to the features (of sparse ones, to the values that are not zero), to the weights, and to the
    projected features that the weights mix (`value_dropout`), but not to those that the score compares. The heads drop
    the same features, or each its own (`dropout_by_head`), as in the code of Veličković 2018. With `residual`, the
    features are added to the result, after a linear map if the widths differ.
    """

    def __init__(
        self,
        features: int,
        width: int,
        *,
        heads: int,
        score: GraphScore,
        dropout: float,
        attention_dropout: float,
        value_dropout: float = 0.0,
        dropout_by_head: bool = False,
        residual: bool = False,
        concatenate: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.width, self.concatenate = heads, width, concatenate
        self.apart = dropout_by_head and heads > 1
        total, out = heads * width, heads * width if concatenate else width
        two = score == "gatv2"  # one map for what is looked at, and another for who looks
        self.project = Project(features, total * (1 + two), bias=two, parts=1 + two)
        self.score = LeakyAdditive(width, heads=heads) if two else LeakySum(width, heads=heads)
        self.residual = Residual(features, out) if residual else None
        self.dropout, self.attention_dropout = Dropout(dropout), Dropout(attention_dropout)
        self.value_dropout = Dropout(value_dropout)
        self.bias = nn.Parameter(torch.zeros(out))
        for part in self.project.weight.split(width):  # Glorot for the W of each head, as in the paper
            nn.init.xavier_uniform_(part)

    def forward(self, x: Features, cells: Cells) -> Tensor:
        if self.apart and self.training:
            mapped = self.project.by_head(x, self.dropout, heads=self.heads)
            x = dropped(x, self.dropout)  # for the residual
        else:
            x = dropped(x, self.dropout)
            mapped = self.project(x)
        projected = mapped.unflatten(-1, (-1, self.heads, self.width))  # (1, N, 1 or 2, H, D)
        parts = [part.transpose(1, 2) for part in projected.unbind(2)]  # (1, H, N, D) each
        keys, queries = parts[0], parts[-1]
        scored = self.score.queries(queries), self.score.keys(keys)
        out = attend_graph(
            *scored, self.value_dropout(keys), score=self.score, cells=cells, drop=self.attention_dropout
        )
        out = out.transpose(1, 2)[0]  # (N, H, D)
        out = out.flatten(1) if self.concatenate else out.mean(1)
        if self.residual is not None:
            out = out + self.residual(x)
        return out + self.bias


class Project(Linear):
    """A linear map of the features of all nodes, which may be sparse: (N, F) → (1, N, M)

    Its outputs are those of `parts` maps, each with all heads side by side.
    """

    def __init__(self, features: int, width: int, *, bias: bool, parts: int = 1) -> None:
        super().__init__(features, width, bias=bias)
        self.parts = parts

    def forward(self, x: Features) -> Tensor:
        if isinstance(x, Tensor):
            return super().forward(x).unsqueeze(0)
        return self._biased(x @ self.weight.T.contiguous())

    def by_head(self, x: Features, dropout: Dropout, *, heads: int) -> Tensor:
        """The same map, where each head reads the features after a dropout of its own."""
        if isinstance(x, Tensor):
            x = dropout(x.expand(heads, -1, -1))  # (H, N, F)
            weight = self.weight.view(-1, heads, self.out_features // heads // self.parts, self.in_features)
            return self._biased(torch.einsum("hnf,phdf->nphd", x, weight).flatten(1))
        values = dropout(x.values.unsqueeze(1).expand(-1, heads)).repeat(1, self.parts)  # (E, 1 or 2 · H)
        dense = self.weight.T.reshape(self.in_features, heads * self.parts, -1)  # (F, 1 or 2 · H, D)
        return self._biased(mixed(x.cells, values, dense).flatten(1))

    def _biased(self, rows: Tensor) -> Tensor:
        return (rows if self.bias is None else rows + self.bias).unsqueeze(0)


class Residual(nn.Module):
    """The features themselves, or a linear map of them if another width is wanted: (N, F) → (N, M)"""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.project = None if features == width else Project(features, width, bias=False)

    def forward(self, x: Features) -> Tensor:
        if self.project is not None:
            return self.project(x)[0]
        return x if isinstance(x, Tensor) else x @ torch.eye(x.cells.size[1], device=x.values.device)


def dropped(x: Features, dropout: Dropout) -> Features:
    """The features after dropout. Values that are zero stay zero, so that of sparse ones the others suffice."""
    return dropout(x) if isinstance(x, Tensor) else replace(x, values=dropout(x.values))
