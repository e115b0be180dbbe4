"""Swin against transformers itself, for random configurations and weights, both ways."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import regard
from regard import models
from regard.api.exchange import export_model, import_model
from regard.attention.recorder import recording
from regard.errors import RegardError
from regard.interchange.huggingface import export_directory, import_directory
from regard.training.weights import weights_of

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
CLOSE = {"atol": 1e-4, "rtol": 1e-4}
LABELS = ("cat", "dog", "fish")


def theirs_of(*, layers: list[int], window: int, rows: int, columns: int, bias: bool = True, seed: int = 0) -> Any:
    config = transformers.SwinConfig(
        embed_dim=6,
        depths=layers,
        num_heads=[2 * (number + 1) for number in range(len(layers))],
        window_size=window,
        patch_size=2,
        mlp_ratio=1.5,
        qkv_bias=bias,
        image_size=[rows, columns],
        num_channels=3,
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
        layer_norm_eps=1e-3,
    )
    config._attn_implementation = "eager"
    model = transformers.SwinForImageClassification(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            spread = torch.empty(parameter.shape).normal_(0.0, 0.3, generator=generator)
            parameter.copy_(1 + spread if "norm" in name and name.endswith("weight") else spread)
    return model


def looked(theirs: Any, pictures: Tensor) -> tuple[Tensor, list[tuple[int, Tensor]]]:
    """The logits, and the shift and the weights (B, windows, H, w², w²) of each block."""
    found: list[tuple[int, Tensor]] = []
    hooks = [
        block.attention.register_forward_hook(
            lambda _module, _given, result, block=block: found.append((block.shift_size, result[1]))
        )
        for stage in theirs.swin.encoder.layers
        for block in stage.blocks
    ]
    with torch.no_grad():
        logits = theirs(pictures).logits
    for hook in hooks:
        hook.remove()
    return logits, [(shift, weights.unflatten(0, (len(pictures), -1))) for shift, weights in found]


def spread(weights: Tensor, shift: int, rows: int, columns: int) -> Tensor:
    """The weights of windows between the places of a grid, window by window: (B, H, places, places)"""
    size = int(weights.shape[-1] ** 0.5)
    across, down = -(-columns // size), -(-rows // size)
    result = torch.zeros(weights.shape[0], weights.shape[2], rows * columns, rows * columns)
    for window in range(weights.shape[1]):
        kept, places = [], []
        for place in range(size * size):
            row = (window // across * size + place // size + shift) % (down * size)
            column = (window % across * size + place % size + shift) % (across * size)
            if row < rows and column < columns:
                kept.append(place)
                places.append(row * columns + column)
        inside = weights[:, window][:, :, kept][..., kept]
        result[:, :, torch.tensor(places).unsqueeze(1), torch.tensor(places)] = inside
    return result


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    layers=st.lists(st.integers(1, 2), min_size=1, max_size=2),
    window=st.integers(2, 3),
    more=st.tuples(st.integers(0, 7), st.integers(0, 7)),
    bias=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_logits_and_attentions_are_theirs(
    layers: list[int], window: int, more: tuple[int, int], bias: bool, seed: int
) -> None:
    """Sides need be no multiples of patches or windows; in the library, only, each grid has the size of a window."""
    least = 2 * window * 2 ** (len(layers) - 1)
    rows, columns = least + more[0], least + more[1]
    theirs = theirs_of(layers=layers, window=window, rows=rows, columns=columns, bias=bias, seed=seed)
    with TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        came = import_directory(folder)
    ours: Any = came.module()
    assert came.labels == LABELS
    pictures = torch.randn(2, 3, rows, columns, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad(), recording(ours) as seen:
        found = ours(pictures)
    wanted, weights = looked(theirs, pictures)
    assert_close(found, wanted, **CLOSE)
    assert len(seen) == len(weights) == sum(layers)
    for layer, (shift, each) in enumerate(weights):
        path = f"blocks.{layer}.attention"
        grid = ours.grids()[ours.looks(path)[0]]
        assert_close(seen[path], spread(each, shift, grid.rows, grid.columns), **CLOSE)


def test_windows_are_shifted_in_the_test() -> None:
    theirs = theirs_of(layers=[2], window=2, rows=12, columns=10)
    assert [shift for shift, _ in looked(theirs, torch.randn(1, 3, 12, 10))[1]] == [0, 1]


def test_what_is_exported_is_read_there_and_here(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = models.config_class("swin")(layers=[2, 1], width=6, heads=[2, 3], window=2, expansion=2.5)
    ours = models.from_config(config, channels=3, rows=9, columns=12, outputs=3).eval()
    numbers = {"rows": 9, "columns": 12, "channels": 3, "fit": "stretch", "filter": "bicubic"}
    numbers |= {"mean": [0.4, 0.5, 0.6], "deviation": [0.2, 0.3, 0.4]}
    export_directory(tmp_path / "out", config=config, weights=weights_of(ours), labels=LABELS, numbers=numbers)
    theirs = transformers.SwinForImageClassification.from_pretrained(tmp_path / "out").eval()
    assert theirs.config.id2label == dict(enumerate(LABELS))
    pictures = torch.randn(2, 3, 9, 12)
    with torch.no_grad():
        assert_close(theirs(pictures).logits, ours(pictures), **CLOSE)
    again = import_directory(tmp_path / "out")
    assert again.numbers == numbers
    assert again.config == config
    assert all(torch.equal(tensor, weights_of(ours)[name]) for name, tensor in again.weights.items())


def test_an_imported_model_answers_and_goes_back(tmp_path: Path) -> None:
    theirs = theirs_of(layers=[2, 2], window=2, rows=8, columns=8)
    theirs.save_pretrained(tmp_path / "theirs")
    recipe = import_model(tmp_path / "theirs", tmp_path / "ours")
    assert (recipe.task, recipe.kind) == ("see", "swin")
    picture = torch.randint(0, 256, (8, 8, 3), dtype=torch.uint8)
    with torch.no_grad():
        wanted = theirs((picture.permute(2, 0, 1)[None] / 255 - 0.5) / 0.5).logits.softmax(-1)[0]
    for each in regard.load(tmp_path / "ours")(picture.numpy()):
        assert each["score"] == pytest.approx(float(wanted[LABELS.index(each["label"])]), abs=1e-4)
    export_model(tmp_path / "ours", tmp_path / "back")
    back = transformers.SwinForImageClassification.from_pretrained(tmp_path / "back").eval()
    assert all(torch.equal(tensor, theirs.state_dict()[name]) for name, tensor in back.state_dict().items())


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("use_absolute_embeddings", True, "use_absolute_embeddings"),
        ("depths", [2], "depths is .*2 numbers"),
        ("depths", [2, -1], "depths"),
        ("num_heads", [2, 5], "heads = 5 of stage 2 does not divide its width 12"),
        ("mlp_ratio", "4", "mlp_ratio"),
        ("depths", [2, 3], "missing"),
        ("window_size", 3, "relative_position_bias_table"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(tmp_path: Path, key: str, value: object, message: str) -> None:
    theirs_of(layers=[2, 2], window=2, rows=8, columns=8).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(RegardError, match=message):
        import_directory(tmp_path)
