"""GAT and GATv2 against PyTorch Geometric with copied weights, and the law of every graph model."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.attention import recording
from regard.attention.formula import attend, reference
from regard.attention.patterns import Edges
from regard.attention.scores import LeakyAdditive, LeakySum
from regard.kernels.sparse import Cells, Sparse
from regard.layers.graph import GraphAttention
from regard.models.gat import GAT, GATConfig

NODES, FEATURES, WIDTH, HEADS = 11, 7, 5, 3


def graph(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Features with zeros, and edges (E, 2) with loops; node 10 sees itself alone."""
    torch.manual_seed(seed)
    x = torch.randn(NODES, FEATURES, dtype=torch.float64) * (torch.rand(NODES, FEATURES) < 0.5)
    pairs = (torch.rand(NODES - 1, NODES - 1) < 0.3).fill_diagonal_(False).nonzero()
    return x, torch.cat([pairs, torch.arange(NODES).repeat(2, 1).T])


def sparse(x: Tensor) -> Sparse:
    pairs = x.nonzero()
    return Sparse(Cells.of(pairs, tuple(x.shape)), x[pairs[:, 0], pairs[:, 1]])


def copied(layer: GraphAttention, score: str) -> nn.Module:
    """PyTorch Geometric's layer with the weights of ours."""
    geometric = pytest.importorskip("torch_geometric.nn")
    kind = geometric.GATConv if score == "gat" else geometric.GATv2Conv
    theirs = kind(FEATURES, WIDTH, heads=HEADS, concat=layer.concatenate, add_self_loops=False).double()
    with torch.no_grad():
        theirs.bias.copy_(layer.bias)
        if score == "gat":
            theirs.lin.weight.copy_(layer.project.weight)
            theirs.att_dst.copy_(layer.score.left.squeeze(-1))
            theirs.att_src.copy_(layer.score.right.squeeze(-1))
        else:
            for part, linear in enumerate((theirs.lin_l, theirs.lin_r)):
                linear.weight.copy_(layer.project.weight.chunk(2)[part])
                linear.bias.copy_(layer.project.bias.chunk(2)[part])
            theirs.att.copy_(layer.score.combine.squeeze(1))
    return theirs


@pytest.mark.parametrize("score", ["gat", "gatv2"])
@pytest.mark.parametrize("concatenate", [True, False])
def test_a_layer_equals_pytorch_geometrics_forward_and_backward(score: str, concatenate: bool) -> None:
    x, pairs = graph()
    layer = GraphAttention(
        FEATURES, WIDTH, heads=HEADS, score=score, dropout=0.0, attention_dropout=0.0, concatenate=concatenate
    ).double()
    nn.init.normal_(layer.bias)
    theirs = copied(layer, score)
    cells, edges = Cells.of(pairs, (NODES, NODES)), pairs.flip(1).T  # theirs: source, then target
    expected, (_, weights) = theirs(x, edges, return_attention_weights=True)
    with recording(layer) as seen:
        found = layer(sparse(x), cells)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(layer(x, cells), expected)
    shown = seen[""].to_dense()[0][:, pairs[:, 0], pairs[:, 1]].T  # (E, H)
    torch.testing.assert_close(shown, weights.detach())
    above = torch.randn_like(expected)
    (found * above).sum().backward()
    (expected * above).sum().backward()
    if score == "gat":
        torch.testing.assert_close(layer.project.weight.grad, theirs.lin.weight.grad)
        torch.testing.assert_close(layer.score.left.grad.squeeze(-1), theirs.att_dst.grad[0])
        torch.testing.assert_close(layer.score.right.grad.squeeze(-1), theirs.att_src.grad[0])
    else:
        both = torch.cat([theirs.lin_l.weight.grad, theirs.lin_r.weight.grad])
        torch.testing.assert_close(layer.project.weight.grad, both)
        torch.testing.assert_close(layer.score.combine.grad.squeeze(1), theirs.att.grad[0])
    torch.testing.assert_close(layer.bias.grad, theirs.bias.grad)


@pytest.mark.parametrize("score", [LeakySum, LeakyAdditive])
def test_attention_over_edges_equals_the_reference(score: type[LeakySum | LeakyAdditive]) -> None:
    torch.manual_seed(1)
    _, pairs = graph()
    built = score(WIDTH, heads=HEADS).double()
    q, k, v = (torch.randn(2, HEADS, NODES, WIDTH, dtype=torch.float64, requires_grad=True) for _ in range(3))
    found = attend(q, k, v, score=built, pattern=Edges(pairs[:-4]))  # some nodes see nothing
    expected = reference(q, k, v, score=built, pattern=Edges(pairs[:-4]))
    torch.testing.assert_close(found, expected)
    above = torch.randn_like(found)
    ours, theirs = (torch.autograd.grad((y * above).sum(), (q, k, v, *built.parameters())) for y in (found, expected))
    torch.testing.assert_close(ours, theirs)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), score=st.sampled_from(["gat", "gatv2"]), residual=st.booleans())
