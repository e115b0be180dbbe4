"""Their tokenizer files → tokenizers of ours, and which ids are special; and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from regard.data.tokenizer_file import explaining, read_file, require_usable
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.errors import RegardError
from regard.interchange.files import VOCABULARY, optional_json, read_text, shown
from regard.interchange.huggingface.architecture import Settings
from regard.interchange.huggingface.sentencepiece import model_bytes, model_of, read_model, require_ids, tokenizer
from regard.special import Special

CONFIG, MAP = "tokenizer_config.json", "special_tokens_map.json"

# the key of a role in config.json, if it has one; its key in tokenizer_config.json; and its usual token
Role = tuple[str | None, str, str]
WORDPIECE: dict[str, Role] = {
    "pad": ("pad_token_id", "pad_token", "[PAD]"),
    "unk": (None, "unk_token", "[UNK]"),
    "bos": (None, "cls_token", "[CLS]"),
    "eos": (None, "sep_token", "[SEP]"),
    "mask": (None, "mask_token", "[MASK]"),
}
ROLES: dict[str, dict[str, Role]] = {
    "bert": WORDPIECE,
    "distilbert": WORDPIECE,
    "roberta": {
        "pad": ("pad_token_id", "pad_token", "<pad>"),
        "unk": (None, "unk_token", "<unk>"),
        "bos": ("bos_token_id", "bos_token", "<s>"),
        "eos": ("eos_token_id", "eos_token", "</s>"),
        "mask": (None, "mask_token", "<mask>"),
    },
    "gpt2": {  # bytes are never unknown
        "pad": ("pad_token_id", "pad_token", ""),
        "bos": ("bos_token_id", "bos_token", "<|endoftext|>"),
        "eos": ("eos_token_id", "eos_token", "<|endoftext|>"),
    },
    "xlnet": {
        "pad": ("pad_token_id", "pad_token", "<pad>"),
        "unk": (None, "unk_token", "<unk>"),
        "bos": (None, "cls_token", "<cls>"),
        "eos": (None, "sep_token", "<sep>"),
        "mask": (None, "mask_token", "<mask>"),
    },
    "marian": {
        "pad": ("pad_token_id", "pad_token", "<pad>"),
        "unk": (None, "unk_token", "<unk>"),
        "bos": ("decoder_start_token_id", "pad_token", "<pad>"),
        "eos": ("eos_token_id", "eos_token", "</s>"),
    },
}


def read_tokenizers(directory: Path, *, model_type: str, sizes: Sequence[int]) -> tuple[tokenizers.Tokenizer, ...]:
    """One tokenizer, or those of source and target; none if the directory has no files of one.

    sizes: how many rows the embedding tables of source and target have.
    """
    whole = directory / "tokenizer.json"
    if whole.exists():
        found: tuple[tokenizers.Tokenizer, ...] = (read_file(whole),)
    elif model_type == "marian" and (directory / "source.spm").exists():
        found = _marian(directory)
    elif (directory / "merges.txt").exists():
        found = (_byte_pairs(directory),)
    elif (directory / "vocab.txt").exists():
        found = (_word_pieces(directory),)
    else:
        return ()
    for each, rows in zip(found, (min(sizes),) if len(found) == 1 else sizes, strict=True):
        with explaining(f"{directory} has a tokenizer whose special tokens cannot be marked"):
            marked = [name for _, _, name in ROLES[model_type].values() if name and each.token_to_id(name) is not None]
            each.add_special_tokens(marked)
        require_usable(each, where=directory, rows=rows)
    return found


def special_ids(
    directory: Path, settings: Settings, found: Sequence[tokenizers.Tokenizer], *, model_type: str, vocabulary: int
) -> Special:
    """The special ids: those in config.json, or else the ids of the tokens that the tokenizer's settings name."""
    named = [(directory / name, optional_json(directory / name)) for name in (CONFIG, MAP)]
    ids: dict[str, int] = {}
    for role, (setting, key, usual) in ROLES[model_type].items():
        number = settings.token(setting, vocabulary) if setting else None
        if number is None and found:
            stated = [_content(values[key], key, where=where) for where, values in named if values.get(key)]
            number = found[0].token_to_id((*stated, usual)[0])
            if number is None and role in ("bos", "eos"):
                raise RegardError(
                    f"{directory}: the tokenizer has no {shown((*stated, usual)[0])}, which {key} is; "
                    f"add it to {CONFIG} or copy the tokenizer again"
                )
        if number is not None:
            ids[role] = number
    nothing = ids.get("pad", 0)  # a model without a tokenizer has no texts that begin and end
    return Special(**{"bos": nothing, "eos": nothing, **ids})


