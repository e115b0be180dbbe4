"""A run that is divided among processes: its checkpoints are read by any number of processes, after any kill."""

import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import toy_run
from crews import run_together
from rich.console import Console
from test_distribution import ROWS, InParts, Roomy, Shared
from torch import Tensor, nn
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException
from torch.testing import assert_close

from regard import durable
from regard.checking import check
from regard.errors import RegardError
from regard.training.checkpoint import Checkpoints
from regard.training.config import TrainingConfig
from regard.training.distribution import Crew
from regard.training.sharding import Shards, local
from regard.training.train import train

FIRST, LATER, LAST = 1, 5, 8  # steps: the first run ends in the middle of an epoch, the others after it
OTHERS = [(1, "replicated"), (3, "sharded"), (4, "sharded"), (3, "replicated")]


@dataclass
class Numbered(toy_run.Batch):
    """A batch that knows its rows."""

    rows: list[int] = field(default_factory=list)


class Rows(Shared):
    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[Numbered]:
        for batch, part in zip(super().epoch(epoch, position=position), self.plan(epoch, position), strict=True):
            yield Numbered(**vars(batch), rows=part.rows.tolist())


class Noting(InParts):
    """A loss that notes which rows were learned from."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, list[int]]] = []

    def loss(self, model: nn.Module, batch: Numbered) -> Tensor:
        if model.training:
            self.seen.append((batch.epoch, [] if batch.idle else batch.rows))
        return super().loss(model, batch)


class Scalar(Roomy):
    """A model with a single number among its weights, and one that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("passes", torch.tensor([3]))
        self.hidden.register_forward_hook(self._count)

    def _count(self, *given: Any) -> Tensor:
        self.passes[0] += self.training
        return given[-1] * self.scale


def learn(folder: Path, name: str, kind: str, crew: Crew, **changes: Any) -> None:
    task, begin = Noting(), max(Checkpoints(folder / name / "checkpoints").steps(), default=0)
    settings = toy_run.config(**{"accumulate": 1, "ema": 0.9, "distribution": {"kind": kind}, **changes})
    with Path(os.devnull).open("w") as nowhere:
        train(
            Scalar(),
            task,
            Rows(crew.share),
            config=settings,
            directory=folder / name,
            names={"task": "follow", "kind": "toy"},
            validate=toy_run.validate,
            console=Console(file=nowhere),
            crew=crew,
        )
    learned = task.seen[: settings.steps - begin]  # later ones count operations
    (folder / f"{name}-{settings.steps}-{crew.rank}.json").write_text(json.dumps(learned))


