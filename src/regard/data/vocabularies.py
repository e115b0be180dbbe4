"""Learning a vocabulary from text, one function per kind, each giving a Hugging Face tokenizer.

The same text gives the same vocabulary, byte for byte. The library's own trainers for unigram and wordpiece follow
the order of a hash table that is new in each process; their results are put into a fixed order here.

Encoding and decoding again preserves, in text whose characters were seen:

    bpe, unigram       everything but U+2581 (▁), which stands for a space inside
    bytes, byte_bpe    everything
    characters         everything
    wordpiece          words and punctuation, but not the spaces between them
    words              words and line ends; repeated, leading and trailing spaces are lost, and so is each word not in
                       the vocabulary

With `lowercase`, capitals are lost as well.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeVar

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import RegardError
from regard.special import NAMES, UNK

Kind = Literal["bpe", "unigram", "wordpiece", "bytes", "byte_bpe", "characters", "words"]
Split = Literal["punctuation", "spaces"]
Item = TypeVar("Item")

SPACE = "▁"
PIECES = {  # a piece never crosses the borders of these patterns
    "punctuation": rf"{SPACE}?[\p{{L}}\p{{M}}]+|{SPACE}?\p{{N}}|{SPACE}?[^\p{{L}}\p{{M}}\p{{N}}{SPACE}]+|{SPACE}",
    "spaces": f"{SPACE}[^{SPACE}]*",
}
CONTINUED = "##"
FEWEST = 2  # a merge seen only once would memorise a word
ENOUGH = 50_000_000  # characters to learn from; more of them change few entries, and take memory and time
LONGEST = 10_000  # characters of a text to learn from: the time of merging is quadratic in a word's length
NEVER = -1000.0  # log-probability of a piece that text must not be cut into


def evenly(items: Iterable[Item], *, size: Callable[[Item], int], most: int = ENOUGH) -> list[Item]:
    """Every item, every second one, every fourth one and so on: as many as have no more than `most` characters."""
    kept: list[Item] = []
    step, characters = 1, 0
    for number, item in enumerate(items):
        if number % step:
            continue
        kept.append(item)
        characters += size(item)
        while characters > most and len(kept) > 1:
            kept = kept[::2]
            step, characters = step * 2, sum(map(size, kept))
    return kept


def learn(
    texts: Iterable[str], *, kind: Kind, vocabulary: int, split: Split = "punctuation", lowercase: bool = False
) -> tokenizers.Tokenizer:
    """A tokenizer of at most `vocabulary` entries, the four special ones included.

    `bytes` always has 260 and `byte_bpe` at least as many. `words` and `characters` keep the most frequent. The others
    need every character of the text, and a vocabulary that cannot hold them is an error.
    """
    tokenizer = KINDS[kind]((text[:LONGEST] for text in texts), vocabulary, split, lowercase)
    size = tokenizer.get_vocab_size()
    if size <= len(NAMES):
        raise RegardError("there is no text to learn a vocabulary from; check data.train")
    if size > vocabulary and kind not in ("bytes", "byte_bpe"):
        raise _too_small(vocabulary, f"they need {size} entries")
    return tokenizer


def _too_small(vocabulary: int, reason: object) -> RegardError:
    return RegardError(
        f"tokenizer.vocabulary={vocabulary} cannot hold the characters of the text ({reason}); "
        'set it higher (8000 is usual), or set tokenizer.kind="bytes"'
    )


def _bpe(texts: Iterator[str], vocabulary: int, split: Split, lowercase: bool) -> tokenizers.Tokenizer:
    tokenizer = _with_marked_spaces(models.BPE(unk_token=NAMES[UNK], fuse_unk=True), split, lowercase)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, min_frequency=FEWEST, special_tokens=list(NAMES), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _unigram(texts: Iterator[str], vocabulary: int, split: Split, lowercase: bool) -> tokenizers.Tokenizer:
    tokenizer = _with_marked_spaces(models.Unigram(), split, lowercase)
    trainer = trainers.UnigramTrainer(
        vocab_size=vocabulary, special_tokens=list(NAMES), unk_token=NAMES[UNK], show_progress=False
    )
    try:
        tokenizer.train_from_iterator(texts, trainer)
    except RegardError:
        raise  # an error from reading the texts
    except Exception as error:  # the library raises this when characters alone overflow the vocabulary
        raise _too_small(vocabulary, error) from None
    learned = json.loads(tokenizer.to_str())["model"]["vocab"]
    tokenizer.model = models.Unigram(_in_order([(piece, score) for piece, score in learned]), UNK, False)
    return tokenizer


def _in_order(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The pieces of a unigram vocabulary, made deterministic.

    Log-probabilities differ in the last digits between runs, and characters that were no piece of their own get the
    lowest one plus 0.0001 times their place in a hash table. So: those characters all get the lowest, everything is
    rounded, and equals are sorted by name. The special pieces must never be found in text.
    """
    special, learned = pieces[: len(NAMES)], pieces[len(NAMES) :]
    if not learned:
        return pieces
    lowest = min(score for _, score in learned)
    chance = lowest + 1e-4 * sum(len(piece) == 1 for piece, _ in learned)
    scores = {piece: round(lowest if len(piece) == 1 and score <= chance else score, 4) for piece, score in learned}
    ordered = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
    return [(name, NEVER) for name, _ in special] + ordered


