import tomllib

import pytest
from pydantic import ValidationError

from regard.training.checkpoint import Checkpoints
from regard.training.config import Share, TrainingConfig


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"steps": 0}, "steps\n  Input should be greater than or equal to 1"),
        ({"learning_rate": 0}, "greater than 0"),
        ({"betas": (0.9, 1.0)}, "less than 1"),
        ({"label_smoothing": 1.0}, "less than 1"),
        ({"minutes": 0}, "greater than 0"),
        ({"schedule": "step"}, "'noam', 'inverse_sqrt', 'cosine', 'linear' or 'constant'"),
        ({"schedule": "noam", "warmup": 0}, "warmup=0 leaves it undefined; try warmup=1000"),
        ({"patience": 5, "validate_every": 0}, "patience=5 counts validations and validate_every=0 makes none"),
        ({"average_of": "best", "validate_every": 0}, "try validate_every=500"),
        ({"average_of": "best", "validate_every": 300}, "try checkpoint_every=300"),
        ({"step": 3}, "Extra inputs are not permitted"),
    ],
)
def test_impossible_values_are_refused_with_a_reason(settings, sentence):
    with pytest.raises(ValidationError) as caught:
        TrainingConfig.model_validate(settings)
    assert sentence in str(caught.value)


WHOLE = [name for name, field in TrainingConfig.model_fields.items() if field.annotation is int and name != "threads"]
BROKEN = [
    name for name, field in TrainingConfig.model_fields.items() if field.annotation in (float, float | None, Share)
]


def test_the_fields_were_found():
    assert {"steps", "batch_tokens", "accumulate", "warmup", "seed", "lora"} <= set(WHOLE)
    assert {"minutes", "learning_rate", "clip", "r_drop"} <= set(BROKEN)


@pytest.mark.parametrize("size", [10**10, 10**20, 10**400], ids=["10^10", "10^20", "10^400"])
@pytest.mark.parametrize("name", [*WHOLE, "freeze"])
def test_a_size_that_no_machine_has_is_refused(name, size):
    with pytest.raises(ValidationError, match=f"{name}.*\n.*should be less than"):
        TrainingConfig.model_validate({name: size})


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 10**400], ids=["inf", "nan", "10^400"])
@pytest.mark.parametrize("name", BROKEN)
def test_a_number_must_be_finite(name, number):
    with pytest.raises(ValidationError, match=f"{name}.*\n.*should be (a finite number|a valid number|less than)"):
        TrainingConfig.model_validate({name: number})


def test_steps_fit_the_names_of_checkpoints(tmp_path):
    most = TrainingConfig(steps=10**8 - 1).steps
    Checkpoints(tmp_path).path(most).mkdir()
    assert Checkpoints(tmp_path).steps() == [most]


def test_the_example_of_the_design_is_accepted():
    example = """
        steps = 8000
        batch_tokens = 4096
        learning_rate = 0.005
        warmup = 1000
        schedule = "inverse_sqrt"
        label_smoothing = 0.1
        validate_every = 500
        checkpoint_every = 500
        patience = 10
        average = 10
        seed = 1
    """
    config = TrainingConfig.model_validate(tomllib.loads(example))
    assert config.steps == 8000


def test_a_quick_trial_of_a_long_recipe_is_no_error():
    assert TrainingConfig(steps=20, warmup=4000, schedule="cosine", average=10).steps == 20
