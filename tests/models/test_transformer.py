"""The Transformer by its own laws."""

import pytest
import torch
from torch.testing import assert_close

from regard.errors import RegardError
from regard.models import build
from regard.models.transformer import Transformer

POSITIONS = ["none", "sinusoidal", "learned", "shaw", "rotary", "alibi"]
WIRINGS = ["post_norm", "pre_norm", "deep_norm"]


def tiny(**settings: object) -> Transformer:
    torch.manual_seed(0)
    sizes = {"layers": 2, "width": 12, "heads": 3, "hidden": 17, "dropout": 0.0}
    model = build("transformer", vocabulary=23, **{**sizes, **settings})
    assert isinstance(model, Transformer)
    return model.eval()


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    source = torch.randint(4, 23, (3, 7), generator=torch.Generator().manual_seed(1))
    source[0, 2:], source[1, 5:] = 0, 0
    target = torch.randint(4, 23, (3, 5), generator=torch.Generator().manual_seed(2))
    return source, torch.tensor([2, 5, 7]), target


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("wiring", WIRINGS)
def test_steps_equal_the_whole_target_at_once(position: str, wiring: str):
    model = tiny(position=position, wiring=wiring)
    source, lengths, target = batch()
    whole = model.output(model(source, lengths, target))
    state = model.start(model.encode(source))
    for place in range(target.shape[1]):
        logits, state = model.step(target[:, place], state)
        assert_close(logits, whole[:, place], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("position", POSITIONS)
def test_a_batch_equals_its_rows_one_by_one(position: str):
    model = tiny(position=position)
    source, lengths, target = batch()
    together = model(source, lengths, target)
    for row, length in enumerate(lengths.tolist()):
        alone = model(source[row : row + 1, :length], None, target[row : row + 1])
        assert_close(together[row : row + 1], alone, atol=1e-5, rtol=1e-4)


def test_later_targets_do_not_change_earlier_ones():
    model = tiny()
    source, lengths, target = batch()
    other = target.clone()
    other[:, 3:] = 5
    assert_close(model(source, lengths, target)[:, :3], model(source, lengths, other)[:, :3])


def test_reordered_states_go_on_with_the_right_rows():
    model = tiny()
    source, lengths, target = batch()
    rows = torch.tensor([2, 0, 0, 1])
    state = model.start(model.encode(source, lengths))
    _, state = model.step(target[:, 0], state)
    moved, _ = model.step(target[rows, 1], state.reorder(rows))
    whole = model.output(model(source, lengths, target))
    assert_close(moved, whole[rows, 1], atol=1e-5, rtol=1e-4)


def test_beams_that_change_places_within_their_sentence_keep_the_memory():
    model = tiny()
    source, lengths, target = batch()
    rows = torch.tensor([0, 0, 1, 1, 2, 2])
    state = model.start(model.encode(source, lengths)).reorder(rows)
    _, state = model.step(target[rows, 0], state)
    swapped = state.reorder(torch.tensor([1, 0, 3, 2, 5, 4]))
    assert swapped.memory is state.memory


def test_encoder_and_decoder_may_differ_in_depth():
    model = tiny(encoder_layers=3, decoder_layers=1)
    assert (len(model.encoder.blocks), len(model.decoder.blocks)) == (3, 1)
    assert model.alignment == "decoder.blocks.0.cross"


def test_tied_weights_are_one_matrix():
    model = tiny()
    assert model.source is model.target
    assert model.output.weight is model.source.table.weight
    apart = build("transformer", vocabulary=23, target_vocabulary=29, layers=1, width=12, heads=3, hidden=5)
    assert isinstance(apart, Transformer)
    assert apart.output.weight is apart.target.table.weight
    assert apart.source.table.weight.shape == (23, 12)


def test_untied_weights_are_three_matrices():
    model = tiny(tied=False)
    assert len({id(w) for w in (model.source.table.weight, model.target.table.weight, model.output.weight)}) == 3


def test_a_source_beyond_the_learned_positions_is_refused():
    model = tiny(position="learned", maximum=6)
    source, lengths, _ = batch()
    with pytest.raises(RegardError, match="beyond the 6 learned positions"):
        model.encode(source, lengths)


def test_unknown_settings_name_the_nearest_one():
    with pytest.raises(RegardError, match="did you mean 'width'"):
        build("transformer", widht=12)
    with pytest.raises(RegardError, match="did you mean 'transformer'"):
        build("transfromer")


def test_parameters_of_the_base_model_are_those_of_the_paper():
    """Vaswani 2017, table 3: 65 million with a shared vocabulary of about 37 000."""
    with torch.device("meta"):
        model = build("transformer", vocabulary=37000)
    assert round(sum(p.numel() for p in model.parameters()) / 1e6) in (63, 64, 65)
