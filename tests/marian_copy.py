"""A Transformer of ours and transformers' Marian with the same weights."""

import torch
from torch import nn
from transformers import MarianConfig, MarianMTModel

from regard.attention import MultiHead
from regard.layers.blocks import Block
from regard.models import build
from regard.models.transformer import Transformer

VOCABULARY, WIDTH, HEADS, HIDDEN, LAYERS = 31, 22, 2, 37, 3
PAD = 0


@torch.no_grad()
def copy_linear(ours: nn.Linear, theirs: nn.Linear) -> None:
    ours.weight.copy_(theirs.weight)
    ours.bias.copy_(theirs.bias)


def copy_marian_attention(ours: MultiHead, theirs: nn.Module) -> None:
    for name, linear in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("output", "out_proj")):
        copy_linear(getattr(ours, name), getattr(theirs, linear))


def copy_marian_block(ours: Block, theirs: nn.Module) -> None:
    copy_marian_attention(ours.attention, theirs.self_attn)
    ours.around_attention.norm.load_state_dict(theirs.self_attn_layer_norm.state_dict())
    if ours.cross is not None:
        copy_marian_attention(ours.cross, theirs.encoder_attn)
        ours.around_cross.norm.load_state_dict(theirs.encoder_attn_layer_norm.state_dict())
    copy_linear(ours.feed_forward.inner, theirs.fc1)
    copy_linear(ours.feed_forward.outer, theirs.fc2)
    ours.around_feed_forward.norm.load_state_dict(theirs.final_layer_norm.state_dict())


def marian() -> tuple[Transformer, MarianMTModel]:
    """Both with the same weights; Marian's position table is ours, whose columns stand in another order."""
    torch.manual_seed(0)
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=VOCABULARY,
            d_model=WIDTH,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=HIDDEN,
            decoder_ffn_dim=HIDDEN,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=16,
            pad_token_id=PAD,
            eos_token_id=3,
            decoder_start_token_id=2,
            attn_implementation="eager",
        )
    ).eval()
    ours = build(
        "transformer", vocabulary=VOCABULARY, layers=LAYERS, width=WIDTH, heads=HEADS, hidden=HIDDEN, dropout=0.0
    ).eval()
    assert isinstance(ours, Transformer)
    order = [column // 2 + (column % 2) * (WIDTH // 2) for column in range(WIDTH)]
    with torch.no_grad():
        nn.init.normal_(theirs.model.shared.weight, std=0.5)
        ours.source.table.weight.copy_(theirs.model.shared.weight)
        for side in (theirs.model.encoder, theirs.model.decoder):
            table = side.embed_positions.weight
            table.copy_(table[:, order].clone())
    for stack, side in ((ours.encoder, theirs.model.encoder), (ours.decoder, theirs.model.decoder)):
        for mine, other in zip(stack.blocks, side.layers, strict=True):
            copy_marian_block(mine, other)
    return ours, theirs
