"""The answers of transformers' generate, on a tiny random Marian and a tiny random GPT-2."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from regard.decoding import DecodingConfig, search
from regard.special import BOS, EOS, OWN, PAD

transformers = pytest.importorskip("transformers")
VOCABULARY = 37


@dataclass
class Said:
    """Everything said so far, and what the model needs beside it; nothing is cached."""

    said: Tensor
    beside: tuple[Tensor, ...]

    def reorder(self, rows: Tensor) -> Said:
        return Said(self.said[rows], tuple(tensor[rows] for tensor in self.beside))


class Marian:
    special = OWN
    alignment = ""

    def __init__(self, model) -> None:
        self.model = model

    def encode(self, source, lengths=None):  # noqa: ARG002
        mask = (source != PAD).long()
        return self.model.get_encoder()(source, attention_mask=mask).last_hidden_state, mask

    def start(self, memory):
        return Said(memory[1].new_empty(memory[1].shape[0], 0), memory)

    def step(self, token, state):
        said = torch.cat([state.said, token.unsqueeze(1)], 1)
        memory, mask = state.beside
        result = self.model(encoder_outputs=(memory,), attention_mask=mask, decoder_input_ids=said, use_cache=False)
        return result.logits[:, -1].clone(), Said(said, state.beside)


class Decoder:
    """Decoder only: the source is the prompt and ends with BOS, the first token of every answer."""

    special = OWN
    alignment = ""

    def __init__(self, model) -> None:
        self.model = model

    def encode(self, source, lengths=None):  # noqa: ARG002
        return source[:, :-1]

    def start(self, memory):
        return Said(memory, ())

    def step(self, token, state):
        said = torch.cat([state.said, token.unsqueeze(1)], 1)
        return self.model(said, use_cache=False).logits[:, -1].clone(), Said(said, ())


@pytest.fixture(scope="module")
def marian():
    with torch.random.fork_rng():
        torch.manual_seed(2)
        config = transformers.MarianConfig(
            vocab_size=VOCABULARY, d_model=24, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
            decoder_attention_heads=3, encoder_ffn_dim=29, decoder_ffn_dim=31, max_position_embeddings=61, init_std=1.0,
            pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, decoder_start_token_id=BOS, forced_eos_token_id=None,
        )  # fmt: skip
        model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        model.final_logits_bias[0, EOS] = 8.0
    return model


@pytest.fixture(scope="module")
def gpt():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        config = transformers.GPT2Config(
            vocab_size=VOCABULARY, n_embd=24, n_layer=2, n_head=3, n_positions=61, initializer_range=0.4,
            pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS,
        )  # fmt: skip
        return transformers.GPT2LMHeadModel(config).eval()


def sources(rows, longest, *, ragged):
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(4, VOCABULARY, (rows, longest), generator=generator)
    for row in range(rows if ragged else 0):
        source[row, 2 + row % (longest - 1) :] = PAD
    return source


def theirs(model, source, config):
    """What generate says, with the settings that mean the same: [[(tokens, score)]]."""
    settings = transformers.GenerationConfig(
        num_beams=config.beam, num_return_sequences=config.n_best, length_penalty=config.length_penalty,
        early_stopping=config.early_stopping or "never", max_new_tokens=config.max_length,
        min_new_tokens=config.min_length or None, no_repeat_ngram_size=config.no_repeat_ngram or None,
        suppress_tokens=[PAD, BOS], do_sample=False, return_dict_in_generate=True, output_scores=True,
        pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, decoder_start_token_id=BOS,
    )  # fmt: skip
    result = model.generate(source, attention_mask=(source != PAD).long(), generation_config=settings)
    start = 1 if model.config.is_encoder_decoder else source.shape[1]
    answers = [tuple(t for t in row if t not in (PAD, EOS)) for row in result.sequences[:, start:].tolist()]
    scores = result.sequences_scores.tolist() if config.beam > 1 else [None] * len(answers)
    pairs = list(zip(answers, scores, strict=True))
    return [pairs[i : i + config.n_best] for i in range(0, len(pairs), config.n_best)]


SETTINGS = [
    {"beam": 1},
    {"beam": 1, "min_length": 5, "no_repeat_ngram": 2},
    {"beam": 4, "n_best": 4},
    {"beam": 4, "n_best": 4, "early_stopping": False},
    {"beam": 5, "n_best": 2, "length_penalty": 0.0},
    {"beam": 5, "n_best": 2, "length_penalty": 0.0, "early_stopping": False},
    {"beam": 3, "length_penalty": 0.3, "early_stopping": False},
    {"beam": 3, "length_penalty": 2.0},
    {"beam": 3, "length_penalty": 0.6, "min_length": 4, "no_repeat_ngram": 2},
]


CASES = [("marian", options) for options in SETTINGS]
CASES += [
    ("gpt", options) for options in SETTINGS if "no_repeat_ngram" not in options
]  # generate counts the prompt too


@pytest.mark.parametrize(("kind", "options"), CASES, ids=str)
def test_answers_are_those_of_generate(kind, options, request):
    model = request.getfixturevalue(kind)
    config = DecodingConfig(max_length=17, **options)
    source = sources(19, 7, ragged=kind == "marian")
    if kind == "gpt":
        source[:, -1] = BOS
    ours = search((Marian if kind == "marian" else Decoder)(model), source, config=config)
    expected = theirs(model, source, config)
    lengths = {len(hypothesis.tokens) for answers in ours for hypothesis in answers}
    assert len(lengths) > 1  # some answers end early
    for found, wanted in zip(ours, expected, strict=True):
        assert [hypothesis.tokens for hypothesis in found] == [tokens for tokens, _ in wanted]
        for hypothesis, (_, score) in zip(found, wanted, strict=True):
            assert score is None or hypothesis.score == pytest.approx(score, abs=1e-4)
