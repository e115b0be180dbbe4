"""What CTranslate2 computes with a converted model is what the torch module computes."""

import errno
import json
import shutil
import subprocess
import sys

import ctranslate2
import numpy
import pytest
import safetensors.numpy
import safetensors.torch
import torch

import regard
from made_models import WORDS, write_model
from regard import durable
from regard.data.tokenizers import Tokenizers
from regard.errors import RegardError
from regard.interchange import ctranslate2 as interchange
from regard.layers.wiring import DeepNorm
from regard.special import BOS, EOS

LENGTHS = ((5, 7), (11, 3), (40, 43))  # of sources and targets in tokens: one batch, so with padding
SETTINGS = [
    *({"position": position} for position in ("none", "sinusoidal", "learned", "shaw", "rotary", "alibi")),
    *({"position": "learned", "shared": True, "wiring": wiring} for wiring in ("post_norm", "pre_norm", "deep_norm")),
    *({"wiring": "deep_norm", "position": position} for position in ("shaw", "rotary", "alibi", "none")),
    *({"activation": activation, "wiring": "pre_norm"} for activation in ("relu", "gelu", "swiglu")),
    {"activation": "swiglu", "wiring": "deep_norm"},
    {"tied": False, "shared": True},
    {"tied": False, "shared": False, "position": "learned"},
    {"tied": True, "shared": False},
    {"width": 35, "heads": 5},
    {"heads": 1, "position": "alibi"},
    {"heads": 6, "position": "alibi", "encoder_layers": None, "decoder_layers": None, "layers": 2},
]


def texts(seed=0):
    draw = numpy.random.default_rng(seed)
    return [
        (" ".join(draw.choice(WORDS[:29], source)), " ".join(draw.choice(WORDS[:29], target)))
        for source, target in LENGTHS
    ]


def by_torch(directory, pairs):
    """log p of each token of the targets and of their ends."""
    model = regard.load(directory)
    found = []
    for source, target in pairs:
        ids = model.task.tokenizers.source.encode([source])[0], model.task.tokenizers.target.encode([target])[0]
        with torch.inference_mode():
            hidden = model.module(torch.tensor([[*ids[0], EOS]]), None, torch.tensor([[BOS, *ids[1]]]))
            logprobs = model.module.output(hidden)[0].log_softmax(-1)
        found.append(logprobs.gather(1, torch.tensor([*ids[1], EOS]).unsqueeze(1)).squeeze(1))
    return found


def by_ctranslate2(files, pairs):
    translator = ctranslate2.Translator("made", files=files, compute_type="float32", intra_threads=1)
    scored = translator.score_batch([s.split() for s, _ in pairs], [t.split() for _, t in pairs], max_input_length=0)
    return [torch.tensor(each.log_probs) for each in scored]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: ",".join(f"{k}={v}" for k, v in s.items()))
def test_every_log_probability_is_that_of_torch(tmp_path, settings):
    directory, pairs = write_model(tmp_path, **settings), texts()
    for ours, theirs in zip(
        by_torch(directory, pairs), by_ctranslate2(interchange.convert(directory), pairs), strict=True
    ):
        torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-4)


@pytest.mark.parametrize("key", ["position", "wiring", "activation"])
def test_what_a_setting_does_is_large_enough_to_be_seen_above(tmp_path, key):
    others = {"position": ["none", "sinusoidal"], "wiring": ["post_norm", "deep_norm"], "activation": ["relu", "gelu"]}
    first, second = (
        by_ctranslate2(interchange.convert(write_model(tmp_path / value, **{key: value})), texts())[0]
        for value in others[key]
    )
    assert (first - second).abs().max() > 1e-2


def test_the_test_covers_every_value_that_is_said_to_be_expressed():
    from regard.interchange.expressible import EXPRESSED

    for key in ("position", "wiring", "activation"):
        tried = {settings[key] for settings in SETTINGS if key in settings}
        assert set(EXPRESSED["transformer"].choices[key]) - tried == set()


def test_alpha_of_deep_norm_is_that_of_the_layers():
    for depths in ((1, 1), (3, 2), (18, 6)):
        expected = [wiring.alpha for wiring in DeepNorm.encoder_decoder(*depths)]
        assert interchange.deep_norm_alphas(*depths) == pytest.approx(expected)


