"""What can be wrong with a directory, and what is read of its tokenizer. That answers are right, conformance says."""

from __future__ import annotations

import errno
import json
import os
import shlex
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import tokenizers
import torch
from torch import Tensor

import tiny_bert
from made_models import write_model
from regard import durable
from regard.data.tokenizers import Tokenizer
from regard.errors import RegardError
from regard.interchange import ctranslate2
from regard.interchange.huggingface import export_directory, import_directory
from regard.interchange.huggingface.sentencepiece import read_model, tokenizer
from regard.models import build, config_class
from regard.models.gpt import GPTConfig
from regard.special import Special
from regard.training.weights import weights_of

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "sat", "."]


@pytest.fixture
def gpt(tmp_path: Path) -> Path:
    """A small GPT-2 directory."""
    return written(tmp_path / "gpt", "gpt", vocabulary=13)


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """A small BERT directory with vocab.txt."""
    directory = written(tmp_path / "bert", "bert", vocabulary=len(WORDS))
    (directory / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return directory


def written(directory: Path, kind: str, *, vocabulary: int) -> Path:
    torch.manual_seed(0)
    config: Any = config_class(kind)(layers=2, width=6, heads=2, hidden=5, maximum=11)
    module = build(kind, vocabulary=vocabulary, layers=2, width=6, heads=2, hidden=5, maximum=11)
    export_directory(directory, config=config, weights=weights_of(module))
    return directory


def change_weights(directory: Path, change: Callable[[dict[str, Tensor]], None]) -> None:
    path = directory / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    change(tensors)
    safetensors.torch.save_file(tensors, path)


def change_config(directory: Path, **changes: Any) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_everything_wrong_with_the_weights_is_said_at_once(gpt: Path):
    def spoil(tensors: dict[str, Tensor]) -> None:
        del tensors["transformer.h.1.ln_1.weight"]
        tensors["transformer.h.7.ln_1.weight"] = torch.zeros(6)
        tensors["transformer.wpe.weight"] = torch.zeros(6, 11)

    change_weights(gpt, spoil)
    with pytest.raises(RegardError) as error:
        import_directory(gpt)
    assert "missing: h.1.ln_1.weight" in str(error.value)
    assert "not known here: h.7.ln_1.weight" in str(error.value)
    assert "wpe.weight is (6, 11) and must be (11, 6)" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "marian"])
def test_of_every_architecture_it_is_said_what_is_missing_left_over_and_misshapen(tmp_path: Path, kind: str):
    directory = tmp_path / kind
    if kind == "marian":
        marian(directory, {"</s>": 0, "<unk>": 1, "b": 2, "▁a": 3, "ab": 4, "a": 5, "▁": 6, ">>fr<<": 7, "<pad>": 8})
    else:
        like = {"bert": {}, "roberta": {"offset": 1}, "distilbert": {"segments": 0, "pooler": False}}[kind]
        settings: dict[str, Any] = {"layers": 2, "width": 6, "heads": 2, "maximum": 11, "next_sentence": False, **like}
        weights = weights_of(build("bert", vocabulary=13, **settings))
        export_directory(directory, config=config_class("bert")(**settings), weights=weights)
    tensors = safetensors.torch.load_file(directory / "model.safetensors")
    missing, misshapen = [name for name in tensors if "layer" in name and name.endswith("bias")][:2]
    shape = tuple(tensors[misshapen].shape)
    del tensors[missing]
    tensors[misshapen] = torch.zeros(5, 7)
    tensors["surplus.weight"] = torch.zeros(3)
    safetensors.torch.save_file(tensors, directory / "model.safetensors")
    with pytest.raises(RegardError) as error:
        import_directory(directory)
    said = str(error.value)
    prefix = {"marian": "model."}.get(kind, f"{kind}.")
    assert f"as a {kind}: missing: {missing.removeprefix(prefix)};" in said
    assert "not known here: surplus.weight;" in said
    assert f"{misshapen.removeprefix(prefix)} is (5, 7) and must be {shape}" in said


