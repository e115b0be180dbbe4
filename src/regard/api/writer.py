"""The model of a task that can tell an answer while it comes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from regard.api.model import Model
from regard.decoding.config import DecodingConfig
from regard.errors import RegardError, shown


class Writer(Model):
    """A model that continues prompts."""

    def write(self, prompt: str = "", *, samples: int = 1, **options: Any) -> list[str]:
        """Several continuations of a prompt, drawn at once; options are keys of [decoding], such as temperature."""
        if not isinstance(samples, int) or samples < 1:
            raise RegardError(f"samples={shown(samples)}: expected a whole number of at least 1")
        drawn = {"sample": True, "n_best": samples} if samples > 1 else {}
        return [answer.text for answer in self.answers([prompt], **{**drawn, **options})[0]]

    def stream(self, prompt: str, *, decoding: DecodingConfig | None = None, **options: Any) -> Iterator[str]:
        """One continuation in pieces, as they come: together they are the first text of `answers`."""
        return self.pieces(prompt, self.options(decoding=decoding, **options))
