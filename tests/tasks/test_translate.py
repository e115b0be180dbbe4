from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from regard.data.pairs.batches import PairBatch
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.decoding import DecodingConfig, Hypothesis
from regard.models import build
from regard.special import BOS, EOS, PAD, UNK
from regard.tasks.translate import task as translate
from regard.tasks.translate.task import Answer, Transcribe, Translate

VOCABULARY = 11
KINDS = {
    "transformer": {"layers": 2, "width": 14, "heads": 7, "hidden": 17},
    "seq2seq": {"layers": 1, "width": 14},
    "conv_seq2seq": {"layers": 2, "width": 14},
}
EVERY = pytest.mark.parametrize("kind", list(KINDS))
SOURCES = [[5, 7, 4], [6], [4, 4, 9, 10, 5]]
TARGETS = [[8, 4], [5, 6, 7, 9], [10]]
SENTENCES = ["a big cat sees", "the old dog", "a dog sees the cat"]


def model_of(kind, *, dropout=0.0, vocabulary=VOCABULARY):
    torch.manual_seed(3)
    return build(kind, vocabulary=vocabulary, dropout=dropout, **KINDS[kind])


def batch_of(sources, targets):
    def table(rows):
        longest = max(map(len, rows))
        return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])

    given_sources = [[*row, EOS] for row in sources]
    given_targets = [[BOS, *row, EOS] for row in targets]
    lengths = torch.tensor([len(row) for row in given_sources])
    counts = torch.tensor([len(row) - 1 for row in given_targets])
    rows = tuple(range(len(sources)))
    return PairBatch(table(given_sources), lengths, table(given_targets), counts, int(counts.sum()), rows)


@pytest.fixture(scope="module")
def tokenizers():
    return Tokenizers(Tokenizer.train(SENTENCES, kind="words", vocabulary=20))


# the loss


@EVERY
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_loss_is_torchs_cross_entropy_summed_over_targets(tokenizers, kind, smoothing):
    model, batch = model_of(kind), batch_of(SOURCES, TARGETS)
    logits = model.output(model(batch.source, batch.source_lengths, batch.target[:, :-1]))
    expected = F.cross_entropy(
        logits.flatten(0, 1),
        batch.target[:, 1:].flatten(),
        ignore_index=PAD,
        label_smoothing=smoothing,
        reduction="sum",
    )
    assert_close(Translate(tokenizers, smoothing=smoothing).loss(model, batch), expected, atol=1e-4, rtol=1e-5)


@EVERY
def test_the_loss_of_a_batch_is_the_sum_of_its_rows(tokenizers, kind):
    model, task = model_of(kind), Translate(tokenizers, smoothing=0.1)
    alone = sum(task.loss(model, batch_of([s], [t])) for s, t in zip(SOURCES, TARGETS, strict=True))
    assert_close(task.loss(model, batch_of(SOURCES, TARGETS)), alone, atol=1e-4, rtol=1e-5)


@EVERY
def test_r_drop_adds_nothing_where_there_is_no_dropout_and_something_where_there_is(tokenizers, kind):
    batch, plain, twice = batch_of(SOURCES, TARGETS), Translate(tokenizers), Translate(tokenizers, r_drop=5.0)
    calm = model_of(kind)
    assert_close(twice.loss(calm, batch), plain.loss(calm, batch), atol=1e-4, rtol=1e-5)
    noisy = model_of(kind, dropout=0.4)
    torch.manual_seed(5)
    small = Translate(tokenizers, r_drop=1e-9).loss(noisy, batch)
    torch.manual_seed(5)
    large = twice.loss(noisy, batch)
    assert large > small + 0.1


@EVERY
def test_every_weight_learns_from_the_loss(tokenizers, kind):
    model = model_of(kind)
    Translate(tokenizers, smoothing=0.1, r_drop=1.0).loss(model, batch_of(SOURCES, TARGETS)).backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


# answers


