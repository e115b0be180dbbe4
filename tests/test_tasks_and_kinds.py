"""A new task is a class and a row of TASKS, a new kind a config, a module and a row of KINDS: nothing else is edited.

`Count` is such a task, a text in and a number out; `Bag` is such a kind, which forgets the order of words.
"""

# ruff: noqa: ARG002, ARG003 (a task and a kind implement interfaces, of which they need not use every argument)

import io
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import pytest
from torch import Tensor, nn
from torch.nn import functional as F

import regard
from regard import cli, models, tasks
from regard.data.files import read_rows
from regard.data.rows.batches import RowBatch
from regard.data.rows.framing import Row as FramedRow
from regard.errors import RegardError
from regard.kernels.linear import Linear
from regard.layers.embedding import Embedding, tied_output
from regard.models import KINDS, Kind
from regard.models.body import Body
from regard.models.facts import BodyConfig, ModelConfig
from regard.models.heads import Headed, headed
from regard.tasks import TASKS, Row
from regard.tasks.base import OPTIONAL_KEYS, Codec, Looking, RunOptions, Score, Setting, Sight, Surface
from regard.tasks.reading import RowsData
from regard.tasks.rows import Rows, RowsTask, body_config
from regard.tasks.surfaces import Answer, text_of

# what every task keeps

LINES = {  # inputs of tasks that need more than one text, or none
    "rank": "cat\ta cat\ta dog",
    "answer": "who?\tthe cat sat",
    "sets": "[3, 17]",
}
TEXTS = [Answer("ein Tier", -1.5, (5, 7), (-1.0, -0.5), alignment=((0, 1),), pieces=("ein", "Tier"))]
ANSWERS: dict[str, object] = {  # one answer of each task, with every key that it may have
    "translate": TEXTS,
    "transcribe": TEXTS,
    "write": TEXTS,
    "embed": [0.5, -0.25],
    "classify": [{"label": "yes", "score": 0.75}, {"label": "no", "score": 0.25}],
    "tag": [{"entity": "B-PER", "score": 0.5, "index": 1, "word": "Ada", "start": 0, "end": 3}],
    "answer": {"score": 0.5, "start": 4, "end": 7, "answer": "cat"},
    "fill": [[{"score": 0.5, "token": 5, "token_str": "cat", "sequence": "the cat"}]],
    "rank": [{"text": "a cat", "score": 0.5, "index": 0}],
    "see": [{"label": "cat", "score": 0.75}, {"label": "dog", "score": 0.25}],
    "sets": [99.5],
    "caption": TEXTS,
    "nodes": [{"label": "yes", "score": 0.75}, {"label": "no", "score": 0.25}],
    "forecast": [{"unique_id": "a", "ds": "2020-01-01", "forecast": 1.5, "lo-80": 1.0, "hi-80": 2.0}],
}


@pytest.mark.parametrize("name", TASKS)
def test_the_surface_of_every_task_reads_lines_and_writes_json(name: str) -> None:
    surface = tasks.surface(name)
    assert isinstance(surface, type(tasks.task(name).surface))
    line = LINES.get(name, "the cat sat")
    assert surface.parse(line) is not None
    with pytest.raises(RegardError):
        surface.from_json(3.5)
    answer = ANSWERS[name]
    written = surface.to_json(answer)
    assert json.loads(json.dumps(written)) == written
    shown = surface.lines(answer, RunOptions())
    assert shown
    assert all(isinstance(text, str) and text for text in shown)
    assert surface.answers
    assert surface.tokens(answer) >= 0


@pytest.mark.parametrize("name", TASKS)
def test_every_task_states_what_it_is_for(name: str) -> None:
    kind = tasks.task(name)
    assert kind.forms
    assert all(models.kinds(form) for form in kind.forms)
    assert kind.honours <= set(OPTIONAL_KEYS)
    assert TASKS[name].summary


@pytest.mark.parametrize("name", [name for name, row in TASKS.items() if row.surface])
def test_a_surface_that_the_table_names_needs_no_torch(name: str) -> None:
    code = f"import sys; from regard import tasks; tasks.surface({name!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# a new task


@dataclass(frozen=True)
class Counted:
    """A text and a number."""

    text: str
    number: int
    place: str

    @property
    def key(self) -> str:
        return self.text


class Number(Surface[str, float]):
    """A text in, a number out."""

    answers = "numbers"

    def parse(self, line: str) -> str:
        return line

    def from_json(self, body: object) -> str:
        return text_of(body)

    def lines(self, answer: float, options: RunOptions) -> list[str]:
        return [f"{answer:.2f}"]


