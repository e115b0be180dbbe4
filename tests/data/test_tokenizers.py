"""Text ↔ ids: nothing is lost that need not be, the same text gives the same file, and special ids stay special."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import tokenizers as theirs
from hypothesis import given, settings
from hypothesis import strategies as some
from pydantic import ValidationError

from regard.data.pairs.pair import Pair
from regard.data.tokenizers import Tokenizer, TokenizerConfig, Tokenizers
from regard.data.vocabularies import Kind, learn
from regard.errors import RegardError
from regard.special import BOS, EOS, NAMES, PAD, UNK, Special

KINDS: tuple[Kind, ...] = get_args(Kind)
LOSSLESS: tuple[Kind, ...] = ("bpe", "unigram", "bytes", "characters")
TEXTS = [
    "A man sleeps, a man runs; the dog doesn't.",
    "Ein Mann schläft, ein Mann läuft; der Hund nicht.",
    "The man's dogs are running (1999)!",
    "Les hommes dorment à l'ombre.",
] * 5
SEEN = "".join(sorted(set("".join(TEXTS))))


@pytest.fixture(scope="module")
def trained() -> dict[Kind, Tokenizer]:
    return {kind: Tokenizer.train(TEXTS, kind=kind, vocabulary=197) for kind in KINDS}


@pytest.mark.parametrize("kind", LOSSLESS)
@given(text=some.text(SEEN, max_size=37))
@settings(max_examples=50)
def test_what_was_encoded_decodes_to_itself(trained: dict[Kind, Tokenizer], kind: Kind, text: str) -> None:
    tokenizer = trained[kind]
    assert tokenizer.decode(tokenizer.encode([text])) == [text]


@given(text=some.text(max_size=37))
def test_bytes_know_every_text(trained: dict[Kind, Tokenizer], text: str) -> None:
    tokenizer = trained["bytes"]
    (ids,) = tokenizer.encode([text])
    assert len(ids) == len(text.encode())
    assert tokenizer.decode([ids]) == [text]


def test_words_and_wordpiece_lose_only_spacing(trained: dict[Kind, Tokenizer]) -> None:
    words, pieces = trained["words"], trained["wordpiece"]
    assert words.decode(words.encode([" the  dog "])) == ["the dog"]
    assert pieces.decode(pieces.encode(["the  dog doesn't."])) == ["the dog doesn ' t ."]


@pytest.mark.parametrize("kind", KINDS)
@given(text=some.lists(some.sampled_from([*NAMES, "a", " ", "日", "s", ">"])).map("".join))
@settings(max_examples=30)
def test_no_text_is_a_beginning_an_end_or_padding(trained: dict[Kind, Tokenizer], kind: Kind, text: str) -> None:
    (ids,) = trained[kind].encode([text])
    assert {PAD, BOS, EOS}.isdisjoint(ids)


def test_names_of_special_tokens_survive_where_their_characters_were_seen() -> None:
    for kind in LOSSLESS:
        tokenizer = Tokenizer.train(["<s> a </s> b <pad>"] * 3, kind=kind, vocabulary=61)
        assert tokenizer.decode(tokenizer.encode(["</s> a <s>"])) == ["</s> a <s>"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_ids_around_a_gap_are_those_of_the_whole_text(trained: dict[Kind, Tokenizer], kind: Kind) -> None:
    """Every word that is one token is left out in turn."""
    tokenizer, tried, gap = trained[kind], 0, "[GAP]"
    for text in ("a man runs", "the dog , a man", "ein Mann", "A man"):
        whole, words = tokenizer.encode([text])[0], text.split(" ")
        for number in range(len(words)):
            around = tokenizer.encode_around(" ".join([*words[:number], gap, *words[number + 1 :]]), gap)
            assert len(around) == 2
            before, after = around
            if len(before) + 1 + len(after) == len(whole):
                tried += 1
                assert whole == [*before, whole[len(before)], *after]
    assert tried >= 3
    assert tokenizer.encode_around(text, gap) == tokenizer.encode([text])


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_the_first_four_and_are_not_decoded(trained: dict[Kind, Tokenizer], kind: Kind) -> None:
    tokenizer = trained[kind]
    assert tuple(tokenizer.pieces([PAD, UNK, BOS, EOS])) == NAMES
    (ids,) = tokenizer.encode(["the dog"])
    assert tokenizer.decode([[BOS, *ids, EOS, PAD, PAD]]) == tokenizer.decode([ids])
    assert tokenizer.decode([[UNK]]) == ["<unk>"]
    assert max(ids) < tokenizer.size <= max(197, 260)


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_cut_the_text_into_its_tokens(trained: dict[Kind, Tokenizer], kind: Kind) -> None:
    tokenizer, text = trained[kind], "the dogs sleep"
    spans = tokenizer.offsets(text)
    assert len(spans) == len(tokenizer.tokens(text)) == len(tokenizer.encode([text])[0])
    assert spans[-1][1] == len(text)
    assert "".join(text[begin:end] for begin, end in spans).replace(" ", "") == text.replace(" ", "")


def test_tokens_are_shown_readably(trained: dict[Kind, Tokenizer]) -> None:
    assert trained["bytes"].tokens("à b") == ["<0xC3>", "<0xA0>", "▁", "b"]
    assert trained["bpe"].tokens("the dog")[0].startswith("▁")
    assert trained["words"].tokens("the zebra") == ["the", "<unk>"]


def test_pieces_end_at_punctuation_or_only_at_spaces() -> None:
    texts = ["don't &apos;s 1999."] * 7
    apart = Tokenizer.train(texts, kind="bpe", vocabulary=97)
    whole = Tokenizer.train(texts, kind="bpe", vocabulary=97, split="spaces")
    assert apart.tokens("don't 19.") == ["▁don", "'", "t", "▁1", "9", "."]
    assert whole.tokens("don't &apos;s") == ["▁don't", "▁&apos;s"]


def test_lowercase_is_a_choice() -> None:
    tokenizer = Tokenizer.train(TEXTS, kind="bpe", vocabulary=197, lowercase=True)
    assert tokenizer.decode(tokenizer.encode(["The Dog"])) == ["the dog"]


@pytest.mark.parametrize("kind", KINDS)
def test_training_again_gives_the_same_file(trained: dict[Kind, Tokenizer], kind: Kind) -> None:
    """In another process too: hash tables have another order there."""
    program = (
        "import sys, json; from regard.data.tokenizers import Tokenizer; kind, texts = json.loads(sys.stdin.read());"
        "sys.stdout.buffer.write(Tokenizer.train(texts, kind=kind, vocabulary=197).json.encode())"
    )
    given_in = json.dumps([kind, TEXTS]).encode()
    again = subprocess.run([sys.executable, "-c", program], input=given_in, capture_output=True, check=True).stdout
    assert again.decode() == trained[kind].json


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_is_the_same_for_us_and_for_hugging_face(
    trained: dict[Kind, Tokenizer], kind: Kind, tmp_path: Path
) -> None:
    trained[kind].save(tmp_path / "tokenizer.json")
    ours = Tokenizer.load(tmp_path / "tokenizer.json")
    hugging_face = theirs.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert ours.json == trained[kind].json
    assert ours.encode(TEXTS) == trained[kind].encode(TEXTS)
    assert [hugging_face.encode(text).ids for text in TEXTS] == trained[kind].encode(TEXTS)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"model": {}}', b"\x00\xff\xfe", b"cos\nsystem\n(S'true'\ntR."]
)
def test_a_damaged_tokenizer_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(RegardError, match=r"tokenizer\.json (is|does) not|tokenizer\.json is damaged"):
        Tokenizers.load(tmp_path)


def test_a_cut_tokenizer_a_missing_one_and_a_strange_one_are_told(
    trained: dict[Kind, Tokenizer], tmp_path: Path
) -> None:
    with pytest.raises(RegardError, match="does not exist"):
        Tokenizers.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text(trained["bpe"].json[:-97], encoding="utf-8")
    with pytest.raises(RegardError, match="is damaged"):
        Tokenizers.load(tmp_path)
    theirs.Tokenizer(theirs.models.WordLevel({"[PAD]": 0}, "[PAD]")).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(RegardError, match="must begin with"):
        Tokenizers.load(tmp_path)


def test_a_vocabulary_from_elsewhere_has_its_own_special_ids(tmp_path: Path) -> None:
    words = {"the": 0, "[UNK]": 1, "cat": 2, "[SEP]": 3, "[CLS]": 4, "[PAD]": 5}
    theirs.Tokenizer(theirs.models.WordLevel(words, unk_token="[UNK]")).save(str(tmp_path / "tokenizer.json"))
    special = Special(pad=5, unk=1, bos=4, eos=3)
    tokenizers = Tokenizers.load(tmp_path, special=special)
    assert tokenizers.special == special
    assert tokenizers.source.encode(["the", "[PAD]", "dog"]) == [[0], [1], [1]]
    assert tokenizers.source.decode([[4, 2, 3, 5]]) == ["cat"]
    with pytest.raises(RegardError, match=r"no token 7, which the recipe says is model\.special\.mask"):
        Tokenizers.load(tmp_path, special=Special(bos=4, eos=3, mask=7))
    with pytest.raises(RegardError, match="not a regard tokenizer"):
        Tokenizers.load(tmp_path)


def test_half_a_surrogate_pair_is_told(trained: dict[Kind, Tokenizer]) -> None:
    with pytest.raises(RegardError, match="text 2 holds half of a surrogate pair"):
        trained["bpe"].encode(["good", "b\ud800d"])


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_a_vocabulary_smaller_than_the_alphabet_is_an_error(kind: Kind) -> None:
    with pytest.raises(RegardError, match=r"tokenizer\.vocabulary=11 cannot hold the characters"):
        learn(TEXTS, kind=kind, vocabulary=11)


def test_a_text_that_says_unk_means_an_unknown_word(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(["the <unk> saw a <unk> \n and <s>"], kind="words", vocabulary=99)
    tokenizer.save(tmp_path / "tokenizer.json")
    assert tokenizer.encode(["<unk> the other"])[0][::2] == [UNK, UNK]
    assert Tokenizer.load(tmp_path / "tokenizer.json").vocabulary == tokenizer.vocabulary
    assert sorted(tokenizer.vocabulary.values()) == list(range(tokenizer.size))


def test_bytes_are_joined_within_words_as_gpt2_does() -> None:
    tokenizer = Tokenizer.train(["the cat and the cat"] * 3, kind="byte_bpe", vocabulary=270)
    assert tokenizer.tokens("the cat\n") == ["the", "▁cat", "<0x0A>"]
    assert tokenizer.decode(tokenizer.encode([" the  çat\n\n"])) == [" the  çat\n\n"]


@pytest.mark.parametrize("kind", ["characters", "words"])
def test_characters_and_words_keep_the_most_frequent(kind: Kind) -> None:
    tokenizer = Tokenizer.train(["b b b a a c", "b a b"], kind=kind, vocabulary=6)
    known = ["a", "b"] if kind == "words" else [" ", "b"]
    assert sorted(set(tokenizer.vocabulary) - set(NAMES)) == known


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("bytes", "byte_bpe")])
def test_no_text_gives_no_vocabulary(kind: Kind) -> None:
    with pytest.raises(RegardError, match="no text"):
        learn(["", ""], kind=kind, vocabulary=97)


def test_an_error_while_reading_reaches_the_user() -> None:
    def texts() -> object:
        yield "a b c"
        raise RegardError("train.tsv:2 has no tab")

    for kind in KINDS:
        if kind != "bytes":
            with pytest.raises(RegardError, match=r"train\.tsv:2 has no tab"):
                learn(texts(), kind=kind, vocabulary=97)  # type: ignore[arg-type]


PAIRS = [Pair("aback", "AH B AE K", "lexicon.tsv", 1), Pair("a", "AH", "lexicon.tsv", 2)]


def test_sides_may_differ_in_kind(tmp_path: Path) -> None:
    config = TokenizerConfig(kind="characters", shared=False, target_kind="words", target_vocabulary=53)
    both = Tokenizers.train(PAIRS, config)
    assert both.source.tokens("back") == ["b", "a", "c", "k"]
    assert both.target.tokens("B AE K") == ["B", "AE", "K"]
    assert both.target.decode(both.target.encode(["B AE K"])) == ["B AE K"]
    both.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.json", "target.json"]
    again = Tokenizers.load(tmp_path)
    assert not again.shared
    assert again.fingerprint == both.fingerprint


def test_shared_is_one_tokenizer_in_one_file(tmp_path: Path) -> None:
    both = Tokenizers.train(PAIRS, TokenizerConfig(kind="characters"))
    assert both.source is both.target
    assert both.source.decode(both.source.encode(["ack ZH"])) == ["ack <unk>H"]
    both.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]
    assert Tokenizers.load(tmp_path).shared


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "bep"},
        {"target_kind": "words"},
        {"kind": "unigram", "dropout": 0.1},
        {"dropout": 1.0},
        {"vocabulary": 4},
    ],
)
def test_configurations_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TokenizerConfig.model_validate(wrong)


def test_text_is_read_and_tokenised_without_torch() -> None:
    program = (
        "import sys, regard.data.pairs.corpus, regard.data.pairs.examples, regard.data.bpe_dropout;"
        "import regard.data.planning, regard.data.text.tokens, regard.data.rows.framing, regard.data.streams;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def with_settings(tokenizer: Tokenizer, path: Path, **settings: object) -> Path:
    path.write_text(json.dumps({**json.loads(tokenizer.json), **settings}), encoding="utf-8")
    return path


def test_padding_and_truncation_of_a_file_are_not_used(trained: dict[Kind, Tokenizer], tmp_path: Path) -> None:
    truncation = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 2}
    padding = {"strategy": {"Fixed": 10**8}, "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}
    path = with_settings(trained["bpe"], tmp_path / "tokenizer.json", truncation=truncation, padding=padding)
    assert Tokenizer.load(path).encode(TEXTS) == trained["bpe"].encode(TEXTS)


def test_a_tokenizer_that_could_blow_up_a_text_is_told(trained: dict[Kind, Tokenizer], tmp_path: Path) -> None:
    double = {"type": "Replace", "pattern": {"Regex": "."}, "content": "aa"}
    normalizer = {"type": "Sequence", "normalizers": [double] * 40}
    path = with_settings(trained["bpe"], tmp_path / "tokenizer.json", normalizer=normalizer)
    with pytest.raises(RegardError, match="times as long"):
        Tokenizer.load(path)


def test_an_id_for_which_there_is_no_row_is_told(tmp_path: Path) -> None:
    words = {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3, "cat": 4, "dog": 70_000}
    theirs.Tokenizer(theirs.models.WordLevel(words, unk_token="<unk>")).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(RegardError, match="the id 70000"):
        Tokenizer.load(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json", rows=70_001).encode(["dog"]) == [[70_000]]


def test_a_tokenizer_that_is_no_regular_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tokenizer.json")
    with pytest.raises(RegardError, match="is not a regular file"):
        Tokenizers.load(tmp_path)
