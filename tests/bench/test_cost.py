"""Operations counted by hand equal those that torch counts in a model nobody here wrote."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2Config, GPT2LMHeadModel, MarianConfig, MarianMTModel

from bench import cost
from bench.cost import Size

SIZE = Size(layers=3, width=24, heads=2, hidden=40, vocabulary=53)
SOURCE, TARGET = 7, 5


def marian() -> MarianMTModel:
    return MarianMTModel(
        MarianConfig(
            vocab_size=SIZE.vocabulary,
            d_model=SIZE.width,
            encoder_layers=SIZE.layers,
            decoder_layers=SIZE.layers,
            encoder_attention_heads=SIZE.heads,
            decoder_attention_heads=SIZE.heads,
            encoder_ffn_dim=SIZE.hidden,
            decoder_ffn_dim=SIZE.hidden,
            max_position_embeddings=16,
            pad_token_id=0,
            eos_token_id=3,
            decoder_start_token_id=2,
            attn_implementation="eager",
        )
    )


def test_learning_costs_what_torch_counts():
    model = marian()
    source, target = torch.randint(4, 50, (1, SOURCE)), torch.randint(4, 50, (1, TARGET))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=source, decoder_input_ids=target).logits.sum().backward()
    # the first layer's inputs are embeddings, and their gradients are products as well: nothing is saved there
    assert counter.get_total_flops() == cost.learning(SIZE, [(SOURCE, TARGET)])


def test_learning_to_write_costs_what_torch_counts():
    config = GPT2Config(
        vocab_size=SIZE.vocabulary,
        n_layer=SIZE.layers,
        n_embd=SIZE.width,
        n_head=SIZE.heads,
        n_inner=SIZE.hidden,
        n_positions=16,
        attn_implementation="eager",
    )
    model = GPT2LMHeadModel(config)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=torch.randint(4, 50, (1, SOURCE)), use_cache=False).logits.sum().backward()
    assert counter.get_total_flops() == cost.writing(SIZE, SOURCE)


def test_answering_costs_what_torch_counts():
    model = marian().eval()
    model.generation_config.eos_token_id = None
    source = torch.randint(4, 50, (1, SOURCE))
    with FlopCounterMode(display=False) as counter:
        model.generate(source, num_beams=1, do_sample=False, min_new_tokens=TARGET, max_new_tokens=TARGET)
    assert counter.get_total_flops() == cost.answering(SIZE, [(SOURCE, TARGET)])


def test_a_beam_repeats_the_decoder_and_not_the_encoder():
    one, five = (cost.answering(SIZE, [(SOURCE, TARGET)], beam=beam) for beam in (1, 5))
    reading = cost.encoder(SIZE, SOURCE) + cost.memory(SIZE, SOURCE)
    assert five - reading == pytest.approx(5 * (one - reading))
