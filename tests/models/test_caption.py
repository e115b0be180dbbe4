"""Captions of pictures: steps, the equations of both decoders, hard attention, and where models look."""

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard.attention.recorder import recording
from regard.decoding import DecodingConfig, align, search
from regard.errors import RegardError
from regard.layers.penalty import penalties
from regard.layers.picture_grid import PictureGrid
from regard.models import build, from_config
from regard.models.caption import CaptionConfig, RecurrentCaptioner
from regard.special import BOS, EOS, OWN, PAD

VOCABULARY = 11
SIZES = {"vocabulary": VOCABULARY, "channels": 2, "rows": 8, "columns": 12}
FORMS = pytest.mark.parametrize(
    "form",
    [{"layers": 2}, {"choice": "hard"}, {"decoder": "transformer", "layers": 2, "heads": 3, "hidden": 14}],
    ids=["soft", "hard", "transformer"],
)


def small(**settings: Any) -> Any:
    torch.manual_seed(3)
    config = CaptionConfig(**{"width": 12, "filters": 6, "stride": 4, "dropout": 0.0, **settings})
    return from_config(config, **SIZES).double()


def pictures(count: int = 3) -> Tensor:
    return torch.randn(count, 2, 8, 12, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def targets() -> Tensor:
    target = torch.randint(4, VOCABULARY, (3, 5), generator=torch.Generator().manual_seed(6))
    target[:, 0], target[1, 3:] = BOS, PAD
    return target


@FORMS
def test_steps_equal_teacher_forcing_and_beams_may_change_places(form: dict[str, Any]) -> None:
    model, target, order = small(**form).eval(), targets(), torch.tensor([2, 0, 0, 1])
    whole = model.output(model(pictures(), None, target))
    state = model.start(model.encode(pictures()))
    for place in range(target.shape[1]):
        if place == 2:
            state, whole, target = state.reorder(order), whole[order], target[order]
        logits, state = model.step(target[:, place], state)
        assert_close(logits, whole[:, place], atol=1e-6, rtol=1e-5)


@FORMS
def test_every_parameter_learns(form: dict[str, Any]) -> None:
    model, target = small(**form), targets()
    real = target[:, 1:] != PAD
    rollout = model.rollout(pictures(), None, target[:, :-1]) if isinstance(model, RecurrentCaptioner) else None
    hidden = model(pictures(), None, target[:, :-1]) if rollout is None else rollout.hidden
    losses = F.cross_entropy(model.output(hidden).transpose(1, 2), target[:, 1:], reduction="none") * real
    (losses.sum() if rollout is None else losses.sum() + rollout.surrogate(losses, real)).backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum()]
    assert [name for name in silent if not name.endswith(("key.bias", "score.key.bias"))] == []


@FORMS
def test_a_caption_does_not_depend_on_the_batch_and_all_of_decoding_works(form: dict[str, Any]) -> None:
    model, places = small(**form).eval(), torch.full((3,), 6)
    for config in (
        DecodingConfig(beam=1, max_length=6),
        DecodingConfig(beam=4, n_best=2, max_length=6, coverage_penalty=0.2),
        DecodingConfig(sample=True, n_best=2, max_length=6, min_length=2, no_repeat_ngram=2),
    ):
        together = search(model, pictures(), places, config=config, prefix=[[5, 6]] * 3)
        alone = [search(model, each[None], places[:1], config=config, prefix=[[5, 6]])[0] for each in pictures()]
        assert [[found.tokens for found in row] for row in together] == [[f.tokens for f in row] for row in alone]
        assert all(found.tokens[:2] == (5, 6) and len(found.tokens) <= 6 for row in together for found in row)


