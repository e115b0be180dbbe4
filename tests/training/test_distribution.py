"""Two processes that learn together equal one process that learns from the batches of both."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import safetensors.torch
import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.nn import functional as F
from toy_run import SYMBOLS, Batch, Predictor, config

from regard.data.streams import Part, Share, Stream
from regard.training import optimiser
from regard.training.distribution import Crew
from regard.training.learner import Learner
from regard.training.loop import fit
from regard.training.run import Run
from regard.training.weights import weights_of

WORLD = 2
ROWS, SIZES = 37, (11, 3, 2, 5, 16)  # an odd number of batches: one of them is halved
CASES = {"plain": {"accumulate": 1}, "accumulating": {"accumulate": 2}, "clipping": {"accumulate": 1, "clip": 0.1}}


class Shared(Stream[Batch]):
    """Which symbol follows another: the batches of one process."""

    def __init__(self, share: Share) -> None:
        self.share = share

    def plan(self, epoch: int, position: int = 0) -> list[Part]:
        order = numpy.random.default_rng((5, epoch)).permutation(ROWS)
        return list(self.share.groups(numpy.split(order, numpy.cumsum(SIZES)[:-1]), position))

    def epoch(self, epoch: int, *, position: int = 0) -> Iterator[Batch]:
        for place, rows, idle in self.plan(epoch, position):
            symbols = torch.from_numpy(rows * rows % SYMBOLS)
            yield Batch(symbols, (3 * symbols + 1) % SYMBOLS, epoch=epoch, position=place, idle=idle)

    def in_order(self) -> Iterator[Batch]:
        return self.epoch(0)

    def describe(self) -> list[str]:
        return []

    @property
    def checksum(self) -> str:
        return ""


class Union(Shared):
    """The batches that all processes learn from at the same time, as one batch each."""

    def plan(self, epoch: int, position: int = 0) -> list[Part]:
        plans = [Shared(Share(rank, WORLD)).plan(epoch, position) for rank in range(WORLD)]
        together = zip(*plans, strict=True)
        return [Part(group[0].position, numpy.concatenate([part.rows for part in group])) for group in together]


class Roomy(Predictor):
    """A model with a part that the loss does not use."""

    def __init__(self) -> None:
        super().__init__(dropout=0)
        self.spare = nn.Linear(3, 5)


class InParts:
    """A loss that calls parts of the model, and never the model itself."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        hidden = model.norm(model.hidden(model.embed(batch.symbols)).tanh())
        return F.cross_entropy(model.output(hidden), batch.following, reduction="sum")


def learned(batches: Stream[Batch], crew: Crew | None = None, task: InParts | None = None, **changes: Any) -> Run:
    model, settings = Roomy(), config(**{"steps": 13, **changes})
    run = Run(model=model, optimiser=optimiser.build(model, settings), batches=batches, config=settings)
    fit(run, task or InParts(), schedule=lambda step: 0.001 * step, crew=crew)
    return run


def numbers(run: Run) -> dict[str, float]:
    return {
        "step": run.step,
        "epoch": run.epoch,
        "position": run.position,
        "tokens": run.tokens,
        "loss": float(run.loss),
    }


def work(rank: int, folder: Path) -> None:
    """What each process does. Its results are files, for the tests to read."""
    torch.set_num_threads(1)
    meeting = f"file://{folder / 'meeting'}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=WORLD)
    crew = Crew.here()
    found: dict[str, Any] = {
        "crew": [crew.rank, crew.world],
        "leads": crew.leads,
        "total": int(crew.total(torch.tensor(5 + rank))),
    }
    found["share"] = [crew.share.rank, crew.share.world]
    for name, changes in CASES.items():
        run = learned(Shared(crew.share), crew, **changes)
        safetensors.torch.save_file(weights_of(run.model), folder / f"{name}-{rank}.safetensors")
        found[name] = numbers(run)
    found["steps"] = learned(Shared(crew.share), crew, steps=5 if crew.leads else 3).step

    def write(name: str) -> str:
        with (folder / name).open("a") as file:
            file.write(str(rank))
        return (folder / name).read_text()

    crew.first(lambda: write("once") and None)
    found["once"] = (folder / "once").read_text()
    found["in_turn"] = crew.in_turn(lambda: write("in_turn"))
    found["agreed"] = [crew.agree(crew.leads), crew.agree(not crew.leads)]
    (folder / f"{rank}.json").write_text(json.dumps(found))
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crew")
    multiprocessing.start_processes(work, args=(path,), nprocs=WORLD, start_method="fork")  # torch is loaded already
    return path


@pytest.fixture(scope="module")
def found(folder: Path) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(WORLD)]


@pytest.mark.parametrize("name", CASES)
def test_processes_learn_the_weights_that_one_learns_from_the_batches_of_all(folder: Path, name: str) -> None:
    first, second = (safetensors.torch.load_file(folder / f"{name}-{rank}.safetensors") for rank in range(WORLD))
    alone = weights_of(learned(Union(Share()), **CASES[name]).model)
    for key, weights in weights_of(Roomy()).items():
        assert torch.equal(first[key], second[key])
        assert torch.allclose(first[key], weights, atol=1e-3) == key.startswith("spare.")
        torch.testing.assert_close(first[key], alone[key], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_every_process_counts_what_all_learn_from(found: list[dict[str, Any]], name: str) -> None:
    alone = numbers(learned(Union(Share()), **CASES[name]))
    for each in found:
        assert each[name] == pytest.approx(alone, rel=1e-4)


def test_each_process_knows_its_place(found: list[dict[str, Any]]) -> None:
    assert [each["crew"] for each in found] == [each["share"] for each in found] == [[0, 2], [1, 2]]
    assert [each["leads"] for each in found] == [True, False]
    assert [each["total"] for each in found] == [11, 11]


def test_a_run_ends_for_all_when_it_ends_for_the_leading_process(found: list[dict[str, Any]]) -> None:
    assert [each["steps"] for each in found] == [5, 5]
    assert [each["agreed"] for each in found] == [[True, False]] * 2


def test_the_leading_process_writes_once_while_the_others_wait(found: list[dict[str, Any]]) -> None:
    assert [each["once"] for each in found] == ["0", "0"]


def test_the_leading_process_comes_first_where_all_have_their_turn(found: list[dict[str, Any]]) -> None:
    assert [each["in_turn"] for each in found] == ["0", "01"]


def test_a_process_that_is_alone_waits_for_nobody() -> None:
    crew = Crew.here()
    made: list[int] = []
    crew.first(lambda: made.append(1))
    assert crew == Crew(0, 1)
    assert (made, crew.in_turn(lambda: 7), int(crew.total(torch.tensor(5)))) == ([1], 7, 5)
    assert (crew.agree(True), crew.agree(False)) == (True, False)
    learner = Learner(Predictor(), InParts())
    assert crew.wrap(learner) is learner
    assert crew.share == Share()


def test_a_learner_has_the_parameters_of_its_model_and_its_loss() -> None:
    model, batch = Predictor(dropout=0), next(Shared(Share()).epoch(0))
    learner = Learner(model, InParts())
    assert set(learner.parameters()) == set(model.parameters())
    loss = learner(batch)
    torch.testing.assert_close(loss, InParts().loss(model, batch))
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
