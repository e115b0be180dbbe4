"""A table of settings takes values of the right type, and converts none but a whole number to a float."""

import math
from typing import get_args

import pytest

from regard import models, tasks
from regard.checking import Settings, check
from regard.data.tokenizers import TokenizerConfig
from regard.decoding.config import DecodingConfig
from regard.errors import RegardError
from regard.recipes import Pretrained
from regard.special import Special
from regard.training.config import TrainingConfig

TABLES = [
    *(TokenizerConfig, DecodingConfig, TrainingConfig, Pretrained, Special),
    *(models.config_class(kind) for kind in models.KINDS),
    *dict.fromkeys(tasks.task(name).data for name in tasks.TASKS),
]
WRONG = {
    bool: ["no", 1, 0, 1.0, [], {}],
    int: [True, 2.0, "2", [2], {}, math.inf],
    float: [False, "0.5", [0.5], math.inf, math.nan],
    str: [3, True, 0.5, ["auto"], {}],
}
KEYS = [
    (table, key, type(field.default))
    for table in TABLES
    for key, field in table.model_fields.items()
    if type(field.default) in WRONG
]


def test_the_keys_were_found():
    assert len(KEYS) > 100
    assert {kind for *_, kind in KEYS} == set(WRONG)


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_strict(table):
    assert issubclass(table, Settings)


@pytest.mark.parametrize(("table", "key", "kind"), KEYS)
def test_a_value_of_another_type_is_refused_by_its_key(table, key, kind):
    needed = {"body": {"body": "x"}, "special": {"bos": 1, "eos": 2}}.get(table.__name__, {})
    types = get_args(table.model_fields[key].annotation)  # where there are several
    for value in (value for value in WRONG[kind] if type(value) not in types):
        with pytest.raises(RegardError, match=rf"^here: \[?{key}\b"):
            check(table, {**needed, key: value}, where="here")


def test_a_whole_number_stands_for_a_float():
    assert check(TrainingConfig, {"clip": 2, "betas": [0, 0.5]}, where="here").clip == 2.0
    with pytest.raises(RegardError, match=r"betas\.0 = True"):
        check(TrainingConfig, {"betas": [True, 0.5]}, where="here")
