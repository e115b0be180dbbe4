"""A server of one CTranslate2 call for each text, as LibreTranslate has it.

    python -m bench.serve_plain MODEL PORT THREADS

One process holds one translator, which uses so many threads for a text. Four threads answer requests, and the texts of
a list are translated one after the other. The model, its tokenizer and its [decoding] are those of `regard serve`.
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from regard.commands.run import task_named
from regard.directory import ModelDirectory
from regard.engines.choose import without_torch
from regard.engines.ctranslate2.plans import Plan
from regard.errors import RegardError
from regard.tasks import surface
from regard.tasks.base import RunOptions

THREADS = 4  # LibreTranslate's default


class Texts(BaseModel):
    """A text or a list of texts."""

    q: str | list[str]


def application(path: Path, *, threads: int) -> FastAPI:
    """POST /translate with {"q"} gives {"translatedText"}."""
    directory = ModelDirectory(path)
    tables = directory.tables()
    options = RunOptions.of(tables.get("decoding", {}), {})
    codec, seen = directory.codec(directory.special()), surface(task_named(tables, directory))
    one = Plan("float32", workers=1, threads=threads)
    engine = without_torch(directory, seen, options, codec, wanted="ctranslate2", compute_type="float32", plan=one)
    if isinstance(engine, str):
        raise RegardError(f"CTranslate2 does not answer this model: {engine}")
    waiting = ThreadPoolExecutor(THREADS)
    app = FastAPI()

    def translated(text: str) -> str:
        ((best, *_),) = engine.answer_all([text], options, together=1)
        return best.text

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/translate")
    async def translate(body: Texts) -> dict[str, Any]:
        def all_of_them() -> str | list[str]:
            return translated(body.q) if isinstance(body.q, str) else [translated(text) for text in body.q]

        return {"translatedText": await asyncio.get_running_loop().run_in_executor(waiting, all_of_them)}

    translated(".")
    return app


if __name__ == "__main__":
    _, model, port, number = sys.argv
    uvicorn.run(application(Path(model), threads=int(number)), port=int(port), log_level="error", access_log=False)
