"""Heads of transformers' classes on bodies of the BERT family: in, the same answers, and out again as they came."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers
from torch.testing import assert_close

import regard
import tiny_bert
from regard import recipes, tasks
from regard.api.body import open_body
from regard.api.exchange import export_model, import_model
from regard.data.tokenizers import Tokenizer
from regard.errors import RegardError
from regard.layers.low_rank import add_low_rank
from regard.models.heads import headed
from regard.training.weights import weights_of

LABELS = {"SequenceClassification": ["bad", "good", "so so"], "TokenClassification": ["O", "B-LOC", "I-LOC", "B-PER"]}
TASKS = {"SequenceClassification": "classify", "TokenClassification": "tag", "QuestionAnswering": "answer"}
FAMILIES = ("Bert", "DistilBert", "Roberta")
EVERY = [f"{family}For{what}" for family in FAMILIES for what in TASKS]
ROBERTA_WORDS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ", *"abcdehinorst"]
ROBERTA_PAIRS = ("t h", "th e", "c a", "ca t", "Ġ the", "Ġ cat")


def config(family: str, what: str, **changes: Any) -> Any:
    labels = dict(enumerate(LABELS[what])) if what in LABELS else None
    named = {} if labels is None else {"id2label": labels, "label2id": {name: at for at, name in labels.items()}}
    if family == "Bert":
        return tiny_bert.config(**named, **changes)
    named["attn_implementation"] = "eager"
    if family == "DistilBert":
        sizes = {"dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 31, "max_position_embeddings": 37}
        return transformers.DistilBertConfig(**sizes, vocab_size=len(tiny_bert.VOCABULARY), **named, **changes)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 31}
    size = len(ROBERTA_WORDS) + len(ROBERTA_PAIRS)
    return transformers.RobertaConfig(
        **sizes, max_position_embeddings=39, type_vocab_size=1, vocab_size=size, **named, **changes
    )


def saved(directory: Path, architecture: str, **changes: Any) -> Any:
    """Write the directory with random weights, biases and norms too, and return the model that is in it."""
    family, what = architecture.split("For")
    model = getattr(transformers, architecture)(config(family, what, **changes)).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            spread = torch.empty(parameter.shape).normal_(0.0, 0.3, generator=generator)
            parameter.copy_(1 + spread if "orm.weight" in name else spread)
    model.save_pretrained(directory)
    if family == "Roberta":
        names = [*ROBERTA_WORDS, *("".join(pair.split()) for pair in ROBERTA_PAIRS)]
        (directory / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
        (directory / "merges.txt").write_text("#version: 0.2\n" + "\n".join(ROBERTA_PAIRS) + "\n")
    else:
        (directory / "vocab.txt").write_text("\n".join(tiny_bert.VOCABULARY), encoding="utf-8")
    return model


def logits(theirs: Any, tokens: torch.Tensor, mask: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
    kinds = {"token_type_ids": segments} if isinstance(theirs, transformers.BertPreTrainedModel) else {}
    with torch.no_grad():
        answer = theirs(input_ids=tokens, attention_mask=mask.long(), **kinds)
    return torch.stack([answer.start_logits, answer.end_logits], -1) if hasattr(answer, "end_logits") else answer.logits


@pytest.mark.parametrize("architecture", EVERY)
def test_logits_are_those_of_transformers_and_the_way_back_is_exact(tmp_path: Path, architecture: str):
    what = architecture.split("For")[1]
    theirs = saved(tmp_path / "theirs", architecture)
    recipe = import_model(tmp_path / "theirs", tmp_path / "ours")
    assert recipe.task == TASKS[what]
    assert json.loads((tmp_path / "ours" / "labels.json").read_bytes()) == LABELS.get(what, ["start", "end"])

    model: Any = regard.load(tmp_path / "ours")
    pad = theirs.config.pad_token_id
    tokens = torch.randint(5, theirs.config.vocab_size, (3, 9), generator=torch.Generator().manual_seed(1))
    lengths, segments = torch.tensor([9, 4, 6]), (torch.arange(9) > 3).long().expand(3, -1)
    mask = torch.arange(9) < lengths.unsqueeze(1)
    tokens = tokens.masked_fill(~mask, pad)
    expected = logits(theirs, tokens, mask, segments)
    with torch.no_grad():
        found = model.module(tokens, lengths, segments if architecture.startswith("Bert") else None)
    rows = slice(None) if what == "SequenceClassification" else mask
    assert_close(found[rows], expected[rows], atol=1e-4, rtol=1e-4)

    export_model(tmp_path / "ours", tmp_path / "back")
    before, after = (safetensors.torch.load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "back"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    again = getattr(transformers, architecture).from_pretrained(tmp_path / "back", attn_implementation="eager")
    assert type(again.config) is type(theirs.config)
    assert again.config.id2label == theirs.config.id2label
    assert torch.equal(logits(again.eval(), tokens, mask, segments), logits(theirs, tokens, mask, segments))


def test_imported_heads_answer_and_are_looked_into(tmp_path: Path):
    asked = {
        "classify": ("the cat sat", "a red dog"),
        "tag": "smith ran in london.",
        "answer": ("the cat", "a dog sat."),
    }
    for what, task in TASKS.items():
        theirs = saved(tmp_path / task, f"BertFor{what}")
        import_model(tmp_path / task, tmp_path / f"our-{task}")
        model: Any = regard.load(tmp_path / f"our-{task}")
        answer, record = model(asked[task]), model.look(asked[task])
        pair = asked[task] if isinstance(asked[task], tuple) else (asked[task],)
        given = tiny_bert.tokenizer()(*pair, return_tensors="pt")
        with torch.no_grad():
            attentions = theirs(**given, output_attentions=True).attentions
        for each, weights in zip(record.maps, attentions, strict=True):
            assert_close(each.weights, weights[0], atol=1e-4, rtol=1e-4)
        chances = torch.tensor(record.answer.logprobs).exp()
        names = record.sides["target"].items
        assert record.saliency["source"].weights.shape == (1, len(names), given["input_ids"].shape[1])
        if task == "classify":
            assert [label for label, _ in record.answer.alternatives[0]] == [each["label"] for each in answer]
            assert float(chances[0]) == pytest.approx(answer[0]["score"], abs=1e-5)
            other = model.look(asked[task], reference="so so")
            assert (other.answer.text, other.sides["target"].items) == ("so so", ("so so",))
        elif task == "tag":
            assert [name.split("/")[0] for name in names] == ["smith", "ran", "in", "london", "."]
            assert record.answer.places == (1, 2, 3, 4, 5)
            assert record.answer.text == " ".join(f"{each['word']}/{each['entity']}" for each in answer)
            assert [name for name in names if not name.endswith("/O")] == record.answer.text.split()
        else:
            assert record.answer.text == answer["answer"]
            assert float(chances.prod()) == pytest.approx(answer["score"], abs=1e-5)
            first, last = (record.sides["source"].items[place] for place in record.answer.places)
            assert names == (f"{first}…", f"…{last}")


@pytest.mark.parametrize("task", ["classify", "tag", "answer"])
def test_a_model_of_ours_goes_out_with_its_labels_and_its_changes_of_low_rank_merged(tmp_path: Path, task: str):
    ours = tmp_path / "ours"
    ours.mkdir()
    labels = ["start", "end"] if task == "answer" else ["no", "yes", "who knows"]
    tokenizer = Tokenizer.train(["the cat sat on the mat"], kind="words", vocabulary=30)
    tokenizer.save(ours / "tokenizer.json")
    recipe = recipes.parse(
        f'task = "{task}"\n[model]\nkind = "bert"\nlayers = 2\nwidth = 12\nheads = 3\nhidden = 17\nmaximum = 23\n'
        "[training]\nlora = 2",
        where="test",
    )
    config: Any = recipe.model
    torch.manual_seed(2)
    module = headed(config, classes=len(labels), pooled=task == "classify", vocabulary=tokenizer.size)
    add_low_rank(module, rank=2)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    safetensors.torch.save_file(weights_of(module), ours / "weights.safetensors")
    (ours / "labels.json").write_text(json.dumps(labels))
    (ours / "recipe.toml").write_text(recipe.to_toml())
    export_model(ours, tmp_path / "out")

    named = {"classify": "SequenceClassification", "tag": "TokenClassification", "answer": "QuestionAnswering"}
    theirs = getattr(transformers, f"AutoModelFor{named[task]}").from_pretrained(tmp_path / "out").eval()
    if task != "answer":
        assert theirs.config.id2label == dict(enumerate(labels))
    tokens, segments = torch.tensor([[2, 5, 6, 3, 7, 8, 3]]), torch.tensor([[0, 0, 0, 0, 1, 1, 1]])
    with torch.no_grad():
        found = module.eval()(tokens, None, segments)
    assert_close(found, logits(theirs, tokens, torch.ones_like(tokens), segments), atol=1e-4, rtol=1e-4)
    again = import_model(tmp_path / "out", tmp_path / "again")
    assert (again.task, json.loads((tmp_path / "again" / "labels.json").read_bytes())) == (task, labels)


def test_a_head_can_be_left_behind_to_start_from_its_body(tmp_path: Path):
    theirs = saved(tmp_path / "theirs", "DistilBertForSequenceClassification")
    body = open_body(tmp_path / "theirs")
    assert not any(name.startswith(("encoder.", "output.")) for name in body.weights)
    words = theirs.distilbert.embeddings.word_embeddings.weight
    assert torch.equal(body.weights["embedding.table.weight"], words.detach())


def test_everything_wrong_with_a_head_is_said_at_once(tmp_path: Path):
    saved(tmp_path, "BertForSequenceClassification")
    path = tmp_path / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    tensors["classifier.weight"] = torch.zeros(2, 24)
    tensors["qa_outputs.weight"] = torch.zeros(2, 24)
    del tensors["bert.pooler.dense.bias"], tensors["classifier.bias"]
    safetensors.torch.save_file(tensors, path)
    with pytest.raises(RegardError) as error:
        import_model(tmp_path, tmp_path / "ours")
    assert "missing: classifier.bias, pooler.dense.bias" in str(error.value)
    assert "not known here: qa_outputs.weight" in str(error.value)
    assert "classifier.weight is (2, 24) and must be (3, 24)" in str(error.value)


def test_everything_wrong_with_the_weights_of_a_model_directory_is_said_at_once(tmp_path: Path):
    saved(tmp_path / "theirs", "BertForTokenClassification")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    path = tmp_path / "ours" / "weights.safetensors"
    tensors = safetensors.torch.load_file(path)
    tensors["output.weight"] = torch.zeros(7, 24)
    tensors["encoder.more"] = torch.zeros(2)
    del tensors["output.bias"]
    safetensors.torch.save_file(tensors, path)
    with pytest.raises(RegardError) as error:
        regard.load(tmp_path / "ours")
    assert "encoder.more is (2,) there and missing here" in str(error.value)
    assert "output.bias is missing there and (4,) here" in str(error.value)
    assert "output.weight is (7, 24) there and (4, 24) here" in str(error.value)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"problem_type": "multi_label_classification"}, "problem_type = 'multi_label_classification'"),
        ({"id2label": {"0": "score"}}, "fewer than two labels"),
        ({"id2label": {"0": "a", "2": "b"}}, "a label of its own for each of 0, 1, 2"),
        ({"id2label": {"0": "a", "1": "a"}}, "a label of its own for each of 0, 1, 2"),
        ({"architectures": ["BertForMultipleChoice"]}, "does not know: BertForMultipleChoice; it knows .*BertForToken"),
    ],
    ids=str,
)
def test_heads_that_choose_otherwise_are_refused(tmp_path: Path, changes: dict[str, Any], match: str):
    saved(tmp_path, "BertForSequenceClassification")
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(RegardError, match=match):
        import_model(tmp_path, tmp_path / "ours")


def test_what_their_class_does_not_compute_is_named_on_the_way_out(tmp_path: Path):
    saved(tmp_path / "theirs", "BertForSequenceClassification")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    recipe = tmp_path / "ours" / "recipe.toml"
    text = recipe.read_text()
    recipe.write_text(text.replace("[model]\n", '[model]\npooling = "mean"\n'))
    weights = tmp_path / "ours" / "weights.safetensors"
    safetensors.torch.save_file(safetensors.torch.load_file(weights), weights)  # without the note of their [model]
    with pytest.raises(RegardError, match="as BertForSequenceClassification, which has no pooling = 'mean'"):
        export_model(tmp_path / "ours", tmp_path / "back")
    recipe.write_text(text.replace('pooler_activation = "tanh"', 'pooler_activation = "relu"'))
    with pytest.raises(RegardError, match="which has no pooler_activation = 'relu'"):
        export_model(tmp_path / "ours", tmp_path / "back")


@pytest.mark.parametrize("architecture", [*EVERY, *(f"{family}ForMaskedLM" for family in FAMILIES)])
def test_the_command_that_an_import_suggests_works(tmp_path: Path, architecture: str):
    saved(tmp_path / "theirs", architecture)
    recipe = import_model(tmp_path / "theirs", tmp_path / "ours")
    surface = tasks.surface(recipe.task)
    shell = ["bash", "-c", f"printf %s {surface.example}"]
    text = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
    model = regard.load(tmp_path / "ours")
    (answer,) = model.answer_all([surface.parse(text)], model.options(), together=1)
    assert surface.lines(answer, model.options())
    assert model.look(surface.parse(text)).maps
