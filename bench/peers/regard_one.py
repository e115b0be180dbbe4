"""One line after the other through regard, by the engine that `regard run` chooses, in a warm process."""

from __future__ import annotations

from pathlib import Path

from answering import Run, Settings, answer
from one_by_one import timed

from regard.commands.run import prepare as opened


def prepare(settings: Settings) -> Run:
    asking = opened(Path(settings["path"]), {})
    surface, engine, options = asking.surface, asking.engine, asking.options

    def translate(line: str) -> str:
        (found,) = engine.answer_all([line], options, together=1)
        return surface.lines(found, options)[0]

    return timed(translate)


if __name__ == "__main__":
    answer(prepare, packages=("ctranslate2", "tokenizers"))