def _content(token: Any, key: str, *, where: Path) -> str:
    """The text of a token in the tokenizer's settings: the value itself, or the `content` of an object."""
    content = token.get("content") if isinstance(token, dict) else token
    if not isinstance(content, str):
        raise RegardError(
            f"{where}: {key} is {shown(token)} and must be a token, as text or as an object with its content; "
            "copy or download it again"
        )
    return content


def tokenizer_files(written: Tokenizers, *, model_type: str, segments: int, longest: int | None) -> dict[str, bytes]:
    """tokenizer.json, or for Marian source.spm, target.spm and vocab.json; and tokenizer_config.json.

    segments: how many kinds of segment the model tells apart; longest: how many tokens it reads, if that has a limit.
    """
    first, numbers = written.source.inner, dict(written.special)
    names: dict[str, str] = {}
    if numbers["mask"] is None:  # a model that was trained here has its mask by name alone
        numbers["mask"] = first.token_to_id(WORDPIECE["mask"][2])
    for role, (_, key, _) in ROLES[model_type].items():
        number = numbers[role]
        name = None if number is None else first.id_to_token(number)
        if name is not None:
            names.setdefault(key, name)  # of Marian, the padding and not the first token
    inputs = ["input_ids", "attention_mask"]
    if model_type in ("bert", "xlnet") or (model_type == "roberta" and segments > 1):
        inputs.insert(1, "token_type_ids")
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_input_names": inputs,
        **names,
    }
    if model_type == "xlnet":  # its classes read the last token of a row, which must be no padding
        settings["padding_side"] = "left"
    if longest is not None:
        settings["model_max_length"] = longest
    if written.shared:
        files = {"tokenizer.json": _framed(written.source, model_type=model_type, segments=segments).encode()}
    else:
        files, more = _sides(written, model_type=model_type)
        settings |= more
    return {**files, CONFIG: (json.dumps(settings, indent=2) + "\n").encode()}


def _framed(side: Tokenizer, *, model_type: str, segments: int) -> str:
    """tokenizer.json that adds the special tokens as regard does, unless it is told not to."""
    made = tokenizers.Tokenizer.from_str(side.json)
    bos, eos = (made.id_to_token(number) for number in (side.special.bos, side.special.eos))
    single, pair = {
        "gpt2": ("", ""),
        "marian": (f"$A {eos}", f"$A $B {eos}"),
        "bert": (f"{bos} $A {eos}", f"{bos} $A {eos} $B:1 {eos}:1"),
        "roberta": (f"{bos} $A {eos}", f"{bos} $A {eos} {eos} $B {eos}"),
        "xlnet": (f"$A {eos} {bos}:2", f"$A {eos} $B:1 {eos}:1 {bos}:2"),
    }[_frame(model_type, segments)]
    if not single:
        return side.json
    special = [(bos, side.special.bos), (eos, side.special.eos)]
    template: processors.PostProcessor = processors.TemplateProcessing(
        single=single.split(), pair=pair.split(), special_tokens=special
    )
    if isinstance(made.pre_tokenizer, pre_tokenizers.ByteLevel):  # the space before a word is no part of its span
        template = processors.Sequence([processors.ByteLevel(trim_offsets=True), template])
    made.post_processor = template
    return made.to_str(pretty=True)


