"""Masks are drawn as stated, half of the pairs follow, and what is filled in is what transformers fills in."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

import regard
import tiny_bert
from regard import recipes
from regard.api.exchange import import_model
from regard.data.rows.framing import IGNORED, Row
from regard.errors import RegardError
from regard.tasks.fill.documents import FOLLOWS, pair_up


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fill")
    tiny_bert.save(path / "theirs", "BertForPreTraining")
    import_model(path / "theirs", path / "ours")
    return path


def rows(task: Any, number: int) -> list[Row]:
    tokens = task.rows.tokenizer.encode(["cats sat on mats in parising , birds ran"])[0]
    return [task.rows.framing.frame(tokens) for _ in range(number)]


def test_masks_have_the_stated_shares(there: Path):
    task = regard.load(there / "ours").task
    counts: Counter[str] = Counter()
    for at, row in enumerate(rows(task, 4000)):
        drawn = task.draw(row, numpy.random.default_rng([7, at]))
        for before, after, wanted in zip(row.ids, drawn.ids, drawn.wanted, strict=True):
            counts["all"] += before not in task.silent
            if wanted == IGNORED:
                assert after == before
                continue
            assert wanted == before not in task.silent
            counts["chosen"] += 1
            counts["masked" if after == task.mask else "same" if after == before else "other"] += 1
    assert counts["chosen"] / counts["all"] == pytest.approx(0.15, abs=0.02)  # a whole number of each row
    assert counts["masked"] / counts["chosen"] == pytest.approx(0.8, abs=0.02)
    assert counts["other"] / counts["chosen"] == pytest.approx(0.1, abs=0.015)
    assert counts["same"] / counts["chosen"] == pytest.approx(0.1, abs=0.015)


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


def test_half_of_the_pairs_follow_and_the_others_are_of_another_document(there: Path):
    framing = regard.load(there / "ours").task.rows.framing
    documents = [[[10 + number] * 4] * 50 for number in range(50)]
    found = pair_up(documents, framing=framing, seed=3)
    parts = [({*row.ids} - {framing.special.bos, framing.special.eos}, row.wanted[0] == FOLLOWS) for row in found]
    assert len(found) > 300
    assert all(len(tokens) == (1 if follows else 2) for tokens, follows in parts)
    assert sum(follows for _, follows in parts) / len(parts) == pytest.approx(0.5, abs=0.08)
    assert max(len(row.ids) for row in found) <= framing.maximum
    with pytest.raises(RegardError, match="one document has no other"):
        pair_up(documents[:1], framing=framing, seed=3)


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