class Count(RowsTask[RowsData, Counted, str, float]):
    """loss = ½ (y − number)²"""

    uses = "text"
    data = RowsData
    surface = Number()
    best = "loss"

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @classmethod
    def from_setting(cls, setting: Setting[RowsData], codec: Codec) -> Self:
        return cls(Rows.of(setting.model, codec, max_length=setting.data.max_length))

    @classmethod
    def examples(cls, name: str, data: RowsData) -> Iterator[Counted]:
        for line, (text, number) in read_rows(name, [1, 2], numbers=True):
            yield Counted(text, int(number), f"{name}:{line}")

    @classmethod
    def lines(cls, examples: list[Counted]) -> Iterator[str]:
        return (example.text for example in examples)

    @classmethod
    def texts(cls, examples: Sequence[Counted]) -> Iterator[str]:
        return (example.text for example in examples)

    def encode(self, examples: Sequence[Counted]) -> list[FramedRow]:
        framed = self._framed([each.text for each in examples])
        return [FramedRow(row.ids, row.segments, (each.number,)) for row, each in zip(framed, examples, strict=True)]

    def module(self, model: ModelConfig) -> Headed:
        return headed(body_config(model), classes=1, pooled=True, vocabulary=self.rows.tokenizer.size)

    def loss(self, model: nn.Module, batch: RowBatch, *, plain: bool = False) -> Tensor:
        numbers = model(batch.tokens, batch.lengths, batch.segments)[:, 0]
        return F.mse_loss(numbers, batch.wanted[:, 0].float(), reduction="sum") / 2

    def answer(self, model: nn.Module, asked: Sequence[str], options: RunOptions) -> list[float]:
        answers = [0.0] * len(asked)
        for batch, numbers in self.rows.passes(model, self._framed(asked)):
            for row, number in zip(batch.rows, numbers[:, 0].tolist(), strict=True):
                answers[row] = number
        return answers

    def sight(self, model: nn.Module, asked: str, look: Looking) -> Sight:
        (row,) = self._framed([asked])
        return self.rows.sight(
            model, row, asked, lambda batch: model(batch.tokens, batch.lengths, batch.segments).unsqueeze(1)
        )

    def scores(self, model: nn.Module, examples: Sequence[Counted]) -> dict[str, Score]:
        answers = self.answer(model, [each.text for each in examples], RunOptions())
        errors = [abs(answer - each.number) for answer, each in zip(answers, examples, strict=True)]
        return {"error": Score(sum(errors) / len(errors), f"mean over {len(errors)} texts")}

    def _framed(self, texts: Sequence[str]) -> list[FramedRow]:
        return self.rows.frame(texts, [None] * len(texts))


# a new kind


class BagConfig(BodyConfig):
    kind: Literal["bag"] = "bag"
    width: int = 17


class Bag(Body):
    """h_t = W E[token_t], whatever stands beside it."""

    layers = 1

    def __init__(self, config: BagConfig, *, vocabulary: int) -> None:
        super().__init__()
        self.special, self.width = config.special, config.width
        self.embedding = Embedding(vocabulary, config.width, dropout=config.dropout, padding=config.special.pad)
        self.body = nn.ModuleList([Linear(config.width, config.width)])
        self.output = tied_output(self.embedding)

    def states(self, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None) -> Tensor:
        return self.body[0](self.embedding(tokens))


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "count", Row(f"{__name__}:Count", "a text to a number"))
    monkeypatch.setitem(KINDS, "bag", Kind(__name__, "BagConfig", "Bag", "words without their order", "encoder"))


def write_recipe(folder: Path, task: str, model: str, examples: Sequence[tuple[str, object]]) -> Path:
    (folder / "examples.tsv").write_text("".join(f"{text}\t{wanted}\n" for text, wanted in examples))
    recipe = folder / "recipe.toml"
    recipe.write_text(
        f'task = "{task}"\n[data]\ntrain = "{folder / "examples.tsv"}"\nhold_out = 11\n[tokenizer]\nkind = "words"\n'
        f"[model]\n{model}\ndropout = 0.0\n[training]\nsteps = 150\nbatch_tokens = 256\nlearning_rate = 0.01\n"
        'schedule = "constant"\nwarmup = 3\nvalidate_every = 50\nthreads = 1\nprecision = "float32"\n'
    )
    return recipe


NUMBERS = [(" ".join(["one"] * ones + ["cat"] * cats), ones) for ones in range(7) for cats in range(1, 11)]
COLOURS = [(f"the {colour} {noun} {verb}", colour) for colour in ("red", "blue", "old")
           for noun in ("cat", "dog", "bird", "mat", "film") for verb in ("sat", "ran", "sees", "likes")]  # fmt: skip


@pytest.mark.usefixtures("fakes")
def test_a_new_task_goes_the_whole_road(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = command_line(monkeypatch, capsys)
    recipe = write_recipe(tmp_path, "count", 'kind = "bert"\nlayers = 1\nwidth = 16\nheads = 2', NUMBERS)
    model = tmp_path / "model"
    assert "error" in call("train", recipe, "-o", model)
    assert 3 < float(call("run", model, "one one one one one cat")) < 7
    (line,) = map(json.loads, call("run", model, "--json", "one cat").splitlines())
    assert line["input"] == "one cat"
    assert 0 < line["answers"] < 2
    scores = json.loads(call("evaluate", model, "--json"))
    assert scores["error"]["value"] < 1
    assert scores["error"]["signature"] == "mean over 11 texts"
    page = tmp_path / "page.html"
    assert str(page) in call("look", model, "one one cat", "-o", page)
    assert "one one cat" in page.read_text("utf-8")
    assert "<s>" in call("look", model, "one one cat")
    loaded = regard.load(model)
    assert loaded("one cat") == pytest.approx(line["answers"])
    assert '<count model "' in repr(loaded)
    with pytest.raises(RegardError, match="--beam has no effect on a model that answers with numbers"):
        loaded("one cat", beam=3)


@pytest.mark.usefixtures("fakes")
def test_a_new_kind_learns_an_old_task(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classify", 'kind = "bag"\nwidth = 23', COLOURS)
    model = regard.train(recipe, out=tmp_path / "model")
    assert model.report["scores"]["accuracy"] == 100
    assert regard.load(tmp_path / "model")("the blue cat ran")[0]["label"] == "blue"
    assert model.module.encoder.width == 23


@pytest.mark.usefixtures("fakes")
def test_a_new_kind_learns_a_new_task(tmp_path: Path) -> None:
    model = regard.train(write_recipe(tmp_path, "count", 'kind = "bag"', NUMBERS), out=tmp_path / "model")
    assert math.isfinite(model.report["scores"]["error"])


def command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The command line in this process: what it prints on standard output."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        cli.main()
        return capsys.readouterr().out

    return call
