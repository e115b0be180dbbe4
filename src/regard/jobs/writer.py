"""A trained causal language model: it goes on from a prompt, and scores itself."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from regard import recipes
from regard.data.text import TextConfig, open_text, open_texts
from regard.data.tokens import tokenise
from regard.decoding.config import DecodingConfig, changed
from regard.errors import RegardError
from regard.jobs.base import Answering, Model, paths
from regard.look.record import Record
from regard.look.statistics import statistics
from regard.look.writing import capture_writing, shortened
from regard.recipes import Recipe
from regard.tasks.answers import Answer
from regard.tasks.scores import Score
from regard.tasks.write import Write

Stop = str | Sequence[str]
LOOKED_AT = 40  # tokens that are written to be looked at
SAMPLING = ("sample", "temperature", "top_k", "top_p")


class Writer(Answering):
    """A trained model with its tokenizer: call it with the beginning of a text, or with a list of them."""

    def __init__(self, path: Path, recipe: Recipe, module: nn.Module, task: Write, report: dict[str, Any]) -> None:
        super().__init__(path, recipe, module, report)
        self.task = task

    def write(self, prompt: str = "", *, samples: int = 1, stop: Stop = (), **changes: Any) -> list[str]:
        """Several continuations of a prompt, drawn at once; `changes` are keys of [decoding], such as temperature."""
        if samples < 1:
            raise RegardError(f"samples={samples}: expected a whole number of at least 1")
        drawn = {"sample": True, "n_best": samples} if samples > 1 else {}
        decoding = self.decoding({**drawn, **changes})
        return [answer.text for answer in self.answers([prompt], decoding=decoding, stop=stop)[0]]

    def answers(
        self, prompts: Sequence[str], *, decoding: DecodingConfig | None = None, stop: Stop = ()
    ) -> list[list[Answer]]:
        """The `n_best` continuations of each prompt, best first, with their scores."""
        return self.task.answer(self.module, prompts, decoding=decoding or self.recipe.decoding, stop=_listed(stop))

    def stream(self, prompt: str, *, decoding: DecodingConfig | None = None, stop: Stop = ()) -> Iterator[str]:
        """One continuation in pieces, as they come: together they are what `answers` gives."""
        chosen = decoding or self.recipe.decoding
        if chosen.n_best > 1 or (chosen.beam > 1 and not chosen.sample):
            yield self.answers([prompt], decoding=chosen, stop=stop)[0][0].text  # known only when all is said
            return
        encoded = self.task.tokenizer.encode([prompt])
        shown = 0
        for (text,) in self.task.writing(self.module, encoded, decoding=chosen, stop=_listed(stop)):
            if text.sure > shown:
                yield text.text[shown : text.sure]
                shown = text.sure

    def look(
        self,
        text: str,
        *,
        reference: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        decoding: DecodingConfig | None = None,
    ) -> Record:
        """As for every model; unless other `decoding` is given, it goes on for at most `LOOKED_AT` tokens."""
        chosen = decoding or shortened(self.recipe.decoding, LOOKED_AT)
        only = paths(layer)
        return self.named(
            capture_writing(self.module, self.task, text, decoding=chosen, reference=reference, only=only, head=head)
        )

    def habits(self, texts: Iterable[str]) -> dict[str, Any]:
        decoding = self.recipe.decoding
        return statistics(
            capture_writing(self.module, self.task, text, decoding=decoding, reference="", gradients=False)
            for text in texts
        )

    def decoding(self, changes: Mapping[str, Any]) -> DecodingConfig:
        """The recipe's [decoding] with some keys changed; asking for a beam ends the recipe's sampling."""
        settings = self.recipe.decoding.model_dump()
        if "beam" in changes and not changes.get("sample"):
            settings = {name: value for name, value in settings.items() if name not in SAMPLING}
        return recipes.check(DecodingConfig, changed(settings, changes), where="decoding")

    def evaluate(self, data: str | Path | Sequence[str] | None = None) -> dict[str, Score]:
        """Perplexity and bits per character of a text: files, or the recipe's own (see `judged_on`)."""
        config: TextConfig = self.recipe.data
        if data is not None:
            text = open_text([str(data)] if isinstance(data, str | Path) else list(map(str, data)), key="data")
        else:
            text = open_text(config.test, key="data.test") if config.test else open_texts(config).valid
        with tempfile.TemporaryDirectory() as folder:
            tokens = tokenise(text, self.task.tokenizer, folder=Path(folder), name="judged")
            if not len(tokens):
                raise RegardError(f"{text} has not one token to be judged by; name another file")
            return self.task.scores(self.module, tokens)


def as_writer(model: Model) -> Writer:
    """The model as one that writes, if it is one."""
    if not isinstance(model, Writer):
        raise RegardError(f'{model.path} is a model for task = "{model.recipe.task}"; this is for models that write')
    return model


def _listed(stop: Stop) -> list[str]:
    return [stop] if isinstance(stop, str) else list(stop)
