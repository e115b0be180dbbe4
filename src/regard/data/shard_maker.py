"""A process that makes shards: `python -m regard.data.shard_maker`, which `regard.data.shards` starts and asks.

It reads the settings of a maker, then for each shard where to write it and its content; it answers with descriptions.
It ends with the process that asks.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.data import shards
from regard.data.kept import made
from regard.data.pairs.shard import PairMaker
from regard.data.text.shard import TextMaker
from regard.errors import RegardError

MEDIA: dict[str, Callable[[dict[str, Any]], shards.Maker]] = {
    "pairs": PairMaker.from_settings,
    "text": TextMaker.from_settings,
}


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks decides when to stop
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    settings = json.loads(shards.read(asked) or b"{}")
    if not settings:
        return
    maker = MEDIA[settings["medium"]](settings)
    while (order := shards.read(asked)) is not None and (content := shards.read(asked)) is not None:
        shards.write(answers, json.dumps(_answer(maker, json.loads(order), content)).encode())


def _answer(maker: shards.Maker, order: dict[str, str], content: bytes) -> dict[str, Any]:
    try:
        batch = shards.from_bytes(content)
        return made(Path(order["path"]), order["digest"], lambda beside: maker.make(batch, beside))
    except RegardError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    main()