@EVERY
@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 3, "n_best": 2}, {"sample": True, "seed": 5}], ids=str)
def test_answers_do_not_depend_on_how_texts_are_batched(tokenizers, kind, options):
    model, task = model_of(kind, vocabulary=tokenizers.source.size), Translate(tokenizers)
    texts = [*SENTENCES, "", "cat", "dog " * 9, "  "]
    by_size = [
        task.translate(model, texts, decoding=DecodingConfig(max_length=6, batch_tokens=size, **options))
        for size in (1, 12, 1000)
    ]
    assert len({tuple(tuple(a.tokens for a in found) for found in answers) for answers in by_size}) == 1
    assert [len(found) for found in by_size[0]] == [
        1 if not text.strip() else options.get("n_best", 1) for text in texts
    ]


def test_a_prefix_belongs_to_its_own_text(tokenizers):
    model, task = model_of("transformer", vocabulary=tokenizers.source.size), Translate(tokenizers)
    prefix = ["the old", "", "cat sees a"]
    found = task.translate(model, SENTENCES, decoding=DecodingConfig(max_length=6), prefix=prefix)
    assert all(answers[0].text.startswith(begin) for answers, begin in zip(found, prefix, strict=True))


# alignments and unknown words, from weights that are made up


@pytest.fixture
def looking(monkeypatch):
    """Make every alignment the given one."""

    def pretend(*weights):
        monkeypatch.setattr(translate, "align", lambda *_: [torch.tensor(each) for each in weights])

    return pretend


def test_a_word_is_aligned_with_the_word_that_its_pieces_looked_at_most(looking):
    """Source words of 2 and 1 pieces, answer words of 1 and 2; the end of the source, the last column, is no word."""
    both = Tokenizers(Tokenizer.train(["ab c"], kind="characters", vocabulary=9))
    ids = both.source.encode(["c ab"])[0]
    looking(
        [[0.1, 0.2, 0.0, 0.3, 0.4], [0.0, 0.0, 0.0, 0.1, 0.9], [0.2, 0.2, 0.0, 0.3, 0.3], [0.1, 0.4, 0.1, 0.4, 0.0]]
    )
    answer = Answer("c ab", 0.0, tuple(ids), ())
    assert Translate(both).align_words(model_of("seq2seq"), "ab c", [answer]) == [(1, 0), (0, 1)]


def test_an_unknown_word_is_replaced_by_the_source_word_it_looked_at(tokenizers, looking, monkeypatch):
    cat, zebra, okapi = tokenizers.source.encode(["cat"])[0][0], 2, 0
    answers = [[Hypothesis((cat, UNK, UNK), -1.0, ()), Hypothesis((UNK,), -2.0, ())]]
    monkeypatch.setattr(translate, "search", lambda *_, **__: answers)
    rows = torch.eye(5).tolist()
    looking([rows[1], rows[zebra], rows[okapi]], [[0.2, 0.1, 0.3, 0.0, 0.4]])
    model = model_of("seq2seq", vocabulary=tokenizers.source.size)
    decoding = DecodingConfig(n_best=2, replace_unknown=True)
    found = Translate(tokenizers).translate(model, ["okapi cat zebra sees"], decoding=decoding)
    assert [answer.text for answer in found[0]] == ["cat zebra okapi", "zebra"]
    assert [answer.score for answer in found[0]] == [-1.0, -2.0]


@settings(max_examples=50)
@given(st.lists(st.text("ab€é", min_size=1, max_size=4), min_size=1, max_size=5), st.data())
def test_the_source_word_is_found_from_any_of_its_characters_whatever_white_space_is_around(parts, data):
    spaces = [data.draw(st.sampled_from([" ", "\t", "\u202f", "  "])) for _ in parts]
    text = "".join(word + space for word, space in zip(parts, spaces, strict=True))
    characters = Tokenizers(Tokenizer.train([text], kind="characters", vocabulary=30))
    position = data.draw(st.sampled_from([place for place, character in enumerate(text) if not character.isspace()]))
    looked = torch.zeros(1, len(text) + 1)
    looked[0, position] = 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translate, "search", lambda *_, **__: [[Hypothesis((UNK,), 0.0, ())]])
        patch.setattr(translate, "align", lambda *_: [looked])
        model = model_of("seq2seq", vocabulary=characters.source.size)
        (answer,) = Translate(characters).translate(model, [text], decoding=DecodingConfig(replace_unknown=True))[0]
        aligned = Translate(characters).align_words(model, text, [answer])
    assert answer.text == text.split()[len(text[: position + 1].split()) - 1]
    assert aligned == [(text.split().index(answer.text), 0)] or parts.count(answer.text) > 1


