"""A Transformer whose decoder is recurrent, by the laws of a Transformer."""

import pytest
import torch
from torch.testing import assert_close

from regard.attention.recorder import recording
from regard.errors import RegardError
from regard.interchange.huggingface.marian import write
from regard.layers.steps import Steps
from regard.models import build
from regard.models.transformer import State, Transformer, TransformerConfig

WIRINGS = ["post_norm", "pre_norm", "deep_norm"]
POSITIONS = ["none", "sinusoidal", "learned", "shaw", "rotary", "alibi"]


def tiny(**settings: object) -> Transformer:
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 2, "width": 12, "heads": 3, "hidden": 17, "dropout": 0.0}
    model = build("transformer", vocabulary=23, decoder="ssru", **{**sizes, **settings})
    assert isinstance(model, Transformer)
    return model.eval()


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    source = torch.randint(4, 23, (3, 7), generator=torch.Generator().manual_seed(1))
    source[0, 2:], source[1, 5:] = 0, 0
    target = torch.randint(4, 23, (3, 19), generator=torch.Generator().manual_seed(2))
    return source, torch.tensor([2, 5, 7]), target


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("gradients", [True, False])
def test_steps_equal_the_whole_target_at_once(position: str, wiring: str, gradients: bool) -> None:
    model = tiny(position=position, wiring=wiring)
    source, lengths, target = batch()
    with torch.set_grad_enabled(gradients):
        whole = model.output(model(source, lengths, target))
        state = model.start(model.encode(source))
        assert isinstance(state, State if gradients else Steps)
        for place in range(target.shape[1]):
            logits, state = model.step(target[:, place], state)
            assert_close(logits, whole[:, place], atol=1e-5, rtol=1e-4)


def test_gradients_of_steps_are_those_of_the_whole() -> None:
    model = tiny(wiring="pre_norm")
    source, lengths, target = batch()
    parameters = [p for name, p in model.named_parameters() if not name.endswith("key.bias")]
    whole = model.output(model(source, lengths, target))
    state, steps = model.start(model.encode(source, lengths)), []
    for token in target.unbind(1):
        logits, state = model.step(token, state)
        steps.append(logits)
    wanted = torch.autograd.grad(whole.square().sum(), parameters)
    found = torch.autograd.grad(torch.stack(steps, 1).square().sum(), parameters)
    for gradient, each in zip(found, wanted, strict=True):
        assert gradient.abs().sum() > 0
        assert_close(gradient, each, atol=1e-3, rtol=1e-3)


def test_a_batch_equals_its_rows_one_by_one() -> None:
    model = tiny()
    source, lengths, target = batch()
    target[0, 11:] = 0
    together = model(source, lengths, target)
    for row, (length, said) in enumerate(zip(lengths.tolist(), (11, 19, 19), strict=True)):
        alone = model(source[row : row + 1, :length], None, target[row : row + 1, :said])
        assert_close(together[row : row + 1, :said], alone, atol=1e-5, rtol=1e-4)


def test_later_targets_do_not_change_earlier_ones() -> None:
    model = tiny()
    source, lengths, target = batch()
    other = target.clone()
    other[:, 13:] = 5
    before, after = model(source, lengths, target), model(source, lengths, other)
    assert_close(before[:, :13], after[:, :13])
    assert not torch.equal(before[:, 13:], after[:, 13:])


def test_earlier_targets_change_later_ones() -> None:
    model = tiny(position="none")
    source, lengths, target = batch()
    other = target.clone()
    other[:, 0] = 5
    assert ((model(source, lengths, target) - model(source, lengths, other))[:, 3].abs() > 1e-6).any()


def test_the_record_has_gates_and_the_alignment() -> None:
    model = tiny()
    parts = batch()
    plain = model(*parts)
    with recording(model) as record:
        assert_close(model(*parts), plain)
    paths = [f"decoder.blocks.{layer}.{part}" for layer in (0, 1) for part in ("attention.gates", "cross")]
    assert list(record) == ["encoder.blocks.0.attention", *paths]
    gates = record["decoder.blocks.1.attention.gates"]
    assert gates.shape == (3, 1, 19, 19)
    assert ((gates >= 0) & (gates.sum(-1, keepdim=True) <= 1 + 1e-6)).all()
    assert gates.triu(1).abs().sum() == 0
    assert model.looks(paths[0]) == ("target", "target")


@pytest.mark.parametrize("form", ["window", "big_bird", "performer"])
def test_settings_of_the_attention_that_it_has_not_are_refused(form: str) -> None:
    with pytest.raises(RegardError, match=f'decoder_attention = "{form}" is a setting of decoder = "attention"'):
        build("transformer", decoder="ssru", decoder_attention=form)
    with pytest.raises(RegardError, match="window is a setting of attention"):
        build("transformer", decoder="ssru", window=7)


def test_it_is_not_written_for_hugging_face() -> None:
    with pytest.raises(RegardError, match="Marian, which has no decoder = 'ssru'"):
        write(TransformerConfig(decoder="ssru", position="sinusoidal_halves", vocabulary=23))
