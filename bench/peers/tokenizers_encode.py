"""The `tokenizers` library alone: how many pairs of texts it encodes in a second of one core.

python -m bench.peers.tokenizers_encode FOLDER PAIRS
"""

from __future__ import annotations

import json
import sys
import time
from itertools import islice
from pathlib import Path

import tokenizers

TOGETHER = 4096


def main(folder: Path, pairs: int) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "run" / "tokenizer.json"))
    with (folder / "pairs-0000.tsv").open(encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in islice(file, pairs)]
    texts = [text for line in lines for text in line]
    rates = {}
    for name in ("encode_batch", "encode_batch_fast"):
        encode, began = getattr(tokenizer, name), time.process_time()
        for begin in range(0, len(texts), TOGETHER):
            encode(texts[begin : begin + TOGETHER], add_special_tokens=False)
        rates[name] = len(lines) / (time.process_time() - began)
    print(json.dumps(rates))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
