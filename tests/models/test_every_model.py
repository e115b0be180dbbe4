"""One test walks the whole table: a new system is covered on the day it is listed."""

from dataclasses import dataclass

import pytest
import torch
from torch.testing import assert_close

from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.look import recording
from regard.models import KINDS, build, config_class, kinds
from regard.tasks.translate.task import Translate

VOCABULARY = 19


@dataclass(frozen=True)
class Batch:
    source: torch.Tensor
    source_lengths: torch.Tensor
    target: torch.Tensor


def tiny(kind: str) -> torch.nn.Module:
    torch.manual_seed(0)
    sizes = {"layers": 2, "width": 12, "dropout": 0.0}
    more = {"heads": 3, "hidden": 17} if "heads" in config_class(kind).model_fields else {}
    return build(kind, vocabulary=VOCABULARY, **sizes, **more)


def batch() -> Batch:
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(4, VOCABULARY, (3, 7), generator=generator)
    target = torch.randint(4, VOCABULARY, (3, 6), generator=generator)
    source[0, 3:], target[:, 0], target[1, 4:] = 0, 2, 0
    return Batch(source, torch.tensor([3, 7, 7]), target)


def task() -> Translate:
    letters = Tokenizer.train(["abcdefghijklmno"], kind="characters", vocabulary=VOCABULARY)
    return Translate(Tokenizers(letters), smoothing=0.1)


def test_kinds_are_those_of_the_table():
    assert kinds() == list(KINDS)
    assert all(kind.summary for kind in KINDS.values())


@pytest.mark.parametrize("kind", kinds("pairs"))
def test_every_parameter_learns(kind: str):
    model = tiny(kind)
    loss = task().loss(model, batch())
    loss.backward()
    assert torch.isfinite(loss)
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert silent == []
    assert all(p.grad.abs().sum() > 0 for name, p in model.named_parameters() if not name.endswith("key.bias"))


@pytest.mark.parametrize("kind", kinds("pairs"))
def test_steps_equal_teacher_forcing(kind: str):
    model, examples = tiny(kind).eval(), batch()
    whole = model.output(model(examples.source, examples.source_lengths, examples.target))
    state = model.start(model.encode(examples.source, examples.source_lengths))
    for place in range(examples.target.shape[1]):
        logits, state = model.step(examples.target[:, place], state)
        assert_close(logits, whole[:, place], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", kinds("pairs"))
def test_gradients_of_steps_are_those_of_teacher_forcing(kind: str):
    model, examples = tiny(kind).eval(), batch()
    parameters = [p for name, p in model.named_parameters() if not name.endswith("key.bias")]
    whole = model.output(model(examples.source, examples.source_lengths, examples.target))
    wanted = torch.autograd.grad(whole.square().sum(), parameters)
    state, losses = model.start(model.encode(examples.source, examples.source_lengths)), []
    for token in examples.target.unbind(1):
        logits, state = model.step(token, state)
        losses.append(logits.square().sum())
    for found, each in zip(torch.autograd.grad(torch.stack(losses).sum(), parameters), wanted, strict=True):
        assert_close(found, each, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("kind", kinds("pairs"))
def test_recording_gives_the_alignment_and_changes_nothing(kind: str):
    model, examples = tiny(kind).eval(), batch()
    parts = examples.source, examples.source_lengths, examples.target
    plain = model(*parts)
    with recording(model) as record:
        watched = model(*parts)
    assert_close(watched, plain, atol=1e-5, rtol=1e-4)
    weights = torch.cat(record.calls(model.alignment), 2)
    assert weights.shape[2:] == (6, 7)
    assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert weights[0, ..., 3:].abs().sum() == 0
