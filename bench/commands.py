"""Whole processes that read lines and write lines, in turn: what a user of the command line waits for."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import material, peers, trained
from bench.results import Row
from bench.worker import PeerError, System, Worker, surroundings
from regard.api import Model, load

WIRINGS = ("post_norm", "pre_norm")  # that CTranslate2 has; Marian of transformers has the first alone


@dataclass
class Command:
    """A command, what it took each time, and what it said last."""

    system: System
    words: Sequence[str]
    seconds: list[float] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    def run(self, text: str, *, threads: int) -> float:
        """Seconds from the start of a new process to its end."""
        begin = time.perf_counter()
        done = subprocess.run(
            self.words,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            env=surroundings(self.system, threads=threads),
        )
        seconds = time.perf_counter() - begin
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["no word"]
            raise PeerError(f"{self.system.name} ended with code {done.returncode}: {said[-1]}")
        self.answers = done.stdout.splitlines()
        return seconds

    def row(self, figure: float | None = None) -> Row:
        """Seconds of each repeat; with `figure`, how many of them a second."""
        figures = [figure / seconds if figure else seconds for seconds in self.seconds]
        return Row(self.system.name, figures, ours=self.system.ours, judged=self.system.judged)


def in_turn(commands: Sequence[Command], text: str, *, repeats: int, threads: int) -> tuple[list[Command], list[str]]:
    """Each command once to warm the disk up, then in turn; the commands that ran, and why others did not."""
    notes: list[str] = []
    running = list(commands)
    for number in range(repeats + 1):
        turn = number % len(running)
        for command in running[turn:] + running[:turn]:
            try:
                seconds = command.run(text, threads=threads)
            except PeerError as error:
                if command.system.ours:
                    raise
                notes.append(str(error))
                running.remove(command)
                continue
            if number:
                command.seconds.append(seconds)
    return running, notes


class Written:
    """A trained model in the forms that the peers read, in a folder."""

    def __init__(self, path: Path, folder: Path, *, threads: int) -> None:
        self.model: Model = load(path)
        self.path, self.folder = path, folder
        self.versions: dict[str, dict[str, str]] = {}
        tokenizer = self.model.task.tokenizers.source
        self.beam = self.model.recipe.decoding.beam
        self.fits_marian = self.model.recipe.model.model_dump()["wiring"] == trained.WIRING
        self._threads = threads
        self._settings = {
            **trained.sizes(self.model, wirings=WIRINGS),
            "vocabulary": tokenizer.size,
            "tokenizer": str(path / "tokenizer.json"),
            "weights": str(material.write_weights(folder / "weights.npz", self.model.module)),
            "names": str(material.write_vocabulary(folder / "names.json", tokenizer)),
        }

    def regard(self, name: str = "regard run", path: Path | None = None) -> Command:
        program = Path(sys.executable).with_name("regard")
        return Command(System(name, "regard_run"), [str(program), "run", str(path or self.path)])

    def transformers(self, name: str) -> Command:
        out = self._save("transformers")
        words = [*_script("transformers", "translate"), out, str(self.beam)]
        return Command(System(name, "transformers_translate"), words)

    def ctranslate2(
        self, name: str, *, workers: int, threads: int, precision: str = "float32", judged: bool = True
    ) -> Command:
        out = self.for_ctranslate2()
        options = [self._settings["tokenizer"], str(self.beam), str(workers), str(threads), precision]
        system = System(name, "ctranslate2_translate", judged=judged)
        return Command(system, [*_script("ctranslate2", "translate"), out, *options])

    def for_ctranslate2(self) -> str:
        """The folder of the model that is written by hand."""
        return self._save("ctranslate2")

    def _save(self, peer: str) -> str:
        out = self.folder / peer
        if not out.exists():
            with Worker(System(peer, f"{peer}_save"), threads=self._threads) as worker:
                self.versions[peer] = worker.ask("prepare", **self._settings)["versions"]
                worker.ask("run", out=str(out))
        return str(out)


def _script(peer: str, work: str) -> list[str]:
    return [str(peers.python(peer)), str(peers.script(f"{peer}_{work}"))]
