"""A real run, killed again and again (SIGKILL, which nothing can catch), against the same run left in peace.

    python -m bench kill [--recipe demo] [--steps 300] [--kills 20] [--seed 1] [--set KEY=VALUE]…

Both run as `regard train` in processes of their own. They must end with the same weights, bit for bit.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench kill", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="demo")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    changes = [f"training.steps={options.steps}", "training.checkpoint_every=10", "training.validate_every=50"]
    command = [sys.executable, "-m", "regard.cli", "train", options.recipe]
    command += [part for change in [*changes, *options.set] for part in ("--set", change)]
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder) / "whole", Path(folder) / "killed"
        begin = time.monotonic()
        subprocess.run([*command, "-o", str(whole)], check=True, capture_output=True)
        seconds = time.monotonic() - begin
        kills = _kill_often([*command, "-o", str(killed)], killed, options, seconds)
        same = _weights(whole) == _weights(killed)
    print(f"{kills} kills in a run of {seconds:.0f} seconds: the weights are {'the same' if same else 'DIFFERENT'}")
    if not same or kills < options.kills:
        sys.exit(1)


def _kill_often(command: list[str], out: Path, options: argparse.Namespace, seconds: float) -> int:
    """Start, kill, start again, until it has been killed often enough; then let it end. Returns how often it was."""
    generator = random.Random(options.seed)
    kills = 0
    while kills < options.kills and not (out / "report.json").exists():
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(generator.uniform(0, max(seconds / 6, 5.0)))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
            print(f"killed {kills} of {options.kills}, {len(list(out.glob('checkpoints/step-*')))} checkpoints")
    subprocess.run(command, check=True, capture_output=True)
    return kills


def _weights(directory: Path) -> bytes:
    return (directory / "weights.safetensors").read_bytes()