# scores


def test_text_and_lexicons_are_scored_by_their_own_measures(tokenizers):
    answers, references = ["a b c d", "x"], [["a b c d"], ["y", "z"]]
    text, lexicon = Translate(tokenizers), Transcribe(tokenizers)
    assert list(text.scores(answers, references)) == ["bleu", "chrf", "ter", "exact"]
    assert {name: score.value for name, score in lexicon.scores(answers, references).items()} == {
        "word_error": 50.0,
        "symbol_error": 20.0,
    }
    assert text.validation_score(answers, references)["bleu"].value == text.scores(answers, references)["bleu"].value
    assert {name: score.value for name, score in lexicon.validation_score(answers, references).items()} == {
        "word_error": 50
    }


# a hard choice with R-Drop


@pytest.mark.parametrize("order", [{"order": "luong"}, {"order": "luong", "input_feeding": True}], ids=str)
def test_with_a_hard_choice_the_gradient_of_r_drop_is_unbiased(tokenizers, order, monkeypatch):
    """All ways to draw for two targets in two passes: the mean gradient of `loss` is the gradient of the mean loss."""
    torch.manual_seed(17)
    config = {"width": 4, "embedding": 3, "cell": "gru", "score": "additive", "choice": "hard", "dropout": 0.0, **order}
    model = build("seq2seq", vocabulary=VOCABULARY, **config).double()
    model.output.products = torch.float64
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)  # away from uniform weights and from small differences
    batch, weight, smoothing = batch_of([[5]], [[8]]), 2.5, 0.1  # two places, two targets
    task = Translate(tokenizers, smoothing=smoothing, r_drop=weight)
    names, learned = zip(*((n, p) for n, p in model.named_parameters() if "baseline" not in n), strict=True)
    drawn = []

    def race(self, *_, **__):
        """Times of arrival (2, 1, Q, S) such that the place that was chosen beforehand comes first."""
        times = torch.ones_like(self)
        for row in range(len(self)):
            for query in range(self.shape[2]):
                times[row, 0, query, next(drawn[row])] = 1e-300
        return times

    monkeypatch.setattr(torch.Tensor, "exponential_", race)

    def follow(places):
        drawn[:] = [iter(places[:2]), iter(places[2:])]

    expected, mean = 0.0, [torch.zeros_like(parameter) for parameter in learned]
    wanted, given = batch.target[:, 1:].repeat(2, 1), batch.target[:, :-1].repeat(2, 1)
    for places in product(range(2), repeat=4):
        follow(places)
        rollout = model.rollout(batch.source.repeat(2, 1), batch.source_lengths.repeat(2), given)
        probability = rollout.draw[..., 0].sum().exp()
        logs = model.output(rollout.hidden).log_softmax(-1)
        right = F.cross_entropy(logs.flatten(0, 1), wanted.flatten(), label_smoothing=smoothing, reduction="sum")
        apart = sum(F.kl_div(*pair, log_target=True, reduction="sum") for pair in (logs, logs.flip(0)))
        expected = expected + probability * (right + weight * apart) / 2
        follow(places)
        found = torch.autograd.grad(task.loss(model, batch), learned, allow_unused=True)
        for total, gradient in zip(mean, found, strict=True):
            total += 0 if gradient is None else probability.detach() * gradient
    exact = torch.autograd.grad(expected, learned, allow_unused=True)
    assert any("score" in name for name in names)
    for total, gradient in zip(mean, exact, strict=True):
        assert_close(total, torch.zeros_like(total) if gradient is None else gradient)
