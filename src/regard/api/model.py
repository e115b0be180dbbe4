"""A trained model: it answers, scores itself, and shows what it looks at. Its task decides what that means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue, NonNegativeInt
from torch import nn

from regard import tasks
from regard.api.elsewhere import Elsewhere
from regard.checking import Settings
from regard.decoding.config import DecodingConfig, changed, shortened
from regard.errors import RegardError, shown
from regard.look.capture import capture, capture_maps
from regard.look.record import Record
from regard.look.statistics import statistics
from regard.recipes import Complete, check, setting
from regard.tasks.base import AnyTask, Looking, RunOptions, Score, SeesMany, Sight, Streams, Surface
from regard.tasks.counting import counted_by, counter
from regard.tasks.significance import Comparison, compare
from regard.training.report import Report

LOOKED_AT_TOGETHER = 256  # inputs that statistics look at together
MOST = 10**6  # layers or heads of a model


class View(Settings):
    """What `look` is asked to show: one layer, one head, what is looked at for an answer that is given, or from which
    token on a long text is shown with every weight."""

    layer: Annotated[int, Field(gt=-MOST, lt=MOST)] | None = None
    head: Annotated[int, Field(gt=-MOST, lt=MOST)] | None = None
    reference: str | None = None
    first: NonNegativeInt | None = None


class Model:
    """A trained model: call it with one input, or with a list of them. It is the engine that answers in torch."""

    name = "torch"

    def __init__(
        self,
        path: Path,
        recipe: Complete,
        module: nn.Module,
        task: AnyTask,
        report: Report,
        *,
        why: str = "it was asked for",
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.path, self.recipe, self.module, self.task, self.report, self.why = path, recipe, module, task, report, why
        self._elsewhere = elsewhere

    def __getstate__(self) -> dict[str, Any]:
        """For copies, which torch answers: the process of the original is not theirs."""
        return {**vars(self), "_elsewhere": None}

    def __repr__(self) -> str:
        parameters = sum(parameter.numel() for parameter in self.module.parameters())
        return f'<{self.recipe.task} model "{self.path}": {self.recipe.kind}, {parameters:,} parameters>'

    @property
    def surface(self) -> Surface[object, object]:
        """What people and programs see of the task."""
        return self.task.surface

    def __call__(self, asked: object, **options: JsonValue) -> Any:
        """One answer; a list gives a list. A pair of texts is a tuple. Options are those of `regard run`: beam=1.

        A long list is answered without torch where CTranslate2 gives the same answers; runtime="torch" forbids it, and
        runtime="ctranslate2" asks for it whatever the number of inputs.
        """
        chosen = self.options(decoding=None, **options)
        found = self._answers(asked if isinstance(asked, list) else [asked], chosen, options)
        brief = [self.surface.brief(answer) for answer in found]
        return brief if isinstance(asked, list) else brief[0]

    def answers(
        self, asked: Iterable[object], *, decoding: DecodingConfig | None = None, **options: JsonValue
    ) -> list[Any]:
        """The whole answer to each input: for texts all `n_best`, best first, with their scores."""
        if isinstance(asked, str | Mapping) or not isinstance(asked, Iterable):
            raise RegardError(f"a list of inputs is expected, and not {shown(asked)}; for one input, call the model")
        chosen = replace(self.options(decoding=decoding, **options), scores=True)
        return self._answers(asked, chosen, options)

    def _answers(self, asked: Iterable[object], chosen: RunOptions, given: Mapping[str, JsonValue]) -> list[Any]:
        """The answers by the process that is elsewhere, or by torch here."""
        inputs = [self.surface.from_json(each) for each in asked]
        found = None
        if self._elsewhere is not None:
            found = self._elsewhere.answers(self.module, self.recipe.task, inputs, chosen, given)
        return self.task.answer(self.module, inputs, chosen) if found is None else found

    def answer_all(self, asked: Iterable[object], options: RunOptions, *, together: int) -> Iterator[object]:
        """The answers to parsed inputs, in order, so many `together`: for any number of inputs."""
        remaining = iter(asked)
        while chunk := list(islice(remaining, together)):
            yield from self.task.answer(self.module, chunk, options)

    def pieces(self, asked: object, options: RunOptions) -> Iterator[str]:
        """One answer in pieces, as they come, if the task can."""
        if not isinstance(self.task, Streams):
            raise RegardError(f'{self.path} is for task = "{self.recipe.task}", whose answers come whole')
        return self.task.pieces(self.module, asked, options)

    @property
    def streams(self) -> bool:
        """Whether an answer can be told while it comes."""
        return isinstance(self.task, Streams)

    def options(self, *, decoding: DecodingConfig | None = None, **given: JsonValue) -> RunOptions:
        """How to answer: the recipe's [decoding] or another, with some options of `regard run` changed."""
        self.surface.accept(given)
        return RunOptions.of((decoding or self.recipe.decoding).model_dump(), given)

    def decoding(self, changes: Mapping[str, JsonValue]) -> DecodingConfig:
        """The recipe's [decoding] with some keys changed; a beam wide enough for `n_best` unless one is given."""
        return check(DecodingConfig, changed(self.recipe.decoding.model_dump(), changes), where="decoding")

    def evaluate(
        self,
        data: object = None,
        *,
        tokenize: str = "13a",
        decoding: DecodingConfig | None = None,
        **options: JsonValue,
    ) -> dict[str, Score]:
        """The task's scores on a file, or on the recipe's own data (see `judged_on`)."""
        exam = self.task.exam(self.examples(data), self.options(decoding=decoding, **options), tokenize=tokenize)
        return exam.scores(self.module)

    def compare(
        self, other: Model, data: object = None, *, tokenize: str = "13a", decoding: DecodingConfig | None = None
    ) -> Comparison:
        """This model and another on the same examples: scores of both and, where a score is made of what each example
        adds to it, the interval of their difference, and how likely such a difference is by chance."""
        if not isinstance(other, Model):
            raise RegardError(f"another model is expected, and not {shown(other)}; load one with regard.load")
        if other.recipe.task != self.recipe.task:
            raise RegardError(
                f'{other.path} is for task = "{other.recipe.task}", and cannot be compared with {self.path}'
            )
        examples, options = self.examples(data), self.options(decoding=decoding)
        ours, theirs = (
            model.task.exam(examples, options, tokenize=tokenize).scores(model.module) for model in (self, other)
        )
        return compare(ours, theirs)

    def examples(self, data: object = None) -> object:
        """The examples of a file, or those that the recipe names to judge a model by."""
        if data is not None:
            return type(self.task).read(data, self.recipe.data, key="data")
        return examples_of(self.recipe, self.path)

    def look(
        self,
        asked: object,
        *,
        reference: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        first: int | None = None,
        decoding: DecodingConfig | None = None,
        **options: JsonValue,
    ) -> Record:
        """What the model looks at when it answers an input, or when it is made to answer `reference`.

        With `layer` or `head`, no other weights are computed. Of a long text, a coarse map is kept, and every weight
        between some tokens that begin at `first`; the record says so. The record shows itself in a notebook;
        `.save("look.html")` writes the page, .png a picture, .json the numbers.
        """
        view = check(View, {"layer": layer, "head": head, "reference": reference, "first": first}, where="look")
        chosen = self.options(decoding=decoding, **options).decoding
        if self.task.looked_at is not None and decoding is None and "max_length" not in options:
            chosen = shortened(chosen, self.task.looked_at)
        sight = self.task.sight(self.module, self.surface.from_json(asked), Looking(chosen, view.reference))
        only = "*" if view.layer is None else sight.layer_paths(view.layer)
        record = capture(self.module, sight, only=only, head=view.head, first=view.first)
        return replace(record, model={"name": str(self.path), "kind": self.recipe.kind, "task": self.recipe.task})

    def statistics(self, asked: Sequence[object]) -> dict[str, Any]:
        """What each head tends to do, averaged over many parsed inputs."""
        return statistics(self._maps(asked))

    def _maps(self, asked: Sequence[object]) -> Iterator[Record]:
        """The maps of each input, many at a time, in any order."""
        more = counter(len(asked))
        for begin in range(0, len(asked), LOOKED_AT_TOGETHER):
            with counted_by(None):  # answers that are found before they are looked at are not counted
                sights = self._quick_sights(asked[begin : begin + LOOKED_AT_TOGETHER])
            for record in capture_maps(self.module, sights):
                yield record
                more(1)

    def _quick_sights(self, asked: Sequence[object]) -> list[Sight]:
        look = Looking(self.recipe.decoding, fast=True)
        if isinstance(self.task, SeesMany):
            return self.task.sights(self.module, asked, look)
        return [self.task.sight(self.module, each, look) for each in asked]

    def export(self, out: str | Path) -> None:
        """Write the model as Hugging Face's library reads it."""
        from regard.api.exchange import export_model

        export_model(self.path, out)

    @property
    def judged_on(self) -> str:
        """What `evaluate` takes unless other data is given."""
        data = self.recipe.data
        return "data.test" if data.test else "data.valid" if data.valid else "what was held out of data.train"


def examples_of(recipe: Complete, path: Path) -> object:
    """The examples that a recipe names to judge a model by: test, or valid, or what was held out of train."""
    kind, table = tasks.task(recipe.task), recipe.data
    for key, entry in (("data.test", table.test), ("data.valid", table.valid)):
        if entry:
            return kind.read(entry, table, key=key)
    if not table.train:
        raise RegardError(f"{path} was trained elsewhere and names no data to score it on; name a file with --data")
    return kind.open(setting(recipe), None).judged
