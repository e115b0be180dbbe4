"""What of a trained model the peers can be given."""

from argparse import Namespace
from types import SimpleNamespace

import pytest

from bench.comparison import named
from bench.trained import sizes
from regard import RegardError
from regard.models.transformer import TransformerConfig


def model(**changes):
    config = TransformerConfig(layers=2, width=16, heads=2, hidden=32, **changes)
    return SimpleNamespace(path="runs/mine", recipe=SimpleNamespace(model=config))


def test_peers_are_told_the_sizes_of_a_model_that_they_can_build():
    assert sizes(model()) == {"layers": 2, "width": 16, "heads": 2, "hidden": 32}
    with pytest.raises(RegardError, match=r"runs/mine has wiring='pre_norm'"):
        sizes(model(wiring="pre_norm"))
    with pytest.raises(RegardError, match=r"runs/mine has 3 \+ 2 layers"):
        sizes(model(encoder_layers=3))


@pytest.mark.parametrize(("only", "wanted"), [([], True), (["ctrans"], True), (["joey"], False)])
def test_only_names_peers_by_a_part_of_their_names(only, wanted):
    assert named("CTranslate2 by hand", Namespace(only=only)) == wanted