def seen(folder: Path, name: str, steps: int) -> Counter[int]:
    """How often each row of the first epoch was learned from, by all processes together."""
    found = [json.loads(path.read_text()) for path in folder.glob(f"{name}-{steps}-*.json")]
    return Counter(row for each in found for epoch, rows in each if epoch == 0 for row in rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two processes, and the same resumed by others."""
    folder = tmp_path_factory.mktemp("sharding")
    run_together(partial(learn, folder, "two", "sharded", steps=FIRST), world=2, folder=folder)
    for world, kind in OTHERS:
        name = f"{world}-{kind}"
        shutil.copytree(folder / "two", folder / name)
        run_together(partial(learn, folder, name, kind, steps=LATER), world=world, folder=folder)
    for kind in ("sharded", "replicated"):
        shutil.copytree(folder / "1-replicated", folder / f"back-{kind}")
        run_together(partial(learn, folder, f"back-{kind}", kind, steps=LAST), world=2, folder=folder)
        run_together(partial(learn, folder, f"whole-{kind}", kind, steps=LAST, average=3), world=2, folder=folder)
    return folder


def weights(folder: Path) -> dict[str, Tensor]:
    return safetensors.torch.load_file(folder / "weights.safetensors")


@pytest.mark.parametrize(("world", "kind"), OTHERS)
def test_other_processes_resume_and_learn_from_every_example_once(folder: Path, world: int, kind: str) -> None:
    before, after = seen(folder, "two", FIRST), seen(folder, f"{world}-{kind}", LATER)
    assert 0 < before.total() < ROWS
    assert before + after == Counter(range(ROWS))


@pytest.mark.parametrize("name", ["back", "whole"])
def test_divided_and_whole_models_learn_the_same(folder: Path, name: str) -> None:
    """`back` was saved by two processes in parts, then by one; `whole` is the mean of three checkpoints."""
    divided, whole = (weights(folder / f"{name}-{kind}") for kind in ("sharded", "replicated"))
    assert {key: each.shape for key, each in divided.items()} == {key: each.shape for key, each in whole.items()}
    assert divided["scale"].shape == ()
    assert divided["scale"] != 1.5
    for key, each in whole.items():
        assert_close(divided[key], each, atol=1e-6, rtol=1e-4)
    reports = [
        json.loads((folder / f"{name}-{kind}" / "report.json").read_text()) for kind in ("sharded", "replicated")
    ]
    assert reports[0]["kept"] == reports[1]["kept"]
    for ours, theirs in zip(*(report["validations"] for report in reports), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)


def test_a_kill_in_the_middle_of_a_checkpoint_leaves_the_one_before(folder: Path) -> None:
    """The second process dies when it has written a half of its file of the second checkpoint."""

    def die(crew: Crew) -> None:
        add = durable.add_to_directory

        def half(path: Path, contents: dict[str, bytes], size: int) -> None:
            if crew.rank == 1 and path.name.endswith("10"):
                add(path, {name: content[: len(content) // 2] for name, content in contents.items()}, size)
                os.kill(os.getpid(), signal.SIGKILL)
            add(path, contents, size)

        durable.add_to_directory = half
        learn(folder, "killed", "sharded", crew, steps=12)

    with pytest.raises((ProcessExitedException, ProcessRaisedException)):
        run_together(die, world=2, folder=folder)
    there = {path.name for path in (folder / "killed" / "checkpoints").iterdir()}
    assert there == {"step-00000005", "step-00000010.partial"}
    for name in ("killed", "peaceful"):
        run_together(partial(learn, folder, name, "sharded", steps=12), world=2, folder=folder)
    killed, peaceful = weights(folder / "killed"), weights(folder / "peaceful")
    assert all(torch.equal(killed[key], each) for key, each in peaceful.items())


def test_a_failure_of_one_process_is_the_failure_of_all(folder: Path) -> None:
    def fail(crew: Crew) -> None:
        def make() -> int:
            if crew.rank == 1:
                raise RegardError("the disk is full")
            return crew.rank

        with pytest.raises(RegardError, match="the disk is full"):
            crew.each(make)
        assert crew.each(lambda: f"é{crew.rank}") == ["é0", "é1", "é2"]

    run_together(fail, world=3, folder=folder)


def test_a_process_has_a_part_of_every_weight_and_all_of_them_while_it_judges(folder: Path) -> None:
    def look(crew: Crew) -> None:
        model = Scalar()
        before = {name: each.detach().clone() for name, each in model.named_parameters()}
        shards = Shards(model, InParts(), rank=crew.rank, world=crew.world)
        for name, each in shards.model.named_parameters():
            length = before[name].shape[0] if before[name].dim() else 1
            mine = before[name].view(length, -1)[shards.rows(length)]
            assert torch.equal(local(each).flatten(), mine.flatten()), name
        assert sum(each.untyped_storage().size() for each in model.parameters()) == 4 * len(before)
        assert {name: each.shape for name, each in model.named_parameters()} == {
            name: each.shape for name, each in before.items()
        }
        with shards.gathered() as whole:
            assert whole is model
            assert type(model) is Scalar
            assert all(torch.equal(each, before[name]) for name, each in model.named_parameters())
            assert model.output.weight is model.embed.weight
        assert sum(each.untyped_storage().size() for each in model.parameters()) == 4 * len(before)

    run_together(look, world=3, folder=folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device": "mps", "distribution": {"kind": "sharded"}}, 'not for device="mps"; try distribution.kind='),
        ({"device": "cuda:1", "distribution": {"kind": "sharded"}}, 'is only one; try device="cuda"'),
        ({"distribution": {"kind": "halved"}}, "should be 'replicated' or 'sharded'"),
        ({"distribution": {"king": "sharded"}}, "distribution.kind"),
    ],
)
def test_what_cannot_be_divided_is_refused_when_a_recipe_is_read(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match="training: .*" + message):
        check(TrainingConfig, settings, where="training")
