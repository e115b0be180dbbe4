import os
import subprocess
import sys
from pathlib import Path

import pytest
import toy_run


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forks")
def test_killed_at_random_moments_a_run_ends_with_the_same_weights(tmp_path):
    """SIGKILL, which nothing can catch; REGARD_KILLS=20 kills more often."""
    toy_run.learn(tmp_path / "whole", **toy_run.STRENUOUS)
    kills = os.environ.get("REGARD_KILLS", "5")
    seed = os.environ.get("REGARD_KILL_SEED", "1")
    command = [sys.executable, str(Path(toy_run.__file__)), str(tmp_path / "killed"), kills, seed, "0.5"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    assert int(result.stdout) > 0, "no kill came in time"
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]