def test_a_long_list_is_cut(gpt: Path):
    change_weights(
        gpt, lambda tensors: [tensors.pop(name) for name in list(tensors) if name.startswith("transformer.h.1.")]
    )
    change_weights(gpt, lambda tensors: tensors.update({"transformer.h.1.surplus": torch.zeros(1)}))
    with pytest.raises(RegardError, match=r"h\.1\.attn.* and 4 more"):
        import_directory(gpt)


def test_a_layer_without_tensors_is_named_by_its_setting(gpt: Path):
    change_config(gpt, n_layer=3)
    with pytest.raises(RegardError, match=r"config\.json: n_layer is 3, and the weights have tensors of 2 layers only"):
        import_directory(gpt)


def test_copies_must_be_copies(gpt: Path):
    def repeat(tensors: dict[str, Tensor]) -> None:
        tensors["lm_head.weight"] = tensors["transformer.wte.weight"].clone()

    plain = import_directory(gpt)
    change_weights(gpt, repeat)
    again = import_directory(gpt)
    assert all(torch.equal(plain.weights[name], again.weights[name]) for name in plain.weights)
    change_weights(gpt, lambda tensors: tensors["lm_head.weight"].add_(1))
    with pytest.raises(RegardError, match=r"lm_head\.weight differs from wte\.weight"):
        import_directory(gpt)


def test_names_out_of_use_and_tensors_that_say_nothing_are_read(gpt: Path, bert: Path):
    def old_gpt(tensors: dict[str, Tensor]) -> None:
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        tensors["h.0.attn.bias"] = torch.ones(1, 1, 11, 11).tril()

    def old_bert(tensors: dict[str, Tensor]) -> None:
        for name in list(tensors):
            new = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            tensors[new] = tensors.pop(name)
        tensors["bert.embeddings.position_ids"] = torch.arange(11).unsqueeze(0)

    for directory, change in ((gpt, old_gpt), (bert, old_bert)):
        plain = import_directory(directory).weights
        change_weights(directory, change)
        again = import_directory(directory).weights
        assert all(torch.equal(plain[name], again[name]) for name in plain)


@pytest.mark.parametrize("changes", [{"architectures": ["LlamaForCausalLM"]}, {"model_type": "llama"}], ids=str)
def test_an_unknown_architecture_is_named(gpt: Path, changes: dict[str, Any]):
    change_config(gpt, **changes)
    with pytest.raises(RegardError, match=r"does not know: .*it knows GPT2LMHeadModel"):
        import_directory(gpt)


def test_settings_that_regard_does_not_compute_are_named(gpt: Path, bert: Path):
    change_config(gpt, scale_attn_by_inverse_layer_idx=True)
    with pytest.raises(RegardError, match="scale_attn_by_inverse_layer_idx = True"):
        import_directory(gpt)
    change_config(bert, hidden_act="quick_gelu")
    with pytest.raises(RegardError, match="hidden_act is 'quick_gelu'"):
        import_directory(bert)
    change_config(bert, hidden_act="gelu", hidden_size="wide")
    with pytest.raises(RegardError, match="hidden_size is 'wide'"):
        import_directory(bert)


def test_a_pickle_is_refused_with_the_command_that_converts_it(tmp_path: Path):
    directory = tmp_path / 'it\'s a "model" $HOME'
    model = tiny_bert.save(directory, "BertForMaskedLM")
    (directory / "model.safetensors").unlink()
    torch.save(model.state_dict(), directory / "pytorch_model.bin")
    with pytest.raises(RegardError, match=r"pytorch_model\.bin, which can run code .* never reads such files") as error:
        import_directory(directory)
    command = str(error.value).partition("convert it once with: ")[2].partition(" and then import ")[0]
    assert command.startswith("python -c ")
    assert "BertForMaskedLM" in command
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    words = [sys.executable, *shlex.split(command)[1:]]
    subprocess.run(words, check=True, capture_output=True, env=environment)
    came = import_directory(f"{directory}-safetensors")
    assert came.tokenizers is not None
    assert torch.equal(came.weights["embedding.table.weight"], model.bert.embeddings.word_embeddings.weight.detach())
    given = tiny_bert.tokenizer()("the cats sat.", add_special_tokens=False)["input_ids"]
    assert came.tokenizers.source.encode(["the cats sat."]) == [given]


