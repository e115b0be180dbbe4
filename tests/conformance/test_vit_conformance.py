"""ViT against transformers itself, for random configurations and weights, both ways."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy
import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
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
NUMBERS = {"fit": "stretch", "filter": "bilinear", "mean": [0.4, 0.5, 0.6], "deviation": [0.2, 0.3, 0.4]}


def theirs_of(*, heads: int, layers: int, patch: int, rows: int, columns: int, activation: str, seed: int) -> Any:
    config = transformers.ViTConfig(
        hidden_size=6 * heads,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=17,
        hidden_act=activation,
        image_size=rows if rows == columns else [rows, columns],
        patch_size=patch,
        num_channels=3,
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
        layer_norm_eps=1e-6,
    )
    config._attn_implementation = "eager"
    model = transformers.ViTForImageClassification(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            spread = torch.empty(parameter.shape).normal_(0.0, 0.3, generator=generator)
            parameter.copy_(1 + spread if "norm" in name and name.endswith("weight") else spread)
    return model


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    heads=st.integers(1, 3),
    layers=st.integers(1, 2),
    patch=st.integers(2, 4),
    rows=st.integers(4, 9),
    columns=st.integers(4, 9),
    activation=st.sampled_from(["gelu", "gelu_new", "relu"]),
    seed=st.integers(0, 10**6),
)
def test_logits_and_attentions_are_theirs(
    heads: int, layers: int, patch: int, rows: int, columns: int, activation: str, seed: int
) -> None:
    theirs = theirs_of(
        heads=heads, layers=layers, patch=patch, rows=rows, columns=columns, activation=activation, seed=seed
    )
    with TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        came = import_directory(folder)
    ours = came.module()
    assert came.labels == LABELS
    pictures = torch.randn(2, 3, rows, columns, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad(), recording(ours) as seen:
        found = ours(pictures)
    with torch.no_grad():
        wanted = theirs(pictures, output_attentions=True)
    assert_close(found, wanted.logits, **CLOSE)
    assert len(seen) == layers
    for layer, weights in enumerate(wanted.attentions):
        assert_close(seen[f"body.blocks.{layer}.attention"], weights, **CLOSE)


def test_what_is_exported_is_read_there_and_here(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = models.config_class("vit")(layers=2, width=12, heads=2, hidden=20, patch_size=3)
    ours = models.from_config(config, channels=3, rows=9, columns=7, outputs=3).eval()
    numbers = {"rows": 9, "columns": 7, "channels": 3, **NUMBERS}
    export_directory(tmp_path / "out", config=config, weights=weights_of(ours), labels=LABELS, numbers=numbers)
    theirs = transformers.ViTForImageClassification.from_pretrained(tmp_path / "out").eval()
    assert theirs.config.id2label == dict(enumerate(LABELS))
    pictures = torch.randn(2, 3, 9, 7)
    with torch.no_grad():
        assert_close(theirs(pictures).logits, ours(pictures), **CLOSE)
    again = import_directory(tmp_path / "out")
    assert again.numbers == numbers
    assert all(torch.equal(tensor, weights_of(ours)[name]) for name, tensor in again.weights.items())


def test_an_imported_model_answers_as_theirs_does_and_goes_back(tmp_path: Path) -> None:
    theirs = theirs_of(heads=2, layers=1, patch=4, rows=8, columns=8, activation="gelu", seed=3)
    theirs.save_pretrained(tmp_path / "theirs")
    said = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4], "size": {"height": 8, "width": 8}}
    (tmp_path / "theirs" / "preprocessor_config.json").write_text(json.dumps({**said, "resample": 2}))
    recipe = import_model(tmp_path / "theirs", tmp_path / "ours")
    assert (recipe.task, recipe.kind) == ("see", "vit")
    model = regard.load(tmp_path / "ours")
    array = numpy.random.default_rng(0).integers(0, 256, size=(13, 17, 3), dtype=numpy.uint8)
    image = Image.fromarray(array)
    processor = transformers.ViTImageProcessorPil(**said, resample=2)
    with torch.no_grad():
        wanted = theirs(processor(image, return_tensors="pt")["pixel_values"]).logits.softmax(-1)[0]
    for each in model(image):
        assert each["score"] == pytest.approx(float(wanted[LABELS.index(each["label"])]), abs=1e-4)
    export_model(tmp_path / "ours", tmp_path / "back")
    back = transformers.ViTForImageClassification.from_pretrained(tmp_path / "back").eval()
    assert all(torch.equal(tensor, theirs.state_dict()[name]) for name, tensor in back.state_dict().items())


def test_what_they_cannot_express_is_refused(tmp_path: Path) -> None:
    config = models.config_class("vit")(layers=1, width=8, heads=2, patch="conv", pooling="attention")
    module = models.from_config(config, channels=1, rows=8, columns=8, outputs=2)
    with pytest.raises(RegardError, match=r"patch = 'conv'.*pooling = 'attention'"):
        export_directory(tmp_path / "out", config=config, weights=weights_of(module))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"size": {"height": 9, "width": 9}}, "size"),
        ({"image_mean": [0.5]}, "image_mean"),
        ({"resample": 0}, "resample"),
        ({"do_rescale": False}, "do_rescale"),
        ({"rescale_factor": 1.0}, "rescale_factor"),
        ({"image_std": [0.5, 0.5, 0.0]}, "image_std"),
    ],
)
def test_a_preprocessor_that_is_not_computed_here_is_refused(
    tmp_path: Path, said: dict[str, object], message: str
) -> None:
    theirs = theirs_of(heads=1, layers=1, patch=4, rows=8, columns=8, activation="gelu", seed=3)
    theirs.save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(said))
    with pytest.raises(RegardError, match=message):
        import_directory(tmp_path)
