"""The searches with the models of the house."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from regard.attention.recorder import recording
from regard.decoding import DecodingConfig, align, search
from regard.decoding.protocol import Aligned, Prompted, first_token
from regard.errors import RegardError
from regard.models import build, config_class, kinds
from regard.special import BOS, EOS, OWN, PAD

KINDS = {
    "transformer": {"layers": 2, "width": 24, "heads": 3, "hidden": 29},
    "ssru": {"kind": "transformer", "decoder": "ssru", "layers": 2, "width": 24, "heads": 3, "hidden": 29},
    "seq2seq": {"width": 22, "score": "additive"},
    "conv_seq2seq": {"layers": 2, "width": 22, "kernel": 3},
}
SOURCE = torch.tensor([[4, 5, 6, 7, 8, 9, 10], [11, 12, 0, 0, 0, 0, 0], [13, 4, 14, 4, 0, 0, 0]])
LENGTHS = (SOURCE != PAD).sum(1)


@pytest.fixture(params=KINDS)
def model(request):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        made = build(vocabulary=19, **{"kind": request.param, **KINDS[request.param]}).double()
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.mul_(2.5)
    return made


@pytest.mark.parametrize(
    "options",
    [{"beam": 1}, {"beam": 4, "n_best": 4}, {"beam": 3, "coverage_penalty": 0.4}, {"sample": True, "n_best": 3}],
    ids=str,
)
def test_a_batch_gives_what_its_rows_give_one_by_one(model, options):
    config = DecodingConfig(max_length=37, no_repeat_ngram=2, **options)  # longer than what a cache begins with
    together = search(model, SOURCE, config=config)
    for row, length in enumerate(LENGTHS.tolist()):
        (alone,) = search(model, SOURCE[row : row + 1, :length], config=config)
        assert [h.tokens for h in together[row]] == [h.tokens for h in alone]
        assert [h.score for h in together[row]] == pytest.approx([h.score for h in alone], abs=1e-5)


def test_steps_say_what_teacher_forcing_says(model):
    config = DecodingConfig(beam=4, n_best=4, max_length=23)
    for row, answers in enumerate(search(model, SOURCE, config=config)):
        for hypothesis in answers:
            said = torch.tensor([*hypothesis.tokens, EOS][: len(hypothesis.logprobs)])
            target = torch.tensor([[BOS, *said[:-1].tolist()]])
            with torch.no_grad():
                logits = model.eval().output(model(SOURCE[row : row + 1], LENGTHS[row : row + 1], target))
            expected = logits[0].log_softmax(-1).gather(1, said.unsqueeze(1)).squeeze(1)
            assert hypothesis.logprobs == pytest.approx(expected.tolist(), abs=1e-5, rel=1e-5)


def test_alignments_are_the_weights_of_the_steps(model):
    config = DecodingConfig(beam=1, max_length=11)
    answers = [hypothesis.tokens for (hypothesis,) in search(model, SOURCE, config=config)]
    found = align(model, SOURCE, answers, LENGTHS)
    for row, (answer, weights) in enumerate(zip(answers, found, strict=True)):
        assert weights.shape == (len(answer), LENGTHS[row])
        with torch.inference_mode(), recording(model.eval()) as record:
            state = model.start(model.encode(SOURCE[row : row + 1]))
            for token in [BOS, *answer][: len(answer)]:
                _, state = model.step(torch.tensor([token]), state)
            steps = torch.cat(record.calls(model.alignment), 2).mean(1)[0]
        assert_close(weights, steps[:, : LENGTHS[row]])


@pytest.mark.parametrize("kind", [*kinds("pairs"), *kinds("causal")])
def test_a_prompt_is_gone_on_from_and_all_others_begin_with_bos(kind: str) -> None:
    heads = {"heads": 3} if "heads" in config_class(kind).model_fields else {}
    made: Any = build(kind, vocabulary=19, layers=1, width=12, **heads)
    assert made.special == OWN
    assert isinstance(made, Prompted) == (kind in kinds("causal"))
    memory = made.encode(SOURCE, LENGTHS)
    first = first_token(made, memory, rows=3, device=SOURCE.device)
    assert first.tolist() == ([10, 12, 4] if kind in kinds("causal") else [BOS] * 3)
    assert isinstance(made, Aligned)
    if kind in kinds("causal"):
        with pytest.raises(RegardError, match="does not look at its source by attention"):
            align(made, SOURCE, [[4]] * 3)
