"""The Transformer against implementations nobody here wrote, weights copied."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from marian_copy import HEADS, HIDDEN, LAYERS, PAD, VOCABULARY, WIDTH, copy_linear, marian
from regard.attention import MultiHead, recording
from regard.layers.blocks import Block
from regard.models import build
from regard.models.transformer import Transformer


def sentences() -> tuple[Tensor, Tensor, Tensor]:
    """Source (2, 7) whose second row has 5 tokens, lengths, and target (2, 5) from BOS on."""
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(4, VOCABULARY, (2, 7), generator=generator)
    source[1, 5:] = PAD
    target = torch.randint(4, VOCABULARY, (2, 5), generator=generator)
    target[:, 0] = 2
    return source, torch.tensor([7, 5]), target


def test_logits_equal_marian():
    ours, theirs = marian()
    source, lengths, target = sentences()
    expected = theirs(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target).logits
    assert_close(ours.output(ours(source, lengths, target)), expected, atol=1e-4, rtol=1e-4)


def test_every_attention_equals_marian():
    ours, theirs = marian()
    source, lengths, target = sentences()
    expected = theirs(
        input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target, output_attentions=True
    )
    with recording(ours) as record:
        ours(source, lengths, target)
    for layer in range(LAYERS):
        # Marian lets padding look; what padding looks at is nobody's business.
        real = (source != PAD)[:, None, :, None]
        assert_close(
            record[f"encoder.blocks.{layer}.attention"] * real,
            expected.encoder_attentions[layer] * real,
            atol=1e-5,
            rtol=1e-4,
        )
        assert_close(
            record[f"decoder.blocks.{layer}.attention"], expected.decoder_attentions[layer], atol=1e-5, rtol=1e-4
        )
        assert_close(record[f"decoder.blocks.{layer}.cross"], expected.cross_attentions[layer], atol=1e-5, rtol=1e-4)


def copy_torch_block(ours: Block, theirs: nn.Module) -> None:
    ours.attention.load_state_dict(MultiHead.from_torch(theirs.self_attn).state_dict())
    norms = [theirs.norm1, theirs.norm2, *([theirs.norm3] if ours.cross is not None else [])]
    around = [ours.around_attention, *([ours.around_cross] if ours.cross is not None else []), ours.around_feed_forward]
    for mine, other in zip(around, norms, strict=True):
        mine.norm.load_state_dict(other.state_dict())
    if ours.cross is not None:
        ours.cross.load_state_dict(MultiHead.from_torch(theirs.multihead_attn).state_dict())
    copy_linear(ours.feed_forward.inner, theirs.linear1)
    copy_linear(ours.feed_forward.outer, theirs.linear2)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize(("wiring", "first"), [("post_norm", False), ("pre_norm", True)])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_hidden_states_and_gradients_equal_torch_transformer(wiring: str, first: bool, activation: str):
    torch.manual_seed(1)
    theirs = nn.Transformer(WIDTH, HEADS, LAYERS, LAYERS, HIDDEN, 0.0, activation, batch_first=True, norm_first=first)
    ours = build(
        "transformer",
        vocabulary=VOCABULARY,
        layers=LAYERS,
        width=WIDTH,
        heads=HEADS,
        hidden=HIDDEN,
        dropout=0.0,
        wiring=wiring,
        activation=activation,
    )
    assert isinstance(ours, Transformer)
    if not first:  # torch's own stack ends with a norm in either wiring; the paper's does not
        theirs.encoder.norm = theirs.decoder.norm = None
    for stack, side in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for mine, other in zip(stack.blocks, side.layers, strict=True):
            copy_torch_block(mine, other)
    source, lengths, target = sentences()
    padding = source == PAD
    causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1]).isinf()
    expected = theirs(
        ours.source(source),
        ours.target(target),
        tgt_mask=causal,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    found = ours(source, lengths, target)
    assert_close(found, expected, atol=1e-5, rtol=1e-4)
    found.square().sum().backward()
    expected.square().sum().backward()
    mine, other = ours.encoder.blocks[0].feed_forward.inner.weight.grad, theirs.encoder.layers[0].linear1.weight.grad
    assert_close(mine, other, atol=1e-4, rtol=1e-3)
