"""Every export as a stranger loads it from the directory alone: AutoTokenizer, AutoModel…, generate and pipelines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.testing import assert_close

import tiny_bert
import tiny_gpt2
from regard.data.rows.framing import Framing
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.decoding import DecodingConfig, search
from regard.errors import RegardError
from regard.interchange.huggingface import Head, export_directory, import_directory
from regard.models import config_class, from_config
from regard.models.heads import headed
from regard.special import Special
from regard.training.weights import weights_of

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
TEXTS = ["the cat sat on the mat.", "A red bird!", "naïve cats, 42 %"]
PAIRS = [("the cat sat", "on the mat."), ("a bird", "sat")]
CORPUS = [*TEXTS, "the red cat and the naïve bird sat on a mat, 42 % of cats!"] * 3
CLOSE = {"atol": 1e-4, "rtol": 1e-4}
SIZES: dict[str, Any] = {"layers": 2, "width": 12, "heads": 3, "hidden": 17}
BERTS: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"offset": 1, "segments": 1, "next_sentence": False},
    "distilbert": {"segments": 0, "pooler": False, "next_sentence": False},
}
SHAPES = {"text": "SequenceClassification", "tokens": "TokenClassification", "span": "QuestionAnswering"}
KINDS = ["bpe", "unigram", "wordpiece", "byte_bpe", "words", "characters"]


def learned(kind: Any = "byte_bpe", *, mask: bool = False) -> Tokenizers:
    tokenizer = Tokenizer.train(CORPUS, kind=kind, vocabulary=300)
    if mask:
        tokenizer.inner.add_special_tokens(["[MASK]"])
    return Tokenizers(tokenizer)


def randomised(module: Any) -> Any:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.empty(parameter.shape).normal_(0.0, 0.3, generator=generator))
    return module.eval()


def written(directory: Path, kind: str, both: Tokenizers, *, head: Head | None = None, **settings: Any) -> Any:
    """Write the export of a random model that has learned here, and return the model."""
    config: Any = config_class(kind)(**SIZES, **settings)
    size = both.source.size
    if head is None:
        module = randomised(from_config(config, vocabulary=size))
    else:
        module = randomised(headed(config, classes=len(head.labels), pooled=head.pooled, vocabulary=size))
    export_directory(directory, config=config, weights=weights_of(module), tokenizers=both, head=head)
    return module


def framing(family: str) -> Framing:
    return Framing(Special(pad=0, unk=1, bos=2, eos=3), 512, segments=1 if family == "roberta" else 2)


def assert_framed(theirs: Any, both: Tokenizers, family: str) -> None:
    """That a call of their tokenizer gives the ids and segments that regard's framing gives."""
    frame = framing(family)
    singles = [frame.frame(ids) for ids in both.source.encode(TEXTS)]
    firsts, seconds = (both.source.encode([pair[side] for pair in PAIRS]) for side in (0, 1))
    doubles = [frame.frame(first, second) for first, second in zip(firsts, seconds, strict=True)]
    calls = ((singles, theirs(TEXTS)), (doubles, theirs([one for one, _ in PAIRS], [two for _, two in PAIRS])))
    for ours, found in calls:
        assert found["input_ids"] == [list(row.ids) for row in ours]
        assert ("token_type_ids" in found) == (family == "bert")
        if family == "bert":
            assert found["token_type_ids"] == [list(row.segments) for row in ours]


def logits_of(theirs: Any, given: Any) -> torch.Tensor:
    with torch.no_grad():
        answer = theirs(**given)
    if hasattr(answer, "end_logits"):
        return torch.stack([answer.start_logits, answer.end_logits], -1)
    return answer.logits if hasattr(answer, "logits") else answer[0]


