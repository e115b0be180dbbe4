"""XLNet against transformers itself: both streams, memory, heads, ids, and the way there and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

import regard
import tiny_xlnet
from regard.api.exchange import export_model, import_model
from regard.errors import RegardError
from regard.interchange.huggingface import import_directory
from regard.look import recording
from regard.models.xlnet import XLNet

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
IDS = {"return_tensors": "pt", "return_token_type_ids": True}
LABELS = {0: "bad", 1: "good", 2: "so so"}
NAMED = {"id2label": LABELS, "label2id": {name: at for at, name in LABELS.items()}}
HEADS = {
    "XLNetForSequenceClassification": ("classify", NAMED),
    "XLNetForTokenClassification": ("tag", {"id2label": {0: "O", 1: "B-LOC"}, "label2id": {"O": 0, "B-LOC": 1}}),
    "XLNetForQuestionAnsweringSimple": ("answer", {}),
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, XLNet]:
    """Theirs and ours, with a head of words."""
    directory = tmp_path_factory.mktemp("xlnet")
    theirs = tiny_xlnet.save(directory, "XLNetLMHeadModel")
    ours = import_directory(directory).module()
    assert isinstance(ours, XLNet)
    return theirs, ours


def batch(rows: int = 3, length: int = 9, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(9, len(tiny_xlnet.PIECES), (rows, length), generator=generator)
    return tokens, torch.randint(3, (rows, length), generator=generator)


def full(tokens: Tensor) -> Tensor:
    return torch.full((len(tokens),), tokens.shape[1])


@torch.no_grad()
def test_the_content_stream_is_theirs_in_double_precision(tmp_path: Path):
    theirs = tiny_xlnet.save(tmp_path, "XLNetModel", ff_activation="relu", layer_norm_eps=1e-6).double()
    ours = import_directory(tmp_path).module().double()
    tokens, segments = batch()
    for kinds in (None, segments):
        wanted = theirs(tokens, token_type_ids=kinds).last_hidden_state
        assert_close(ours(tokens, full(tokens), kinds), wanted, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_memory_is_theirs(both: tuple[Any, XLNet]):
    theirs, ours = both
    memory, mems = None, None
    for seed, length in ((1, 5), (2, 4), (3, 3)):
        tokens, segments = batch(length=length, seed=seed)
        found, memory = ours.read_on(tokens, memory, segments)
        answer = theirs.transformer(tokens, token_type_ids=segments, mems=mems)
        mems = answer.mems
        assert_close(found, answer.last_hidden_state, **CLOSE)
        assert [x.shape[1] for x in memory] == [min(7, 5 if seed == 1 else 7)] * 2
        for kept, their in zip(memory, mems, strict=True):
            assert_close(kept, their.transpose(0, 1), **CLOSE)


@torch.no_grad()
def test_the_query_stream_is_theirs_in_every_order(both: tuple[Any, XLNet]):
    theirs, ours = both
    tokens, segments = batch()
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        order = torch.stack([torch.randperm(9, generator=generator) for _ in range(3)]).sub(seed).clamp(min=0)
        places = torch.stack([(row > 0).nonzero().flatten()[:4] for row in order])
        # 1 where i may not look at j; tokens that are given may look at themselves and at each other
        hidden = (order.unsqueeze(1) >= order.unsqueeze(2)) & (order.unsqueeze(1) > 0)
        wanted = theirs(
            tokens,
            perm_mask=hidden.float(),
            target_mapping=F.one_hot(places, 9).float(),
            token_type_ids=segments,
            output_attentions=True,
        )
        with recording(ours) as record:
            found = ours.predicted(tokens, full(tokens), segments, order=order, places=places)
        assert_close(ours.words(found), wanted.logits, **CLOSE)
        for layer, (content, query) in enumerate(wanted.attentions):
            assert_close(record[f"body.{layer}.attention.content"], content, **CLOSE)
            mine = record[f"body.{layer}.attention.query"]  # theirs has a row for each token
            assert_close(mine, query.gather(2, places[:, None, :, None].expand_as(mine)), **CLOSE)


@torch.no_grad()
def test_padding_at_the_end_gives_what_their_padding_at_the_beginning_gives(both: tuple[Any, XLNet]):
    theirs, ours = both
    tokens, segments = batch()
    lengths = torch.tensor([9, 4, 6])
    found = ours(tokens.masked_fill(torch.arange(9) >= lengths.unsqueeze(1), 5), lengths, segments)
    for row, length in enumerate(lengths.tolist()):
        left = F.pad(tokens[row : row + 1, :length], (9 - length, 0), value=5)
        kinds = F.pad(segments[row : row + 1, :length], (9 - length, 0), value=3)
        mask = (torch.arange(9) >= 9 - length).float().unsqueeze(0)
        wanted = theirs.transformer(left, attention_mask=mask, token_type_ids=kinds).last_hidden_state
        assert_close(found[row, :length], wanted[0, 9 - length :], **CLOSE)


def logits(theirs: Any, texts: list[tuple[str, ...]]) -> Tensor:
    """Their logits of texts or pairs, read as their tokenizer says."""
    given = tiny_xlnet.tokenizer()(*map(list, zip(*texts, strict=True)), **IDS, padding=True)
    with torch.no_grad():
        answer = theirs(**given)
    return torch.stack([answer.start_logits, answer.end_logits], -1) if hasattr(answer, "end_logits") else answer.logits


@pytest.mark.parametrize("architecture", HEADS)
def test_heads_are_theirs_and_the_way_back_is_exact(tmp_path: Path, architecture: str):
    task, labels = HEADS[architecture]
    theirs = tiny_xlnet.save(tmp_path / "theirs", architecture, **labels)
    assert import_model(tmp_path / "theirs", tmp_path / "ours").task == task
    model: Any = regard.load(tmp_path / "ours")
    texts = [("the cat sat on a mat.", "a dog"), ("smith ran", "in london")]
    wanted = logits(theirs, texts)
    rows = model.task.rows.frame(*map(list, zip(*texts, strict=True)))
    for found in model.task.rows.passes(model.module, rows):
        for line, row in enumerate(found[0].rows):
            length = len(rows[row].ids)
            own = found[1][line] if task == "classify" else found[1][line, :length]
            assert_close(own, wanted[row] if task == "classify" else wanted[row, -length:], **CLOSE)

    export_model(tmp_path / "ours", tmp_path / "back")
    before, after = (safetensors.torch.load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "back"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    again = getattr(transformers, architecture).from_pretrained(tmp_path / "back")
    assert again.config.id2label == theirs.config.id2label
    assert torch.equal(logits(again.eval(), texts), wanted)


@pytest.mark.parametrize("architecture", ["XLNetModel", "XLNetLMHeadModel"])
def test_bodies_come_and_go_back(tmp_path: Path, architecture: str):
    theirs = tiny_xlnet.save(tmp_path / "theirs", architecture)
    words = architecture == "XLNetLMHeadModel"
    assert import_model(tmp_path / "theirs", tmp_path / "ours").task == ("fill" if words else "embed")
    export_model(tmp_path / "ours", tmp_path / "back")
    loader = transformers.XLNetLMHeadModel if words else transformers.AutoModel
    again = loader.from_pretrained(tmp_path / "back")
    assert type(again) is type(theirs)
    assert again.config.mem_len == 7
    tokens, segments = batch()
    with torch.no_grad():
        assert torch.equal(again(tokens, token_type_ids=segments)[0], theirs(tokens, token_type_ids=segments)[0])


def test_ids_and_segments_are_those_of_their_tokenizer_before_and_after(tmp_path: Path):
    tiny_xlnet.save(tmp_path / "theirs", "XLNetForSequenceClassification", **NAMED)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "back")
    rows = regard.load(tmp_path / "ours").task.rows
    back = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert back.padding_side == "left"
    pairs = [("The cat sat on  a mat.", None), ("smith, of london", "a happy dog ran!"), ("", "a")]
    for first, second in pairs:
        (row,) = rows.frame([first], [second])
        for their in (tiny_xlnet.tokenizer(), back):
            given = their(first, second, return_token_type_ids=True)
            assert (list(row.ids), list(row.segments)) == (given["input_ids"], given["token_type_ids"])
    assert row.segments == (0, 1, 1, 2)
    batch = back(["a cat", "the happy dog ran"], padding=True)
    assert batch["input_ids"][0][-1] == batch["input_ids"][1][-1] == rows.framing.special.bos
    assert sum(batch["attention_mask"][0]) < sum(batch["attention_mask"][1])


def test_a_gap_is_filled_with_what_they_predict(tmp_path: Path):
    theirs = tiny_xlnet.save(tmp_path / "theirs", "XLNetLMHeadModel")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    model: Any = regard.load(tmp_path / "ours")
    answer = model("the [MASK] sat on a red mat.")
    tokenizer = tiny_xlnet.tokenizer()
    given = tokenizer("the <mask> sat on a red mat.", **IDS)
    place = given["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    size = given["input_ids"].shape[1]
    hidden = torch.zeros(1, size, size)
    hidden[:, :, place] = 1.0
    with torch.no_grad():
        target = F.one_hot(torch.tensor([[place]]), size).float()
        shares = theirs(**given, perm_mask=hidden, target_mapping=target).logits[0, 0].softmax(-1)
    chances, best = shares.topk(5)
    assert [each["token"] for each in answer] == best.tolist()
    assert [each["score"] for each in answer] == pytest.approx(chances.tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attn_type": "uni"}, "attn_type = 'uni'"),
        ({"bi_data": True}, "bi_data = True"),
        ({"clamp_len": 5}, "clamp_len = 5"),
        ({"same_length": True}, "same_length = True"),
        ({"summary_type": "mean"}, "summary_type = 'mean'"),
        ({"summary_activation": "relu"}, "summary_activation = 'relu'"),
        ({"d_head": 4}, "d_head is 4, and must be 8"),
        ({"n_layer": 9}, "tensors of 2 layers only"),
        ({"mem_len": "many"}, "mem_len"),
    ],
)
def test_what_is_not_computed_here_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], said: str):
    tiny_xlnet.save(tmp_path, "XLNetForSequenceClassification", **NAMED)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(settings | changes))
    with pytest.raises(RegardError, match=said):
        import_directory(tmp_path)


def test_a_directory_with_a_sentencepiece_file_alone_has_no_tokenizer(tmp_path: Path):
    tiny_xlnet.save(tmp_path / "theirs")
    (tmp_path / "theirs" / "tokenizer.json").rename(tmp_path / "theirs" / "spiece.model")
    with pytest.raises(RegardError, match=r"has no tokenizer \(tokenizer\.json"):
        import_model(tmp_path / "theirs", tmp_path / "ours")
