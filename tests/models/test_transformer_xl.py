"""Transformer-XL beside transformers' TransfoXL, and the laws of its memory."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from regard.look import recording
from regard.models import build

FIXTURES = Path(__file__).parent.parent / "fixtures" / "transformer_xl.safetensors"
VOCABULARY = 23
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def tiny(**settings: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"layers": 2, "width": 12, "heads": 3, "hidden": 17, "memory": 4, "dropout": 0.0}
    model = build("transformer_xl", vocabulary=VOCABULARY, **{**sizes, **settings}).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def tokens(rows: int, length: int, seed: int = 1) -> Tensor:
    return torch.randint(4, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def read(model: Any, segments: Any, state: Any = None) -> tuple[list[Tensor], Any]:
    """The states of segments that follow each other, and the memory after them."""
    found = []
    for segment in segments:
        hidden, state = model.read(segment, state)
        found.append(hidden)
    return found, state


# beside transformers

OURS = {
    "dec_attn.o_net.weight": "attention.output.weight",
    "dec_attn.r_net.weight": "attention.position.project.weight",
    "dec_attn.r_w_bias": "attention.position.content",
    "dec_attn.r_r_bias": "attention.position.distance",
    "dec_attn.layer_norm.weight": "around_attention.norm.weight",
    "dec_attn.layer_norm.bias": "around_attention.norm.bias",
    "pos_ff.CoreNet.0.weight": "feed_forward.inner.weight",
    "pos_ff.CoreNet.0.bias": "feed_forward.inner.bias",
    "pos_ff.CoreNet.3.weight": "feed_forward.outer.weight",
    "pos_ff.CoreNet.3.bias": "feed_forward.outer.bias",
    "pos_ff.layer_norm.weight": "around_feed_forward.norm.weight",
    "pos_ff.layer_norm.bias": "around_feed_forward.norm.bias",
}


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}


def renamed(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights or gradients of transformers' model by the names that they have here."""
    ours = {
        "embedding.table.weight": theirs["transformer.word_emb.emb_layers.0.weight"],
        "output.bias": theirs["crit.out_layers.0.bias"],
    }
    for layer in range(2):
        part = under(f"transformer.layers.{layer}.", theirs)
        ours |= {f"body.blocks.{layer}.{name}": part[their] for their, name in OURS.items()}
        for name, weight in zip(("query", "key", "value"), part["dec_attn.qkv_net.weight"].chunk(3), strict=True):
            ours[f"body.blocks.{layer}.attention.{name}.weight"] = weight
    return ours


@pytest.fixture(params=[None, 6], ids="clamp={}".format)
def theirs(request: pytest.FixtureRequest) -> tuple[Any, dict[str, Tensor]]:
    """A model with the weights of theirs, and what theirs computed."""
    clamp = request.param
    stored = under(f"clamp={clamp or -1}/", load_file(FIXTURES))
    sizes = {"layers": 2, "width": 12, "heads": 3, "hidden": 17, "memory": 7, "clamp": clamp, "dropout": 0.0}
    model = build("transformer_xl", vocabulary=29, **sizes)
    weights = renamed(under("weights/", stored))
    assert {name for name, _ in model.named_parameters()} == set(weights)
    model.load_state_dict(weights, strict=False)
    return model, stored


def zeros(model: Any) -> Any:
    """The memory that theirs begins with: seven positions whose states are zero, and which are looked at."""
    return model.recall({str(layer): torch.zeros(2, 7, 12) for layer in range(2)})


def test_three_segments_give_the_states_and_losses_of_transformers(theirs: tuple[Any, dict[str, Tensor]]):
    model, stored = theirs
    segments = stored["tokens"].split(5, 1)
    with torch.no_grad():
        found, _ = read(model, segments, zeros(model))
        for number, (hidden, segment) in enumerate(zip(found, segments, strict=True)):
            assert_close(hidden, stored[f"states/{number}"], **CLOSE)
            losses = F.cross_entropy(model.output(hidden)[:, :-1].mT, segment[:, 1:], reduction="none")
            assert_close(losses, stored[f"losses/{number}"], **CLOSE)