@FORMS
def test_weights_over_places_are_recorded_and_aligned(form: dict[str, Any]) -> None:
    model = small(**form).eval()
    grid = model.grids()["source"]
    assert (grid.rows, grid.columns) == (2, 3)
    weights = align(model, pictures(), [[4, 5, 6], [7], []], torch.full((3,), 6))
    assert [tuple(each.shape) for each in weights] == [(3, 6), (1, 6), (0, 6)]
    assert_close(weights[0].sum(1), torch.ones(3, dtype=torch.float64))
    with recording(model) as record:
        model(pictures(), None, targets())
    assert model.alignment in record
    for path in record:
        sides = model.looks(path)
        assert sides == ("target", "source" if path == model.alignment or path.endswith("cross") else "target")


def test_the_recurrent_decoder_is_its_equation() -> None:
    """h_t = lstm([y ; z_t]), z_t = β_t Σ w_ti a_i, with torch's own cell and plain products."""
    model, target = small(score="general").eval(), targets()[:, :3]
    a = model.encoder(pictures())  # (B, S, M)
    h, c = torch.tanh(model.begin(a.mean(1))).chunk(2, dim=-1)
    fused, cell = model.decoder.cells.layers[0], nn.LSTMCell(24, 12).double()
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(cell, name).data.copy_(getattr(fused, f"{name}_l0"))
    expected = []
    for y in model.target(target).unbind(1):
        weights = model.decoder.attention.score(h.unsqueeze(1), a).softmax(-1)  # (B, 1, S)
        z = torch.sigmoid(h @ model.decoder.gate.weight.T + model.decoder.gate.bias) * (weights @ a)[:, 0]
        h, c = cell(torch.cat([y, z], -1), (h, c))
        expected.append(torch.tanh(model.decoder.readout(torch.cat([h, z], -1))))
    assert_close(model(pictures(), None, target), torch.stack(expected, 1))


def test_the_penalty_of_uneven_looking_is_its_equation() -> None:
    model, target = small(even=0.7), targets()
    with penalties() as found:
        model(pictures(), None, target)
    weights = align(model, pictures(), [[*row[1:], EOS] for row in target.tolist()], torch.full((3,), 6))
    total = 0.0
    for looked, row in zip(weights, target, strict=True):
        total += float((1 - looked[row != PAD].sum(0)).square().sum())
    assert found[0].item() == pytest.approx(0.7 * total / int((target != PAD).sum()))
    assert len(found) == 1
    with penalties() as nothing:
        small()(pictures(), None, target)
    assert nothing == []


def test_a_place_knows_its_surroundings_alone() -> None:
    """What stands far away changes nothing there, so that only a look at a thing can tell what it is."""
    torch.manual_seed(0)
    grid = PictureGrid(3, width=16, filters=8, blocks=[1, 1]).double()
    picture = torch.randn(1, 3, 64, 64, dtype=torch.float64)
    other = picture.clone()
    other[..., :4, :4] += 5.0
    change = (grid(other) - grid(picture)).abs().sum(-1).view(16, 16)
    assert change[0, 0] > 0.1
    assert not change[6:].any()
    assert not change[:, 6:].any()


def test_places_know_their_row_and_column() -> None:
    grid = PictureGrid(1, width=7, filters=8, blocks=[1])
    found = grid(torch.zeros(1, 1, 24, 20))[0].view(12, 10, 7)
    assert_close(found[5, 3:7, :3], found[5, 3, :3].expand(4, -1))  # the first features are those of the row
    assert_close(found[4:8, 5, 3:], found[4, 5, 3:].expand(4, -1))
    assert len(found.flatten(0, 1).mul(1e4).round().unique(dim=0)) == 120


# hard attention

ONE, TARGET_IN, TARGET_OUT = pictures(1), torch.tensor([[BOS, 4]]), torch.tensor([[4, EOS]])


def sharp() -> RecurrentCaptioner:
    model = small(choice="hard", width=4, filters=3, score="additive")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5.0)  # away from uniform weights, of which the mean is taken, and from small differences
    return model


