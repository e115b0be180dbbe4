"""A hundred layers: DeepNorm learns where plain post-norm does not (Wang 2022).

    python -m bench deep
    python -m bench deep --layers 200 --steps 100

Two Transformers that differ only in their wiring, half of the layers in the encoder and half in the decoder, learn to
count on from a digit ("7" → "8 9 0 1 2 3 4 5"), from the same seed, on the same batches, at the same learning rate
without warm-up. Few layers could do it: what is measured is whether so many learn at all. The loss is in nats for each
digit; guessing has ln 10 = 2.30.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator

import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional as F

from regard.models import build
from regard.special import OWN

WIRINGS = ("post_norm", "deep_norm")
DIGITS, LENGTH, ROWS = 10, 9, 16  # a digit, and eight that follow it
FIRST = 4  # the token of the digit 0, after the special ones


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench deep", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=100)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--steps", type=int, default=100, help="updates to make")
    parser.add_argument("--rate", type=float, default=0.001, help="the learning rate of both")
    parser.add_argument("--every", type=int, default=10, help="steps whose mean loss is shown as one number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    curves = {wiring: means(list(learn(wiring, options)), options.every) for wiring in WIRINGS}
    if options.json:
        print(json.dumps({"layers": options.layers, "every": options.every, "loss": curves}, indent=2))
        return
    table = Table("steps", *WIRINGS, title=f"loss of {options.layers} layers")
    for number, losses in enumerate(zip(*curves.values(), strict=True)):
        begin = number * options.every
        table.add_row(f"{begin + 1} to {begin + options.every}", *(f"{loss:.3f}" for loss in losses))
    Console().print(table)


def learn(wiring: str, options: argparse.Namespace) -> Iterator[float]:
    """The loss of each step."""
    torch.manual_seed(options.seed)
    sizes = {"layers": options.layers // 2, "width": options.width, "heads": 4, "hidden": 4 * options.width}
    model = build("transformer", vocabulary=FIRST + DIGITS, dropout=0.0, wiring=wiring, **sizes)
    optimiser = torch.optim.Adam(model.parameters(), lr=options.rate, betas=(0.9, 0.98))
    draw = torch.Generator().manual_seed(options.seed)
    for _ in range(options.steps):
        digits = (torch.randint(DIGITS, (ROWS, 1), generator=draw) + torch.arange(LENGTH)) % DIGITS + FIRST
        target = torch.cat([digits.new_full((ROWS, 1), OWN.bos), digits[:, 1:]], 1)  # (ROWS, LENGTH)
        logits = model.output(model(digits[:, :1], None, target[:, :-1]))
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        yield loss.item()


def means(losses: list[float], every: int) -> list[float]:
    """The mean of each `every` losses; NaN as soon as one is not a number."""
    chunks = [losses[begin : begin + every] for begin in range(0, len(losses), every)]
    return [math.fsum(chunk) / len(chunk) if all(map(math.isfinite, chunk)) else math.nan for chunk in chunks]