def _frame(model_type: str, segments: int) -> str:
    """The family whose frame around texts a model has: `data.rows.framing` parts a pair by the number of segments."""
    if model_type in ("gpt2", "marian", "xlnet"):
        return model_type
    return "roberta" if segments == 1 else "bert"


def _sides(written: Tokenizers, *, model_type: str) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The opposite of `_marian`: the files that Marian's own tokenizer reads, and its settings."""
    apart = written.source.vocabulary != written.target.vocabulary
    files = {}
    for side, each, name in (
        ("source", written.source, "vocab.json"),
        ("target", written.target, "target_vocab.json"),
    ):
        model = model_of(each.inner)
        if model_type != "marian" or model is None:
            raise RegardError(
                "two tokenizers that are no SentencePiece models cannot be written in this format; "
                "train with tokenizer.shared = true"
            )
        files[f"{side}.spm"] = model_bytes(model)
        if side == "source" or apart:
            files[name] = json.dumps(each.vocabulary, ensure_ascii=False).encode()
    return files, {"tokenizer_class": "MarianTokenizer", "separate_vocabs": apart}


def _byte_pairs(directory: Path) -> tokenizers.Tokenizer:
    """The tokenizer of GPT-2 and RoBERTa, from vocab.json and merges.txt."""
    vocabulary = optional_json(directory / "vocab.json", most=VOCABULARY)
    require_ids(vocabulary, where=directory / "vocab.json")
    lines = _lines(directory / "merges.txt")
    parts = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    wrong = next((part for part in parts if len(part) != 2), None)
    if wrong is not None:
        raise RegardError(f"{directory / 'merges.txt'}: a line must have two pieces and not {shown(' '.join(wrong))}")
    with explaining(f"{directory}: vocab.json and merges.txt are no vocabulary"):
        made = tokenizers.Tokenizer(models.BPE(vocabulary, [(left, right) for left, right in parts]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


def _word_pieces(directory: Path) -> tokenizers.Tokenizer:
    """The tokenizer of BERT, from vocab.txt."""
    settings = Settings(optional_json(directory / CONFIG), str(directory / CONFIG))
    lines = _lines(directory / "vocab.txt")
    unknown = _content(settings.get("unk_token", "[UNK]"), "unk_token", where=directory / CONFIG)
    if unknown not in lines:
        raise RegardError(f"{directory / 'vocab.txt'} has no {shown(unknown)}; copy or download it again")
    stripped = None if settings.get("strip_accents") is None else settings.flag("strip_accents", False)
    with explaining(f"{directory / 'vocab.txt'} is no vocabulary"):
        made = tokenizers.Tokenizer(models.WordPiece({line: at for at, line in enumerate(lines)}, unk_token=unknown))
    made.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=settings.flag("tokenize_chinese_chars", True),
        strip_accents=stripped,
        lowercase=settings.flag("do_lower_case", True),
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    return made


def _lines(path: Path) -> list[str]:
    """The lines of a text; unlike `splitlines`, only line feeds end one."""
    lines = read_text(path).replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _marian(directory: Path) -> tuple[tokenizers.Tokenizer, ...]:
    """One tokenizer for each side: source.spm and target.spm cut the text, vocab.json numbers the pieces of both."""
    sides = []
    for side, own in (("source", "vocab.json"), ("target", "target_vocab.json")):
        where = directory / own if (directory / own).exists() else directory / "vocab.json"
        vocabulary: Mapping[str, Any] = optional_json(where, most=VOCABULARY)
        if not vocabulary:
            raise RegardError(f"{directory} has {side}.spm but no vocab.json, which numbers its pieces")
        with explaining(f"{directory / f'{side}.spm'} is not a SentencePiece model"):
            sides.append(tokenizer(read_model(directory / f"{side}.spm"), vocabulary, where=where))
    return tuple(sides)