def losses_of(model: nn.Module, hidden: Tensor) -> Tensor:
    return F.cross_entropy(model.output(hidden).transpose(1, 2), TARGET_OUT.expand(len(hidden), -1), reduction="none")


def expected_loss(model: RecurrentCaptioner, weight: float = 1.0) -> Tensor:
    """Σ over all choices i_1, i_2 of P(i_1, i_2) × loss, each followed on its own. None stands for the mean of all.

    Its gradient has the weight where it goes through P, since P L = constant P · L + P · constant L has two parts.
    """
    memory = model.encode(ONE)
    a, decoder = memory.values[0, 0], model.decoder
    total = torch.zeros((), dtype=torch.float64)
    for places in itertools.product([*range(len(a)), None], repeat=2):
        cells, probability, hidden = memory.last, torch.ones((), dtype=torch.float64), []
        for y, place in zip(model.target(TARGET_IN)[0], places, strict=True):
            h = cells.hidden[-1]
            weights = decoder.attention.score(h, a).softmax(-1)  # (1, S)
            averaged = torch.special.entr(weights.detach()).sum() / math.log(len(a))
            probability = probability * (averaged if place is None else (1 - averaged) * weights[0, place])
            z = torch.sigmoid(decoder.gate(h)) * (weights @ a if place is None else a[place])
            s, cells = decoder.cells.step(torch.cat([y.unsqueeze(0), z], -1), cells)
            hidden.append(torch.tanh(decoder.readout(torch.cat([s, z], -1))))
        loss = losses_of(model, torch.stack(hidden, 1)).sum()
        total = total + probability.detach() * loss + weight * (probability - probability.detach()) * loss.detach()
    return total


def gradients(model: nn.Module, loss: Tensor) -> Tensor:
    named = [p for name, p in model.named_parameters() if "baseline" not in name]
    found = torch.autograd.grad(loss, named, allow_unused=True)
    pairs = zip(named, found, strict=True)
    return torch.cat([torch.zeros_like(p).flatten() if g is None else g.flatten() for p, g in pairs])


def estimates(model: RecurrentCaptioner, *, times: int, copies: int, **changes: Any) -> Tensor:
    """Gradients from draws, each the mean over some copies of the picture: (times, parameters)"""
    counted, found = torch.ones(copies, 2, dtype=torch.bool), []
    for _ in range(times):
        rollout = model.rollout(ONE.expand(copies, -1, -1, -1), None, TARGET_IN.expand(copies, -1))
        rollout = replace(rollout, **{"weight": 1.0, **changes})
        losses = losses_of(model, rollout.hidden)
        found.append(gradients(model, (losses.sum() + rollout.surrogate(losses, counted)) / copies))
    return torch.stack(found)


def standard_errors(found: Tensor, exact: Tensor) -> float:
    """How far the mean lies from the exact value, at the worst coordinate, in standard errors."""
    return float(((found.mean(0) - exact).abs() / (found.std(0) / len(found) ** 0.5 + 1e-9)).max())


@pytest.mark.parametrize(("level", "compared", "weight"), [(0.0, False, 1.0), (2.0, True, 1.0), (0.0, True, 0.3)])
def test_the_gradient_of_hard_attention_is_exact_whatever_the_baselines(
    level: float, compared: bool, weight: float
) -> None:
    model = sharp()
    exact = gradients(model, expected_loss(model, weight))
    baseline = model.decoder.attention.baseline
    nn.init.zeros_(baseline.weight)
    nn.init.constant_(baseline.bias, level)
    torch.manual_seed(7)
    assert standard_errors(estimates(model, times=40, copies=300, compared=compared, weight=weight), exact) < 5
    assert standard_errors(estimates(model, times=40, copies=300, compared=compared, weight=0.0), exact) > 8 * weight