@pytest.mark.parametrize(
    ("files", "match"),
    [
        (["config.json", "model.bin", "shared_vocabulary.json"], r"a model for CTranslate2 \(model\.bin\)"),
        (["config.json", "model.bin", "source_vocabulary.txt"], "a model for CTranslate2"),
        (["config.json", "model.onnx"], r"a model for ONNX \(model\.onnx\)"),
        (["config.json", "onnx/model.onnx"], r"a model for ONNX \(onnx/model\.onnx\)"),
        (["model-q4.gguf"], "a model for GGUF"),
        (["config.json", "tf_model.h5"], "a model for TensorFlow"),
        (["recipe.toml", "weights.safetensors"], "is a model directory of regard"),
    ],
    ids=str,
)
def test_directories_of_other_libraries_are_named_for_what_they_are(tmp_path: Path, files: list[str], match: str):
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("{}")
    with pytest.raises(RegardError, match=match):
        import_directory(tmp_path)


def test_a_directory_that_ctranslate2_wrote_is_named(tmp_path: Path):
    ctranslate2.export(write_model(tmp_path / "ours"), tmp_path / "out")
    with pytest.raises(RegardError, match="a model for CTranslate2"):
        import_directory(tmp_path / "out")


def test_the_model_type_alone_names_a_body(gpt: Path, bert: Path):
    for directory in (gpt, bert):
        plain = import_directory(directory)
        change_config(directory, architectures=None)
        again = import_directory(directory)
        assert again.config == plain.config
        assert all(torch.equal(again.weights[name], plain.weights[name]) for name in plain.weights)


def test_a_body_without_a_head_has_nothing_to_tie(gpt: Path):
    change_config(gpt, architectures=["GPT2Model"], tie_word_embeddings=False)
    came = import_directory(gpt)
    assert came.config == import_directory(gpt).config
    assert came.config.tied  # type: ignore[attr-defined]
    change_config(gpt, architectures=["GPT2LMHeadModel"])
    with pytest.raises(RegardError, match=r"missing: lm_head\.weight"):
        import_directory(gpt)


