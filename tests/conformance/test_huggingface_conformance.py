"""Imported models against transformers itself, for random configurations and weights."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.decoding import DecodingConfig, search
from regard.interchange.huggingface import Imported, export_directory, import_directory
from regard.look import recording
from regard.models import build, config_class
from regard.special import OWN
from regard.training.weights import weights_of

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
VOCABULARY = 41
CLOSE = {"atol": 1e-4, "rtol": 1e-4}
few = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
sizes = st.fixed_dictionaries(
    {
        "heads": st.integers(1, 4),
        "head_width": st.sampled_from([4, 6, 10]),
        "layers": st.integers(1, 3),
        "hidden": st.integers(5, 37),
        "activation": st.sampled_from(["gelu", "gelu_new", "relu", "silu"]),
        "seed": st.integers(0, 10**6),
    }
)
Size = dict[str, Any]


def randomised(model: Any, size: Size) -> Any:
    """Every weight drawn anew, norms and biases too: what starts as 0 or 1 would hide mistakes."""
    generator = torch.Generator().manual_seed(size["seed"])
    with torch.no_grad():
        for name, parameter in [*model.named_parameters(), *model.named_buffers()]:
            if parameter.is_floating_point() and "embed_positions" not in name:
                spread = torch.empty(parameter.shape).normal_(0.0, 0.3, generator=generator)
                parameter.copy_(1 + spread if "orm.weight" in name or "ln_" in name else spread)
    return model.eval()


def bert_like(size: Size) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": size["heads"] * size["head_width"],
        "num_hidden_layers": size["layers"],
        "num_attention_heads": size["heads"],
        "intermediate_size": size["hidden"],
        "max_position_embeddings": 23,
        "hidden_act": size["activation"],
        "layer_norm_eps": 1e-6,
        "attn_implementation": "eager",
    }


def gpt2(size: Size, **more: Any) -> Any:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=size["heads"] * size["head_width"],
        n_layer=size["layers"],
        n_head=size["heads"],
        n_inner=size["hidden"],
        n_positions=29,
        activation_function=size["activation"],
        layer_norm_epsilon=1e-4,
        bos_token_id=5,
        eos_token_id=5,
        attn_implementation="eager",
        **more,
    )
    return randomised(transformers.GPT2LMHeadModel(config), size)


def bert(size: Size, which: str = "BertForPreTraining") -> Any:
    return randomised(getattr(transformers, which)(transformers.BertConfig(**bert_like(size))), size)


def roberta(size: Size, which: str = "RobertaForMaskedLM") -> Any:
    like = {**bert_like(size), "type_vocab_size": 1}
    if which == "RobertaForMaskedLM":
        like["hidden_act"] = "gelu"  # its head knows no other
    return randomised(getattr(transformers, which)(transformers.RobertaConfig(**like)), size)


def distilbert(size: Size, which: str = "DistilBertForMaskedLM") -> Any:
    config = transformers.DistilBertConfig(
        vocab_size=VOCABULARY,
        dim=size["heads"] * size["head_width"],
        n_layers=size["layers"],
        n_heads=size["heads"],
        hidden_dim=size["hidden"],
        max_position_embeddings=23,
        activation=size["activation"],
        attn_implementation="eager",
    )
    return randomised(getattr(transformers, which)(config), size)


def marian(size: Size, **more: Any) -> Any:
    settled = {"vocab_size": VOCABULARY, "pad_token_id": 40, "decoder_start_token_id": 40, "eos_token_id": 0, **more}
    config = transformers.MarianConfig(
        d_model=size["heads"] * size["head_width"],
        encoder_layers=size["layers"],
        decoder_layers=size["layers"] % 3 + 1,
        encoder_attention_heads=size["heads"],
        decoder_attention_heads=1,
        encoder_ffn_dim=size["hidden"],
        decoder_ffn_dim=size["hidden"] + 2,
        activation_function=size["activation"],
        max_position_embeddings=31,
        forced_eos_token_id=None,
        attn_implementation="eager",
        **settled,
    )
    return randomised(transformers.MarianMTModel(config), size)


def imported(theirs: Any) -> Imported:
    with TemporaryDirectory() as folder:
        save(theirs, Path(folder))
        return import_directory(folder)


def save(theirs: Any, folder: Path) -> None:
    with contextlib.redirect_stderr(io.StringIO()):
        theirs.save_pretrained(folder)


def texts(pad: int, seed: int = 3) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens (3, 9) of lengths 9, 4 and 6, and their mask."""
    tokens = torch.randint(6, VOCABULARY - 2, (3, 9), generator=torch.Generator().manual_seed(seed))
    lengths = torch.tensor([9, 4, 6])
    mask = torch.arange(9) < lengths.unsqueeze(1)
    return tokens.masked_fill(~mask, pad), lengths, mask


