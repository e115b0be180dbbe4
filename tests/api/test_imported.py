"""Models from elsewhere as model directories: what they answer, and that they come back as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch.testing import assert_close

import regard
import tiny_bert
from regard.api.exchange import export_model, import_model
from regard.errors import RegardError

TEXTS = ["the cat sat on the mat.", "happy birds!", "a"]


@pytest.fixture
def there(tmp_path: Path) -> Path:
    tiny_bert.save(tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    return tmp_path


def test_vectors_are_the_normalised_means_that_transformers_gives(there: Path):
    theirs = tiny_bert.save(there / "theirs")
    given = tiny_bert.tokenizer()(TEXTS, return_tensors="pt", padding=True)
    with torch.no_grad():
        hidden = theirs(**given).last_hidden_state
    real = given["attention_mask"].unsqueeze(-1)
    expected = torch.nn.functional.normalize((hidden * real).sum(1) / real.sum(1), dim=-1)
    model = regard.load(there / "ours")
    assert_close(torch.tensor(model(TEXTS)), expected, atol=1e-5, rtol=1e-4)
    assert_close(torch.tensor(model(TEXTS[1])), expected[1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("architecture", ["BertForMaskedLM", "BertForPreTraining"])
def test_a_head_for_masked_words_fills_as_transformers_does(tmp_path: Path, architecture: str):
    theirs = tiny_bert.save(tmp_path / "theirs", architecture, initializer_range=0.4)
    assert import_model(tmp_path / "theirs", tmp_path / "ours").task == "fill"
    given = tiny_bert.tokenizer()("the [MASK] sat.", return_tensors="pt")
    with torch.no_grad():
        best, tokens = theirs(**given)[0][0, 2].softmax(-1).topk(5)
    found = regard.load(tmp_path / "ours")("the [MASK] sat.")
    assert [each["token"] for each in found] == tokens.tolist()
    assert_close(torch.tensor([each["score"] for each in found]), best, atol=1e-5, rtol=1e-4)
    export_model(tmp_path / "ours", tmp_path / "back")
    before, after = (safetensors.torch.load_file(tmp_path / n / "model.safetensors") for n in ("theirs", "back"))
    assert all(torch.equal(before[name], after[name]) for name in after)
    assert before.keys() == after.keys()


def test_what_is_exported_again_is_bit_for_bit_what_came(there: Path):
    export_model(there / "ours", there / "back")
    before, after = (safetensors.torch.load_file(there / name / "model.safetensors") for name in ("theirs", "back"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_an_empty_text_has_a_vector_and_a_long_one_is_cut_with_a_warning(there: Path):
    model = regard.load(there / "ours")
    assert sum(x * x for x in model("")) == pytest.approx(1.0, abs=1e-5)
    with pytest.warns(UserWarning, match="1 of 2 texts have more than 37 tokens"):
        model(["cat " * 100, "cat"])


def test_a_directory_says_how_it_pools(tmp_path: Path):
    tiny_bert.save(tmp_path / "theirs")
    (tmp_path / "theirs" / "1_Pooling").mkdir()
    settings = tmp_path / "theirs" / "1_Pooling" / "config.json"
    settings.write_text('{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}')
    assert import_model(tmp_path / "theirs", tmp_path / "first").model.pooling == "first"
    settings.write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(RegardError, match="pools by pooling_mode_max_tokens"):
        import_model(tmp_path / "theirs", tmp_path / "other")


@pytest.mark.parametrize("way", ["first", "mean"])
def test_an_embedder_goes_out_as_sentence_transformers_keeps_it(tmp_path: Path, way: str):
    tiny_bert.save(tmp_path / "theirs")
    (tmp_path / "theirs" / "1_Pooling").mkdir()
    ways = {"pooling_mode_cls_token": way == "first", "pooling_mode_mean_tokens": way == "mean"}
    (tmp_path / "theirs" / "1_Pooling" / "config.json").write_text(json.dumps(ways))
    (tmp_path / "theirs" / "sentence_bert_config.json").write_text('{"max_seq_length": 20, "do_lower_case": false}')
    import_model(tmp_path / "theirs", tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "back")

    def read(*path: str) -> Any:
        return json.loads(tmp_path.joinpath("back", *path).read_bytes())

    assert read("1_Pooling", "config.json") == {"word_embedding_dimension": 24, **ways}
    assert read("sentence_bert_config.json")["max_seq_length"] == 20
    assert [each["type"].rpartition(".")[2] for each in read("modules.json")] == ["Transformer", "Pooling", "Normalize"]
    assert all(tmp_path.joinpath("back", each["path"]).is_dir() for each in read("modules.json"))
    again = import_model(tmp_path / "back", tmp_path / "again")
    assert (again.model.pooling, again.data.max_length) == (way, 20)


def test_a_directory_that_is_there_is_not_written_over(there: Path):
    with pytest.raises(RegardError, match="exists and is not empty"):
        import_model(there / "theirs", there / "ours")
    with pytest.raises(RegardError, match="exists and is not empty"):
        export_model(there / "ours", there / "theirs")


def test_a_model_without_a_tokenizer_is_refused(tmp_path: Path):
    tiny_bert.save(tmp_path / "theirs")
    (tmp_path / "theirs" / "vocab.txt").unlink()
    with pytest.raises(RegardError, match="has no tokenizer"):
        import_model(tmp_path / "theirs", tmp_path / "ours")


def test_what_was_learned_elsewhere_is_judged_by_pairs_that_are_given(there: Path):
    model = regard.load(there / "ours")
    with pytest.raises(RegardError, match="names no data to score it on"):
        model.evaluate()
    (there / "pairs.tsv").write_text("the cat\tthe cat\na dog\ta dog\n", encoding="utf-8")
    assert model.evaluate(there / "pairs.tsv")["mrr"].value == 100


def test_a_model_is_imported_into_the_current_folder_while_that_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tiny_bert.save(tmp_path / "theirs")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    import_model(tmp_path / "theirs", "")
    assert regard.load(tmp_path / "here").recipe.kind == "bert"
