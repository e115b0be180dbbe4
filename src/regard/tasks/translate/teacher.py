"""Knowledge distillation by sequence: the targets to learn are what a larger model answers (Kim 2016).

The teacher answers every source of the training data, by its own beam, in a process of its own (`regard run`, so in
whichever runtime is fastest). Its answers are kept beside the model in parts, each written whole, so that an
interrupted run resumes with the next part.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from hashlib import file_digest, sha256
from itertools import count, islice
from pathlib import Path

from regard import durable
from regard.data.pairs.examples import Examples
from regard.data.pairs.pair import Columns, Pair
from regard.errors import RegardError
from regard.tasks.base import Tell

PART = 5000  # pairs answered and written together


def distil(examples: Examples, *, teacher: Path, folder: Path, tell: Tell) -> Examples:
    """The same sources with the teacher's answers to them, in `folder`."""
    weights = teacher / "weights.safetensors"
    if not weights.is_file():
        raise RegardError(f"data.teacher={teacher} is no model directory: it has no weights.safetensors")
    _keep_only_if(folder, sha256(f"{examples.fingerprint} {_checksum(weights)}".encode()).hexdigest())
    pairs, parts = (pair for pair in examples if not pair.empty), []
    tell("the teacher answers")
    for number in count():
        chunk = list(islice(pairs, PART))
        if not chunk:
            break
        path = folder / f"{number:06d}.jsonl"
        if not path.exists():
            durable.write_file(path, _lines(chunk, _answers(teacher, chunk)))
        parts.append(str(path))
        tell(f"the teacher answers: {number * PART + len(chunk):,} pairs", milestone=True)
    return replace(examples, entries=tuple(parts), columns=Columns(), held_out=None)


def _answers(teacher: Path, chunk: Sequence[Pair]) -> list[str]:
    command = [sys.executable, "-m", "regard.cli", "run", str(teacher)]
    asked = "".join(" ".join(pair.source.split()) + "\n" for pair in chunk)
    result = subprocess.run(command, input=asked, capture_output=True, encoding="utf-8", check=False)
    answers = result.stdout.splitlines()
    if result.returncode or len(answers) != len(chunk):
        reason = result.stderr.strip() or f"{len(answers)} answers to {len(chunk)} texts"
        raise RegardError(f"the teacher {teacher} could not answer: {reason.removeprefix('regard: ')}")
    return answers


def _lines(chunk: Sequence[Pair], answers: Sequence[str]) -> bytes:
    def line(pair: Pair, answer: str) -> str:
        return json.dumps({"source": pair.source, "target": answer}, ensure_ascii=False) + "\n"

    return "".join(map(line, chunk, answers)).encode()


def _keep_only_if(folder: Path, made_from: str) -> None:
    """Forget answers of another teacher, or to other sources."""
    note = folder / "made-from.json"
    if not note.exists() or json.loads(note.read_bytes()) != made_from:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        durable.write_file(note, json.dumps(made_from).encode())


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
