import pytest
import torch

from regard import models
from regard.errors import RegardError
from regard.training import machine
from regard.training.size import count_parameters, require_room

SIZES = {
    "transformer": {"layers": 5, "width": 24, "heads": 2, "hidden": 13},
    "seq2seq": {"layers": 4, "width": 14},
    "conv_seq2seq": {"layers": 5, "width": 14, "maximum": 11},
    "rnn": {"layers": 3, "width": 22},
    "caption": {"layers": 3, "width": 22},
    "transformer_xl": {"layers": 3, "width": 24, "heads": 2},
    "gpt": {"layers": 7, "width": 24, "heads": 2, "maximum": 11},
    "bert": {"layers": 5, "width": 24, "heads": 2, "maximum": 11},
    "elmo": {"layers": 3, "width": 14},
    "xlnet": {"layers": 3, "width": 24, "heads": 2},
    "universal": {"layers": 3, "width": 24, "heads": 2, "hidden": 13},
    "universal_encoder": {"layers": 3, "width": 24, "heads": 2, "hidden": 13},
    "universal_decoder": {"layers": 3, "width": 24, "heads": 2, "hidden": 13},
    "vit": {"layers": 3, "width": 24, "heads": 2, "hidden": 13},
    "deep_sets": {"layers": 4, "width": 24, "encoder": "isab", "encoder_layers": 3, "output_layers": 5},
    "swin": {"layers": [3, 4], "width": 24, "heads": [2, 4]},
    "non_local": {"layers": [3, 1, 4], "width": 4},
    "local_attention": {"layers": [3, 1, 4], "width": 8},
    "glimpse": {"width": 24},
    "forecaster": {"cell": "transformer", "layers": 3, "width": 24, "heads": 2, "hidden": 13},
}
SHARED = tuple(kind for kind in SIZES if kind.startswith("universal"))  # one block, however often it is applied


def build(config):
    sizes = models.SIZES.get(models.KINDS[config.kind].form)
    return models.from_config(config, **(sizes or {"vocabulary": 17}))


def config_of(kind, **changes):
    return models.config_class(kind).model_validate({**SIZES[kind], **changes})


@pytest.mark.parametrize("kind", SIZES)
def test_parameters_are_counted_without_building_the_model(kind):
    made = build(config_of(kind))
    assert count_parameters(build, config_of(kind)) == sum(weight.numel() for weight in made.parameters())


@pytest.mark.parametrize("sides", [{"encoder_layers": 6}, {"encoder_layers": 6, "decoder_layers": 3}])
def test_sides_of_different_depth_are_counted(sides):
    config = config_of("transformer", **sides)
    assert count_parameters(build, config) == sum(weight.numel() for weight in build(config).parameters())


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("change", [{"layers": 10**9}, {"width": 2 * 10**6}, {"width": 2 * 10**17}])
def test_a_model_that_does_not_fit_into_memory_is_refused_before_it_is_built(kind, change):
    if (kind in SHARED and "layers" in change) or change.keys() - SIZES[kind].keys():
        return
    change = {name: size if isinstance(SIZES[kind][name], int) else [2, size, 1] for name, size in change.items()}
    if kind == "swin" and "layers" in change:
        change["heads"] = [2, 2, 2]
    with pytest.raises(RegardError, match=r"\[model\] (describes [\d,]+ parameters|has sizes that no tensor can have)"):
        require_room(build, config_of(kind, **change), device=torch.device("cpu"), each=16)


def test_the_error_says_what_is_needed_and_what_is_free(monkeypatch):
    monkeypatch.setattr(machine, "free_memory", lambda _: 3_000_000_000)
    with pytest.raises(RegardError, match=r"describes .*,\d\d\d parameters, which need 134\.4 GB .* 3\.0 GB are free"):
        require_room(build, config_of("gpt", width=10**4), device=torch.device("cpu"), each=16)
    require_room(build, config_of("gpt"), device=torch.device("cpu"), each=16)


def test_memory_that_is_free_is_less_than_what_can_be_addressed():
    assert 0 < machine.free_memory(torch.device("cpu")) < 2**63


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_an_allocation_that_fails_while_training_is_a_sentence(error):
    with pytest.raises(RegardError, match="not enough memory for a step"), machine.explaining_memory():
        raise error


def test_other_errors_while_training_are_left_alone():
    with pytest.raises(RuntimeError, match="shapes"), machine.explaining_memory():
        raise RuntimeError("shapes")
