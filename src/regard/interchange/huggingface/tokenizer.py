"""Their tokenizer files → tokenizers of ours, and which ids are special; and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.data.tokenizers import Tokenizers
from regard.errors import RegardError
from regard.interchange.huggingface.architecture import Settings
from regard.interchange.huggingface.sentencepiece import model_of, read_model, tokenizer, write_model
from regard.special import Special

# what a role is called in config.json, where that counts; in the tokenizer's settings; and usually in the vocabulary
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
    "marian": {
        "pad": ("pad_token_id", "pad_token", "<pad>"),
        "unk": (None, "unk_token", "<unk>"),
        "bos": ("decoder_start_token_id", "pad_token", "<pad>"),
        "eos": ("eos_token_id", "eos_token", "</s>"),
    },
}


def read_tokenizers(directory: Path, *, model_type: str) -> tuple[tokenizers.Tokenizer, ...]:
    """One tokenizer, or those of source and target; none where the directory has no files of one."""
    whole = directory / "tokenizer.json"
    if whole.is_file():
        found: tuple[tokenizers.Tokenizer, ...] = (_from_file(whole),)
    elif model_type == "marian" and (directory / "source.spm").is_file():
        found = _marian(directory)
    elif (directory / "merges.txt").is_file():
        found = (_byte_pairs(directory),)
    elif (directory / "vocab.txt").is_file():
        found = (_word_pieces(directory),)
    else:
        return ()
    for each in found:
        each.no_truncation()  # texts are cut by whoever knows the model, and never silently
        each.no_padding()
        marked = [name for _, _, name in ROLES[model_type].values() if name and each.token_to_id(name) is not None]
        each.add_special_tokens(marked)
    return found


def special_ids(directory: Path, settings: Settings, found: Sequence[tokenizers.Tokenizer]) -> Special:
    """The special ids: as config.json has them, or else the id of what the tokenizer calls so."""
    named = {**_optional(directory / "special_tokens_map.json"), **_optional(directory / "tokenizer_config.json")}
    ids: dict[str, int] = {}
    for role, (setting, key, usual) in ROLES[settings.get("model_type")].items():
        number = settings.get(setting) if setting else None
        number = number[0] if isinstance(number, list) else number
        if number is None and found:
            name = named.get(key) or usual
            number = found[0].token_to_id(name["content"] if isinstance(name, dict) else name)
        if number is not None:
            ids[role] = number
    nothing = ids.get("pad", 0)  # without a tokenizer there are no texts to begin and to end
    return Special(**{"bos": nothing, "eos": nothing, **ids})


def write_tokenizers(directory: Path, written: Tokenizers, *, model_type: str, maximum: int | None) -> None:
    """tokenizer.json, or for Marian source.spm, target.spm and vocab.json; and tokenizer_config.json."""
    first = written.source.inner
    numbers = dict(written.special)
    names = {
        key: first.id_to_token(numbers[role])
        for role, (_, key, _) in ROLES[model_type].items()
        if numbers[role] is not None
    }
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
    if maximum is not None:
        settings["model_max_length"] = maximum
    if written.shared:
        written.source.save(directory / "tokenizer.json")
    else:
        settings |= _write_sides(directory, written, model_type=model_type)
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def _write_sides(directory: Path, written: Tokenizers, *, model_type: str) -> dict[str, Any]:
    """The opposite of `_marian`: what Marian's own tokenizer reads, and its settings."""
    apart = written.source.vocabulary != written.target.vocabulary
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
        write_model(directory / f"{side}.spm", model)
        if side == "source" or apart:
            (directory / name).write_text(json.dumps(each.vocabulary, ensure_ascii=False), encoding="utf-8")
    return {"tokenizer_class": "MarianTokenizer", "separate_vocabs": apart}


def _from_file(path: Path) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises Exception itself
        raise RegardError(f"{path} is not a tokenizer ({error}); copy or download it again") from None


def _byte_pairs(directory: Path) -> tokenizers.Tokenizer:
    """GPT-2's and RoBERTa's, from vocab.json and merges.txt."""
    try:
        made = tokenizers.Tokenizer(models.BPE.from_file(str(directory / "vocab.json"), str(directory / "merges.txt")))
    except Exception as error:  # the library raises Exception itself
        raise RegardError(f"{directory}: vocab.json and merges.txt are no vocabulary ({error})") from None
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


def _word_pieces(directory: Path) -> tokenizers.Tokenizer:
    """BERT's, from vocab.txt."""
    settings = _optional(directory / "tokenizer_config.json")
    lines = (directory / "vocab.txt").read_text(encoding="utf-8").splitlines()
    unknown = settings.get("unk_token") or "[UNK]"
    if unknown not in lines:
        raise RegardError(f"{directory / 'vocab.txt'} has no {unknown}; copy or download it again")
    made = tokenizers.Tokenizer(models.WordPiece({line: at for at, line in enumerate(lines)}, unk_token=unknown))
    made.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    return made


def _marian(directory: Path) -> tuple[tokenizers.Tokenizer, ...]:
    """One for each side: source.spm and target.spm cut the text, vocab.json numbers the pieces of both."""
    sides = []
    for side, own in (("source", "vocab.json"), ("target", "target_vocab.json")):
        where = directory / own if (directory / own).is_file() else directory / "vocab.json"
        vocabulary = _optional(where)
        if not vocabulary:
            raise RegardError(f"{directory} has {side}.spm but no vocab.json, which numbers its pieces")
        sides.append(tokenizer(read_model(directory / f"{side}.spm"), vocabulary, where=where))
    return tuple(sides)


def _optional(path: Path) -> Mapping[str, Any]:
    """An object from a file that need not be there."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RegardError(f"{path} is damaged ({error}); copy or download it again") from None
    return found if isinstance(found, dict) else {}
