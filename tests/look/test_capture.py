"""What is shown is what was used: captured weights against computations that know nothing of recording."""

import math

import pytest
import torch
from captured import captured
from torch.testing import assert_close

from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.decoding import DecodingConfig
from regard.errors import RegardError
from regard.models import build
from regard.tasks.translate.task import Translate

LETTERS = "abcdefghijk"
GREEDY = DecodingConfig(beam=1, max_length=9)


def task() -> Translate:
    return Translate(Tokenizers(Tokenizer.train([LETTERS], kind="characters", vocabulary=40)))


def model(kind: str, **settings: object) -> torch.nn.Module:
    torch.manual_seed(3)
    sizes = {"layers": 2, "width": 12, "dropout": 0.0}
    more = {"heads": 3, "hidden": 17} if kind == "transformer" else {}
    made = build(kind, vocabulary=task().tokenizers.source.size, **{**sizes, **more, **settings})
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return made.eval()


def test_cross_attention_is_the_softmax_of_its_own_queries_and_keys():
    module = model("transformer")
    record = captured(module, task(), "badge", decoding=GREEDY)
    caught: dict[str, torch.Tensor] = {}
    block = module.decoder.blocks[1].cross
    hooks = [
        block.query.register_forward_hook(lambda *parts: caught.setdefault("query", parts[-1])),
        block.key.register_forward_hook(lambda *parts: caught.setdefault("key", parts[-1])),
    ]
    tokens = task().tokenizers
    source = torch.tensor([[*tokens.source.encode(["badge"])[0], 3]])
    target = torch.tensor([[2, *tokens.target.encode([record.sides["target"].text])[0]]])
    module(source, None, target)
    for hook in hooks:
        hook.remove()
    query, key = (caught[name].unflatten(-1, (3, 4)).transpose(1, 2)[0] for name in ("query", "key"))
    expected = (query @ key.transpose(-1, -2) / math.sqrt(4)).softmax(-1)
    assert_close(record.map("decoder.blocks.1.cross").weights, expected.detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("score", ["cosine", "additive", "location", "general", "dot", "scaled_dot"])
@pytest.mark.parametrize("order", ["bahdanau", "luong"])
def test_recurrent_attention_aligns_every_item_of_the_answer(score: str, order: str):
    record = captured(model("seq2seq", score=score, order=order), task(), "badge", decoding=GREEDY)
    cross = record.map("decoder.attention")
    assert cross.weights.shape == (1, len(record.sides["target"].items), 6)
    assert_close(cross.weights.sum(-1), torch.ones_like(cross.weights[..., 0]))
    assert {each.kind for each in record.maps} == ({"cross", "gates"})


def test_a_recurrent_decoder_shows_its_gates_and_what_it_looked_at():
    record = captured(model("transformer", decoder="ssru"), task(), "badge", decoding=GREEDY)
    kinds = {each.name: each.kind for each in record.maps if each.name.startswith("decoder")}
    assert kinds == {
        "decoder.blocks.0.attention.gates": "gates",
        "decoder.blocks.0.cross": "cross",
        "decoder.blocks.1.attention.gates": "gates",
        "decoder.blocks.1.cross": "cross",
    }
    gates = record.map("decoder.blocks.0.attention.gates")
    assert (gates.query, gates.key, gates.sums, gates.layer) == ("target", "target", "any", 0)
    assert gates.inputs is not None
    assert gates.inputs[0] == "<s>"


@pytest.mark.parametrize("kind", ["transformer", "seq2seq", "conv_seq2seq"])
def test_beam_and_greedy_show_the_answer_they_gave(kind: str):
    module = model(kind)
    for decoding in (GREEDY, DecodingConfig(beam=3, max_length=9)):
        record = captured(module, task(), "hide", decoding=decoding)
        said = task().translate(module, ["hide"], decoding=decoding)[0][0]
        assert record.answer is not None
        assert record.answer.text == said.text
        count = len(said.logprobs)
        assert_close(torch.tensor(record.answer.logprobs[:count]), torch.tensor(said.logprobs), atol=1e-4, rtol=1e-4)


def test_the_tree_holds_the_answer_and_its_sums():
    record = captured(model("transformer"), task(), "face", decoding=DecodingConfig(beam=3, max_length=7))
    assert record.beam is not None
    nodes = record.beam["nodes"]
    assert any(node["state"] == "answer" for node in nodes)
    for node in nodes:
        before = nodes[node["parent"]]["sum"] if node["parent"] >= 0 else 0.0
        assert node["sum"] == pytest.approx(before + node["logprob"], abs=1e-4)


def test_a_reference_is_said_and_looked_at():
    record = captured(model("transformer"), task(), "badge", decoding=GREEDY, reference="cab")
    assert record.sides["target"].items == ("c", "a", "b", "</s>")
    assert record.answer is not None
    assert record.answer.text == "cab"


def test_only_what_is_asked_for_is_computed():
    record = captured(model("transformer"), task(), "badge", decoding=GREEDY, only="decoder.blocks.1.*")
    assert [each.name for each in record.maps] == ["decoder.blocks.1.attention", "decoder.blocks.1.cross"]


def test_one_layer_of_a_recurrent_network_is_that_layers_gates():
    record = captured(model("seq2seq"), task(), "badge", decoding=GREEDY, only="*.1.*")
    assert [(each.name, each.layer, each.kind) for each in record.maps] == [
        ("encoder.layers.1.forward", 1, "gates"),
        ("encoder.layers.1.reverse", 1, "gates"),
    ]


def test_one_head_is_the_head_of_the_whole():
    module = model("transformer")
    everything = captured(module, task(), "badge", decoding=GREEDY)
    record = captured(module, task(), "badge", decoding=GREEDY, head=2)
    for each in record.maps:
        assert each.heads == (2,)
        assert_close(each.weights, everything.map(each.name).weights[2:])
    with pytest.raises(RegardError, match="no weights of that layer or head"):
        captured(module, task(), "badge", decoding=GREEDY, head=3)
    with pytest.raises(RegardError, match="no weights of that layer or head"):
        captured(module, task(), "badge", decoding=GREEDY, only="*.7.*")


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("transformer", {}),
        ("conv_seq2seq", {}),
        *(
            ("seq2seq", {"score": score, "order": order})
            for score in ("general", "cosine")
            for order in ("bahdanau", "luong")
        ),
    ],
)
def test_queries_and_keys_make_the_scores_behind_the_weights(kind: str, settings: dict[str, str]):
    record = captured(model(kind, **settings), task(), "badge", decoding=GREEDY, reference="cab")
    cross = [each for each in record.maps if each.kind == "cross"]
    for each in cross:
        assert each.vectors is not None
        queries, keys = each.vectors
        assert_close((queries @ keys.transpose(-1, -2)).softmax(-1), each.weights, atol=1e-5, rtol=1e-4)
    assert len(cross) == (1 if kind == "seq2seq" else 2)