def test_an_export_can_be_used_alone(tmp_path):
    directory = write_model(tmp_path / "model", position="rotary")
    interchange.export(directory, tmp_path / "out")
    shutil.rmtree(directory)
    both = Tokenizers.load(tmp_path / "out")
    translator = ctranslate2.Translator(str(tmp_path / "out"), compute_type="float32", intra_threads=1)
    pieces = both.source.tokens("w1 w7 w3")
    (result,) = translator.translate_batch([pieces], beam_size=1, max_decoding_length=5)
    assert 0 < len(result.hypotheses[0]) <= 5
    assert set(result.hypotheses[0]) <= set(both.target.vocabulary)


def test_an_export_says_which_tokens_are_special(tmp_path):
    interchange.export(write_model(tmp_path / "model"), tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["unk_token"], config["decoder_start_token"], config["eos_token"]) == ("<unk>", "<s>", "</s>")
    assert config["add_source_eos"] is True


def test_nothing_is_written_over(tmp_path):
    directory = write_model(tmp_path / "model")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("precious")
    with pytest.raises(RegardError, match="full exists and is not empty"):
        interchange.export(directory, tmp_path / "full")
    with pytest.raises(RegardError, match="mine exists and is not empty"):
        interchange.export(directory, tmp_path / "full" / "mine")
    assert (tmp_path / "full" / "mine").read_text() == "precious"
    (tmp_path / "empty").mkdir()
    interchange.export(directory, tmp_path / "empty")
    assert (tmp_path / "empty" / "model.bin").exists()


def test_a_full_disk_leaves_nothing_and_the_export_can_be_tried_again(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    directory = write_model(tmp_path / "model")
    with monkeypatch.context() as patched:
        patched.setattr(durable.os, "fsync", full)
        with pytest.raises(RegardError, match="the disk is full"):
            interchange.export(directory, tmp_path / "out")
    with monkeypatch.context() as patched:
        patched.setattr(interchange.tempfile, "TemporaryDirectory", full)
        with pytest.raises(RegardError, match="No space left on device; free some space there, or set TMPDIR"):
            interchange.export(directory, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    interchange.export(directory, tmp_path / "out")
    assert (tmp_path / "out" / "model.bin").exists()


def test_weights_that_do_not_fit_the_recipe_are_refused(tmp_path):
    directory = write_model(tmp_path)
    weights = safetensors.numpy.load_file(directory / "weights.safetensors")
    safetensors.numpy.save_file(
        {**weights, "decoder.extra.weight": weights["decoder.blocks.0.cross.key.bias"]},
        directory / "weights.safetensors",
    )
    with pytest.raises(RegardError, match=r"decoder\.extra\.weight has no place"):
        interchange.convert(directory)
    del weights["decoder.blocks.0.cross.key.bias"]
    safetensors.numpy.save_file(weights, directory / "weights.safetensors")
    with pytest.raises(RegardError, match=r"decoder\.blocks\.0\.cross\.key\.bias is missing"):
        interchange.convert(directory)
    (directory / "weights.safetensors").write_bytes(b"no weights")
    with pytest.raises(RegardError, match="is damaged"):
        interchange.convert(directory)


def test_a_model_that_cannot_be_exported_is_told_with_the_reason(tmp_path):
    directory = write_model(tmp_path / "model", kind="seq2seq", width=16)
    with pytest.raises(RegardError, match=r"cannot be exported: CTranslate2 cannot express model\.kind"):
        interchange.export(directory, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_converting_does_not_import_torch_though_it_is_there(tmp_path):
    write_model(tmp_path)
    code = (
        "import pathlib, sys; from regard.interchange.ctranslate2 import convert\n"
        f"files = convert(pathlib.Path({str(tmp_path)!r}))\n"
        "assert 'model.bin' in files\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_of_another_precision_are_read_as_torch_reads_them(tmp_path, dtype):
    directory, pairs = write_model(tmp_path), texts()
    weights = safetensors.torch.load_file(tmp_path / "weights.safetensors")
    safetensors.torch.save_file(
        {name: each.to(dtype) for name, each in weights.items()}, tmp_path / "weights.safetensors"
    )
    for ours, theirs in zip(
        by_torch(directory, pairs), by_ctranslate2(interchange.convert(directory), pairs), strict=True
    ):
        torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-4)
