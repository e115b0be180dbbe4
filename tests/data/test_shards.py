"""Shards: the concatenated files, whoever makes them and however often the making was killed."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.data.mixing import Mixing
from regard.data.pairs import corpus as corpora
from regard.data.pairs.batches import PairStream
from regard.data.pairs.corpus import Corpus, prepare
from regard.data.pairs.examples import Examples, PairsData, open_examples, open_splits
from regard.data.pairs.filters import Filters
from regard.data.streams import Share
from regard.data.text import tokens as texts
from regard.data.text.text import Text, open_mixture
from regard.data.text.tokens import tokenise
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.errors import RegardError

FILTERS = Filters(max_length=40, max_ratio=3, drop_duplicates=True)


def write(path: Path, begin: int, end: int) -> None:
    """Pairs of numbers, with empty sides, duplicates and long ones among them."""
    path.parent.mkdir(exist_ok=True, parents=True)
    rows = [
        ("" if n % 17 == 5 else f"row {n % 400}", "long " * 30 if n % 23 == 7 else f"Zeile {n % 400}")
        for n in range(begin, end)
    ]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "SHARD_PAIRS", 256)


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    return Tokenizers(Tokenizer.train(["row Zeile long 0123456789"] * 3, kind="characters", vocabulary=99))


def made(examples: Examples, tokenizers: Tokenizers, folder: Path, *, processes: int = 1) -> Corpus:
    return prepare(examples, tokenizers, folder=folder, name="train", filters=FILTERS, processes=processes)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def rows(corpus: Corpus) -> list[tuple[list[int], list[int]]]:
    return [(corpus.source[row].tolist(), corpus.target[row].tolist()) for row in range(len(corpus))]


def test_many_files_in_shards_are_one_file_in_one(
    tmp_path: Path, tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in range(3):
        write(tmp_path / "parts" / f"{part}.tsv", part * 350, part * 350 + 350)
    write(tmp_path / "whole.tsv", 0, 1050)
    whole = made(open_examples(str(tmp_path / "whole.tsv"), key="data.train"), tokenizers, tmp_path / "one")
    assert sorted(content(tmp_path / "one")) == ["train.arrow", "train.json"]
    monkeypatch.setattr(corpora, "SHARD_PAIRS", 256)
    parts = made(open_examples(str(tmp_path / "parts" / "*.tsv"), key="data.train"), tokenizers, tmp_path / "many")
    assert "train-00004.arrow" in content(tmp_path / "many")
    assert rows(parts) == rows(whole)
    assert parts.source.lengths.tolist() == whole.source.lengths.tolist()
    assert parts.target.statistics() == whole.target.statistics()
    counts = [{kind: dropped.count for kind, dropped in each.report.dropped.items()} for each in (parts, whole)]
    assert counts[0] == counts[1]
    assert set(counts[0]) == {"empty", "length", "duplicate"}
    assert parts.report.dropped["length"].first.endswith("0.tsv:8")


@pytest.mark.usefixtures("small")
def test_shards_of_several_processes_are_those_of_one(tmp_path: Path, tokenizers: Tokenizers) -> None:
    write(tmp_path / "a.tsv", 0, 1500)
    examples = open_examples(str(tmp_path / "a.tsv"), key="data.train")
    made(examples, tokenizers, tmp_path / "one")
    made(examples, tokenizers, tmp_path / "two", processes=2)
    assert len(content(tmp_path / "one")) == 2 * 6 + 1
    assert content(tmp_path / "one") == content(tmp_path / "two")


@pytest.mark.usefixtures("small")
def test_finished_shards_are_kept_and_the_rest_is_made(tmp_path: Path, tokenizers: Tokenizers) -> None:
    write(tmp_path / "a.tsv", 0, 1000)
    examples = open_examples(str(tmp_path / "a.tsv"), key="data.train")
    made(examples, tokenizers, tmp_path / "c")
    whole = content(tmp_path / "c")
    (tmp_path / "c" / "train.json").unlink()  # as after a kill, with one shard missing and one half written
    (tmp_path / "c" / "train-00001.json").unlink()
    (tmp_path / "c" / "train-00001.arrow.partial").write_bytes(b"half")
    kept = tmp_path / "c" / "train-00000.arrow"
    before = kept.stat().st_mtime_ns
    made(examples, tokenizers, tmp_path / "c")
    assert content(tmp_path / "c") == whole
    assert kept.stat().st_mtime_ns == before


KILLED = """
import sys
from pathlib import Path
from regard.data.pairs import corpus
from regard.data.pairs.examples import open_examples
from regard.data.pairs.filters import Filters
from regard.data.tokenizers import Tokenizers
corpus.SHARD_PAIRS = 256
folder = Path(sys.argv[1])
examples = open_examples(str(folder / "a.tsv"), key="data.train")
filters = Filters(max_length=40, max_ratio=3, drop_duplicates=True)
corpus.prepare(examples, Tokenizers.load(folder), folder=folder / "c", name="train", filters=filters, processes=2)
"""


@pytest.mark.usefixtures("small")
def test_after_a_kill_the_result_is_that_of_a_making_in_peace(tmp_path: Path, tokenizers: Tokenizers) -> None:
    write(tmp_path / "a.tsv", 0, 25_000)
    tokenizers.save(tmp_path)
    examples = open_examples(str(tmp_path / "a.tsv"), key="data.train")
    made(examples, tokenizers, tmp_path / "peace")
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stderr=subprocess.DEVNULL)
    while process.poll() is None and not (tmp_path / "c" / "train-00002.json").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "c" / "train.json").exists()
    made(examples, tokenizers, tmp_path / "c")
    assert content(tmp_path / "c") == content(tmp_path / "peace")


@pytest.mark.usefixtures("small")
def test_only_shards_with_other_pairs_are_made_again(tmp_path: Path, tokenizers: Tokenizers) -> None:
    write(tmp_path / "a.tsv", 0, 1000)
    examples = open_examples(str(tmp_path / "a.tsv"), key="data.train")
    made(examples, tokenizers, tmp_path / "c")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "c").glob("*.arrow")}
    lines = (tmp_path / "a.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "a.tsv").write_text("".join([*lines[:600], "new\tneu\n", *lines[601:]]))
    made(examples, tokenizers, tmp_path / "c")
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "c").glob("*.arrow")}
    assert [name for name in sorted(after) if after[name] != before[name]] == ["train-00002.arrow"]
    (tmp_path / "a.tsv").write_text("".join(lines[:300]))
    assert made(examples, tokenizers, tmp_path / "c").report.read == 300
    assert sorted(path.name for path in (tmp_path / "c").glob("*.arrow")) == ["train-00000.arrow", "train-00001.arrow"]


@pytest.mark.usefixtures("small")
def test_a_damaged_shard_is_made_again(tmp_path: Path, tokenizers: Tokenizers) -> None:
    write(tmp_path / "a.tsv", 0, 600)
    examples = open_examples(str(tmp_path / "a.tsv"), key="data.train")
    made(examples, tokenizers, tmp_path / "c")
    whole = content(tmp_path / "c")
    (tmp_path / "c" / "train-00001.arrow").write_bytes(whole["train-00001.arrow"][:-3])
    with pytest.warns(RuntimeWarning, match="is made again"):
        made(examples, tokenizers, tmp_path / "c")
    assert content(tmp_path / "c") == whole


@pytest.mark.usefixtures("small")
def test_an_error_of_a_process_or_of_a_file_is_told(
    tmp_path: Path, tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.tsv", 0, 900)
    with (tmp_path / "a.tsv").open("a") as file:
        file.write("no tab\n")
    examples = open_examples(str(tmp_path / "a.tsv"), key="data.train")
    with pytest.raises(RegardError, match=r"a\.tsv:901 has no tab"):
        made(examples, tokenizers, tmp_path / "c", processes=2)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    write(tmp_path / "b.tsv", 0, 900)
    with pytest.raises(RegardError, match="has ended"):
        made(open_examples(str(tmp_path / "b.tsv"), key="data.train"), tokenizers, tmp_path / "d", processes=2)


@pytest.mark.usefixtures("small")
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=st.integers(1, 4), after=st.integers(1, 4), taken=st.integers(0, 9), seed=st.integers(0, 5))
def test_the_order_of_a_mixture_is_one_for_all_numbers_of_processes(
    tmp_path: Path, tokenizers: Tokenizers, world: int, after: int, taken: int, seed: int
) -> None:
    for name, count in (("big", 700), ("small", 90)):
        if not (tmp_path / f"{name}.tsv").exists():
            write(tmp_path / f"{name}.tsv", 0 if name == "big" else 700, 700 if name == "big" else 700 + count)
    data = PairsData(mix=[{"path": str(tmp_path / "big.tsv")}, {"path": str(tmp_path / "small.tsv"), "weight": 3.0}])
    train = open_splits(data.model_copy(update={"valid": str(tmp_path / "small.tsv")}), seed=0).train
    corpus = prepare(train, tokenizers, folder=tmp_path / "mixed", name="train", filters=Filters())
    assert sum(corpus.parts) == len(corpus)
    assert len(corpus.parts) == 2

    def stream(rank: int, of: int) -> PairStream:
        return PairStream(corpus, batch_tokens=300, seed=seed, share=Share(rank, of), mixing=data.mixing)

    alone = sorted(row for batch in stream(0, 1).epoch(1) for row in batch.rows)
    assert alone == sorted(Mixing((1.0, 3.0)).rows(corpus.parts, seed=seed, epoch=1).tolist())
    position, learned = 0, list[int]()
    for batches in zip(*(stream(rank, world).epoch(1) for rank in range(world)), strict=True):
        if position > taken:
            break
        learned += [row for batch in batches if not batch.idle for row in batch.rows]
        position = batches[0].position + 1
    rest = [stream(rank, after).epoch(1, position=position) for rank in range(after)]
    learned += [row for batches in rest for batch in batches if not batch.idle for row in batch.rows]
    assert sorted(learned) == alone


def test_a_text_in_shards_is_the_whole_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = "The cat sat on the mat, and again it sat.\n" * 400
    (tmp_path / "a.txt").write_text(written)
    (tmp_path / "b.txt").write_text("Another corpus.\n" * 100)
    tokenizer = Tokenizer.train([written], kind="bpe", vocabulary=60)
    whole = tokenise(Text((str(tmp_path / "a.txt"),)), tokenizer, folder=tmp_path / "whole", name="train")
    monkeypatch.setattr(texts, "CHUNK", 999)
    monkeypatch.setattr(texts.pieces, "__kwdefaults__", {"longest": 999})
    monkeypatch.setattr(texts, "SHARD", 4)
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        parts = tokenise(Text((str(tmp_path / "a.txt"),)), tokenizer, folder=folder, name="train", processes=processes)
        assert (parts.ids == whole.ids).all()
        assert (parts.characters, parts.unknown) == (whole.characters, whole.unknown)
        assert sorted(content(folder)) == ["train.json", "train.npy"]
    mixture = open_mixture([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")])
    mixed = tokenise(mixture, tokenizer, folder=tmp_path / "m", name="train")
    assert mixed.parts[0] == len(whole)
    assert sum(mixed.parts) == len(mixed)
    assert (mixed.ids[: len(whole)] == whole.ids).all()