def test_an_export_that_fails_leaves_nothing_and_succeeds_when_it_is_tried_again(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    came = import_directory(bert)

    def export() -> None:
        export_directory(
            tmp_path / "out",
            config=came.config,
            weights=came.weights,
            tokenizers=came.tokenizers,
            more={"inside/more.json": b"{}"},
        )

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = sorted(tmp_path.iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(durable.os, "fsync", full)
        with pytest.raises(RegardError, match="the disk is full"):
            export()
    assert sorted(tmp_path.iterdir()) == before
    export()
    names = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    written = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert names == {*written, "inside/more.json"}
    with pytest.raises(RegardError, match="exists and is not empty"):
        export()


def test_an_export_into_the_directory_one_is_in(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    came = import_directory(bert)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    export_directory(".", config=came.config, weights=came.weights)
    assert (tmp_path / "here" / "config.json").exists()


def test_what_is_not_there_or_damaged_is_named(gpt: Path, tmp_path: Path):
    with pytest.raises(RegardError, match=r"has no config\.json"):
        import_directory(tmp_path)
    (gpt / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(RegardError, match="is damaged"):
        import_directory(gpt)
    (gpt / "model.safetensors").unlink()
    with pytest.raises(RegardError, match=r"has no model\.safetensors"):
        import_directory(gpt)
    (gpt / "config.json").write_text("{")
    with pytest.raises(RegardError, match="is damaged"):
        import_directory(gpt)


def test_weights_in_parts_are_put_together(gpt: Path):
    whole = import_directory(gpt).weights
    tensors = safetensors.torch.load_file(gpt / "model.safetensors")
    (gpt / "model.safetensors").unlink()
    parts = {name: f"part-{number % 2}.safetensors" for number, name in enumerate(tensors)}
    for part in set(parts.values()):
        safetensors.torch.save_file({name: tensors[name] for name in parts if parts[name] == part}, gpt / part)
    (gpt / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    again = import_directory(gpt).weights
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    (gpt / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../elsewhere.safetensors"}}))
    with pytest.raises(RegardError, match="which files beside it"):
        import_directory(gpt)


def test_half_precision_is_read_exactly(gpt: Path):
    whole = import_directory(gpt).weights
    change_weights(gpt, lambda tensors: tensors.update({name: each.bfloat16() for name, each in tensors.items()}))
    half = import_directory(gpt).weights
    assert all(torch.equal(half[name], whole[name].bfloat16().float()) for name in whole)


def test_what_gpt2_cannot_express_is_named(tmp_path: Path):
    config = GPTConfig(layers=1, width=8, heads=4, position="rotary", norm="rms")
    with pytest.raises(RegardError, match=r"as GPT-2, which has no position = 'rotary'.*norm = 'rms'"):
        export_directory(tmp_path, config=config, weights={})
    with pytest.raises(RegardError, match="key_value_heads = 2"):
        export_directory(tmp_path, config=GPTConfig(layers=1, width=8, heads=4, key_value_heads=2), weights={})
    with pytest.raises(RegardError, match="'seq2seq' has no counterpart"):
        export_directory(tmp_path, config=config_class("seq2seq")(), weights={})


def test_the_tokenizer_of_bert_is_made_from_its_vocabulary(bert: Path):
    came = import_directory(bert)
    assert came.tokenizers is not None
    assert came.tokenizers.source.encode(["The cats sat. dog"]) == [[5, 6, 7, 8, 9, 1]]
    assert came.tokenizers.source.decode([[2, 5, 6, 7, 3]]) == ["the cats"]
    assert dict(came.tokenizers.special) == {"pad": 0, "unk": 1, "bos": 2, "eos": 3, "mask": 4}


def test_the_tokenizer_of_gpt2_is_made_from_vocabulary_and_merges(gpt: Path):
    letters = {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 4, "<|endoftext|>": 5}
    (gpt / "vocab.json").write_text(json.dumps(letters))
    (gpt / "merges.txt").write_text("#version: 0.2\na b\nĠ ab\n")
    change_config(gpt, bos_token_id=5, eos_token_id=5, pad_token_id=None)
    came = import_directory(gpt)
    assert came.tokenizers is not None
    side = came.tokenizers.source
    assert side.encode(["ab ab b"]) == [[3, 4, 2, 1]]
    assert side.decode([[3, 4, 5]]) == ["ab ab"]
    assert side.pieces([3, 4, 5]) == ["ab", "▁ab", "<|endoftext|>"]
    assert (side.special.bos, side.special.eos, side.special.pad, side.special.unk) == (5, 5, None, None)


def test_limits_that_a_tokenizer_file_states_do_not_cut_texts(bert: Path):
    made = tokenizers.BertWordPieceTokenizer({word: number for number, word in enumerate(WORDS)})
    made.enable_truncation(3)
    made.enable_padding(length=7)
    made.save(str(bert / "tokenizer.json"))
    came = import_directory(bert)
    assert came.tokenizers is not None
    assert came.tokenizers.source.encode(["the cat sat the cat sat"]) == [[5, 6, 8, 5, 6, 8]]


def test_a_tokenizer_goes_out_and_comes_back(bert: Path, tmp_path: Path):
    came = import_directory(bert)
    export_directory(tmp_path / "again", config=came.config, weights=came.weights, tokenizers=came.tokenizers)
    again = import_directory(tmp_path / "again")
    assert again.config == came.config
    assert again.tokenizers is not None
    assert came.tokenizers is not None
    assert again.tokenizers.source.vocabulary == came.tokenizers.source.vocabulary


def field(number: int, value: bytes | int | float) -> bytes:
    """One field of a protocol buffer, short ones only."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    return bytes([number << 3 | 2, len(value)]) + value


def sentencepiece_file(path: Path, pieces: dict[str, tuple[float, int]], *, kind: int = 1) -> Path:
    parts = (field(1, field(1, name.encode()) + field(2, score) + field(3, of)) for name, (score, of) in pieces.items())
    path.write_bytes(b"".join(parts) + field(2, field(3, kind)) + field(3, field(4, 1)))
    return path


PIECES = {"<unk>": (0.0, 2), "</s>": (0.0, 3), "▁a": (-1.0, 1), "▁": (-3.0, 1), "a": (-3.5, 1), "b": (-2.0, 1)}


def test_a_unigram_model_cuts_text_into_its_most_probable_pieces(tmp_path: Path):
    model = read_model(sentencepiece_file(tmp_path / "source.spm", PIECES))
    assert model.scores == pytest.approx({"▁a": -1.0, "▁": -3.0, "a": -3.5, "b": -2.0})
    vocabulary = {"</s>": 0, "<unk>": 1, "b": 2, "▁a": 3, "ab": 4, "a": 5, "▁": 6, "<pad>": 7}
    made = Tokenizer(tokenizer(model, vocabulary, where=tmp_path), special=Special(pad=7, unk=1, bos=7, eos=0))
    assert made.inner.encode("ab  ba b").ids == [3, 2, 6, 2, 5, 6, 2]
    assert made.inner.encode("abc").ids == [3, 2, 1]
    assert made.decode([[3, 2, 6, 2]]) == ["ab b"]


def test_tokenizers_of_marian_go_out_and_come_back(tmp_path: Path):
    vocabulary = {"</s>": 0, "<unk>": 1, "b": 2, "▁a": 3, "ab": 4, "a": 5, "▁": 6, ">>fr<<": 7, "<pad>": 8}
    directory = marian(tmp_path / "marian", vocabulary)
    came = import_directory(directory)
    assert came.tokenizers is not None
    assert dict(came.tokenizers.special) == {"pad": 8, "unk": 1, "bos": 8, "eos": 0, "mask": None}
    assert came.tokenizers.source.encode(["ab  ba", ">>fr<< ab"]) == [[3, 2, 6, 2, 5], [7, 3, 2]]
    assert came.tokenizers.target.encode(["ab  ba"]) == [[6, 4, 6, 2, 5]]
    export_directory(tmp_path / "again", config=came.config, weights=came.weights, tokenizers=came.tokenizers)
    assert json.loads((tmp_path / "again" / "vocab.json").read_text(encoding="utf-8")) == vocabulary
    again = import_directory(tmp_path / "again")
    assert again.config == came.config
    assert again.tokenizers is not None
    assert json.loads(again.tokenizers.source.json) == json.loads(came.tokenizers.source.json)
    assert json.loads(again.tokenizers.target.json) == json.loads(came.tokenizers.target.json)


def marian(directory: Path, vocabulary: dict[str, int]) -> Path:
    settings: dict[str, Any] = {"layers": 1, "width": 6, "heads": 2, "hidden": 5, "position": "sinusoidal_halves"}
    settings["special"] = Special(pad=8, unk=1, bos=8, eos=0)
    module = build("transformer", vocabulary=len(vocabulary), **settings)
    export_directory(directory, config=config_class("transformer")(**settings), weights=weights_of(module))
    sentencepiece_file(directory / "source.spm", PIECES)
    sentencepiece_file(directory / "target.spm", {**PIECES, "▁": (-1.0, 1), "ab": (-0.5, 1)})
    (directory / "vocab.json").write_text(json.dumps(vocabulary))
    return directory


def test_other_sentencepiece_models_are_refused(tmp_path: Path):
    with pytest.raises(RegardError, match=r"kind 2; regard reads unigram"):
        read_model(sentencepiece_file(tmp_path / "source.spm", PIECES, kind=2))
    (tmp_path / "broken.spm").write_bytes(b"\x0a\x7fabc")
    with pytest.raises(RegardError, match="is not a SentencePiece model"):
        read_model(tmp_path / "broken.spm")
