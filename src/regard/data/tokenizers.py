"""Text ↔ ids, without torch."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, Self

import numpy
import tokenizers
from numpy.typing import NDArray
from pydantic import Field, JsonValue, model_validator

from regard import durable
from regard.checking import Settings
from regard.data.tokenizer_file import read_file, require_usable
from regard.data.vocabularies import SPACE, Kind, Split, evenly, learn
from regard.errors import RegardError
from regard.special import NAMES, OWN, Special


class TokenizerConfig(Settings):
    """The [tokenizer] table of a recipe."""

    kind: Kind = "bpe"
    vocabulary: int = Field(8000, gt=len(NAMES), description="entries, the four special ones included")
    shared: bool = Field(True, description="one vocabulary for source and target")
    target_kind: Kind | None = Field(None, description="kind of the target side when not shared; as kind if not given")
    target_vocabulary: int | None = Field(None, gt=len(NAMES), description="as vocabulary if not given")
    split: Split = Field(
        "punctuation",
        description="where pieces of bpe, unigram and wordpiece end: at punctuation and digits, "
        'or, for text that is tokenised already, only at "spaces"',
    )
    lowercase: bool = False
    dropout: float = Field(0.0, ge=0, lt=1, description="BPE-dropout: share of merges left out while training")

    @model_validator(mode="after")
    def _sides_agree(self) -> Self:
        if self.shared and (self.target_kind or self.target_vocabulary):
            raise ValueError("target_kind and target_vocabulary need shared = false: a shared tokenizer has one kind")
        if self.dropout and "bpe" not in (self.kind, self.target_kind):
            raise ValueError(f'dropout={self.dropout:g} needs kind = "bpe", here it is "{self.kind}"')
        return self


class Tokenizer:
    """One side's text ↔ ids. Encoding gives no BOS, EOS or PAD, whatever the text says; decoding leaves them out.

    `special` are the ids of a vocabulary that was not learned here.
    """

    def __init__(self, inner: tokenizers.Tokenizer, *, special: Special = OWN) -> None:
        inner.encode_special_tokens = True  # "</s>" in a text is five characters, not the end
        self.inner = inner
        self.special = special

    @classmethod
    def train(
        cls, texts: Iterable[str], *, kind: Kind, vocabulary: int, split: Split = "punctuation", lowercase: bool = False
    ) -> Self:
        return cls(learn(texts, kind=kind, vocabulary=vocabulary, split=split, lowercase=lowercase))

    @classmethod
    def learn(cls, texts: Iterable[str], config: TokenizerConfig) -> Self:
        """A tokenizer as [tokenizer] describes the only one, or that of the source."""
        kind, vocabulary = config.kind, config.vocabulary
        return cls.train(texts, kind=kind, vocabulary=vocabulary, split=config.split, lowercase=config.lowercase)

    @property
    def size(self) -> int:
        return self.inner.get_vocab_size()

    @property
    def vocabulary(self) -> dict[str, int]:
        """The id of each entry, by name."""
        return self.inner.get_vocab()

    @cached_property
    def merges(self) -> list[tuple[str, str]]:
        """What a bpe tokenizer joins, in order; empty for other kinds."""
        return [(left, right) for left, right in json.loads(self.json)["model"].get("merges", [])]

    @cached_property
    def json(self) -> str:
        """The Hugging Face tokenizers form."""
        return self.inner.to_str(pretty=True)

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """The ids of each word as they are within a sentence: in a byte tokenizer, a word includes the space before
        it."""
        return self.encode([f" {word}" if self._bytes else word for word in words])

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text."""
        return [self._without_special(encoding.ids) for encoding in self._encodings(texts)]

    def encode_flat(self, texts: list[str]) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
        """The ids of all texts, one after the other, and the number of ids of each text."""
        rows = [encoding.ids for encoding in self._encodings(texts)]
        lengths = numpy.fromiter(map(len, rows), dtype=numpy.int64, count=len(rows))
        ids = numpy.fromiter(chain.from_iterable(rows), dtype=numpy.int64, count=int(lengths.sum()))
        if self.special.unk is not None:
            ids[numpy.isin(ids, list(self.special.silent))] = self.special.unk
        return ids, lengths

    def _encodings(self, texts: list[str]) -> list[tokenizers.Encoding]:
        try:
            return self.inner.encode_batch_fast(texts, add_special_tokens=False)
        except TypeError:
            _refuse_surrogates(texts)
            raise

    def encode_around(self, text: str, gap: str) -> list[list[int]]:
        """The ids of the parts of a text between gaps, each of which stands for one token.

        They are those that the whole text has around these tokens. The space before a gap belongs to the missing token,
        if tokens have spaces in them; and a part that is given to a tokenizer which prepends a space needs none.
        """
        first, *others = text.split(gap)
        if self._spaced:
            parts = [first, *(part.removeprefix(" ") if self.prepends else part for part in others)]
            first, *others = [*(part.removesuffix(" ") for part in parts[:-1]), parts[-1]]
        return self.encode([first, *others])

    @cached_property
    def _spaced(self) -> bool:
        """Whether a token may be a space with a word after it."""
        return any(len(name) > 1 and name.startswith(SPACE) for name in self.pieces(list(range(self.size))))

    @cached_property
    def prepends(self) -> bool:
        """Whether a space is prepended to each text."""
        together, first, second = self.encode(["a b", "a", "b"])
        return together == first + second

    def decode(self, rows: list[list[int]]) -> list[str]:
        """The text of each row of ids; PAD, BOS and EOS are left out, UNK shows as <unk>."""
        silent = self.special.silent
        plain = [[number for number in row if number not in silent] for row in rows]
        return self.inner.decode_batch(plain, skip_special_tokens=False)

    def pieces(self, row: list[int]) -> list[str]:
        """The name of each id, for display: ▁ stands for a space, <0xC3> for a byte that is no character."""
        names = (self.inner.id_to_token(number) or self.unknown for number in row)
        return [_shown(name, self._bytes) for name in names]

    def tokens(self, text: str) -> list[str]:
        """The pieces of a text, for display."""
        return self.pieces(self.encode([text])[0])

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Beginning and end of each token in the characters of the text; a space belongs to the word after it."""
        encoding = self.inner.encode(text, add_special_tokens=False)
        spans = encoding.offsets
        if encoding.tokens[:1] == [SPACE] and len(spans) > 1 and spans[1][0] == 0:
            spans[0] = (0, 0)  # the space that every text begins with is not in the text
        return spans

    @property
    def unknown(self) -> str:
        """The name of the unknown token; empty if the vocabulary has none."""
        return "" if self.special.unk is None else self.inner.id_to_token(self.special.unk) or ""

    @cached_property
    def _bytes(self) -> dict[str, int]:
        """The byte that each character of a name stands for; empty for tokenizers that do not cut bytes."""
        if not isinstance(self.inner.pre_tokenizer, tokenizers.pre_tokenizers.ByteLevel):
            return {}
        return {name: byte for byte, name in enumerate(_byte_names())}

    def _without_special(self, row: list[int]) -> list[int]:
        """The ids, with special tokens that were found in a text replaced by the unknown token."""
        silent, unk = self.special.silent, self.special.unk
        if unk is None or silent.isdisjoint(row):
            return row
        return [unk if number in silent else number for number in row]

    def save(self, path: str | Path) -> None:
        durable.write_file(Path(path), self.json.encode())

    @classmethod
    def load(cls, path: str | Path, *, special: Special = OWN, rows: int | None = None) -> Self:
        """Reads a tokenizer; a damaged file, or one whose special ids are not those named, is a RegardError.

        rows: how many rows the embedding table has; as many as the vocabulary has entries unless given.
        """
        try:
            inner = read_file(Path(path))
        except FileNotFoundError:
            raise RegardError(f"{path} does not exist; a model directory needs its tokenizer") from None
        require_usable(inner, where=Path(path), rows=rows or inner.get_vocab_size())
        found = tuple(inner.id_to_token(number) for number in range(len(NAMES)))
        if special == OWN and found != NAMES:
            raise RegardError(f"{path} begins with {found} and must begin with {NAMES}; it is not a regard tokenizer")
        for name, number in special:
            if number is not None and inner.id_to_token(number) is None:
                raise RegardError(f"{path} has no token {number}, which the recipe says is model.special.{name}")
        return cls(inner, special=special)


def _shown(name: str, byte_of: dict[str, int]) -> str:
    """The name of a token for display; where characters of a name stand for bytes, the text that they make."""
    if not byte_of or not all(character in byte_of for character in name):
        return name
    content = bytes(byte_of[character] for character in name)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable():
        return text.replace(" ", SPACE)
    return "".join(chr(byte) if 32 < byte < 127 else SPACE if byte == 32 else f"<0x{byte:02X}>" for byte in content)


def _refuse_surrogates(texts: list[str]) -> None:
    for number, text in enumerate(texts, start=1):
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise RegardError(f"text {number} holds half of a surrogate pair, which is no character; mend the text")


def _byte_names() -> list[str]:
    """The character that stands for each byte: itself if it is printable, otherwise one from U+0100 on."""
    shows = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shows]
    return [chr(byte) if byte in shows else chr(256 + hidden.index(byte)) for byte in range(256)]


class Sides(Protocol):
    """A pair of texts."""

    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...


class Tokenizers:
    """The tokenizers of both sides; when shared, they are one."""

    def __init__(self, source: Tokenizer, target: Tokenizer | None = None) -> None:
        self.source = source
        self.target = target or source

    @property
    def shared(self) -> bool:
        return self.source is self.target

    @property
    def special(self) -> Special:
        """The special ids, the same on both sides."""
        return self.source.special

    @classmethod
    def train(cls, examples: Iterable[Sides], config: TokenizerConfig) -> Self:
        """Learns from the texts of `examples`, or from a part of them if they are many."""
        examples = evenly(examples, size=lambda pair: len(pair.source) + len(pair.target))
        if config.shared:
            return cls(Tokenizer.learn((text for pair in examples for text in (pair.source, pair.target)), config))
        target = {
            "kind": config.target_kind or config.kind,
            "vocabulary": config.target_vocabulary or config.vocabulary,
        }
        return cls(
            Tokenizer.learn((pair.source for pair in examples), config),
            Tokenizer.learn((pair.target for pair in examples), config.model_copy(update=target)),
        )

    @property
    def fingerprint(self) -> str:
        return sha256((self.source.json + self.target.json).encode()).hexdigest()

    def settings(self) -> dict[str, JsonValue]:
        """All that makes the same tokenizers in another process."""
        target = None if self.shared else self.target.json
        return {"source": self.source.json, "target": target, "special": self.special.model_dump()}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """The opposite of `settings`."""
        special = Special(**settings["special"])
        both = (settings["source"], settings["target"])
        inner = [tokenizers.Tokenizer.from_str(each) for each in both if each is not None]
        return cls(*(Tokenizer(each, special=special) for each in inner))

    def save(self, folder: str | Path) -> None:
        """tokenizer.json, or source.json and target.json."""
        if self.shared:
            self.source.save(Path(folder) / "tokenizer.json")
        else:
            self.source.save(Path(folder) / "source.json")
            self.target.save(Path(folder) / "target.json")

    @classmethod
    def load(
        cls, folder: str | Path, *, special: Special = OWN, rows: tuple[int | None, int | None] = (None, None)
    ) -> Self:
        """The opposite of `save`; rows: how many rows the embedding tables of source and target have, if known."""
        names = ("source.json", "target.json") if (Path(folder) / "source.json").exists() else ("tokenizer.json",)
        found = zip(names, rows, strict=False)
        return cls(*(Tokenizer.load(Path(folder) / name, special=special, rows=each) for name, each in found))
