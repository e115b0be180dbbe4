"""What `regard run` does with a model that writes: go on from prompts, and print what comes as it comes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.api import load
from regard.jobs.writer import as_writer

BETWEEN = "---"  # stands on a line of its own between two texts


def go_on(
    directory: Path, prompts: Iterable[str], *, changes: Mapping[str, Any], stop: Sequence[str], as_json: bool
) -> None:
    """Print the continuations of each prompt, in order: a single one while it is being written."""
    model = as_writer(load(directory))
    decoding = model.decoding(changes)
    printed = 0
    for prompt in prompts:
        if as_json:
            found = [
                {"text": answer.text, "score": answer.score, "tokens": model.task.tokenizer.pieces(list(answer.tokens))}
                for answer in model.answers([prompt], decoding=decoding, stop=stop)[0]
            ]
            print(json.dumps({"input": prompt, "answers": found}, ensure_ascii=False), flush=True)
            continue
        if decoding.n_best == 1:
            texts: Iterable[Iterable[str]] = [model.stream(prompt, decoding=decoding, stop=stop)]
        else:
            texts = [[answer.text] for answer in model.answers([prompt], decoding=decoding, stop=stop)[0]]
        for pieces in texts:
            if printed:
                print(BETWEEN)
            for piece in pieces:
                print(piece, end="", flush=True)
            print(flush=True)
            printed += 1
