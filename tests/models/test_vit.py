"""The Vision Transformer: its parts against torch's own, its options, and what it delivers to be looked at."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard import models
from regard.attention.recorder import recording
from regard.errors import RegardError
from regard.models.facts import Grid
from regard.models.vit import ViTConfig
from regard.tasks.modules import EmbedsPatches, SeesPictures

SIZES = {"channels": 2, "rows": 9, "columns": 8, "outputs": 3}
SMALL: dict[str, Any] = {"layers": 2, "width": 12, "heads": 3, "hidden": 20, "dropout": 0.0}


def tiny(**changes: Any) -> Any:
    torch.manual_seed(0)
    return models.from_config(ViTConfig(**{**SMALL, **changes}), **SIZES).eval()


def pictures() -> torch.Tensor:
    return torch.randn(4, 2, 9, 8, generator=torch.Generator().manual_seed(1))


def test_the_body_is_torchs_own_encoder() -> None:
    ours = tiny()
    theirs = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(12, 3, 20, 0.0, "gelu", batch_first=True, norm_first=True),
        2,
        norm=nn.LayerNorm(12),
        enable_nested_tensor=False,
    ).eval()
    with torch.no_grad():
        for block, layer in zip(ours.body.blocks, theirs.layers, strict=True):
            heads = (block.attention.query, block.attention.key, block.attention.value)
            layer.self_attn.in_proj_weight.copy_(torch.cat([each.weight for each in heads]))
            layer.self_attn.in_proj_bias.copy_(torch.cat([each.bias for each in heads]))
            layer.self_attn.out_proj.load_state_dict(block.attention.output.state_dict())
            layer.linear1.load_state_dict(block.feed_forward.inner.state_dict())
            layer.linear2.load_state_dict(block.feed_forward.outer.state_dict())
            layer.norm1.load_state_dict(block.around_attention.norm.state_dict())
            layer.norm2.load_state_dict(block.around_feed_forward.norm.state_dict())
        hidden = theirs(ours.embedding(pictures()))
        assert_close(ours(pictures()), ours.output(hidden[:, 0]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("patch", ["cut", "conv"])
@pytest.mark.parametrize("pooling", ["class", "mean", "attention"])
@pytest.mark.parametrize("position", ["learned", "sinusoidal", "none"])
def test_every_option_learns_with_every_weight(patch: str, pooling: str, position: str) -> None:
    model = tiny(patch=patch, pooling=pooling, position=position, stochastic_depth=0.2).train()
    assert isinstance(model, SeesPictures)
    assert isinstance(model, EmbedsPatches)
    model(pictures()).square().sum().backward()
    # the key's bias adds the same to all scores of a query, and that of the pooling to all scores
    still = [name for name, each in model.named_parameters() if each.grad is None or not each.grad.abs().max() > 1e-9]
    assert [name for name in still if not name.endswith(("key.bias", "pool.score.bias"))] == []


@pytest.mark.parametrize("pooling", ["class", "mean", "attention"])
@pytest.mark.parametrize("patch", ["cut", "conv"])
def test_the_weights_that_are_delivered_fit_the_grid(patch: str, pooling: str) -> None:
    model = tiny(patch=patch, pooling=pooling)
    grid = model.grids()["source"]
    extra = ("[class]",) if pooling == "class" else ()
    assert grid == (Grid(2, 2, extra) if patch == "cut" else Grid(3, 2, extra))
    items = grid.rows * grid.columns + len(extra)
    with recording(model) as seen:
        model(pictures())
    assert model.alignment in seen
    for path, weights in seen.items():
        query, key = model.looks(path)
        assert (query, key) == ("target" if path == "pool" else "source", "source")
        assert weights.shape == (4, 1 if path == "pool" else 3, 1 if path == "pool" else items, items)
        assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert model.embedding(pictures()).shape == (4, items, 12)


@pytest.mark.parametrize("attention", ["linformer", "performer"])
def test_cheaper_forms_of_attention_can_be_chosen(attention: str) -> None:
    more = {"rank": 3} if attention == "linformer" else {"features": 16}
    assert tiny(attention=attention, **more)(pictures()).shape == (4, 3)


def test_patches_without_positions_may_be_exchanged() -> None:
    model = tiny(position="none", pooling="mean")
    flipped = pictures()[:, :, :8].unflatten(2, (2, 4)).flip(2).flatten(2, 3)
    assert_close(model(flipped), model(pictures()), atol=1e-5, rtol=1e-5)
    learned = tiny(pooling="mean")
    assert not torch.allclose(learned(flipped), learned(pictures()), atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"patch": "conv", "patch_size": 4}, "patch_size is a setting of patch"),
        ({"kernel": 3}, "kernel is a setting of patch"),
        ({"heads": 5}, "heads=5 does not divide"),
        ({"patch_size": 10}, "not one patch"),
        ({"rank": 3}, "rank is a setting of attention"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises((RegardError, ValueError), match=sentence):
        tiny(**settings)


def test_the_compact_transformer_has_its_published_size() -> None:
    config = ViTConfig(
        layers=2, width=128, heads=2, hidden=128, patch="conv", pooling="attention", dropout=0.0, bias=True
    )
    model = models.from_config(config, channels=3, rows=32, columns=32, outputs=10)
    size = sum(parameter.numel() for parameter in model.parameters())
    assert abs(size - 284_000) < 1_000  # CCT-2/3×2: 0.284 million


def test_a_model_is_built_by_name_with_the_sizes_of_its_data() -> None:
    made = models.build("vit", layers=1, width=8, heads=2, rows=8, columns=12, outputs=4)
    assert made(torch.randn(1, 3, 8, 12)).shape == (1, 4)