def precise(theirs: Any) -> Any:
    """Theirs as ours, both with twice the digits: what differs is then the formula, and not how float32 rounds."""
    ours = imported(theirs).module().double()
    theirs.double()
    return ours


@few
@given(size=sizes, tied=st.booleans())
def test_gpt2_logits_and_attentions(size: Size, tied: bool):
    theirs = gpt2(size, tie_word_embeddings=tied)
    ours: Any = precise(theirs)
    tokens, _, mask = texts(pad=0)
    with torch.no_grad(), recording(ours) as record:
        found = ours.output(ours(tokens))
        expected = theirs(tokens, attention_mask=mask.long(), output_attentions=True)
    assert_close(found[mask], expected.logits[mask], **CLOSE)
    for layer in range(size["layers"]):
        weights = record[f"body.blocks.{layer}.attention"].transpose(1, 2)
        assert_close(weights[mask], expected.attentions[layer].transpose(1, 2)[mask], **CLOSE)


@few
@given(size=sizes, which=st.sampled_from(["BertForPreTraining", "BertForMaskedLM", "BertModel"]))
def test_bert_with_and_without_heads(size: Size, which: str):
    theirs = bert(size, which)
    ours: Any = precise(theirs)
    tokens, lengths, mask = texts(pad=0)
    segments = (torch.arange(9) > 3).long().expand(3, -1) * mask
    with torch.no_grad(), recording(ours) as record:
        hidden = ours(tokens, lengths, segments)
        expected = theirs(tokens, attention_mask=mask.long(), token_type_ids=segments, output_attentions=True)
        if which == "BertModel":
            assert_close(hidden[mask], expected.last_hidden_state[mask], **CLOSE)
            assert_close(ours.pool(hidden), expected.pooler_output, **CLOSE)
        else:
            logits = expected.prediction_logits if which == "BertForPreTraining" else expected.logits
            assert_close(ours.output(ours.transform(hidden))[mask], logits[mask], **CLOSE)
        if which == "BertForPreTraining":
            assert_close(ours.next_sentence(ours.pool(hidden)), expected.seq_relationship_logits, **CLOSE)
    assert_attentions(record, expected.attentions, mask)


@few
@given(size=sizes, which=st.sampled_from(["RobertaForMaskedLM", "RobertaModel"]))
def test_roberta(size: Size, which: str):
    theirs = roberta(size, which)
    ours: Any = precise(theirs)
    tokens, lengths, mask = texts(pad=1)
    with torch.no_grad(), recording(ours) as record:
        hidden = ours(tokens)
        assert_close(hidden[mask], ours(tokens, lengths)[mask])
        expected = theirs(tokens, attention_mask=mask.long(), output_attentions=True)
        if which == "RobertaModel":
            assert_close(hidden[mask], expected.last_hidden_state[mask], **CLOSE)
        else:
            assert_close(ours.output(ours.transform(hidden))[mask], expected.logits[mask], **CLOSE)
    assert_attentions(record, expected.attentions, mask)