def _wordpiece(texts: Iterator[str], vocabulary: int, split: Split, lowercase: bool) -> tokenizers.Tokenizer:
    """Pieces chosen by merging pairs as in bpe; words are cut greedily, the longest piece first."""
    apart = pre_tokenizers.BertPreTokenizer() if split == "punctuation" else pre_tokenizers.WhitespaceSplit()
    merged = tokenizers.Tokenizer(models.BPE())
    merged.normalizer = _normalizer([], lowercase)
    merged.pre_tokenizer = pre_tokenizers.Sequence([apart, pre_tokenizers.Metaspace(SPACE, "always", split=False)])
    merged.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=2 * vocabulary, min_frequency=FEWEST, show_progress=False)
    )
    learned = [piece for piece, _ in sorted(merged.get_vocab().items(), key=lambda entry: entry[1])]
    characters = [piece for piece in learned if len(piece) == 1 and piece != SPACE]
    whole = [form for character in characters for form in (character, CONTINUED + character)]
    longer = (
        piece.removeprefix(SPACE) if piece.startswith(SPACE) else CONTINUED + piece
        for piece in learned
        if len(piece) > 1
    )
    pieces = list(dict.fromkeys([*NAMES, *whole, *longer]))[: max(vocabulary, len(NAMES) + len(whole))]
    entries = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(models.WordPiece(entries, unk_token=NAMES[UNK]))
    tokenizer.normalizer = _normalizer([], lowercase)
    tokenizer.pre_tokenizer = apart
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUED, cleanup=False)
    tokenizer.add_special_tokens(list(NAMES))
    return tokenizer


def _bytes(_texts: Iterator[str], _vocabulary: int, _split: Split, lowercase: bool) -> tokenizers.Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    entries = {piece: number for number, piece in enumerate([*NAMES, *alphabet])}
    tokenizer = tokenizers.Tokenizer(models.BPE(entries, [], unk_token=NAMES[UNK]))
    tokenizer.normalizer = _normalizer([], lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(NAMES))
    return tokenizer


def _byte_bpe(texts: Iterator[str], vocabulary: int, _split: Split, lowercase: bool) -> tokenizers.Tokenizer:
    """As in GPT-2: bytes, joined within words; a word has its space before it (Radford 2019, 2.2)."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token=NAMES[UNK]))
    tokenizer.normalizer = _normalizer([], lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=FEWEST,
        special_tokens=list(NAMES),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _characters(texts: Iterator[str], vocabulary: int, _split: Split, lowercase: bool) -> tokenizers.Tokenizer:
    tokenizer = _most_frequent(texts, vocabulary, pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated"), lowercase)
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def _words(texts: Iterator[str], vocabulary: int, _split: Split, lowercase: bool) -> tokenizers.Tokenizer:
    apart = pre_tokenizers.Sequence([pre_tokenizers.Split("\n", "isolated"), pre_tokenizers.Split(" ", "removed")])
    return _most_frequent(texts, vocabulary, apart, lowercase)


def _most_frequent(
    texts: Iterator[str], vocabulary: int, pieces: pre_tokenizers.PreTokenizer, lowercase: bool
) -> tokenizers.Tokenizer:
    """Whole pieces of the text; a piece with the name of a special token is that token, such as <unk> in WikiText."""
    counted = tokenizers.Tokenizer(models.WordLevel(unk_token=NAMES[UNK]))
    counted.normalizer = _normalizer([], lowercase)
    counted.pre_tokenizer = pieces
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocabulary, min_frequency=1, special_tokens=list(NAMES), show_progress=False
    )
    counted.train_from_iterator(texts, trainer)
    frequent = sorted(counted.get_vocab().items(), key=lambda entry: entry[1])
    entries = {piece: number for number, piece in enumerate(dict.fromkeys([*NAMES, *(piece for piece, _ in frequent)]))}
    tokenizer = tokenizers.Tokenizer(models.WordLevel(entries, unk_token=NAMES[UNK]))
    tokenizer.normalizer = counted.normalizer
    tokenizer.pre_tokenizer = pieces
    tokenizer.add_special_tokens(list(NAMES))
    return tokenizer


def _with_marked_spaces(model: models.Model, split: Split, lowercase: bool) -> tokenizers.Tokenizer:
    """A tokenizer that begins every text with a space and writes spaces as ▁, so that none is lost."""
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = _normalizer([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)], lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECES[split]), "isolated")
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def _normalizer(steps: list[normalizers.Normalizer], lowercase: bool) -> normalizers.Normalizer | None:
    steps = [normalizers.Lowercase(), *steps] if lowercase else steps
    return normalizers.Sequence(steps) if steps else None


KINDS: dict[Kind, Callable[[Iterator[str], int, Split, bool], tokenizers.Tokenizer]] = {
    "bpe": _bpe,
    "unigram": _unigram,
    "wordpiece": _wordpiece,
    "bytes": _bytes,
    "byte_bpe": _byte_bpe,
    "characters": _characters,
    "words": _words,
}
