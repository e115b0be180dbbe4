"""Ids on disk: what was encoded, made once, whole or not at all."""

from pathlib import Path

import pytest

from regard.data.pairs import shard
from regard.data.pairs.corpus import Corpus, prepare
from regard.data.pairs.examples import Examples, open_examples
from regard.data.pairs.filters import Filters
from regard.data.tokenizers import TokenizerConfig, Tokenizers
from regard.errors import RegardError

ROWS = [("a man sleeps", "ein Mann schläft"), ("", "nichts"), ("dogs run " * 7, "Hunde laufen"), ("one", "eins")] * 13


@pytest.fixture
def examples(tmp_path: Path) -> Examples:
    (tmp_path / "train.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in ROWS), encoding="utf-8")
    return open_examples(str(tmp_path / "train.tsv"), key="data.train")


@pytest.fixture
def tokenizers(examples: Examples) -> Tokenizers:
    return Tokenizers.train(examples, TokenizerConfig(kind="characters", shared=False, target_kind="words"))


def make(examples: Examples, tokenizers: Tokenizers, folder: Path, filters: Filters | None = None) -> Corpus:
    return prepare(examples, tokenizers, folder=folder, name="train", filters=filters or Filters(max_length=47))


def rows(corpus: Corpus, tokenizers: Tokenizers) -> list[tuple[str, str]]:
    sources = [corpus.source[row].tolist() for row in range(len(corpus))]
    targets = [corpus.target[row].tolist() for row in range(len(corpus))]
    return list(zip(tokenizers.source.decode(sources), tokenizers.target.decode(targets), strict=True))


def stamps(folder: Path) -> list[int]:
    return [path.stat().st_mtime_ns for path in sorted(folder.iterdir())]


@pytest.mark.parametrize("chunk", [3, 4096])
def test_rows_are_what_was_encoded_and_filtered(
    examples: Examples, tokenizers: Tokenizers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(shard, "CHUNK_PAIRS", chunk)
    seen: list[int] = []
    corpus = prepare(
        examples,
        tokenizers,
        folder=tmp_path / "c",
        name="train",
        filters=Filters(max_length=47),
        progress=lambda pairs, _: seen.append(pairs),
    )
    expected = [row for row in ROWS if all(row) and len(row[0]) <= 47]
    assert rows(corpus, tokenizers) == expected
    assert corpus.source.lengths.tolist() == [len(source) for source, _ in expected]
    assert corpus.target.lengths.tolist() == [len(target.split()) for _, target in expected]
    assert corpus.source[0].dtype == "uint16"
    assert seen[-1] == corpus.report.read == 52
    assert corpus.report.kept == len(corpus) == 26
    assert {kind: dropped.count for kind, dropped in corpus.report.dropped.items()} == {"empty": 13, "length": 13}
    assert corpus.report.dropped["length"].first.endswith("train.tsv:3")


def test_it_is_made_once_and_again_when_something_changed(
    examples: Examples, tokenizers: Tokenizers, tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    first = make(examples, tokenizers, folder)
    before = stamps(folder)
    again = make(examples, tokenizers, folder)
    assert stamps(folder) == before
    assert again.report == first.report
    assert len(make(examples, tokenizers, folder, Filters(max_length=5))) == 13
    assert stamps(folder) != before
    Path(str(examples.entries[0])).write_text("one\teins\n")
    assert rows(make(examples, tokenizers, folder), tokenizers) == [("one", "eins")]
    other = Tokenizers.train(examples, TokenizerConfig(kind="bytes"))
    assert rows(make(examples, other, folder), other) == [("one", "eins")]


@pytest.mark.parametrize("damage", ["cut", "flipped", "missing", "description"])
def test_a_damaged_one_is_made_again_with_a_warning(
    examples: Examples, tokenizers: Tokenizers, tmp_path: Path, damage: str
) -> None:
    folder = tmp_path / "c"
    expected = rows(make(examples, tokenizers, folder), tokenizers)
    path = folder / "train.arrow"
    whole = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(whole[:-7])
    elif damage == "flipped":
        whole[len(whole) // 2] ^= 1
        path.write_bytes(whole)
    elif damage == "missing":
        path.unlink()
    else:
        (folder / "train.json").write_text('{"made_from": ')
    with pytest.warns(RuntimeWarning, match="is made again"):
        again = make(examples, tokenizers, folder)
    assert rows(again, tokenizers) == expected


def test_a_failed_making_leaves_what_was_there(examples: Examples, tokenizers: Tokenizers, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    make(examples, tokenizers, folder)
    before = stamps(folder)
    with Path(str(examples.entries[0])).open("a") as file:
        file.write("no tab\n")
    with pytest.raises(RegardError, match=r"train\.tsv:53 has no tab"):
        make(examples, tokenizers, folder)
    assert sorted(path.name for path in folder.iterdir()) == ["train.arrow", "train.json"]
    assert stamps(folder) == before


def test_a_folder_that_cannot_be_written_is_told(examples: Examples, tokenizers: Tokenizers, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "train.arrow").mkdir()
    with pytest.raises(RegardError, match=r"cannot write .*train\.arrow"):
        make(examples, tokenizers, tmp_path / "c")


def test_nothing_left_is_an_error_with_the_reasons(examples: Examples, tokenizers: Tokenizers, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="39 longer than 1 tokens"):
        make(examples, tokenizers, tmp_path / "c", Filters(max_length=1))


def test_large_vocabularies_have_room(tmp_path: Path, examples: Examples, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizers = Tokenizers.train(examples, TokenizerConfig(kind="bytes"))
    monkeypatch.setattr(type(tokenizers.source), "size", property(lambda _self: 2**16 + 1))
    corpus = make(examples, tokenizers, tmp_path / "c")
    assert corpus.source[0].dtype == "int32"


def test_lengths_are_summed_up(examples: Examples, tokenizers: Tokenizers, tmp_path: Path) -> None:
    statistics = make(examples, tokenizers, tmp_path / "c").target.statistics()
    assert (statistics.tokens, statistics.mean, statistics.median, statistics.longest) == (52, 2.0, 1, 3)
    assert str(statistics) == "52 tokens, 2.0 a row (half up to 1, 99 % up to 3, longest 3)"