def test_a_baseline_near_the_loss_makes_the_gradient_less_noisy() -> None:
    model, spread = sharp(), []
    baseline = model.decoder.attention.baseline
    for level in (0.0, expected_loss(model).item() / 2):
        nn.init.zeros_(baseline.weight)
        nn.init.constant_(baseline.bias, level)
        torch.manual_seed(8)
        spread.append(float(estimates(model, times=100, copies=1).var(0).sum()))
    assert spread[1] < 0.8 * spread[0]


def test_the_mean_of_the_other_rows_makes_the_gradient_less_noisy() -> None:
    model, spread = sharp(), []
    nn.init.zeros_(model.decoder.attention.baseline.weight)
    nn.init.zeros_(model.decoder.attention.baseline.bias)
    for compared in (False, True):
        torch.manual_seed(8)
        spread.append(float(estimates(model, times=60, copies=20, compared=compared).var(0).sum()))
    assert spread[1] < 0.8 * spread[0]


@pytest.mark.parametrize("choice", ["soft", "hard"])
def test_both_choices_find_the_one_place_that_decides(choice: str) -> None:
    """Each of six places has a colour, and one of them is marked: its colour is the word.

    One look at one place can also tell a single colour by exclusion: the place that is looked at is not marked then.
    """
    generator = torch.Generator().manual_seed(1)

    def batch(size: int) -> tuple[Tensor, Tensor, Tensor]:
        place = torch.randint(6, (size,), generator=generator)
        colours = torch.randint(3, (size, 6), generator=generator)
        marked = F.one_hot(place, 6).unsqueeze(-1)
        shown = 2.0 * torch.cat([F.one_hot(colours, 3), marked, torch.zeros(size, 6, 8)], dim=-1)
        return shown, place, colours[torch.arange(size), place] + 4

    torch.manual_seed(2)
    config = CaptionConfig(width=12, filters=3, dropout=0.0, choice=choice, score="general")
    model: Any = from_config(config, vocabulary=7)
    model.encoder = nn.Identity()  # the places are given
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    given, counted = torch.full((64, 1), OWN.bos), torch.ones(64, 1, dtype=torch.bool)
    for _ in range(200):
        shown, _, word = batch(64)
        rollout = model.rollout(shown, None, given)
        losses = F.cross_entropy(model.output(rollout.hidden)[:, 0], word, reduction="none").unsqueeze(1)
        optimiser.zero_grad()
        ((losses.sum() + rollout.surrogate(losses, counted)) / 64).backward()
        optimiser.step()
    shown, place, word = batch(200)
    model.eval()
    places = torch.full((200,), 6)
    said = [found[0].tokens[0] for found in search(model, shown, places, config=DecodingConfig(beam=1, max_length=1))]
    looked = torch.cat(align(model, shown, [[each] for each in said], places)).argmax(1)
    assert torch.equal(torch.tensor(said), word)
    found = [bool((looked == place)[word == colour].all()) for colour in word.unique()]
    assert sum(found) >= (3 if choice == "soft" else 2)


def test_settings_that_do_not_fit_together_are_refused() -> None:
    for settings, told in {
        "stride=6": "power of two",
        "stride=1": "power of two",
        "heads=4": "heads is no setting of decoder='rnn'",
        "decoder=transformer choice=hard": "choice is no setting of decoder='transformer'",
        "choice=hard even=0.5": "even is for choice='soft'",
        "score=location": "does not see the picture",
    }.items():
        given = dict(pair.split("=") for pair in settings.split())
        numbers = {name: float(text) if name == "even" else int(text) if text.isdigit() else text
                   for name, text in given.items()}  # fmt: skip
        with pytest.raises(RegardError, match=told):
            build("caption", **numbers)
    with pytest.raises(RegardError, match="stride=4 has 2 scales; give one for each"):
        build("caption", blocks=[1, 1, 1])
    with pytest.raises(RegardError, match="cannot be divided into places of 4 by 4"):
        from_config(CaptionConfig(), vocabulary=9, channels=1, rows=10, columns=8)