@pytest.mark.parametrize("family", BERTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_heads_answer_as_in_regard(tmp_path: Path, family: str, shape: Any):
    both = learned("wordpiece")
    settings: dict[str, Any] = {**BERTS[family], "masked_words": False, "next_sentence": False, "maximum": 61}
    if family == "distilbert" and shape == "text":
        settings |= {"pooler": True, "pooler_activation": "relu"}
    head = Head(shape, ("start", "end") if shape == "span" else ("bad", "good", "so so"))
    ours = written(tmp_path / "out", "bert", both, head=head, **settings)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert_framed(tokenizer, both, family)
    theirs = getattr(transformers, f"AutoModelFor{SHAPES[shape]}").from_pretrained(tmp_path / "out").eval()
    given = tokenizer([one for one, _ in PAIRS], [two for _, two in PAIRS], padding=True, return_tensors="pt")
    rows = [framing(family).frame(*both.source.encode(list(pair))) for pair in PAIRS]
    expected = logits_of(theirs, given)
    for number, row in enumerate(rows):
        tokens, segments = (torch.tensor([part]) for part in (row.ids, row.segments))
        with torch.no_grad():
            found = ours(tokens, None, segments if family == "bert" else None)[0]
        there = expected[number] if shape == "text" else expected[number, : len(row.ids)]
        assert_close(found, there, **CLOSE)
    if shape == "text":
        assert theirs.config.id2label == {0: "bad", 1: "good", 2: "so so"}
        pipeline = transformers.pipeline("text-classification", model=str(tmp_path / "out"))
        with torch.no_grad():
            best = ours(torch.tensor([framing(family).frame(both.source.encode(TEXTS[:1])[0]).ids]), None)[0].softmax(
                -1
            )
        assert pipeline(TEXTS[0])[0]["score"] == pytest.approx(float(best.max()), abs=1e-4)


@pytest.mark.parametrize("family", BERTS)
@pytest.mark.parametrize("masked", [True, False])
def test_encoders_answer_as_in_regard(tmp_path: Path, family: str, masked: bool):
    both = learned("wordpiece", mask=True)
    settings = {**BERTS[family], "masked_words": masked, "maximum": 61}
    settings["next_sentence"] = family == "bert" and masked
    ours = written(tmp_path / "out", "bert", both, **settings)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert_framed(tokenizer, both, family)
    which = transformers.AutoModelForMaskedLM if masked else transformers.AutoModel
    theirs = which.from_pretrained(tmp_path / "out").eval()
    tokens = torch.tensor([framing(family).frame(both.source.encode(TEXTS[:1])[0]).ids])
    with torch.no_grad():
        hidden = ours(tokens)
        found = ours.output(ours.transform(hidden)) if masked else hidden
    assert_close(found, logits_of(theirs, tokenizer(TEXTS[:1], return_tensors="pt")), **CLOSE)
    if settings["next_sentence"]:
        pair = transformers.AutoModelForNextSentencePrediction.from_pretrained(tmp_path / "out").eval()
        row = framing(family).frame(*both.source.encode(list(PAIRS[0])))
        with torch.no_grad():
            hidden = ours(torch.tensor([row.ids]), None, torch.tensor([row.segments]))
            expected = ours.next_sentence(ours.pool(hidden))
        assert_close(logits_of(pair, tokenizer(*PAIRS[0], return_tensors="pt")), expected, **CLOSE)
    if masked:
        pipeline = transformers.pipeline("fill-mask", model=str(tmp_path / "out"))
        assert tokenizer.mask_token == "[MASK]"
        assert len(pipeline("the [MASK] sat")) == 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", ["bert", "roberta", "distilbert", "gpt", "transformer"])
def test_every_kind_of_tokenizer_gives_the_same_ids_there(tmp_path: Path, kind: str, model: str):
    both = learned(kind)
    written(tmp_path / "out", "bert" if model in BERTS else model, both, **BERTS.get(model, {}))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    if model in BERTS:
        assert_framed(tokenizer, both, model)
    ends = {"gpt": ([], []), "transformer": ([], [3])}.get(model, ([2], [3]))
    expected = [[*ends[0], *ids, *ends[1]] for ids in both.source.encode(TEXTS)]
    assert tokenizer(TEXTS)["input_ids"] == expected
    plain = tokenizer.batch_decode(expected, skip_special_tokens=True)
    assert plain == both.source.decode(both.source.encode(TEXTS))
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert tokenizer.pad_token_id == config["pad_token_id"] == 0


def test_a_language_model_writes_as_in_regard(tmp_path: Path):
    both = learned()
    ours = written(tmp_path / "out", "gpt", both, maximum=61)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    given = tokenizer(TEXTS[0], return_tensors="pt")
    tokens = torch.tensor(both.source.encode(TEXTS[:1]))
    assert given["input_ids"].tolist() == tokens.tolist()
    with torch.no_grad():
        assert_close(ours.output(ours(tokens)), logits_of(theirs, given), **CLOSE)
    answer = search(ours, tokens, config=DecodingConfig(beam=1, max_length=12))[0][0].tokens
    said = theirs.generate(**given, max_new_tokens=12, do_sample=False)[0, tokens.shape[1] :].tolist()
    assert tuple(said[: said.index(3)] if 3 in said else said) == answer
    pipeline = transformers.pipeline("text-generation", model=str(tmp_path / "out"))
    (more,) = pipeline(TEXTS[0], max_new_tokens=12, do_sample=False, return_full_text=False)
    assert more["generated_text"] == both.source.decode([list(answer)])[0]


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_a_translator_answers_as_in_regard(tmp_path: Path, kind: str):
    both = learned(kind)
    ours = written(tmp_path / "out", "transformer", both)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    given = tokenizer(TEXTS, padding=True, return_tensors="pt")
    for number, ids in enumerate(both.source.encode(TEXTS)):
        source, target = torch.tensor([[*ids, 3]]), torch.tensor([[2, 7, 9, 5]])
        with torch.no_grad():
            expected = theirs(
                **{key: part[number : number + 1] for key, part in given.items()}, decoder_input_ids=target
            )
            assert_close(ours.output(ours(source, None, target)), expected.logits, **CLOSE)
        answer = search(ours, source, config=DecodingConfig(beam=1, max_length=12))[0][0].tokens
        said = theirs.generate(**tokenizer(TEXTS[number], return_tensors="pt"), max_new_tokens=12, do_sample=False)
        row = said[0, 1:].tolist()
        row = row[: row.index(3)] if 3 in row else row
        assert tuple(row)[:11] == answer[:11]  # the last of twelve is their forced end


def test_a_translator_with_sentencepiece_models_is_read_by_marian_tokenizer(tmp_path: Path):
    pytest.importorskip("sentencepiece", reason="MarianTokenizer needs sentencepiece")
    from test_huggingface import marian

    vocabulary = {"</s>": 0, "<unk>": 1, "b": 2, "▁a": 3, "ab": 4, "a": 5, "▁": 6, ">>fr<<": 7, "<pad>": 8}
    came = import_directory(marian(tmp_path / "marian", vocabulary))
    assert came.tokenizers is not None
    export_directory(tmp_path / "out", config=came.config, weights=came.weights, tokenizers=came.tokenizers)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer("ab ba")["input_ids"] == [*came.tokenizers.source.encode(["ab ba"])[0], 0]


@pytest.mark.parametrize("architecture", ["BertModel", "BertForMaskedLM"])
def test_an_imported_model_goes_out_with_its_tokenizer(tmp_path: Path, architecture: str):
    theirs = tiny_bert.save(tmp_path / "theirs", architecture)
    came = import_directory(tmp_path / "theirs")
    export_directory(tmp_path / "out", config=came.config, weights=came.weights, tokenizers=came.tokenizers)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    texts = ["The cats sat on the [MASK].", "naïve dogs!"]
    expected = tiny_bert.tokenizer()(texts, padding=True, return_tensors="pt")
    found = tokenizer(texts, padding=True, return_tensors="pt")
    assert {key: part.tolist() for key, part in found.items()} == {key: part.tolist() for key, part in expected.items()}
    again = type(theirs).from_pretrained(tmp_path / "out", attn_implementation="eager").eval()
    with torch.no_grad():
        assert torch.equal(again(**found)[0], theirs(**expected)[0])


def test_an_imported_gpt2_goes_out_with_its_tokenizer(tmp_path: Path):
    theirs = tiny_gpt2.save(tmp_path / "theirs")
    came = import_directory(tmp_path / "theirs")
    export_directory(tmp_path / "out", config=came.config, weights=came.weights, tokenizers=came.tokenizers)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer("ab ab b")["input_ids"] == [3, 4, 2, 1]
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == ("<|endoftext|>", "<|endoftext|>", None)
    again = type(theirs).from_pretrained(tmp_path / "out", attn_implementation="eager").eval()
    given = tokenizer("ab ab b", return_tensors="pt")
    with torch.no_grad():
        assert torch.equal(again(**given)[0], theirs(**given)[0])


def test_a_pooler_that_their_class_does_not_have_is_refused(tmp_path: Path):
    for settings in ({}, {"offset": 1, "segments": 1, "next_sentence": False}):
        with pytest.raises(RegardError, match="which has no pooler_activation = 'relu'"):
            written(tmp_path / "out", "bert", learned(), pooler_activation="relu", **settings)
    assert not (tmp_path / "out").exists()
    quiet = {"pooler": False, "next_sentence": False}  # without a pooler there is nothing to refuse
    written(tmp_path / "out", "bert", learned(), pooler_activation="relu", **quiet)


def test_what_has_no_counterpart_there_is_refused(tmp_path: Path):
    with pytest.raises(RegardError, match="a head on kind = 'gpt' cannot be written"):
        written(tmp_path / "out", "gpt", learned(), head=Head("text", ("no", "yes")))
    with pytest.raises(RegardError, match="activation = 'swiglu'"):
        written(tmp_path / "out", "gpt", learned(), activation="swiglu")
    with pytest.raises(RegardError, match="segments = 0"):
        written(tmp_path / "out", "bert", learned(), offset=1, segments=0, pooler=False, next_sentence=False)
