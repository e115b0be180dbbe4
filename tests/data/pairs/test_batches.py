"""Batches of tensors: their form, and the same sequence whatever the interruptions and the number of processes."""

from itertools import islice

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch.testing import assert_close

from regard.data.bpe_dropout import PairDropout
from regard.data.pairs import batches as module
from regard.data.pairs.batches import PairBatch, PairStream, source_batches
from regard.data.pairs.corpus import Corpus, prepare
from regard.data.pairs.examples import open_examples
from regard.data.pairs.filters import Filters
from regard.data.streams import Share
from regard.data.tokenizers import TokenizerConfig, Tokenizers
from regard.special import BOS, EOS, PAD

ROWS = 173


@pytest.fixture(scope="module")
def tokenizers_and_corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizers, Corpus]:
    folder = tmp_path_factory.mktemp("batches")
    random = numpy.random.default_rng(1)
    words = ["a", "man", "sleeps", "newest", "lower", "running", "dogs"]

    def text() -> str:
        return " ".join(random.choice(words, size=random.integers(1, 13)))

    path = folder / "train.tsv"
    path.write_text("".join(f"{text()}\t{text()}\n" for _ in range(ROWS)))
    examples = open_examples(str(path), key="data.train")
    tokenizers = Tokenizers.train(examples, TokenizerConfig(vocabulary=61))
    return tokenizers, prepare(examples, tokenizers, folder=folder, name="train", filters=Filters())


@pytest.fixture(scope="module")
def corpus(tokenizers_and_corpus: tuple[Tokenizers, Corpus]) -> Corpus:
    return tokenizers_and_corpus[1]


@pytest.fixture(scope="module")
def dropout(tokenizers_and_corpus: tuple[Tokenizers, Corpus]) -> PairDropout:
    return PairDropout(tokenizers_and_corpus[0], rate=0.2, seed=3, longest=101)


def same(left: PairBatch, right: PairBatch) -> bool:
    return (left.rows, left.epoch, left.position) == (right.rows, right.epoch, right.position) and torch.equal(
        left.target, right.target
    )


def test_a_batch_is_ids_between_the_right_ends(corpus: Corpus) -> None:
    for batch in PairStream(corpus, batch_tokens=307, seed=1).epoch(0):
        assert batch.targets == batch.target_lengths.sum()
        assert batch.source.shape[1] == batch.source_lengths.max()
        assert batch.target.shape[1] == batch.target_lengths.max() + 1
        for number, row in enumerate(batch.rows):
            source, target = corpus.source[row].tolist(), corpus.target[row].tolist()
            pads = batch.source.shape[1] - len(source) - 1
            assert batch.source[number].tolist() == [*source, EOS, *[PAD] * pads]
            pads = batch.target.shape[1] - len(target) - 2
            assert batch.target[number].tolist() == [BOS, *target, EOS, *[PAD] * pads]
        assert_close(batch.source_lengths, (batch.source != PAD).sum(1))
        assert_close(batch.target_lengths, (batch.target[:, 1:] != PAD).sum(1))
        assert batch.source.dtype == batch.source_lengths.dtype == batch.target.dtype == torch.int64
        assert batch.to("meta").target.device.type == "meta"


