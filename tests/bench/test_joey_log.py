"""Time spent on learning, read from a log in the form that JoeyNMT writes."""

import pytest

from bench.peers.joey_log import learning_curve
from bench.quality import reached

LOG = """
2026-01-01 00:00:05,000 - INFO - joeynmt.data - Loading train set...
2026-01-01 00:00:10,000 - INFO - joeynmt.training - EPOCH 1
2026-01-01 00:01:10,000 - INFO - joeynmt.training - Epoch   1, Step:      100, Batch Loss:     6.51, Lr: 0.000014
2026-01-01 00:01:10,001 - INFO - joeynmt.prediction - Predicting 20 example(s)... (Greedy decoding)
2026-01-01 00:01:40,000 - INFO - joeynmt.prediction - Evaluation result (greedy): bleu:  10.50, loss:   6.51
\tTokenized lines have no time of their own
2026-01-01 00:01:45,000 - INFO - joeynmt.training - Example #0
2026-01-01 00:02:00,000 - INFO - joeynmt.training - Epoch   1, total training loss: 12.0, 15.0[sec]
2026-01-01 00:02:00,000 - INFO - joeynmt.training - EPOCH 2
2026-01-01 00:02:15,500 - INFO - joeynmt.training - Epoch   2, Step:      200, Batch Loss:     5.51, Lr: 0.000028
2026-01-01 00:02:45,000 - INFO - joeynmt.prediction - Evaluation result (greedy): bleu:  20.25, loss:   5.51
""".strip().splitlines()


def test_learning_is_counted_and_validation_is_not():
    assert learning_curve(LOG) == [(pytest.approx(60.0), 10.5), (pytest.approx(90.5), 20.25)]


def test_a_log_that_has_only_begun_says_nothing():
    assert learning_curve(LOG[:3]) == []


def test_a_score_is_reached_when_it_is_first_seen():
    curve = [(60.0, 10.0), (90.0, 20.0), (120.0, 19.0), (150.0, 25.0)]
    assert reached(curve, 15.0) == 90.0
    assert reached(curve, 20.0) == 90.0
    assert reached(curve, 30.0) is None
