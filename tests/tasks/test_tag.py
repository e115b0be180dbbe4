"""What a tagger says of texts and words, as words and as whole entities, and what parts of speech are judged by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import regard
import tiny_bert
from regard import recipes
from regard.api.exchange import import_model
from regard.commands.run import run

LABELS = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
TEXT = "the cat sat on a red mat in paris smith smith london ran , happy dog ran on bird film !"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger of random weights: `theirs` as transformers saves it, and `ours`."""
    path = tmp_path_factory.mktemp("tag")
    named = {"id2label": dict(enumerate(LABELS)), "label2id": {name: at for at, name in enumerate(LABELS)}}
    theirs = tiny_bert.save(path / "theirs", "BertForTokenClassification", **named)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if "orm" not in name:
                parameter.normal_(0.0, 0.4, generator=generator)
    theirs.save_pretrained(path / "theirs")
    import_model(path / "theirs", path / "ours")
    return path


def changed(there: Path, **keys: str) -> Any:
    """Our tagger with other keys of [data]."""
    recipe = (there / "ours" / "recipe.toml").read_text("utf-8")
    for key, value in keys.items():
        default = {"words": "text", "entities": "words"}[key]
        assert f'{key} = "{default}"' in recipe
        recipe = recipe.replace(f'{key} = "{default}"', f'{key} = "{value}"')
    model = there / "-".join(keys.values())
    if not model.exists():
        import_model(there / "theirs", model)
        (model / "recipe.toml").write_text(recipe, encoding="utf-8")
    return regard.load(model)


def pipeline(there: Path) -> Any:
    theirs = transformers.BertForTokenClassification.from_pretrained(there / "theirs")
    pretokenizer = transformers.BertTokenizerFast(vocab=str(there / "theirs" / "vocab.txt"))
    return transformers.pipeline(
        "token-classification", model=theirs, tokenizer=pretokenizer, aggregation_strategy="simple", device="cpu"
    )


def test_whole_entities_are_those_of_transformers(there: Path):
    model, theirs = changed(there, entities="whole"), pipeline(there)
    words = TEXT.split()
    seen = 0
    for begin in range(len(words) - 7):
        text = " ".join(words[begin : begin + 8])  # each word is one token
        ours, expected = model(text), theirs(text)
        assert [each.keys() for each in ours] == [each.keys() for each in expected]
        for name in ("entity_group", "start", "end"):
            assert [each[name] for each in ours] == [each[name] for each in expected]
        assert [each["word"] for each in ours] == [text[each["start"] : each["end"]] for each in expected]
        assert [each["score"] for each in ours] == pytest.approx([float(each["score"]) for each in expected], rel=1e-4)
        seen += sum(" " in each["word"] for each in ours)
    assert seen > 3  # entities of several words


def test_whole_entities_are_printed_with_their_type(there: Path, capsys: pytest.CaptureFixture[str]):
    model = changed(there, entities="whole")
    run(model.path, [[TEXT]], {})
    assert capsys.readouterr().out == " ".join(f"{e['word']}/{e['entity_group']}" for e in model(TEXT)) + "\n"
    run(model.path, [[TEXT]], {}, as_json=True)
    told, expected = json.loads(capsys.readouterr().out)["answers"], model(TEXT)
    assert [each.pop("score") for each in told] == pytest.approx([each.pop("score") for each in expected], abs=1e-4)
    assert told == expected


def test_words_that_are_given_are_not_cut_again(there: Path):
    model = regard.load(there / "ours")
    text = "the @jack sat, don't"
    assert [word for word, _ in model.task.reading.words_of(text)] == ["the", "@", "jack", "sat", ",", "don", "'", "t"]
    given = model.surface.from_json(text.split())
    assert model.task.reading.words_of(given) == [("the", 0), ("@jack", 4), ("sat,", 10), ("don't", 15)]
    assert model.task.reading.words_of(model.surface.from_json(tuple(text.split()))) == model.task.reading.words_of(
        given
    )
    spaces = changed(there, words="spaces")
    assert spaces.task.reading.words_of(spaces.surface.parse(text)) == model.task.reading.words_of(given)
    assert spaces(text) == spaces([text.split()])[0] == model([text.split()])[0]


def test_a_tab_in_a_line_is_white_space(there: Path):
    model = regard.load(there / "ours")
    tabbed, spaced = model.surface.parse("the cat\tsat in\tparis"), model.surface.parse("the cat sat in paris")
    assert model.task.reading.words_of(tabbed) == model.task.reading.words_of(spaced)
    assert model.answers([tabbed]) == model.answers([spaced])


def test_parts_of_speech_are_judged_by_word(tmp_path: Path):
    sentences = ["the DET\ncat NOUN\nsat VERB\n. SYM\n", "a DET\ndog NOUN\nran VERB\n! SYM\n", "oh INTJ\n! SYM\n"]
    (tmp_path / "pos.conll").write_text("\n".join(sentences * 3), encoding="utf-8")
    recipe = recipes.parse(
        f"""
task = "tag"
[data]
train = "{tmp_path / "pos.conll"}"
valid = "{tmp_path / "pos.conll"}"
[tokenizer]
kind = "words"
[model]
kind = "bert"
layers = 1
width = 16
heads = 2
dropout = 0.0
[training]
steps = 40
batch_tokens = 64
learning_rate = 0.01
warmup = 2
schedule = "constant"
validate_every = 20
checkpoint_every = 20
precision = "float32"
""",
        where="test",
    )
    model = regard.train(recipe, out=tmp_path / "model")
    assert model.report["scores"].keys() >= {"accuracy"}
    assert "f1" not in model.report["scores"]
    assert model.evaluate()["accuracy"].value == 100
    assert model.evaluate()["accuracy"].signature == "percent of 30 words"
    assert [each["entity"] for each in model("the dog ran.")] == ["DET", "NOUN", "VERB", "SYM"]