@few
@given(size=sizes, which=st.sampled_from(["DistilBertForMaskedLM", "DistilBertModel"]))
def test_distilbert(size: Size, which: str):
    theirs = distilbert(size, which)
    ours: Any = precise(theirs)
    tokens, lengths, mask = texts(pad=0)
    with torch.no_grad(), recording(ours) as record:
        hidden = ours(tokens, lengths)
        expected = theirs(tokens, attention_mask=mask.long(), output_attentions=True)
        if which == "DistilBertModel":
            assert_close(hidden[mask], expected.last_hidden_state[mask], **CLOSE)
        else:
            assert_close(ours.output(ours.transform(hidden))[mask], expected.logits[mask], **CLOSE)
    assert_attentions(record, expected.attentions, mask)


def assert_attentions(record: Any, expected: Any, mask: torch.Tensor) -> None:
    """What padding looks at is nobody's business."""
    assert len(expected) == len(record)
    for layer, weights in enumerate(expected):
        found = record[f"body.blocks.{layer}.attention"]
        assert_close(found.transpose(1, 2)[mask], weights.transpose(1, 2)[mask], **CLOSE)


MARIANS = [{"scale_embedding": True}, {}, {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 41}]


@few
@given(size=sizes, more=st.sampled_from(MARIANS))
def test_marian(size: Size, more: dict[str, Any]):
    theirs = marian(size, **more)
    ours: Any = precise(theirs)
    source, lengths, mask = texts(pad=40)
    target, _, _ = texts(pad=40, seed=4)
    target[:, 0] = 40
    with torch.no_grad(), recording(ours) as record:
        found = ours.output(ours(source, lengths, target))
        expected = theirs(
            input_ids=source, attention_mask=mask.long(), decoder_input_ids=target, output_attentions=True
        )
    assert_close(found, expected.logits, **CLOSE)
    for layer, weights in enumerate(expected.encoder_attentions):
        seen = record[f"encoder.blocks.{layer}.attention"]
        assert_close(seen.transpose(1, 2)[mask], weights.transpose(1, 2)[mask], **CLOSE)
    for layer, weights in enumerate(expected.decoder_attentions):
        assert_close(record[f"decoder.blocks.{layer}.attention"], weights, **CLOSE)
        assert_close(record[f"decoder.blocks.{layer}.cross"], expected.cross_attentions[layer], **CLOSE)


MAKERS: list[tuple[Any, dict[str, Any]]] = [
    (gpt2, {}),
    (gpt2, {"tie_word_embeddings": False}),
    *((bert, {"which": f"Bert{name}"}) for name in ("Model", "ForPreTraining", "ForMaskedLM")),
    (bert, {"which": "BertForNextSentencePrediction"}),
    *((roberta, {"which": f"Roberta{name}"}) for name in ("Model", "ForMaskedLM")),
    *((distilbert, {"which": f"DistilBert{name}"}) for name in ("Model", "ForMaskedLM")),
    *((marian, more) for more in MARIANS),
]
SIZE: Size = {"heads": 2, "head_width": 6, "layers": 2, "hidden": 17, "activation": "gelu_new", "seed": 7}


