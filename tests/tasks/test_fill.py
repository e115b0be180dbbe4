"""Masks are drawn as stated, half of the pairs follow, and what is filled in is what transformers fills in."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch.nn import functional as F

import regard
import tiny_bert
from regard import models, recipes
from regard.api.exchange import import_model
from regard.data.rows.batches import in_order_of_length
from regard.data.rows.framing import IGNORED, Framing, Row
from regard.data.tokenizers import Tokenizer
from regard.errors import RegardError
from regard.special import OWN
from regard.tasks.fill.documents import FOLLOWS, pair_up
from regard.tasks.fill.masked import Masked
from regard.tasks.rows import Rows


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fill")
    tiny_bert.save(path / "theirs", "BertForPreTraining")
    import_model(path / "theirs", path / "ours")
    return path


def rows(task: Any, number: int) -> list[Row]:
    tokens = task.rows.tokenizer.encode(["cats sat on mats in parising , birds ran"])[0]
    return [task.rows.framing.frame(tokens) for _ in range(number)]


def likely(count: int, number: int, share: float) -> bool:
    """Whether a count is between the quantiles 0.001 and 0.999 of the binomial distribution, worked out exactly."""
    at = numpy.arange(number + 1)
    logs = numpy.cumsum(numpy.log(numpy.maximum(at, 1)))  # log n!
    every = logs[-1] - logs - logs[::-1] + at * numpy.log(share) + (number - at) * numpy.log1p(-share)
    below = numpy.exp(every).cumsum()
    return bool(below[count] > 0.001 and below[max(count - 1, 0)] < 0.999)


def test_masks_have_the_stated_shares(there: Path):
    task = regard.load(there / "ours").task
    generator = numpy.random.default_rng(7)
    counts: Counter[str] = Counter()
    replaced: set[int] = set()
    for at in range(6000):
        size = int(generator.integers(1, 120))
        row = Row((task.rows.framing.special.bos, *generator.integers(5, task.size, size).tolist()), (0,) * (size + 1))
        drawn = task.draw(row, numpy.random.default_rng([7, at]))
        chosen = [place for place, wanted in enumerate(drawn.wanted) if wanted != IGNORED]
        assert len(chosen) == max(1, round(0.15 * size))
        assert all(drawn.wanted[place] == row.ids[place] not in task.silent for place in chosen)
        assert all(drawn.ids[place] == row.ids[place] for place in range(size + 1) if place not in chosen)
        counts["first half"] += sum(place <= size / 2 for place in chosen) if size % 2 == 0 else 0
        counts["of even"] += len(chosen) if size % 2 == 0 else 0
        for before, after in ((row.ids[place], drawn.ids[place]) for place in chosen):
            counts["chosen"] += 1
            counts["masked" if after == task.mask else "same" if after == before else "other"] += 1
            replaced |= {after} - {before}
    assert counts["chosen"] > 50_000
    assert likely(counts["masked"], counts["chosen"], 0.8 + 0.1 / task.size)  # any token may be the mask, or the same
    assert likely(counts["same"], counts["chosen"], 0.1 + 0.1 / task.size)
    assert likely(counts["other"], counts["chosen"], 0.1 - 0.2 / task.size)
    assert likely(counts["first half"], counts["of even"], 0.5)
    assert replaced == set(range(task.size))  # any token of the vocabulary


def test_masks_are_new_in_each_epoch_and_whole_words_stay_whole(there: Path):
    task = regard.load(there / "ours").task
    row = rows(task, 1)[0]
    assert len({task.draw(row, numpy.random.default_rng(seed)).wanted for seed in range(20)}) > 5
    vocabulary = task.rows.tokenizer.vocabulary
    task.continues = frozenset(number for name, number in vocabulary.items() if name.startswith("##"))
    task.share = 0.4
    assert any(token in task.continues for token in row.ids)
    for seed in range(50):
        chosen = [wanted != IGNORED for wanted in task.draw(row, numpy.random.default_rng(seed)).wanted]
        assert all(chosen[at] == chosen[at - 1] for at, token in enumerate(row.ids) if token in task.continues)


@pytest.mark.parametrize(
    ("kind", "groups"),
    [
        ("words", [["the"], ["old"], ["cat"], ["sat"]]),
        ("words", [["the"], ["##old"], ["▁"], ["sat"]]),
        ("characters", [["t", "h", "e"], [" ", "o", "l", "d"], [" ", "c", "a", "t"], [" ", "s", "a", "t"]]),
        ("wordpiece", [["the"], ["o", "##l", "##d"], ["c", "##at"], ["s", "##at"]]),
    ],
)
def test_whole_words_are_hidden_whatever_the_vocabulary(kind: Any, groups: list[list[str]]):
    text = "the old cat sat" if kind != "words" else " ".join(word for (word,) in groups)
    tokenizer = Tokenizer.train([text, "the the at"], kind=kind, vocabulary=60)
    tokenizer.inner.add_special_tokens(["[MASK]"])
    task = Masked(Rows(tokenizer, Framing(OWN, 40)), pairs=False, share=0.15, whole_words=True)
    row = task.rows.framing.frame(tokenizer.encode([text])[0])
    assert [tokenizer.inner.id_to_token(token) for token in row.ids[1:-1]] == [
        piece for each in groups for piece in each
    ]
    places = [
        [at + sum(map(len, groups[:number])) + 1 for at in range(len(each))] for number, each in enumerate(groups)
    ]
    seen = set()
    for seed in range(60):
        drawn = task.draw(row, numpy.random.default_rng(seed))
        chosen = [place for place, wanted in enumerate(drawn.wanted) if wanted != IGNORED]
        assert chosen in places  # 0.15 of these rows is less than two words
        seen.add(tuple(chosen))
    smallest = min(map(len, places))
    fits = max(round(0.15 * sum(map(len, places))), smallest)
    assert seen == {tuple(each) for each in places if len(each) <= fits}


def test_a_row_of_one_long_word_is_hidden_whole():
    tokenizer = Tokenizer.train(["abcdefgh x"], kind="characters", vocabulary=60)
    tokenizer.inner.add_special_tokens(["[MASK]"])
    task = Masked(Rows(tokenizer, Framing(OWN, 40)), pairs=False, share=0.15, whole_words=True)
    row = task.rows.framing.frame(tokenizer.encode(["abcdefgh"])[0])
    assert task.draw(row, numpy.random.default_rng(0)).wanted == (IGNORED, *row.ids[1:-1], IGNORED)
    (batch,) = in_order_of_length([task.draw(row, numpy.random.default_rng(0))], batch_tokens=1, special=OWN)
    model = models.build("bert", vocabulary=tokenizer.size, layers=1, width=12, heads=2, next_sentence=False)
    assert task.loss(model, batch).isfinite()


def test_without_pairs_accumulated_batches_equal_one_batch_and_with_pairs_the_loss_is_two_means(there: Path):
    model = regard.load(there / "ours")
    drawn = [model.task.draw(row, numpy.random.default_rng(at)) for at, row in enumerate(rows(model.task, 5))]
    hidden = [
        Row(row.ids[: 5 + 3 * at], row.segments[: 5 + 3 * at], row.wanted[: 5 + 3 * at]) for at, row in enumerate(drawn)
    ]
    pairs = [Row(row.ids, row.segments, (at % 2, *row.wanted[1:])) for at, row in enumerate(drawn)]
    (batch,) = in_order_of_length(pairs, batch_tokens=1000, special=model.task.rows.framing.special)
    with torch.no_grad():
        states = model.module.states(batch.tokens, batch.lengths, batch.segments)
        real = batch.wanted[:, 1:] != IGNORED
        words = F.cross_entropy(model.module.words(states[:, 1:][real]), batch.wanted[:, 1:][real])
        follows = F.cross_entropy(model.module.follows(states), batch.wanted[:, 0])
        assert model.task.loss(model.module, batch).item() == pytest.approx(
            float((words + follows) * batch.targets), rel=1e-5
        )
        model.task.pairs = False
        alone, together = (
            sum(
                float(model.task.loss(model.module, each))
                for each in in_order_of_length(
                    [row for row in hidden if any(wanted != IGNORED for wanted in row.wanted)],
                    batch_tokens=tokens,
                    special=model.task.rows.framing.special,
                )
            )
            for tokens in (1, 1000)
        )
    assert alone == pytest.approx(together, rel=1e-5)


def test_half_of_the_pairs_follow_and_the_others_are_of_another_document(there: Path):
    framing = regard.load(there / "ours").task.rows.framing
    documents = [[[10 + number] * 4] * 50 for number in range(1500)]
    found = pair_up(documents, framing=framing, seed=3)
    parts = [({*row.ids} - {framing.special.bos, framing.special.eos}, row.wanted[0] == FOLLOWS) for row in found]
    assert len(found) > 9000
    assert all(len(tokens) == (1 if follows else 2) for tokens, follows in parts)
    assert likely(sum(follows for _, follows in parts), len(parts), 0.5)
    assert max(len(row.ids) for row in found) <= framing.maximum
    with pytest.raises(RegardError, match="one document has no other"):
        pair_up(documents[:1], framing=framing, seed=3)


def bert_recipe(path: Path, documents: int) -> Path:
    text = "\n\n".join(f"document {number} begins here\nand ends {number} words later" for number in range(documents))
    (path / "documents.txt").write_text(text)
    recipe = path / "recipe.toml"
    recipe.write_text(f"""
        task = "fill"
        data = {{ train = "{path / "documents.txt"}" }}
        tokenizer = {{ kind = "wordpiece", vocabulary = 90 }}
        model = {{ kind = "bert", layers = 1, width = 8, heads = 2, hidden = 16, maximum = 32 }}
        training = {{ steps = 1, batch_tokens = 64, warmup = 1 }}
    """)
    return recipe


def test_pretraining_on_four_documents_learns_from_two_and_validates_on_two(tmp_path: Path):
    model = regard.train(bert_recipe(tmp_path, 4), out=tmp_path / "model")
    assert len(model.examples()) == 2
    assert "next_sentence" in model.report["scores"]


def test_too_few_documents_for_next_sentences_are_refused_with_what_to_do(tmp_path: Path):
    with pytest.raises(RegardError, match=r"3 examples .* too few to hold 2 out .* data\.valid"):
        regard.train(bert_recipe(tmp_path, 3), out=tmp_path / "model")


def test_what_is_filled_in_is_what_transformers_fills_in(there: Path):
    theirs = tiny_bert.save(there / "again", "BertForPreTraining")
    given = tiny_bert.tokenizer()("the cat [MASK] on the mat.", return_tensors="pt")
    with torch.no_grad():
        best, tokens = theirs(**given).prediction_logits[0, 3].softmax(-1).topk(5)
    found = regard.load(there / "ours")("the cat [MASK] on the mat.")
    assert [each["token"] for each in found] == tokens.tolist()
    assert [each["score"] for each in found] == pytest.approx(best.tolist(), rel=1e-4)
    assert all(each["token_str"].removeprefix("##") in each["sequence"] for each in found)
    assert len(regard.load(there / "ours")("the [MASK] sat on [MASK]")) == 2
    with pytest.raises(RegardError, match=r"has no \[MASK\]"):
        regard.load(there / "ours")("the cat")


def test_a_model_learns_to_fill_from_nothing(tmp_path: Path):
    sentences = ["the cat sat on the mat", "the dog ran in the park"]
    text = "\n\n".join("\n".join(sentences * 2) for _ in range(12))
    (tmp_path / "documents.txt").write_text(text, encoding="utf-8")
    recipe = recipes.parse(
        f"""
task = "fill"
[data]
train = "{tmp_path / "documents.txt"}"
valid = "{tmp_path / "documents.txt"}"
max_length = 32
[tokenizer]
kind = "words"
[model]
kind = "bert"
layers = 1
width = 32
heads = 2
dropout = 0.0
[training]
steps = 150
batch_tokens = 512
learning_rate = 0.005
warmup = 10
schedule = "constant"
validate_every = 75
checkpoint_every = 75
precision = "float32"
""",
        where="test",
    )
    model = regard.train(recipe, out=tmp_path / "model")
    assert model.report["scores"]["accuracy"] > 60
    assert regard.load(tmp_path / "model")("the cat sat on the [MASK]")[0]["token_str"] in ("mat", "park")
    assert {"accuracy", "next_sentence", "perplexity"} <= model.report["scores"].keys()
