"""Fine-tuning from DistilBERT, RoBERTa and GPT-2 as transformers saves them, and from language models learned here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from torch.testing import assert_close

import regard
import tiny_bert
from regard import models, recipes
from regard.api import body as bodies
from regard.errors import RegardError
from regard.interchange.huggingface import Imported
from written_models import written

QUICK = ["training.batch_tokens=256", "training.learning_rate=0.003", "training.warmup=5", "training.threads=1"]
QUICK += ["training.schedule=constant", "training.validate_every=0", "training.checkpoint_every=100"]
QUICK += ["training.label_smoothing=0", "training.precision=float32", "model.dropout=0"]
NOUNS = ["cat", "dog", "bird", "film", "mat"]
TEXTS = [f"the {mood} {a} sat on a {b}" for mood in ("happy", "sad") for a in NOUNS for b in NOUNS]
LIKE_BERT = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 31}


def save_byte_pairs(directory: Path, special: list[str]) -> int:
    """vocab.json and merges.txt of whole words, and how many tokens there are."""
    directory.mkdir()
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(TEXTS, vocab_size=400, min_frequency=1, special_tokens=special, show_progress=False)
    made.save_model(str(directory))
    return made.get_vocab_size()


def save(directory: Path, name: str) -> Any:
    """Write a tiny random body, and return it."""
    torch.manual_seed(0)
    if name == "distilbert":
        sizes = {"dim": 24, "n_layers": 2, "n_heads": 2, "hidden_dim": 31, "max_position_embeddings": 64}
        config = transformers.DistilBertConfig(vocab_size=len(tiny_bert.VOCABULARY), **sizes)
        model = transformers.DistilBertModel(config)
        directory.mkdir()
        (directory / "vocab.txt").write_text("\n".join(tiny_bert.VOCABULARY), encoding="utf-8")
    elif name == "roberta":
        size = save_byte_pairs(directory, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
        config = transformers.RobertaConfig(vocab_size=size, max_position_embeddings=66, type_vocab_size=1, **LIKE_BERT)
        model = transformers.RobertaModel(config)
    else:
        size = save_byte_pairs(directory, ["<|endoftext|>"])
        sizes = {"n_embd": 24, "n_layer": 2, "n_head": 2, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0}
        model = transformers.GPT2Model(transformers.GPT2Config(vocab_size=size, **sizes))
    model.eval().save_pretrained(directory)
    return model


def recipe(task: str, body: Path, train: Path, *changes: str) -> recipes.Recipe:
    text = f'task = "{task}"\n[data]\ntrain = "{train}"\nvalid = "{train}"\nmax_length = 40\n[model]\nbody = "{body}"'
    return recipes.parse(text, where="test", changes=[*QUICK, *changes])


def films(folder: Path) -> Path:
    (folder / "films.tsv").write_text("\n".join(f"{text}\t{'happy' in text}" for text in TEXTS), encoding="utf-8")
    return folder / "films.tsv"


@pytest.mark.parametrize("name", ["distilbert", "roberta", "gpt2"])
def test_the_states_under_a_head_are_those_of_transformers(tmp_path: Path, name: str):
    theirs = save(tmp_path / "body", name)
    changes = ["training.steps=1", "training.freeze=all"]
    model: Any = regard.train(recipe("classify", tmp_path / "body", films(tmp_path), *changes), out=tmp_path / "model")
    texts = [TEXTS[3], "a cat", TEXTS[40] + " ran!"]
    rows = [row.ids for row in model.task.rows.frame(texts, [None] * 3)]
    lengths = torch.tensor([len(row) for row in rows])
    pad = model.recipe.model.special.pad or 0
    tokens = torch.tensor([[*row, *[pad] * (int(lengths.max()) - len(row))] for row in rows])
    real = torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)
    with torch.no_grad():
        expected = theirs(input_ids=tokens, attention_mask=real.long()).last_hidden_state
        found = model.module.encoder.states(tokens, lengths)
    assert_close(found[real], expected[real], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["distilbert", "roberta", "gpt2"])
def test_a_classifier_learns_from_each_and_a_text_is_read_the_same_in_company(tmp_path: Path, name: str):
    save(tmp_path / "body", name)
    data = films(tmp_path)
    model = regard.train(recipe("classify", tmp_path / "body", data, "training.steps=80"), out=tmp_path / "model")
    assert model.report["scores"]["accuracy"] >= 95
    again = regard.load(tmp_path / "model")
    with pytest.warns(match="trained on single texts"):
        together = again([TEXTS[0], "the sad", ("a cat", "sat on a happy film")])
    with pytest.warns(match="trained on single texts"):
        alone = [again(TEXTS[0]), again("the sad"), again(("a cat", "sat on a happy film"))]
    for both in zip(together, alone, strict=True):
        assert [each["label"] for each in both[0]] == [each["label"] for each in both[1]]
        assert [each["score"] for each in both[0]] == pytest.approx([each["score"] for each in both[1]], abs=1e-5)


@pytest.mark.parametrize("name", ["distilbert", "gpt2"])
def test_each_is_seen_to_look_as_transformers_says(tmp_path: Path, name: str):
    theirs = save(tmp_path / "body", name)
    theirs.set_attn_implementation("eager")
    changes = ["training.steps=1", "training.freeze=all"]
    model: Any = regard.train(recipe("classify", tmp_path / "body", films(tmp_path), *changes), out=tmp_path / "model")
    record = model.look(TEXTS[3])
    (row,) = model.task.rows.frame([TEXTS[3]], [None])
    with torch.no_grad():
        attentions = theirs(input_ids=torch.tensor([row.ids]), output_attentions=True).attentions
    assert {(each.query, each.key) for each in record.maps} == {("source", "source")}
    for each, expected in zip(record.maps, attentions, strict=True):
        assert_close(each.weights, expected[0], atol=1e-5, rtol=1e-4)
    assert record.sides["target"].text in ("True", "False")
    assert record.saliency["source"].weights.shape == (1, 1, len(row.ids))
    assert record.answer.places == ((len(row.ids) - 1,) if name == "gpt2" else (0,))


@pytest.mark.parametrize("name", ["distilbert", "roberta"])
def test_words_are_tagged_and_answers_found_from_each(tmp_path: Path, name: str):
    save(tmp_path / "body", name)
    tagged = tmp_path / "train.conll"
    tagged.write_text("\n".join(f"the O\nhappy O\n{noun} B-PER\nsat O\n" for noun in NOUNS), encoding="utf-8")
    model = regard.train(recipe("tag", tmp_path / "body", tagged, "training.steps=50"), out=tmp_path / "tag")
    assert model.report["scores"]["f1"] >= 80
    asked = tmp_path / "train.jsonl"
    rows = [
        {"context": f"the {a} sat on a {b}", "question": "on?", "answer": b, "answer_start": len(f"the {a} sat on a ")}
        for a in NOUNS
        for b in NOUNS
    ]
    asked.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    model = regard.train(recipe("answer", tmp_path / "body", asked, "training.steps=50"), out=tmp_path / "answer")
    found = regard.load(tmp_path / "answer")(("on?", "the cat sat on a mat"))
    assert "the cat sat on a mat"[found["start"] : found["end"]] == found["answer"] != ""
    assert model.report["scores"]["f1"] > 30


@pytest.mark.parametrize("task", ["tag", "answer", "fill"])
def test_what_reads_one_way_cannot_judge_each_word(tmp_path: Path, task: str):
    save(tmp_path / "body", "gpt2")
    readers = ", ".join(models.kinds("encoder"))
    with pytest.raises(RegardError, match=f'is for the kinds {readers}, and not for kind = "gpt"'):
        regard.train(recipe(task, tmp_path / "body", films(tmp_path)), out=tmp_path / "model")


def test_the_kinds_that_can_be_a_body_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pairs = Imported(models.config_class("seq2seq")(), {}, None, tmp_path)
    monkeypatch.setattr(bodies, "open_body", lambda _: pairs)
    bodies_here = ", ".join(kind for kind in models.kinds() if models.KINDS[kind].form in ("causal", "encoder"))
    with pytest.raises(RegardError, match=f"the kinds that can are {bodies_here}$"):
        regard.train(recipe("classify", tmp_path, films(tmp_path)), out=tmp_path / "model")


def test_writing_starts_from_nothing(tmp_path: Path):
    save(tmp_path / "body", "gpt2")
    text = f'task = "write"\n[data]\ntrain = "x.txt"\n[model]\nbody = "{tmp_path / "body"}"'
    with pytest.raises(RegardError, match=r"model\.body = .* has no effect for task"):
        regard.train(recipes.parse(text, where="test"), out=tmp_path / "model")


@pytest.mark.parametrize("kind", ["gpt", "rnn", "transformer_xl"])
@pytest.mark.parametrize("task", ["classify", "embed"])
def test_a_model_that_learned_to_write_here_is_a_body(tmp_path: Path, kind: str, task: str):
    lines = [f"{who}{how}\tthe {who}" for who in ("cat", "dog", "fox") for how in ("", " sat", " ran by")]
    (tmp_path / "short.tsv").write_text("\n".join(lines), encoding="utf-8")
    changes = ["training.steps=3", "training.freeze=1", "data.max_length=24"]
    made = recipe(task, written(kind).path, tmp_path / "short.tsv", *changes)
    model: Any = regard.train(made, out=tmp_path / "model")
    encoder = model.module.encoder if task == "classify" else model.module
    before = dict(written(kind).module.named_parameters())
    learned = {name for name, each in encoder.named_parameters() if not torch.equal(each, before[name])}
    assert learned
    assert not any(".0." in name or "embedding" in name for name in learned)
    assert regard.load(tmp_path / "model")(["the cat sat", "a"]) == model(["the cat sat", "a"])