def test_a_score_that_is_no_dot_product_has_no_queries_and_keys_to_show():
    record = captured(model("seq2seq", score="additive"), task(), "badge", decoding=GREEDY)
    assert [each.vectors for each in record.maps] == [None] * len(record.maps)


def test_queries_and_keys_are_kept_as_far_as_there_is_room_those_of_the_alignment_first(monkeypatch):
    size = (4 + 6) * 12  # of the alignment: 3 heads of width 4, answer of 4 items, source of 6
    for room, enough in ((size - 1, False), (size, True)):
        monkeypatch.setattr("regard.look.watch.MOST_VECTORS", room)
        record = captured(model("transformer"), task(), "badge", decoding=GREEDY, reference="cab")
        kept = {each.name: each.vectors for each in record.maps if each.vectors is not None}
        assert ("decoder.blocks.1.cross" in kept) == enough
        assert 0 < sum(part.numel() for vectors in kept.values() for part in vectors) <= room


@pytest.mark.parametrize("kind", ["transformer", "seq2seq", "conv_seq2seq"])
def test_saliency_is_gradient_times_input_found_by_small_steps(kind: str):
    """d/dt of log p when the embedding of source item i is scaled by t, at t = 1, is Σ_d x_id ∂ log p / ∂ x_id."""
    module, chosen = model(kind).double(), task()
    record = captured(module, chosen, "bad", decoding=GREEDY, reference="ce")
    source = torch.tensor([[*chosen.tokenizers.source.encode(["bad"])[0], 3]])
    said = chosen.tokenizers.target.encode(["ce"])[0]

    def logprobs(item: int, scale: float) -> torch.Tensor:
        first = []

        def scaled(_module: object, _inputs: object, output: torch.Tensor) -> torch.Tensor:
            if first:
                return output
            first.append(True)
            factor = torch.ones(output.shape[1], dtype=output.dtype)
            factor[item] = scale
            return output * factor.view(1, -1, 1)

        hook = module.source.register_forward_hook(scaled)
        logits = module.output(module(source, None, torch.tensor([[2, *said]])))
        hook.remove()
        return logits[0].log_softmax(-1)[torch.arange(3), torch.tensor([*said, 3])]

    step = 1e-5
    for item in range(4):
        slope = (logprobs(item, 1 + step) - logprobs(item, 1 - step)) / (2 * step)
        found = record.saliency["source"].weights[0, :, item].double()
        assert_close(found, slope.detach(), atol=1e-4, rtol=1e-3)
