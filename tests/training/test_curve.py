import io
import math

import numpy as np
import pytest
from PIL import Image

from regard.tasks.base import Objective
from regard.training.curve import draw

HISTORY = [{"step": step, "loss": 7 * math.exp(-step / 900) + 2, "learning_rate": 0.1} for step in range(50, 5001, 50)]
VALIDATIONS = [
    {"step": step, "loss": 6 * math.exp(-step / 800) + 2.4, "bleu": 38 - 38 * math.exp(-step / 1100)}
    for step in range(500, 5001, 500)
]


@pytest.mark.parametrize(
    ("history", "validations", "objective"),
    [
        (HISTORY, VALIDATIONS, Objective("bleu", higher=True)),
        (HISTORY, VALIDATIONS, Objective()),
        (HISTORY, [], Objective()),
        (HISTORY[:1], VALIDATIONS[:1], Objective("bleu", higher=True)),
        ([], [], Objective()),
        (HISTORY, [{"step": 500, "word_error": math.nan}], Objective("word_error")),
    ],
)
def test_every_run_has_a_picture(history, validations, objective):
    content = draw(history, validations, objective=objective, best=0, title="translate · transformer")
    picture = Image.open(io.BytesIO(content))
    assert picture.format == "PNG"
    assert picture.width == 960
    assert len(np.unique(np.asarray(picture.convert("L")))) > 10


def test_a_score_has_a_panel_of_its_own():
    def height(objective):
        return Image.open(io.BytesIO(draw(HISTORY, VALIDATIONS, objective=objective, best=9))).height

    assert height(Objective("bleu", higher=True)) > height(Objective("loss"))


def test_the_given_point_is_marked():
    def drawn(best):
        return draw(HISTORY, VALIDATIONS, objective=Objective("bleu", higher=True), best=best)

    assert drawn(3) == drawn(3) != drawn(4)