@pytest.mark.parametrize(("make", "more"), MAKERS, ids=lambda part: getattr(part, "__name__", str(part)))
def test_a_round_trip_changes_no_bit_and_no_answer(make: Any, more: dict[str, Any], tmp_path: Path):
    theirs = make(SIZE, **more)
    save(theirs, tmp_path / "first")
    came = import_directory(tmp_path / "first")
    export_directory(tmp_path / "second", config=came.config, weights=came.weights)
    before, after = (safetensors.torch.load_file(tmp_path / name / "model.safetensors") for name in ("first", "second"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    old, new = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("first", "second"))
    same = {key for key in old if key in new} - {"forced_eos_token_id"}
    assert {"architectures", "model_type", "vocab_size", "pad_token_id"} <= same
    assert {key: old[key] for key in same} == {key: new[key] for key in same}
    again = type(theirs).from_pretrained(tmp_path / "second", attn_implementation="eager").eval()
    tokens, _, mask = texts(pad=int(old["pad_token_id"] or 0))
    inputs = {"input_ids": tokens, "attention_mask": mask.long()}
    if make is marian:
        inputs["decoder_input_ids"] = tokens
    with torch.no_grad():
        assert torch.equal(again(**inputs)[0], theirs(**inputs)[0])
    assert import_directory(tmp_path / "second").config == came.config


@pytest.mark.parametrize("settings", [{"activation": "gelu"}, {"tied": False}], ids=str)
def test_a_transformer_learned_here_goes_out_as_marian(settings: dict[str, Any], tmp_path: Path):
    """Its sines and cosines take turns and Marian's do not, so every feature moves, and nothing else changes."""
    torch.manual_seed(0)
    sizes = {"layers": 2, "width": 12, "heads": 3, "hidden": 17, "decoder_layers": 1, **settings}
    apart = {} if sizes.get("tied", True) else {"target_vocabulary": VOCABULARY}
    ours: Any = build("transformer", vocabulary=VOCABULARY, **apart, **sizes).eval()
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    export_directory(tmp_path, config=config_class("transformer")(**sizes), weights=weights_of(ours))
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path).eval()
    source, lengths, mask = texts(pad=0)
    with torch.no_grad():
        expected = theirs(input_ids=source, attention_mask=mask.long(), decoder_input_ids=source.clamp(min=4)).logits
        assert_close(ours.output(ours(source, lengths, source.clamp(min=4))), expected, **CLOSE)


def greedy(theirs: Any, tokens: torch.Tensor, *, pad: int, **more: Any) -> tuple[int, ...]:
    """What generate says of one row, without the prompt and the end."""
    config = transformers.GenerationConfig(
        max_new_tokens=15,
        do_sample=False,
        pad_token_id=pad,
        eos_token_id=theirs.config.eos_token_id,
        decoder_start_token_id=getattr(theirs.config, "decoder_start_token_id", None),
        **more,
    )
    said = theirs.generate(tokens, attention_mask=torch.ones_like(tokens), generation_config=config)[0]
    start = 1 if theirs.config.is_encoder_decoder else tokens.shape[1]
    said = said[start:].tolist()
    return tuple(said[: said.index(theirs.config.eos_token_id)] if theirs.config.eos_token_id in said else said)


@pytest.mark.parametrize("seed", range(4))
def test_greedy_answers_of_gpt2_are_those_of_generate(seed: int):
    theirs = gpt2({**SIZE, "seed": seed, "heads": 4, "head_width": 16})
    with torch.no_grad():  # what is said depends on the place, and less on what is always said
        theirs.transformer.wpe.weight.mul_(5.0)
        theirs.transformer.ln_f.bias.zero_()
    came = imported(theirs)
    assert came.config.special.pad is None
    tokens, lengths, _ = texts(pad=0, seed=seed)
    answers = search(came.module(), tokens, lengths, config=DecodingConfig(beam=1, max_length=15))
    assert len({token for (answer,) in answers for token in answer.tokens}) > 2
    for row, length in enumerate(lengths.tolist()):
        expected = greedy(theirs, tokens[row : row + 1, :length], pad=5)
        assert answers[row][0].tokens == expected


@pytest.mark.parametrize("seed", range(4))
def test_greedy_answers_of_marian_are_those_of_generate(seed: int):
    theirs = marian({**SIZE, "seed": seed}, scale_embedding=True)
    came = imported(theirs)
    assert (came.config.special.bos, came.config.special.eos, came.config.special.pad) == (40, 0, 40)
    source, lengths, _ = texts(pad=40, seed=seed)
    answers = search(came.module(), source, config=DecodingConfig(beam=1, max_length=15, no_repeat_ngram=2))
    assert len({token for (answer,) in answers for token in answer.tokens}) > 2
    for row, length in enumerate(lengths.tolist()):
        expected = greedy(theirs, source[row : row + 1, :length], pad=40, suppress_tokens=[40], no_repeat_ngram_size=2)
        assert answers[row][0].tokens == expected


def test_special_ids_are_those_of_the_model():
    assert imported(bert(SIZE)).config.special.pad == 0
    assert imported(roberta(SIZE)).config.special.pad == 1
    assert imported(gpt2(SIZE)).config.special != OWN
