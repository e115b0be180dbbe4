"""From a model to the saved page: the weights in it are those that others compute."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_records
import numpy as np
import pytest
import torch
from captured import captured

from marian_copy import LAYERS, VOCABULARY, marian
from regard.attention import MultiHead, recording
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.decoding import DecodingConfig
from regard.look.record import Map, Record
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.special import BOS, EOS
from regard.tasks.base import Side
from regard.tasks.translate.task import Translate
from seq2seq_numbers import Numbers

LETTERS = "abcdefghijklmnopqrstuvwxyz"
BEAM = DecodingConfig(beam=3, max_length=7)


def task() -> Translate:
    return Translate(Tokenizers(Tokenizer.train([LETTERS], kind="characters", vocabulary=31)))


def in_page(record: Record, path: Path) -> made_records.Record:
    """The record as it stands in a saved page."""
    record.save(path)
    (data,) = re.findall(r'<script type="application/json" id="records">(.*?)</script>', path.read_text("utf-8"))
    (found,) = json.loads(data)
    return found


def read(chosen: Translate, text: str) -> list[int]:
    return [*chosen.tokenizers.source.encode([text])[0], EOS]


@pytest.mark.parametrize("reference", [None, "badge"])
def test_a_page_holds_the_attentions_that_marian_returns(tmp_path: Path, reference: str | None):
    ours, theirs = marian()
    chosen = task()
    assert chosen.tokenizers.source.size <= VOCABULARY
    record = captured(ours, chosen, "face to face", decoding=BEAM, reference=reference)
    made = in_page(record, tmp_path / "look.html")
    found = chosen.tokenizers.target.encode([reference])[0] if reference else None
    said = chosen.translate(ours, ["face to face"], decoding=BEAM)[0][0].tokens if found is None else found
    source, given = torch.tensor([read(chosen, "face to face")]), torch.tensor([[BOS, *said]])
    assert len(made["sides"]["target"]["items"]) == given.shape[1]
    expected = theirs(input_ids=source, decoder_input_ids=given, output_attentions=True)
    pairs = {
        "encoder.blocks.{}.attention": expected.encoder_attentions,
        "decoder.blocks.{}.attention": expected.decoder_attentions,
        "decoder.blocks.{}.cross": expected.cross_attentions,
    }
    assert len(made["maps"]) == 3 * LAYERS
    for name, layers in pairs.items():
        for layer, weights in enumerate(layers):
            shown = made_records.decode(made_records.find(made, name.format(layer)))
            np.testing.assert_allclose(shown, weights[0].detach().numpy(), atol=1e-5)


def test_a_browser_shows_the_attentions_that_marian_returns(watched: Callable[..., Any], tmp_path: Path):
    browsing = pytest.importorskip("browsing")
    ours, theirs = marian()
    chosen = task()
    captured(ours, chosen, "badge", decoding=BEAM, reference="cab").save(tmp_path / "look.html")
    given = torch.tensor([[BOS, *chosen.tokenizers.target.encode(["cab"])[0]]])
    expected = theirs(input_ids=torch.tensor([read(chosen, "badge")]), decoder_input_ids=given, output_attentions=True)
    page = watched()
    for layer, head in ((0, 0), (LAYERS - 1, 1)):
        page.goto("about:blank")
        page.goto(f"{(tmp_path / 'look.html').as_uri()}#layer={layer}&head={head}")
        for row, column in ((0, 0), (3, 5), (2, 1)):
            browsing.point(page, row, column)
            weight = expected.cross_attentions[layer][0, head, row, column].item()
            assert browsing.number(page) == pytest.approx(weight, abs=1e-5)


def test_a_page_holds_the_weights_of_two_heads_made_by_hand(tmp_path: Path):
    """Head 0 compares 1 and 1 + ln 3 with themselves, head 1 asks for nothing in particular: e^0 : e^0."""
    module = MultiHead(2, heads=2, bias=False)
    with torch.no_grad():
        module.query.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
        module.key.weight.copy_(torch.eye(2))
    large = 1 + math.log(3)
    with recording(module) as seen:
        module(torch.tensor([[[1.0, 5.0], [large, 7.0]]]))
    sides = {"tokens": Side(("one", "two"))}
    record = Record("two heads", sides, (Map("look", "self", "tokens", "tokens", seen[""][0], (0, 1)),))
    shown = made_records.decode(in_page(record, tmp_path / "look.html")["maps"][0])
    odds = 3**large
    by_hand = [[[1 / 4, 3 / 4], [1 / (1 + odds), odds / (1 + odds)]], [[1 / 2, 1 / 2], [1 / 2, 1 / 2]]]
    np.testing.assert_allclose(shown, by_hand, rtol=1e-6)


@pytest.mark.parametrize("order", ["bahdanau", "luong"])
@pytest.mark.parametrize("score", ["cosine", "additive", "location", "general", "dot", "scaled_dot"])
def test_a_page_holds_the_alignment_of_an_lstm_that_numpy_computes(tmp_path: Path, score: str, order: str):
    torch.manual_seed(5)
    chosen = task()
    config = Seq2SeqConfig(layers=2, width=10, embedding=7, cell="lstm", score=score, order=order, maximum=29)
    model = Seq2Seq(config, vocabulary=chosen.tokenizers.source.size)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=1.0)
    made = in_page(captured(model.eval(), chosen, "face to face", decoding=BEAM), tmp_path / "look.html")
    said = chosen.translate(model, ["face to face"], decoding=BEAM)[0][0].tokens
    numbers = Numbers(model, score=score, order=order, cell="lstm")
    _, expected = numbers.decode(read(chosen, "face to face"), [BOS, *said])
    shown = made_records.decode(made_records.find(made, "decoder.attention"))
    np.testing.assert_allclose(shown[0], expected, rtol=1e-4, atol=1e-6)
    assert np.ptp(shown) > 0.003  # it looks somewhere
