"""Looking at models that read and at models that write: what is shown is what others compute of the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from browsing import Open, inked, playwright
from captured import captured
from rich.console import Console
from torch.testing import assert_close

import regard
import tiny_bert
import tiny_gpt2
from regard import models
from regard.api.exchange import import_model
from regard.commands.look import run
from regard.data.tokenizers import Tokenizer
from regard.decoding import DecodingConfig
from regard.errors import RegardError
from regard.look.capture import capture
from regard.look.record import Record
from regard.look.statistics import statistics
from regard.look.terminal import show
from regard.tasks.base import Looking
from regard.tasks.counting import counted_by
from regard.tasks.write.task import Write
from small_models import reversing
from written_models import written

CLOSE = {"atol": 1e-5, "rtol": 1e-4}
MASKED = "the [MASK] sat on a red [MASK]."


def came(folder: Path, name: str) -> Any:
    import_model(folder / name, folder / f"our-{name}")
    return regard.load(folder / f"our-{name}")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """One that fills gaps, theirs and ours."""
    folder = tmp_path_factory.mktemp("bert")
    theirs = tiny_bert.save(folder / "bert", "BertForMaskedLM", initializer_range=0.4)
    return theirs, came(folder, "bert")


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    folder = tmp_path_factory.mktemp("gpt")
    theirs = tiny_gpt2.save(folder / "gpt")
    return theirs, came(folder, "gpt")


def assert_attentions(record: Record, attentions: tuple[torch.Tensor, ...]) -> None:
    assert [each.layer for each in record.maps] == list(range(len(attentions)))
    for each, expected in zip(record.maps, attentions, strict=True):
        assert_close(each.weights, expected[0].detach(), **CLOSE)


def test_a_bert_is_seen_to_look_as_transformers_says_and_to_fill_its_gaps(bert: tuple[Any, Any]):
    theirs, ours = bert
    record = ours.look(MASKED)
    given = tiny_bert.tokenizer()(MASKED, return_tensors="pt")
    with torch.no_grad():
        answer = theirs(**given, output_attentions=True)
    assert record.sides["source"].items == tuple(tiny_bert.VOCABULARY[token] for token in given["input_ids"][0])
    assert_attentions(record, answer.attentions)
    masks = (given["input_ids"][0] == tiny_bert.VOCABULARY.index("[MASK]")).nonzero().squeeze(1)
    best, tokens = answer.logits[0, masks].log_softmax(-1).topk(5)
    assert record.answer is not None
    assert record.answer.places == tuple(masks.tolist())
    assert record.sides["target"].items == tuple(tiny_bert.VOCABULARY[token] for token in tokens[:, 0])
    assert_close(torch.tensor(record.answer.logprobs), best[:, 0], **CLOSE)
    found = [[name for name, _ in step] for step in record.answer.alternatives]
    assert found == [[tiny_bert.VOCABULARY[token] for token in step] for step in tokens.tolist()]


def test_two_texts_are_two_segments(bert: tuple[Any, Any]):
    theirs, ours = bert
    record = ours.look(("the cat", "a sad dog"))
    given = tiny_bert.tokenizer()("the cat", "a sad dog", return_tensors="pt")
    assert record.sides["source"].items == ("[CLS]", "the", "cat", "[SEP]", "a", "sad", "dog", "[SEP]")
    assert record.sides["source"].border == 4
    assert ours.look("the cat").sides["source"].border is None
    assert_attentions(record, theirs(**given, output_attentions=True).attentions)
    assert record.answer is None


def test_one_layer_and_one_head_of_a_bert_are_those_of_the_whole(bert: tuple[Any, Any]):
    _, ours = bert
    (found,) = ours.look(MASKED, layer=1, head=1).maps
    assert (found.layer, found.heads) == (1, (1,))
    assert_close(found.weights, ours.look(MASKED).maps[1].weights[1:])
    with pytest.raises(RegardError, match="no weights of that layer or head"):
        ours.look(MASKED, layer=3)


def test_saliency_of_what_was_chosen_is_gradient_times_input_found_by_small_steps(bert: tuple[Any, Any]):
    _, ours = bert
    text, wanted = "the [MASK] sat", "dog"
    record = ours.look(text, reference=wanted)
    assert record.sides["target"].items == (wanted,)
    ids = torch.tensor([[tiny_bert.VOCABULARY.index(item) for item in record.sides["source"].items]])

    def logprob(item: int, scale: float) -> torch.Tensor:
        factor = torch.ones(ids.shape[1], 1)
        factor[item] = scale
        hook = ours.module.embedding.register_forward_hook(lambda _module, _inputs, output: output * factor)
        with torch.no_grad():
            logits = ours.module.output(ours.module.transform(ours.module(ids)[:, 2]))
        hook.remove()
        return logits.log_softmax(-1)[0, tiny_bert.VOCABULARY.index(wanted)]

    step = 1e-2
    slopes = [float(logprob(item, 1 + step) - logprob(item, 1 - step)) / (2 * step) for item in range(ids.shape[1])]
    assert_close(record.saliency["source"].weights[0, 0], torch.tensor(slopes), atol=2e-3, rtol=1e-2)
    with pytest.raises(RegardError, match=r"reference='nothing' cannot be chosen here; there are .* and 74 more"):
        ours.look(text, reference="nothing")
    with pytest.raises(RegardError, match="reference='cat' is for one choice, and there are 2 here"):
        ours.look(MASKED, reference="cat")


def test_what_only_makes_vectors_has_attention_and_no_answer(tmp_path: Path):
    theirs = tiny_bert.save(tmp_path / "body", initializer_range=0.4)
    record = came(tmp_path, "body").look("the cat sat")
    given = tiny_bert.tokenizer()("the cat sat", return_tensors="pt")
    assert_attentions(record, theirs(**given, output_attentions=True).attentions)
    assert (record.answer, record.saliency, list(record.sides)) == (None, {}, ["source"])


def test_a_gpt_is_seen_to_look_as_transformers_says_at_prompt_and_reference(gpt: tuple[Any, Any]):
    theirs, ours = gpt
    record = ours.look("ab ab", reference=" bb a")
    ids = torch.tensor([[3, 4, 2, 1, 1, 2, 0]])
    with torch.no_grad():
        answer = theirs(ids[:, :-1], output_attentions=True)
    assert record.maps[0].inputs == ("ab", "▁ab", "▁", "b", "b", "▁")
    assert record.sides["target"].items == ("▁ab", "▁", "b", "b", "▁", "a")
    assert_attentions(record, answer.attentions)
    assert record.answer is not None
    assert record.answer.text == " bb a"
    expected = answer.logits.log_softmax(-1).gather(2, ids[:, 1:].unsqueeze(2)).flatten()
    assert_close(torch.tensor(record.answer.logprobs), expected, **CLOSE)
    moved = record.saliency["target"].weights[0]
    assert moved.shape == (6, 6)
    assert (moved.triu(1) == 0).all()
    assert (moved.tril() != 0).any()


def test_a_gpt_writes_as_ever_while_it_is_looked_at_up_to_where_it_would_forget(gpt: tuple[Any, Any]):
    _, ours = gpt
    greedy = ours.decoding({"beam": 1, "max_length": 5})
    record = ours.look("ab b", decoding=greedy)
    assert record.answer is not None
    assert record.answer.text == ours.answers(["ab b"], decoding=greedy)[0][0].text
    assert record.beam is None
    by_beam = ours.look("ab b", decoding=ours.decoding({"beam": 3, "max_length": 5}))
    assert by_beam.beam is not None
    way = [node["token"] for node in by_beam.beam["nodes"] if node["state"] == "answer"]
    assert tuple(way) == by_beam.sides["target"].items[-len(way) :]
    for prompt in ("ab b", "ab" * 20, ""):
        (first, *_) = ours.look(prompt, decoding=ours.decoding({"beam": 1})).maps
        assert first.weights.shape[1] <= tiny_gpt2.POSITIONS
        assert first.inputs is not None
        assert first.inputs[0] == ("ab" if prompt else "<|endoftext|>")


def test_gates_of_a_recurrent_writer_are_over_the_past():
    tokenizer = Tokenizer.train(["abcdefgh"], kind="characters", vocabulary=40)
    torch.manual_seed(1)
    module = models.build("rnn", vocabulary=tokenizer.size, layers=2, width=12)
    task = Write(tokenizer, block=8, reach=None)
    record = captured(module, task, "abc", decoding=DecodingConfig(beam=1, max_length=4))
    assert [(each.kind, each.layer, each.sums) for each in record.maps] == [("gates", 0, "any"), ("gates", 1, "any")]
    for each in record.maps:
        assert (each.weights.triu(1) == 0).all()
        assert (each.weights[0].diagonal() > 0).all()
    plain = models.build("rnn", vocabulary=tokenizer.size, layers=1, width=12, cell="rnn")
    with pytest.raises(RegardError, match="a recurrent network without attention"):
        captured(plain, task, "abc", decoding=DecodingConfig(beam=1, max_length=4))


def test_the_terminal_shows_what_looks_and_the_likeliest_choices(bert: tuple[Any, Any], gpt: tuple[Any, Any]):
    console = Console(width=200, color_system=None)
    with console.capture() as shown:
        show(bert[1].look(MASKED), console)
        show(gpt[1].look("ab", reference=" ab"), console)
    lines = shown.get().splitlines()
    assert any(
        line.split() == ["[CLS]", "the", "[MASK]", "sat", "on", "a", "red", "[MASK]", ".", "[SEP]"] for line in lines
    )
    assert sum(line.startswith("  ") and len(line.split()) == 10 and "0." in line for line in lines) == 2
    assert lines[-1] == " ab"
    assert lines[-3].split()[:3] == ["ab", "▸", "▁ab"]  # what was read last, and what was said then
    assert lines[-4].split() == ["ab"]


@pytest.mark.parametrize("name", ["bert", "gpt", "transformer", "seq2seq", "rnn"])
def test_statistics_in_batches_are_those_of_one_text_after_the_other(name: str, request: pytest.FixtureRequest):
    if name in ("bert", "gpt"):
        model = request.getfixturevalue(name)[1]
    else:
        model = written("rnn") if name == "rnn" else reversing(name)
    texts = ["abb", "ab", "babab", "bba", "ba", "b", "aab", "babba"]
    inputs = [model.surface.parse(text) for text in texts]
    look = Looking(model.recipe.decoding, fast=True)
    alone = [capture(model.module, model.task.sight(model.module, each, look), gradients=False) for each in inputs]
    seen: list[tuple[int, int]] = []
    with counted_by(lambda done, total: seen.append((done, total))):
        found = model.statistics(inputs)
    expected = statistics(alone)
    assert seen == [(done, len(texts)) for done in range(len(texts) + 1)]
    assert found["sentences"] == len(texts)
    for ours, theirs in zip(found["heads"], expected["heads"], strict=True):
        assert ours == pytest.approx(theirs, abs=1e-6)
    for row, wanted in zip(found["similarity"], expected["similarity"], strict=True):
        assert row == pytest.approx(wanted, abs=1.01e-4)  # these are rounded to 4 decimals


def test_texts_of_one_length_are_read_in_one_pass():
    model, passes = reversing("transformer"), []
    hook = model.module.register_forward_hook(lambda _module, given, _output: passes.append(len(given[0])))
    try:
        model.statistics(["abc", "bca", "cab", "de", "cba"])
    finally:
        hook.remove()
    assert sum(passes) == 5
    assert len(passes) < 5


def test_files_statistics_and_two_models_side_by_side(bert: tuple[Any, Any], gpt: tuple[Any, Any], tmp_path: Path):
    (tmp_path / "lines.txt").write_text("ab ab\na\tb\n\n")
    options = {"options": {"layer": None, "head": None, "reference": None}, "pharaoh": False, "port": 0}
    names = [str(model.path) for _, model in (bert, gpt)]
    run([names[1], "ab"], out=tmp_path / "gpt.json", statistics=tmp_path / "lines.txt", **options)
    found = Record.load(tmp_path / "gpt.json")
    assert found.statistics is not None
    assert found.statistics["sentences"] == 2
    assert found.model["task"] == "write"
    run([names[0], "the cat\ta dog"], out=tmp_path / "bert.svg", statistics=None, **options)
    run([*names, "ab"], out=tmp_path / "both.html", statistics=tmp_path / "lines.txt", **options)
    assert (tmp_path / "both.html").read_text("utf-8").count('"format":"regard.record"') == 2
    with pytest.raises(RegardError, match="which aligns no words"):
        run([names[0], "ab"], out=None, statistics=None, **{**options, "pharaoh": True})


def test_the_page_of_a_bert_shows_every_view_it_has_something_for(bert: tuple[Any, Any], show: Open):
    record = bert[1].look(MASKED)
    page = show(record.to_json())
    tabs = page.locator("[role=tab]")
    assert tabs.all_inner_texts() == ["Weights", "Heads", "All", "One query", "Rollout", "Saliency"]
    drawn = {"heads": ".stage[data-lines] .base", "all": "canvas[data-drawn]"}
    for name in ("alignment", "heads", "all", "query", "rollout", "saliency"):
        page.locator(f"[data-view={name}]").first.click()
        playwright.expect(page.locator("[role=tab][aria-selected=true]")).to_have_attribute("data-view", name)
        wanted = drawn.get(name, ".heat-map[data-geometry] .base")
        page.locator(wanted).first.wait_for()
        assert inked(page, wanted) > 8, name
    page.locator("[data-view=alignment]").first.click()
    page.locator("[data-at='1']").click()  # the second gap: the row of its [MASK]
    assert "query=7" in page.evaluate("location.hash")
    playwright.expect(page.locator("[data-at='1']")).to_have_attribute("aria-pressed", "true")