def test_gradients_of_a_segment_with_memory_are_those_of_transformers(theirs: tuple[Any, dict[str, Tensor]]):
    model, stored = theirs
    segments = stored["tokens"].split(5, 1)
    found, _ = read(model, segments, zeros(model))
    F.cross_entropy(model.output(found[-1])[:, :-1].mT, segments[-1][:, 1:], reduction="sum").backward()
    wanted = renamed(under("gradients/", stored))
    for name, parameter in model.named_parameters():
        known = slice(1, None) if name == "embedding.table.weight" else slice(None)  # padding is no word of theirs
        assert_close(parameter.grad[known], wanted[name][known], atol=2e-5, rtol=1e-4)


# memory


@pytest.mark.parametrize("wiring", ["post_norm", "pre_norm"])
@limits(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_segments_with_a_long_memory_equal_one_causal_pass(wiring: str, cuts: list[int]):
    model = tiny(memory=40, wiring=wiring)
    text = tokens(2, sum(cuts))
    with torch.no_grad():
        found, memory = read(model, text.split(cuts, 1))
        assert_close(torch.cat(found, 1), model(text), atol=1e-9, rtol=1e-7)
    assert memory.length == sum(cuts)


@limits(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(1, 6), min_size=2, max_size=5), most=st.integers(0, 9))
def test_each_layer_sees_the_states_that_entered_it_at_the_last_positions(cuts: list[int], most: int):
    """The same by hand: the text is read again, and each block gets states of the segment and of those before it."""
    model = tiny(memory=most)
    text = tokens(2, sum(cuts))
    with torch.no_grad():
        found, memory = read(model, text.split(cuts, 1))
        x = model.embedding(text)
        for number, block in enumerate(model.body.blocks):
            assert_close(memory.entered[number], x[:, max(sum(cuts) - most, 0) :], atol=1e-9, rtol=1e-7)
            begin, parts = 0, []
            for length in cuts:
                first = max(begin - most, 0)
                parts.append(block(x[:, first : begin + length])[:, begin - first :])
                begin += length
            x = torch.cat(parts, 1)
        assert_close(torch.cat(found, 1), x, atol=1e-9, rtol=1e-7)


def test_more_memory_than_in_training_is_used_in_evaluation_alone():
    model = tiny(memory=2, evaluation_memory=9)
    segments = tokens(1, 15).split(5, 1)
    longer, shorter = tiny(memory=9), tiny(memory=2)
    with torch.no_grad():
        assert_close(read(model, segments)[0], read(longer, segments)[0])
        assert_close(read(model.train(), segments)[0], read(shorter, segments)[0])
        assert not torch.allclose(read(longer, segments)[0][2], read(shorter, segments)[0][2])


def test_rows_that_begin_anew_read_as_if_nothing_was_before():
    model = tiny()
    segments = tokens(3, 20).split(5, 1)
    kept = torch.tensor([[True], [False], [True]])
    with torch.no_grad():
        _, memory = read(model, segments[:2])
        found, after = read(model, segments[2:], memory.where(kept))
        alone, _ = read(model, [segment[1:2] for segment in segments[2:]])
        on, _ = read(model, segments[2:], memory)
        for one, row, whole in zip(found, alone, on, strict=True):
            assert_close(one[1:2], row)
            assert_close(one[[0, 2]], whole[[0, 2]])
            assert not torch.allclose(one[1], whole[1])
    assert after.missing.tolist() == [0, 0, 0]


def test_no_gradient_reaches_an_earlier_segment():
    model = tiny(tied=False)
    first, second = torch.tensor([[4, 5, 6]]), torch.tensor([[7, 8, 9]])
    _, memory = model.read(first, None)
    hidden, _ = model.read(second, memory)
    hidden.square().sum().backward()
    moved = model.embedding.table.weight.grad.any(1)
    assert moved[[7, 8, 9]].all()
    assert not moved[[4, 5, 6]].any()