def test_renumbered_nodes_have_the_same_outputs(seed: int, score: str, residual: bool) -> None:
    """F(PX, PAPᵀ) = P F(X, A)"""
    x, pairs = graph(seed)
    config = GATConfig(hidden_layers=2, width=6, heads=2, output_heads=3, score=score, residual=residual)
    model = GAT(config, features=FEATURES, outputs=4).double().eval()
    order = torch.randperm(NODES)  # the new node n is the old node order[n]
    place = torch.argsort(order)
    plain = model(sparse(x), Cells.of(pairs, (NODES, NODES)))
    moved = model(sparse(x[order]), Cells.of(place[pairs], (NODES, NODES)))
    torch.testing.assert_close(moved, plain[order])


def test_dropout_touches_the_values_that_are_not_zero() -> None:
    x, pairs = graph()
    layer = GraphAttention(FEATURES, WIDTH, heads=HEADS, score="gat", dropout=0.5, attention_dropout=0.0).double()
    read: list[Sparse] = []
    layer.project.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    layer(sparse(x), Cells.of(pairs, (NODES, NODES)))
    kept = read[0].values != 0
    assert 0 < kept.sum() < len(kept)
    torch.testing.assert_close(read[0].values[kept], 2 * sparse(x).values[kept])


def test_a_width_that_heads_cannot_share_is_refused() -> None:
    with pytest.raises(ValueError, match="width=10 cannot be divided among heads=8; try width=64"):
        GATConfig(width=10)


def test_value_dropout_drops_what_is_mixed_and_leaves_the_weights_as_they_are() -> None:
    x, pairs = graph()
    torch.manual_seed(1)
    layer = GraphAttention(
        FEATURES, WIDTH, heads=HEADS, score="gat", dropout=0.0, attention_dropout=0.0, value_dropout=0.5
    ).double()
    cells = Cells.of(pairs, (NODES, NODES))
    with recording(layer) as learning:
        found = layer.train()(x, cells)
    with recording(layer) as still:
        whole = layer.eval()(x, cells)
    torch.testing.assert_close(learning[""].to_dense(), still[""].to_dense())
    alone, all_of_it = found[NODES - 1], whole[NODES - 1]  # sees itself alone: 0 or 1/(1 − p) times its features
    kept = alone != 0
    assert 0 < kept.sum() < len(kept)
    torch.testing.assert_close(alone[kept], 2 * all_of_it[kept])


@pytest.mark.parametrize("score", ["gat", "gatv2"])
def test_each_head_drops_features_of_its_own(score: str) -> None:
    """Head h of every map is W_h (x ⊙ m_h), whether the features are sparse or not."""
    x, _ = graph()
    heads, two = HEADS, score == "gatv2"
    layer = GraphAttention(
        FEATURES, WIDTH, heads=heads, score=score, dropout=0.5, attention_dropout=0.0, dropout_by_head=True
    ).double()
    masks = 2.0 * (torch.rand(heads, NODES, FEATURES) < 0.5)
    pairs = x.nonzero()
    of_cells = masks[:, pairs[:, 0], pairs[:, 1]].T  # (E, H)
    weights = layer.project.weight.view(1 + two, heads, WIDTH, FEATURES)
    expected = torch.stack([(x * masks[h]) @ part[h].T for part in weights for h in range(heads)], 1).flatten(1)
    if two:
        expected = expected + layer.project.bias
    for features, mask in ((x, masks), (sparse(x), of_cells)):
        found = layer.project.by_head(features, lambda values, mask=mask: values * mask, heads=heads)
        torch.testing.assert_close(found, expected.unsqueeze(0))


@pytest.mark.parametrize("of_sparse", [True, False])
def test_without_dropout_heads_apart_are_heads_together(of_sparse: bool) -> None:
    x, pairs = graph()
    torch.manual_seed(3)
    apart = GraphAttention(
        FEATURES, WIDTH, heads=HEADS, score="gat", dropout=0.0, attention_dropout=0.0, dropout_by_head=True
    ).double()
    features, cells = sparse(x) if of_sparse else x, Cells.of(pairs, (NODES, NODES))
    torch.testing.assert_close(apart.train()(features, cells), apart.eval()(features, cells))
