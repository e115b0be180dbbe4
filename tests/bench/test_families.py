"""Three families of one size: widths that meet the budget, paths that gradients confirm, and one run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from bench import families
from bench.families import FAMILIES, Family, sized, table
from regard import models
from regard.errors import RegardError
from regard.models.facts import ModelConfig

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.kind)
RNN, CONV, TRANSFORMER = FAMILIES


def count(config: ModelConfig) -> int:
    with torch.device("meta"):
        return sum(
            part.numel() for part in models.from_config(config, vocabulary=60, target_vocabulary=70).parameters()
        )


@every_family
@pytest.mark.parametrize("budget", [100_000, 1_000_000, 7_000_000])
def test_a_family_is_as_large_as_the_budget(family: Family, budget: int):
    config = models.config_class(family.kind)(**sized(family, budget, count))
    assert count(config) == pytest.approx(budget, rel=0.05)


def test_a_budget_that_no_width_meets_is_refused():
    with pytest.raises(RegardError, match=r"ConvS2S has no width with 2,000 parameters to within 5 %"):
        sized(CONV, 2_000, count)


def meets(kind: str, distance: int, **settings: Any) -> bool:
    """Whether some state of the encoder depends on both of two positions at this distance."""
    torch.manual_seed(0)
    model: Any = models.build(kind, vocabulary=20, dropout=0.0, **settings).double().eval()
    source = torch.randint(4, 20, (1, 31))
    inputs: list[torch.Tensor] = []
    model.source.register_forward_hook(lambda *parts: inputs.append(parts[-1].detach().requires_grad_()) or inputs[0])
    memory = model.encode(source)
    states = (memory.keys.squeeze(1) if hasattr(memory, "keys") else memory.states)[0]
    first, second = 15 - distance // 2, 15 - distance // 2 + distance
    for state in states:
        (moved,) = torch.autograd.grad(state.sin().sum(), inputs[0], retain_graph=True)
        if moved[0, first].any() and moved[0, second].any():
            return True
    return False


@pytest.mark.parametrize("kernel", [2, 3, 4])
@pytest.mark.parametrize("distance", [1, 2, 3, 6, 9])
def test_two_positions_meet_after_as_many_convolutions_as_the_formula_says(kernel: int, distance: int):
    family = replace(CONV, sizes={"layers": 1, "kernel": kernel})
    layers = family.path_length(distance)
    assert meets("conv_seq2seq", distance, layers=layers, width=6, kernel=kernel)
    assert layers == 1 or not meets("conv_seq2seq", distance, layers=layers - 1, width=6, kernel=kernel)


def test_two_positions_meet_in_one_layer_of_attention_and_in_one_of_cells():
    assert meets("transformer", 30, layers=1, width=8, heads=2)
    assert meets("seq2seq", 30, layers=1, width=8)
    assert (RNN.path_length(30), TRANSFORMER.path_length(30)) == (31, 1)


def test_calls_in_sequence_grow_with_the_length_of_a_recurrent_network_alone():
    assert [family.in_sequence(10) for family in FAMILIES] == [20, 8, 4]
    assert [family.in_sequence(100) for family in FAMILIES] == [200, 8, 4]


def test_a_family_is_trained_and_scored_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "words.tsv").write_text("".join(f"{word}\t{' '.join(word)}\n" for word in ("ab", "ba", "aab", "bab")))
    monkeypatch.setattr(families, "FAMILIES", (CONV,))
    files = [f"--set=data.{part}={tmp_path}/words.tsv" for part in ("train", "valid", "test")]
    families.main(["--budget", "30000", "--steps", "2", "--distance", "5", "--out", str(tmp_path), "--json", *files])
    (row,) = json.loads(capsys.readouterr().out)
    assert row["family"] == "ConvS2S"
    assert row["parameters"] == pytest.approx(30_000, rel=0.05)
    assert (row["steps"], row["path_length"], row["score"]) == (2, 3, "word_error")
    assert min(row[key] for key in ("flops_per_token", "tokens", "seconds", "processor_seconds")) > 0
    assert row["peak_mb"] > 50
    assert models.config_class("conv_seq2seq")(**row["model"]).width == row["model"]["width"]
    Console(width=200).print(table([row], 5))
    assert "⌈n / (k − 1)⌉ = 3" in capsys.readouterr().out