def test_a_memory_is_made_of_tensors_and_made_again_from_them():
    model = tiny()
    with torch.no_grad():
        _, memory = model.read(tokens(3, 6), None)
        memory = memory.where(torch.tensor([[True], [False], [True]]))
        again = model.recall(memory.tensors())
        assert_close(model.read(tokens(3, 5, 2), again)[0], model.read(tokens(3, 5, 2), memory)[0], atol=0, rtol=0)


@limits(max_examples=20, deadline=None)
@given(place=st.integers(0, 9), scale=st.sampled_from([1.0, 100.0]))
@pytest.mark.parametrize("length", [11, 140])  # by every pair at once, and by torch's fused kernel
def test_no_future_token_changes_an_earlier_output_to_the_bit(length: int, place: int, scale: float):
    model = tiny(memory=8).float()
    with torch.no_grad():
        model.embedding.table.weight[5] *= scale
        _, memory = model.read(tokens(2, 9), None)
        before = tokens(2, length)
        after = before.clone()
        after[:, place + 1 :] = 5
        one, other = (model.read(text, memory)[0][:, : place + 1] for text in (before, after))
        assert torch.equal(one, other)
        assert torch.equal(model(before)[:, : place + 1], model(after)[:, : place + 1])


# steps


def test_steps_with_a_short_memory_equal_segments_of_one_token():
    model = tiny(memory=5)
    text = tokens(3, 90)  # longer than a cache is at first, and than the segments that a prompt is read in
    with torch.no_grad():
        prompt = model.encode(text[:, :70])
        state = model.start(prompt)
        _, memory = read(model, text[:, :69].split(64, 1))
        for place in range(69, 90):
            logits, state = model.step(text[:, place], state)
            hidden, memory = model.read(text[:, place : place + 1], memory)
            assert_close(logits, model.output(hidden[:, 0]), atol=1e-9, rtol=1e-7)
            assert state.caches[0].length == 5


def test_prompts_of_different_lengths_and_a_short_memory_go_on_as_each_does_alone():
    model, text = tiny(memory=3), tokens(2, 12)
    lengths = torch.tensor([4, 7])
    with torch.no_grad():
        prompt = model.encode(text[:, :7].masked_fill(torch.arange(7) >= lengths.unsqueeze(1), 0))
        state, token = model.start(prompt), model.first(prompt)
        alone = []
        for row, length in enumerate(lengths.tolist()):
            own = model.encode(text[row : row + 1, :length])
            alone.append((model.start(own), model.first(own)))
        for step in range(5):
            logits, state = model.step(token, state)
            for row in range(2):
                single, after = model.step(alone[row][1], alone[row][0])
                alone[row] = after, text[row : row + 1, lengths[row] + step]
                assert_close(logits[row], single[0], atol=1e-9, rtol=1e-7)
            token = text[torch.arange(2), lengths + step]


def test_changed_weights_are_seen_by_the_next_step():
    model, text = tiny(memory=9), tokens(1, 6)

    def logits() -> Tensor:
        with torch.no_grad():
            memory = model.encode(text)
            return model.step(model.first(memory), model.start(memory))[0]

    before = logits()
    with torch.no_grad():
        model.body.blocks[0].attention.position.project.weight.mul_(2)
    after = logits()
    assert not torch.allclose(before, after)
    with torch.no_grad():
        assert_close(after, model.output(model(text))[:, -1], atol=1e-9, rtol=1e-7)


# what is seen


def test_recorded_weights_have_the_memory_before_the_segment():
    model = tiny()
    with torch.no_grad():
        _, memory = model.read(tokens(2, 6), None)
        with recording(model) as record:
            model.read(tokens(2, 5, 2), memory)
    assert list(record) == ["body.blocks.0.attention", "body.blocks.1.attention"]
    for weights in record.values():
        assert weights.shape == (2, 3, 5, 4 + 5)
        assert_close(weights.sum(-1), torch.ones(2, 3, 5, dtype=weights.dtype))
        assert (weights[..., 0, 5:] == 0).all()
        assert (weights[..., :4] > 0).all()