@given(
    world=some.integers(1, 5),
    seed=some.integers(0, 9),
    epoch=some.integers(0, 3),
    budget=some.integers(103, 499),
    dropping=some.booleans(),
    window=some.sampled_from([29, 2**18]),
)
@settings(max_examples=30)
def test_every_row_comes_once_an_epoch_over_all_processes_within_the_budget(
    corpus: Corpus, dropout: PairDropout, world: int, seed: int, epoch: int, budget: int, dropping: bool, window: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WINDOW", window)
        patch.setattr(module, "DRAWN_WINDOW", window)
        processes = [
            PairStream(
                corpus, batch_tokens=budget, seed=seed, share=Share(rank, world), dropout=dropout if dropping else None
            )
            for rank in range(world)
        ]
        shares = [list(process.epoch(epoch)) for process in processes]
    assert len({len(share) for share in shares}) == 1
    rows = [row for share in shares for batch in share for row in batch.rows if not batch.idle]
    assert sorted(rows) == list(range(ROWS))
    for share in shares:
        positions = [batch.position for batch in share]
        assert positions == [batch.position for batch in shares[0]]
        assert positions == sorted(set(positions))
        for batch in share:
            assert len(batch.rows) * batch.target_lengths.max() <= budget
            assert len(batch.rows) * batch.source_lengths.max() <= budget


@given(position=some.integers(0, 40), dropping=some.booleans(), rank=some.integers(0, 1))
@settings(max_examples=20)
def test_going_on_is_the_same_as_never_having_stopped(
    corpus: Corpus, dropout: PairDropout, position: int, dropping: bool, rank: int
) -> None:
    def stream(epoch: int, position: int) -> list[PairBatch]:
        batches = PairStream(
            corpus, batch_tokens=401, seed=5, share=Share(rank, 2), dropout=dropout if dropping else None
        )
        return list(islice(batches.stream(epoch=epoch, position=position), 50))

    through = stream(0, 0)
    stopped = through[position]
    after = stream(stopped.epoch, stopped.position + 1)
    assert through[-1].epoch >= 1
    assert len(through[position + 1 :]) > 0
    assert all(same(left, right) for left, right in zip(through[position + 1 :], after, strict=False))


def test_epochs_and_seeds_differ_and_repeat(corpus: Corpus) -> None:
    def rows(seed: int, epoch: int) -> list[tuple[int, ...]]:
        return [batch.rows for batch in PairStream(corpus, batch_tokens=307, seed=seed).epoch(epoch)]

    assert rows(1, 0) == rows(1, 0)
    assert rows(1, 0) != rows(1, 1)
    assert rows(1, 0) != rows(2, 0)


def test_dropout_gives_other_segmentations_in_each_epoch(corpus: Corpus, dropout: PairDropout) -> None:
    batches = PairStream(corpus, batch_tokens=401, seed=1, dropout=dropout)
    drawn = [
        {row: batch.target[n].tolist() for batch in batches.epoch(e) for n, row in enumerate(batch.rows)}
        for e in (0, 1)
    ]
    strip = [{row: [i for i in ids if i != PAD] for row, ids in epoch.items()} for epoch in drawn]
    assert sum(strip[0][row] != strip[1][row] for row in range(ROWS)) > ROWS / 2


def test_little_of_a_batch_is_padding(corpus: Corpus) -> None:
    """These pairs have two sides of independent lengths; all rows in one table would be nearly half padding."""

    def padding(tables: list[torch.Tensor]) -> float:
        return sum(int((table == PAD).sum()) for table in tables) / sum(table.numel() for table in tables)

    (whole,) = PairStream(corpus, batch_tokens=10**6, seed=1).epoch(3)
    batches = PairStream(corpus, batch_tokens=307, seed=1).epoch(3)
    assert padding([table for batch in batches for table in (batch.source, batch.target)]) < 0.25
    assert padding([whole.source, whole.target]) > 0.4


def test_the_stream_says_what_it_holds(corpus: Corpus) -> None:
    stream = PairStream(corpus, batch_tokens=307, seed=1)
    assert stream.checksum == corpus.checksum
    report, source, target = stream.describe()
    assert report == f"{ROWS} pairs read, {ROWS} kept"
    assert source == f"  source: {corpus.source.statistics()}"
    assert target == f"  target: {corpus.target.statistics()}"


def test_validation_takes_the_longest_first_and_remembers_rows(corpus: Corpus) -> None:
    batches = list(PairStream(corpus, batch_tokens=307, seed=1).in_order())
    assert sorted(row for batch in batches for row in batch.rows) == list(range(ROWS))
    widths = [max(batch.source.shape[1], batch.target.shape[1] - 1) for batch in batches]
    assert widths == sorted(widths, reverse=True)
    for batch in batches:
        assert batch.target[0, 1 : batch.target_lengths[0]].tolist() == corpus.target[batch.rows[0]].tolist()


def test_sources_to_answer_look_like_sources_in_training(corpus: Corpus) -> None:
    ids = [[5, 6, 7], [], [8] * 23, [9]]
    batches = list(source_batches(ids, batch_tokens=13))
    assert sorted(row for batch in batches for row in batch.rows) == [0, 1, 2, 3]
    for batch in batches:
        for number, row in enumerate(batch.rows):
            assert batch.source[number, : batch.source_lengths[number]].tolist() == [*ids[row], EOS]
    assert list(source_batches([], batch_tokens=13)) == []
    (batch,) = source_batches([corpus.source[7].tolist()], batch_tokens=13)
    trained = next(b for b in PairStream(corpus, batch_tokens=307, seed=1).epoch(0) if 7 in b.rows)
    length = int(batch.source_lengths[0])
    assert_close(batch.source[0], trained.source[trained.rows.index(7), :length])


def test_wrong_arguments_are_told(corpus: Corpus) -> None:
    with pytest.raises(ValueError, match="batch_tokens=3 is less than the longest row"):
        next(PairStream(corpus, batch_tokens=3, seed=1).stream())
