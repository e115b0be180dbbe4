"""Directories with wrong values: each is refused with one RegardError, or is imported and can be used.

A row of the table is a directory, a name, and a change to it. Nothing may raise another exception, hang, or allocate
by a number that only a config states.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import tokenizers
import torch
import transformers
from tokenizers import models, processors

import tiny_bert
import tiny_gpt2
from regard.errors import RegardError
from regard.interchange.files import LONGEST
from regard.interchange.huggingface import import_directory
from regard.interchange.sentence_transformers import read_longest, read_pooling

Change = Callable[[Path], None]
HUGE, DEEP = 10**30, "[" * 100_000 + "]" * 100_000
NAN, INFINITY = float("nan"), float("inf")
LONG = "x" * 5000
MARIAN_VOCABULARY = {"</s>": 0, "<unk>": 1, "▁a": 2, "a": 3, "b": 4, "▁": 5, "<pad>": 6}


def make_bert(directory: Path) -> None:
    tiny_bert.save(directory, num_hidden_layers=1)


def make_classifier(directory: Path) -> None:
    tiny_bert.save(directory, "BertForSequenceClassification", num_hidden_layers=1, num_labels=3)


def make_json(directory: Path) -> None:
    make_bert(directory)
    (directory / "vocab.txt").unlink()
    tiny_bert.tokenizer().backend_tokenizer.save(str(directory / "tokenizer.json"))


def make_gpt2(directory: Path) -> None:
    tiny_gpt2.save(directory)


def make_roberta(directory: Path) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 17}
    config = transformers.RobertaConfig(**sizes, max_position_embeddings=19, type_vocab_size=1, vocab_size=9)
    transformers.RobertaForMaskedLM(config).save_pretrained(directory)
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b", "Ġ", "ab"]
    (directory / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    (directory / "merges.txt").write_text("#version: 0.2\na b\n")


def make_distilbert(directory: Path) -> None:
    torch.manual_seed(0)
    sizes = {"dim": 12, "n_layers": 1, "n_heads": 2, "hidden_dim": 17, "max_position_embeddings": 19}
    config = transformers.DistilBertConfig(**sizes, vocab_size=len(tiny_bert.VOCABULARY))
    transformers.DistilBertModel(config).save_pretrained(directory)
    (directory / "vocab.txt").write_text("\n".join(tiny_bert.VOCABULARY), encoding="utf-8")


def make_marian(directory: Path) -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 12, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 17, "decoder_ffn_dim": 17}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 19}
    ends = {"pad_token_id": 6, "eos_token_id": 0, "decoder_start_token_id": 6, "forced_eos_token_id": 0}
    config = transformers.MarianConfig(**sizes, **heads, **ends, vocab_size=len(MARIAN_VOCABULARY))
    transformers.MarianMTModel(config).save_pretrained(directory)
    (directory / "vocab.json").write_text(json.dumps(MARIAN_VOCABULARY))
    for side in ("source", "target"):
        (directory / f"{side}.spm").write_bytes(pieces({"▁a": -1.0, "a": -2.0, "b": -2.5, "▁": -3.0}))


MAKERS: dict[str, Change] = {
    "bert": make_bert,
    "classifier": make_classifier,
    "json": make_json,
    "gpt2": make_gpt2,
    "roberta": make_roberta,
    "distilbert": make_distilbert,
    "marian": make_marian,
}


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def pieces(scores: dict[str, float], rules: bytes = b"") -> bytes:
    """A SentencePiece model."""
    parts = [field(1, field(1, name.encode()) + b"\x15" + struct.pack("<f", score)) for name, score in scores.items()]
    return b"".join(parts) + (field(3, field(2, rules)) if rules else b"")


def settings(file: str = "config.json", **changes: Any) -> Change:
    """Change keys of a JSON file, which is made if it is not there; ... removes a key."""

    def change(directory: Path) -> None:
        path = directory / file
        path.parent.mkdir(exist_ok=True)
        found = {**(json.loads(path.read_bytes()) if path.exists() else {}), **changes}
        path.write_text(json.dumps({key: value for key, value in found.items() if value is not ...}))

    return change


def content(file: str, data: bytes | str) -> Change:
    def change(directory: Path) -> None:
        (directory / file).parent.mkdir(exist_ok=True)
        (directory / file).write_bytes(data if isinstance(data, bytes) else data.encode())

    return change


def special_file(file: str, what: str) -> Change:
    def change(directory: Path) -> None:
        (directory / file).unlink(missing_ok=True)
        if what == "fifo":
            os.mkfifo(directory / file)
        elif what == "directory":
            (directory / file).mkdir()
        else:
            (directory / file).symlink_to(what)

    return change


def tensors(edit: Callable[[dict[str, torch.Tensor]], Any]) -> Change:
    def change(directory: Path) -> None:
        path = directory / "model.safetensors"
        found = safetensors.torch.load_file(path)
        edit(found)
        safetensors.torch.save_file(found, path)

    return change


def each(edit: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return tensors(lambda found: found.update({name: edit(tensor).contiguous() for name, tensor in found.items()}))


def raw_tensors(header: object, data: bytes = b"") -> Change:
    coded = json.dumps(header).encode()
    return content("model.safetensors", struct.pack("<Q", len(coded)) + coded + data)


def truncated(directory: Path) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def tokenizer_part(**changes: Any) -> Change:
    return settings("tokenizer.json", **changes)


def large_ids(directory: Path) -> None:
    path = directory / "tokenizer.json"
    found = json.loads(path.read_bytes())
    found["model"]["vocab"]["far"] = 10**6
    path.write_text(json.dumps(found))


def model_part(**changes: Any) -> Change:
    def change(directory: Path) -> None:
        path = directory / "tokenizer.json"
        found = json.loads(path.read_bytes())
        found["model"] |= changes
        path.write_text(json.dumps(found))

    return change


def doubling(times: int, kind: str = "Replace") -> list[dict[str, Any]]:
    if kind == "Replace":
        return [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * times
    if kind == "Regex":
        return [{"type": "Replace", "pattern": {"Regex": "."}, "content": "aa"}] * times
    if kind == "Prepend":
        return [{"type": "Prepend", "prepend": "aa"}] * times
    return [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False}] * times


def added(**changes: Any) -> Change:
    usual = {"id": 5, "content": "the", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    token = {**usual, "special": True, **changes}
    return tokenizer_part(added_tokens=[{key: value for key, value in token.items() if value is not ...}])


def template(directory: Path) -> None:
    """A post-processor that asks for a token that it does not define."""
    made = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    made.post_processor = processors.TemplateProcessing("[CLS] $A", "[CLS] $A $B", [("[CLS]", 2)])
    found = json.loads(made.to_str())
    found["post_processor"]["special_tokens"] = {}
    (directory / "tokenizer.json").write_text(json.dumps(found))


ODD = [HUGE, -1, 0, 10**12, True, [], "12", 1.5, {}, 2**31 - 1, INFINITY, -HUGE, NAN, None, ...]
ODD_TOKENS = [-5, "x", [], {}, [[1]], ["x"], 10**6, HUGE, True, 1.0]
ODD_NAMES = [5, 1.5, True, [], ["[CLS]"], {}, {"content": 5}, {"content": None}, "no such token", LONG, "\ud800"]


def table() -> Iterator[tuple[str, str, Change]]:
    """Every mutation: which directory, what is changed, and how."""
    sizes = {
        "gpt2": ["n_layer", "n_embd", "n_head", "n_positions", "vocab_size"],
        "bert": ["num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "type_vocab_size"],
        "distilbert": ["n_layers", "dim", "n_heads"],
        "roberta": ["max_position_embeddings", "vocab_size"],
        "marian": ["encoder_layers", "decoder_layers", "d_model", "decoder_attention_heads", "max_position_embeddings"],
    }
    for directory, keys in sizes.items():
        for key in keys:
            for value in ODD if directory == "gpt2" else ODD[::3]:
                yield directory, f"{key}={value}", settings(**{key: value})
    yield "gpt2", "n_inner", settings(n_inner=HUGE)
    yield "gpt2", "n_inner text", settings(n_inner="wide")
    yield "gpt2", "n_head does not divide", settings(n_head=5)
    yield "bert", "heads do not divide", settings(num_attention_heads=7)
    yield "marian", "heads do not divide", settings(decoder_attention_heads=5)
    for value in [[], {}, 5, True, None, ..., "llama", LONG, ["gpt2"]]:
        yield "gpt2", f"model_type={str(value)[:20]}", settings(model_type=value)
    for value in [5, "GPT2LMHeadModel", {}, [5], [["GPT2LMHeadModel"]], [None], [LONG], None, ..., [], True]:
        yield "gpt2", f"architectures={str(value)[:20]}", settings(architectures=value)
    keys = [("gpt2", "pad"), ("gpt2", "bos"), ("gpt2", "eos"), ("bert", "pad"), ("roberta", "pad"), ("marian", "eos")]
    for directory, role in keys:
        for value in ODD_TOKENS:
            yield directory, f"{role}_token_id={value}", settings(**{f"{role}_token_id": value})
    yield "marian", "start", settings(decoder_start_token_id="x")
    yield "roberta", "padding at the last position", settings(pad_token_id=8, max_position_embeddings=19)
    for value in [[], {}, 5, None, "quick_gelu", LONG, True]:
        yield "bert", f"hidden_act={str(value)[:20]}", settings(hidden_act=value)
    for value in [0, -1, NAN, INFINITY, "x", [], True, HUGE]:
        yield "bert", f"layer_norm_eps={value}", settings(layer_norm_eps=value)
        yield "gpt2", f"layer_norm_epsilon={value}", settings(layer_norm_epsilon=value)
    for value in [-0.1, 1, 1.5, NAN, INFINITY, "x", [], True]:
        yield "bert", f"hidden_dropout_prob={value}", settings(hidden_dropout_prob=value)
        yield "marian", f"dropout={value}", settings(dropout=value)
    for value in [3, "yes", [], {}]:
        yield "gpt2", f"tie_word_embeddings={value}", settings(tie_word_embeddings=value)
        yield "marian", f"tie_word_embeddings={value}", settings(tie_word_embeddings=value)
        yield "marian", f"scale_embedding={value}", settings(scale_embedding=value)
        yield "marian", f"share={value}", settings(share_encoder_decoder_embeddings=value)
    for value in [5, [], "x", {"0": None, "1": "b", "2": "c"}, {"0": {}, "1": [], "2": "c"}, {"x": "a", "y": "b"}]:
        yield "classifier", f"id2label={value}", settings(id2label=value)
    yield "classifier", "many labels", settings(id2label={str(number): f"l{number}" for number in range(5000)})
    yield "classifier", "problem_type", settings(problem_type=[LONG])

    for file in ["config.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "model.safetensors"]:
        for what in ["fifo", "directory", "/dev/zero", "nowhere"]:
            yield "bert", f"{file} is {what}", special_file(file, what)
    for file in ["vocab.json", "merges.txt", "tokenizer.json", "model.safetensors.index.json"]:
        for what in ["fifo", "directory", "/dev/zero"]:
            yield "gpt2", f"{file} is {what}", special_file(file, what)
    for file in ["config.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"]:
        for name, data in [("deep", DEEP), ("deep in a key", f'{{"a": {DEEP}}}'), ("empty", ""), ("list", "[1, 2]")]:
            yield "bert", f"{file}: {name}", content(file, data)
        for name, data in [("binary", bytes(range(256))), ("number", b"5"), ("digits", b'{"a": ' + b"1" * 5000 + b"}")]:
            yield "bert", f"{file}: {name}", content(file, data)
    for depth in (100, 400, 700, 800, 850, 900, 930, 960, 980):  # near where one function gives up and another not yet
        nested_text = "[" * depth + '"\\u0041"' + "]" * depth
        yield "bert", f"depth {depth}", content("config.json", f'{{"model_type": {nested_text}}}')
        yield "json", f"depth {depth}", content("tokenizer.json", f'{{"normalizer": {nested_text}}}')
    for file in ["vocab.json", "merges.txt"]:
        yield "gpt2", f"{file} is not UTF-8", content(file, b"\xff\xfe\x00a")
        yield "gpt2", f"{file} is empty", content(file, b"")
    yield "gpt2", "merges: three pieces", content("merges.txt", "a b c\n")
    yield "gpt2", "merges: one piece", content("merges.txt", "ab\n")
    yield "gpt2", "merges: unknown piece", content("merges.txt", "y z\n")
    yield "bert", "vocab.txt is not UTF-8", content("vocab.txt", b"[UNK]\n\xff\n")
    yield "bert", "vocab.txt is empty", content("vocab.txt", b"")
    yield "bert", "vocab.txt has no [CLS]", content("vocab.txt", "[PAD]\n[UNK]\nthe\n")
    yield (
        "bert",
        "vocab.txt is longer than the embedding",
        content("vocab.txt", "\n".join([*tiny_bert.VOCABULARY, "z"])),
    )
    for directory in ["gpt2", "marian"]:
        for value in ["1", None, -1, 1.5, HUGE, [], {}, True, 10**6, 2**32]:
            yield directory, f"vocab.json: id {value}", settings("vocab.json", b=value)
    yield "marian", "vocab.json is deep", content("vocab.json", DEEP)
    yield "marian", "vocab.json is a list", content("vocab.json", "[]")
    yield "marian", "no vocab.json", lambda directory: (directory / "vocab.json").unlink()
    yield "marian", "no target.spm", lambda directory: (directory / "target.spm").unlink()
    yield "marian", "source.spm is a pipe", special_file("source.spm", "fifo")
    yield "marian", "source.spm is empty", content("source.spm", b"")
    yield "marian", "source.spm is text", content("source.spm", "no pieces")
    yield "marian", "source.spm: endless number", content("source.spm", b"\x08" + b"\xff" * 3_000_000)
    yield "marian", "source.spm: not finite", content("source.spm", pieces({"▁a": NAN, "a": INFINITY}))
    yield "marian", "source.spm: bad rules", content("source.spm", pieces({"a": -1.0}, rules=b"abc"))
    rules = struct.pack("<I", 4) + b"abcdxx"
    yield "marian", "source.spm: rules that panic", content("source.spm", pieces({"a": -1.0}, rules=rules))

    for file in ["tokenizer_config.json", "special_tokens_map.json"]:
        for value in ODD_NAMES:
            yield "bert", f"{file}: cls_token={str(value)[:20]!a}", settings(file, cls_token=value)
    for value in ODD_NAMES:
        yield "bert", f"unk_token={str(value)[:20]!a}", settings("tokenizer_config.json", unk_token=value)
    for value in [3, "yes", [], None]:
        yield "bert", f"do_lower_case={value}", settings("tokenizer_config.json", do_lower_case=value)
        yield "bert", f"strip_accents={value}", settings("tokenizer_config.json", strip_accents=value)

    yield "json", "ids beyond the embedding", large_ids
    cutting = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 5}
    yield "json", "stride", tokenizer_part(truncation=cutting)
    yield "json", "truncation is text", tokenizer_part(truncation="yes")
    filling = {"strategy": {"Fixed": 10**8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0}
    yield "json", "padding", tokenizer_part(padding={**filling, "pad_type_id": 0, "pad_token": "[PAD]"})
    yield "json", "padding is text", tokenizer_part(padding="yes")
    for kind in ["Replace", "Regex", "Prepend"]:
        steps = {"type": "Sequence", "normalizers": doubling(50, kind)}
        yield "json", f"doubling: {kind}", tokenizer_part(normalizer=steps)
    yield (
        "json",
        "doubling: bytes",
        tokenizer_part(pre_tokenizer={"type": "Sequence", "pretokenizers": doubling(40, "ByteLevel")}),
    )
    yield "json", "doubling: decoder", tokenizer_part(decoder={"type": "Sequence", "decoders": doubling(50)})
    nested: dict[str, Any] = {"type": "Strip", "strip_left": True, "strip_right": True}
    for _ in range(30):
        nested = {"type": "Sequence", "normalizers": [nested, *doubling(1)]}
    yield "json", "doubling: nested", tokenizer_part(normalizer=nested)
    yield (
        "json",
        "long replacement",
        tokenizer_part(normalizer={"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10**6}),
    )
    for part in ["normalizer", "pre_tokenizer", "decoder", "post_processor", "model", "added_tokens"]:
        for value in [5, "x", [5], {"type": "No"}, {}]:
            yield "json", f"{part}={value}", tokenizer_part(**{part: value})
    pattern = {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False}
    yield "json", "bad regex", tokenizer_part(pre_tokenizer=pattern)
    yield "json", "template", template
    for name, changes in {
        "number": {"content": 5},
        "no content": {"content": ...},
        "far": {"content": "far", "id": 10**9},
        "negative": {"id": -1},
        "empty": {"content": ""},
        "new": {"content": "far", "id": len(tiny_bert.VOCABULARY)},
    }.items():
        yield "json", f"added token: {name}", added(**changes)
    yield "json", "no unknown", model_part(unk_token="nowhere")
    yield "json", "unknown is a number", model_part(unk_token=5)
    yield "json", "vocabulary is a list", model_part(vocab=[])
    yield "json", "vocabulary is empty", model_part(vocab={})
    yield "json", "negative id", model_part(vocab={"[UNK]": -1})
    yield "json", "longest word", model_part(max_input_chars_per_word=HUGE)
    unigram = {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": None}
    yield "json", "unigram without unknown", tokenizer_part(model=unigram)
    yield "json", "unigram with unknown elsewhere", tokenizer_part(model={**unigram, "unk_id": 7})

    yield "gpt2", "weights cut off", truncated
    yield "gpt2", "weights empty", content("model.safetensors", b"")
    yield "gpt2", "weights text", content("model.safetensors", "nothing")
    yield "gpt2", "weights: long header", content("model.safetensors", struct.pack("<Q", 2**62) + b"{}")
    yield "gpt2", "weights: no tensors", raw_tensors({})
    for name, dtype, width in [("F4", "F4", 1), ("F8", "F8_E4M3", 2), ("C64", "C64", 16), ("none", "X", 2)]:
        entry = {"dtype": dtype, "shape": [2], "data_offsets": [0, width]}
        yield "gpt2", f"weights: {name}", raw_tensors({"wte.weight": entry, "lm_head.weight": entry}, bytes(width))
    for shape in ([0, 2**62], [0, 2**63], [2**62, 2**62], [-1]):
        entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
        yield "gpt2", f"weights: {shape}", raw_tensors({"wte.weight": entry})
        yield (
            "gpt2",
            f"weights and sizes: {shape}",
            lambda directory, entry=entry: (
                raw_tensors({"wte.weight": entry})(directory),
                settings(n_embd=2**31 - 1, vocab_size=2**31 - 1)(directory),
            ),
        )
    yield "gpt2", "weights are NaN", each(lambda tensor: torch.full_like(tensor, NAN))
    yield "gpt2", "weights are infinite", each(lambda tensor: torch.full_like(tensor, INFINITY))
    yield "gpt2", "weights overflow", each(lambda tensor: torch.full_like(tensor, 1e300, dtype=torch.float64))
    yield "gpt2", "weights have an axis more", each(lambda tensor: tensor.unsqueeze(0))
    yield "gpt2", "weights are vectors", each(lambda tensor: tensor.flatten())
    yield "gpt2", "weights are scalars", each(lambda tensor: tensor.flatten()[0])
    for dtype in (torch.int64, torch.bool, torch.complex64, torch.uint8, torch.float8_e4m3fn, torch.float16):
        yield "gpt2", f"weights: {dtype}", each(lambda tensor, dtype=dtype: tensor.to(dtype))
    yield "gpt2", "a tensor twice", tensors(lambda found: found.update({"wte.weight": torch.zeros(6, 24)}))
    yield "gpt2", "long name", tensors(lambda found: found.update({LONG: torch.zeros(1)}))
    yield (
        "gpt2",
        "copy of another type",
        tensors(lambda found: found.update({"lm_head.weight": torch.zeros(6, 24).int()})),
    )
    for value in [5, [], {}, {"a": 5}, {"a": "../b"}, {"a": ".."}, {"a": ""}, {"a": "\0"}, {"a": "nowhere"}]:
        yield (
            "gpt2",
            f"index={value}",
            lambda directory, value=value: (
                (directory / "model.safetensors").unlink(),
                settings("model.safetensors.index.json", weight_map=value)(directory),
            ),
        )


ROWS = list(table())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("made")
    for name, make in MAKERS.items():
        (folder / name).mkdir()
        make(folder / name)
    return {name: folder / name for name in MAKERS}


@pytest.mark.parametrize("directory", MAKERS)
def test_the_directories_are_imported_as_they_are(made: dict[str, Path], directory: str):
    came = import_directory(made[directory])
    came.module()
    assert came.tokenizers is not None


def test_the_table_is_long():
    assert len(ROWS) > 500
    assert {directory for directory, _, _ in ROWS} == MAKERS.keys()


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("directory", "change"), [(row[0], row[2]) for row in ROWS], ids=[f"{a}: {b}" for a, b, _ in ROWS]
)
def test_a_mutation_is_refused_in_one_sentence_or_imported(
    made: dict[str, Path], tmp_path: Path, directory: str, change: Change
):
    for path in made[directory].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    change(tmp_path)
    try:
        came = import_directory(tmp_path)
        came.module()
        if came.tokenizers is not None:
            came.tokenizers.source.decode(came.tokenizers.source.encode(["the cat sat, naïve ab!"]))
    except RegardError as error:
        said = str(error)
    else:
        return
    assert str(tmp_path) in said
    assert "\n" not in said
    assert len(said.replace(str(tmp_path), "")) < 3 * LONGEST + 600


@pytest.mark.parametrize("value", [True, 0, -1, 1.5, "x", [], {}])
def test_how_many_tokens_an_encoder_reads_must_be_a_number(tmp_path: Path, value: Any):
    settings("sentence_bert_config.json", max_seq_length=value)(tmp_path)
    with pytest.raises(RegardError, match="max_seq_length"):
        read_longest(tmp_path)


@pytest.mark.parametrize("data", [DEEP, "[]", "5", "{", "\udcff"], ids=["deep", "list", "number", "open", "bytes"])
def test_damaged_settings_of_sentence_encoders_are_refused(tmp_path: Path, data: str):
    content("1_Pooling/config.json", data.encode(errors="surrogateescape"))(tmp_path)
    with pytest.raises(RegardError, match="1_Pooling"):
        read_pooling(tmp_path)


def test_what_a_config_says_of_the_wrong_value_names_file_and_key(made: dict[str, Path], tmp_path: Path):
    for path in made["gpt2"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for key, value, match in [
        ("n_layer", 10**9, r"config\.json: n_layer is 1000000000, and the weights have tensors of 3 layers only"),
        ("n_embd", 10**9, r"config\.json: n_embd is 1000000000, and the longest axis"),
        ("n_head", 5, r"config\.json: n_head is 5, and must divide n_embd = 24"),
        ("resid_pdrop", 2, r"config\.json: resid_pdrop is 2, and must be a number from 0 to below 1"),
        ("bos_token_id", 6, r"config\.json: bos_token_id is 6, and must be a token from 0 to 5"),
        ("model_type", [LONG], r"config\.json: model_type is \['x+"),
    ]:
        saved = (tmp_path / "config.json").read_bytes()
        settings(**{key: value})(tmp_path)
        with pytest.raises(RegardError, match=match):
            import_directory(tmp_path)
        (tmp_path / "config.json").write_bytes(saved)


def test_a_tokenizer_that_is_imported_neither_pads_nor_cuts(made: dict[str, Path], tmp_path: Path):
    for path in made["json"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    made_here = tokenizers.Tokenizer(
        models.WordLevel({"[UNK]": 0, "the": 1, "[CLS]": 2, "[SEP]": 3}, unk_token="[UNK]")
    )
    made_here.enable_truncation(1)
    made_here.enable_padding(length=50)
    made_here.save(str(tmp_path / "tokenizer.json"))
    came = import_directory(tmp_path)
    assert came.tokenizers is not None
    assert came.tokenizers.source.inner.truncation is None
    assert came.tokenizers.source.inner.padding is None
