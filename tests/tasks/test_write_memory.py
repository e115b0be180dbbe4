"""Writing with a memory that goes from batch to batch: its losses, its checkpoints, its evaluation and its look."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy
import pytest
import safetensors.torch
import torch
from torch.nn import functional as F

import regard
from regard import RegardError, models
from regard.data.streams import Share
from regard.data.text.lanes import LaneStream
from regard.data.text.tokens import Tokens
from regard.data.tokenizers import Tokenizer
from regard.special import BOS
from regard.tasks.base import Looking, Remembers
from regard.tasks.write import judging
from regard.tasks.write.task import Write
from written_models import written, written_recipe

VOCABULARY, BLOCK = 29, 8


def made(**settings: Any) -> Any:
    torch.manual_seed(3)
    sizes = {"layers": 2, "width": 12, "heads": 2, "memory": 5, "dropout": 0.0}
    model = models.build("transformer_xl", vocabulary=VOCABULARY, **{**sizes, **settings})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def made_task(block: int = BLOCK, **settings: Any) -> Write:
    letters = "".join(map(chr, range(97, 97 + VOCABULARY - 4)))
    tokenizer = Tokenizer.train([letters], kind="characters", vocabulary=VOCABULARY)
    return Write(tokenizer, block=block, reach=None, **settings)


def ids_of(length: int) -> Any:
    return numpy.random.default_rng(length).integers(4, VOCABULARY, length).astype(numpy.uint16)


def stream(tokens: int = 60, *, rows: int = 3, block: int = BLOCK) -> LaneStream:
    return LaneStream(Tokens(ids_of(tokens), tokens, 0, ""), block=block, rows=rows, seed=1, share=Share())


def one_pass(model: Any, ids: Any) -> torch.Tensor:
    """−log P of each token, all read at once."""
    text = torch.from_numpy(ids.astype(numpy.int64))
    with torch.no_grad():
        logits = model.output(model(torch.cat([torch.tensor([BOS]), text[:-1]]).unsqueeze(0)))[0]
    return F.cross_entropy(logits, text, reduction="none")


# evaluation


@pytest.mark.parametrize("length", [1, 7, 8, 61])
def test_with_a_memory_as_long_as_the_text_losses_are_those_of_one_causal_pass(length: int):
    model, ids = made(memory=2, evaluation_memory=length), ids_of(length)
    torch.testing.assert_close(made_task().losses(model, ids), one_pass(model, ids), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("memory", [0, 1, 5, 11])
def test_lanes_side_by_side_give_the_losses_of_reading_from_beginning_to_end(
    monkeypatch: pytest.MonkeyPatch, memory: int
):
    model, ids = made(memory=memory), ids_of(421)
    task = made_task()
    monkeypatch.setattr(judging, "WORTHWHILE", 1)
    assert judging._lanes(model, len(ids), task.block).number > 5
    found = task.losses(model, ids)
    monkeypatch.setattr(judging, "LANES", 1)
    torch.testing.assert_close(found, task.losses(model, ids), atol=1e-5, rtol=1e-5)


def test_a_longer_memory_changes_the_losses_after_the_first_block():
    ids = ids_of(100)
    short, long = (made_task().losses(made(evaluation_memory=memory), ids) for memory in (2, 40))
    torch.testing.assert_close(short[:BLOCK], long[:BLOCK])
    assert ((short - long).abs()[BLOCK:] > 1e-4).float().mean() > 0.9


# learning


def test_losses_of_batches_are_those_of_a_memory_carried_by_hand():
    model, task = made().train(), made_task()
    state = None
    for batch in stream().epoch(0):
        hidden, state = model.read(batch.tokens, None if batch.position == 0 else state)
        right = F.cross_entropy(model.output(hidden)[batch.counted], batch.wanted[batch.counted], reduction="sum")
        assert task.loss(model, batch).item() == pytest.approx(right.item(), rel=1e-5)
    assert {name: x.shape for name, x in task.remembered().items()} == {"0": (3, 5, 12), "1": (3, 5, 12)}


def test_validation_leaves_the_memory_of_training_alone():
    model, batches = made(), list(stream().epoch(0))
    alone, between = made_task(), made_task()
    for batch in batches:
        right = alone.loss(model.train(), batch).item()
        assert between.loss(model, batch).item() == right
        model.eval()
        with torch.no_grad():
            for other in stream(40, rows=2).in_order():
                between.loss(model, other, plain=True)


def test_a_task_is_reminded_of_what_it_remembered():
    model, batches = made().train(), list(stream().epoch(0))
    first, second, forgetful = made_task(), made_task(), made_task()
    assert isinstance(first, Remembers)
    for batch in batches[:2]:
        first.loss(model, batch)
    second.remind(first.remembered())
    right = first.loss(model, batches[2]).item()
    assert second.loss(model, batches[2]).item() == right
    assert forgetful.loss(model, batches[2]).item() != pytest.approx(right, rel=1e-6)


def weights(path: Path) -> bytes:
    return (path / "weights.safetensors").read_bytes()


CHANGES = [
    *("model.dropout=0.2", "training.schedule=constant", "training.accumulate=2", "training.validate_every=5"),
    *("training.ema=0.9", "model.memory=30", "training.checkpoint_every=7", "training.keep=1"),
]


def test_a_killed_run_goes_on_to_the_bit_in_the_middle_of_an_epoch(tmp_path: Path):
    recipe = written_recipe(tmp_path, kind="transformer_xl", steps=17)
    whole = regard.train(recipe, out=tmp_path / "whole", changes=CHANGES)
    child = os.fork()
    if child == 0:
        loss, calls = Write.loss, []

        def deadly(self: Write, model: Any, batch: Any, *, plain: bool = False) -> Any:
            calls.extend([] if plain else [batch])
            if len(calls) == 20:  # in the tenth step; the last checkpoint is of the seventh
                os.kill(os.getpid(), signal.SIGKILL)
            return loss(self, model, batch, plain=plain)

        Write.loss = deadly  # type: ignore[method-assign]
        regard.train(recipe, out=tmp_path / "parts", changes=CHANGES)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    (left,) = (tmp_path / "parts").glob("**/step-00000007/training.safetensors")
    stored = safetensors.torch.load_file(left)
    assert len(stored["remembered/1"]) == 8
    assert stored["remembered/1"].any()
    again = regard.train(recipe, out=tmp_path / "parts", changes=CHANGES)
    assert weights(again.path) == weights(whole.path)
    assert again.report["validations"] == whole.report["validations"]


def test_what_cannot_be_is_refused(tmp_path: Path):
    recipe = written_recipe(tmp_path, kind="transformer_xl", steps=3)
    with pytest.raises(RegardError, match='kind = "transformer_xl" reads them one after the other, with its memory'):
        regard.train(recipe, out=tmp_path / "out", changes=["data.carry=5"])
    with pytest.raises(RegardError, match="memory"):
        regard.train(recipe, out=tmp_path / "out", changes=["model.memory=-1"])


# after training


def test_a_trained_model_is_evaluated_with_another_memory_and_with_nothing_else_changed():
    model = written("transformer_xl")
    plain = model.evaluate()["perplexity"]
    assert plain.signature.endswith("blocks of 24, memory of 24")
    other = regard.load(model.path, changes=["model.evaluation_memory=100"]).evaluate()["perplexity"]
    assert other.signature.endswith("blocks of 24, memory of 100")
    assert other.value != plain.value
    with pytest.raises(RegardError, match=r"model.heads=1': only keys of \[data\] and model.evaluation_memory can be"):
        regard.load(model.path, changes=["model.heads=1"])


def test_look_shows_the_memory_before_the_block_and_names_it():
    model = written("transformer_xl")
    text = "the cat sat on the mat.\nthe dog sat on the log.\n"
    record = model.look(text, reference="\na")
    items = record.sides["source"].items
    assert len(items) == 24 + 24
    assert all(item.startswith("↺") for item in items[:24])
    assert not any(item.startswith("↺") for item in items[24:])
    assert "".join(item.removeprefix("↺") for item in items).replace("␊", "\n") in text + "\na"
    assert "Items with ↺ are the memory" in record.notes[0]
    for each in record.maps:
        assert (each.query, each.key, tuple(each.weights.shape)) == ("target", "source", (2, 24, 48))
        torch.testing.assert_close(each.weights.sum(-1), torch.ones(2, 24))
        assert each.weights[..., :24].sum() > 0
        assert not each.weights[:, 0, 25:].any()
    assert record.sides["target"].items[-2:] == ("\n", "a")


def test_a_text_of_one_block_is_seen_without_memory():
    model = written("transformer_xl")
    sight = model.task.sight(model.module, "the cat", Looking(model.recipe.decoding, reference=" sat"))
    assert (sight.salient, len(sight.inputs or ())) == ("target", 10)
