"""`regard compare`: one recipe with several values of some keys, each trained with the same seed and data."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from rich.console import Console

from regard import durable
from regard.api import trial
from regard.api.compared import Compared, Ran
from regard.api.loading import path_of
from regard.api.reading import NOTE
from regard.api.training import make_run_directory
from regard.api.variants import Variant, Vary, label, variants
from regard.directory import LABELS, NUMBERS, TOKENIZERS, ModelDirectory
from regard.errors import RegardError
from regard.training.watchers import AGAIN, Interrupted

TRIALS = "trials"  # the folder of recipes and results, beside the model directories
CHILD = "from regard.api.trial import main; main()"
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


def compare(
    recipe: str | Path,
    *,
    vary: Vary,
    out: str | Path | None = None,
    changes: Iterable[str] = (),
    minutes: float | None = None,
    show: bool = False,
) -> Compared:
    """Train a recipe with every combination of some values, each in a directory of its own below `out`.

    `vary` names the values of each key: {"model.score": ["additive", "dot"]}. What was interrupted is resumed, and what
    is finished is not trained again. `minutes` is the budget of each run. `out` is runs/compare-RECIPE unless given;
    compare.json and compare.png are written there.
    """
    console = Console(stderr=True, quiet=not show, highlight=False)
    path = path_of(out) if out is not None else Path("runs") / f"compare-{Path(recipe).stem}"
    budget = [] if minutes is None else [f"training.minutes={float(minutes)}"]
    every = variants(recipe, vary, out=path, changes=[*changes, *budget], tell=console.out)
    make_run_directory(path / TRIALS)
    with durable.alone(path):
        found: list[Ran] = []
        for number, variant in enumerate(every, start=1):
            console.rule(f"{number} of {len(every)}: {label(variant.values)}", align="left")
            before = every[: number - 1]
            found.append(_result(variant, before, path / TRIALS, finished=len(found), all_runs=len(every), show=show))
        compared = Compared(path, str(recipe), found, _same_examples(every))
        compared.write()
    return compared


def _same_examples(every: Sequence[Variant]) -> bool:
    return all(variant.judged_by() == every[0].judged_by() for variant in every)


def _result(
    variant: Variant, before: Sequence[Variant], trials: Path, *, finished: int, all_runs: int, show: bool
) -> Ran:
    """What a run came to; it is trained unless that was done before."""
    recipe, kept = trials / f"{variant.name}.toml", trials / f"{variant.name}.json"
    text = variant.wish.to_toml()
    result = trial.read(kept)
    if result is None or result.recipe != text or not _is_of(result, variant):
        durable.write_file(recipe, text.encode())
        _share(variant, before)
        durable.remove_file(kept)
        code, asked = _run([str(recipe), str(variant.path), str(kept), "show" if show else "quiet"])
        result = trial.read(kept)
        if asked or code in (130, AGAIN):
            done = finished + (result is not None and not result.error)
            raise Interrupted(
                f"stopped; {done} of {all_runs} runs are finished and all is saved in {trials.parent}; run the "
                "same command to go on",
                code=code or 130,
            )
        if result is None:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise RegardError(f"{label(variant.values)}: the run ended with {how}; run the same command to go on")
        if result.error:
            durable.remove_file(kept)
            raise RegardError(f"{label(variant.values)}: {result.error}")
    scores = {name: judged.score() for name, judged in result.scores.items()}
    return Ran(
        name=label(variant.values),
        path=variant.path,
        values=variant.values,
        report=result.report,
        peak_memory=result.peak_memory,
        judged_on=result.judged_on,
        scores=scores,
    )


def _is_of(result: trial.Result, variant: Variant) -> bool:
    """Whether the model of a result is still there."""
    with suppress(RegardError):
        ModelDirectory(variant.path).require()
        return not result.error and ModelDirectory(variant.path).report() == result.report
    return False


def _share(variant: Variant, before: Sequence[Variant]) -> None:
    """Link what an earlier run learned and prepared from the data. A run uses it only where its checksums say that it
    was made from the same files with the same settings; otherwise it is made again."""
    target = ModelDirectory(variant.path)
    if target.path.exists():
        return
    for earlier in reversed(before):
        source = ModelDirectory(earlier.path)
        if earlier.recipe.data == variant.recipe.data and earlier.recipe.tokenizer == variant.recipe.tokenizer:
            for name in (*TOKENIZERS, LABELS, NUMBERS):
                _link(source.path / name, target.path / name)
            _link(source.work / NOTE, target.work / NOTE)
            for folder in source.work.iterdir():
                if folder.is_dir() and not folder.name.startswith("step-"):
                    for file in folder.rglob("*"):
                        _link(file, target.work / file.relative_to(source.work))
            return


def _link(source: Path, target: Path) -> None:
    """The same file under a second name. Files are replaced and never changed, so each run keeps its own."""
    if not source.is_file():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):  # a file system without links: it is made again
        os.link(source, target)


def _run(arguments: Sequence[str]) -> tuple[int, bool]:
    """A run in a process of its own. → its exit code, and whether it was asked to stop"""
    said = None if arguments[-1] == "show" else subprocess.DEVNULL
    with subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stdout=said, stderr=said) as process:
        with _passing_on(process) as asked:
            code = process.wait()
        return code, bool(asked)


@contextmanager
def _passing_on(process: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Within, signals that ask this process to stop go to the other, which saves its run. They are listed."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def pass_on(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in PASSED_ON}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
