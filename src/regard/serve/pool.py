"""The workers of a server: who answers what, which models each holds, and what happens when one ends.

A model is opened in a worker when that is asked for it. Of all workers together, no more weights are held than
`memory` bytes: the models that were asked least recently are unloaded.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from regard.engines.channel import Message
from regard.serve.batching import Budget, Group, Item, Job, Waiting
from regard.serve.failures import ServeError, UnreadableError, refused
from regard.serve.metrics import Metrics
from regard.serve.process import Process
from regard.serve.registry import Entry, Registry

REMEMBERED = 64  # batches whose speed says how soon a full queue will have room
RESTART = 0.5  # seconds before a worker that ended soon after its start is started again
ENDED = "the worker that answered this ended; ask again"


@dataclass
class Pool:
    """Workers that are started again when they end, and the inputs that wait for them."""

    command: list[str]
    count: int
    registry: Registry
    metrics: Metrics
    queue: int
    memory: int | None = None
    processes: list[Process] = field(default_factory=list)
    ending: bool = False

    def __post_init__(self) -> None:
        self.waiting = Waiting()
        self.budgets: dict[str, Budget] = {}
        self.unable: dict[Process, dict[str, int]] = {}  # versions that a worker could not open
        self.speeds = deque[tuple[int, float]](maxlen=REMEMBERED)  # inputs and seconds of batches
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # processes

    def start(self) -> None:
        """Start the workers, before there is a loop that follows them."""
        self.processes = [Process(self.command) for _ in range(self.count)]

    def follow(self) -> None:
        """Receive what the workers say, from now on."""
        for process in self.processes:
            self._follow(process)

    def _follow(self, process: Process) -> None:
        task = asyncio.get_running_loop().create_task(self._live(process))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _live(self, process: Process) -> None:
        born = time.monotonic()
        self.metrics.workers.inc()
        await process.follow(self.dispatch)
        self.metrics.workers.dec()
        self.processes.remove(process)
        self.unable.pop(process, None)
        if self.ending:
            return
        self.metrics.restarts.inc()
        if time.monotonic() - born < RESTART:
            await asyncio.sleep(RESTART)
        if not self.ending:
            another = Process(self.command)
            self.processes.append(another)
            self._follow(another)

    def kill(self) -> None:
        """End all workers at once."""
        for process in self.processes:
            process.process.kill()

    async def end(self) -> None:
        """End all workers."""
        self.ending = True
        for process in self.processes:
            process.end()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the loop closes sockets in its next turn

    # inputs

    def submit(self, job: Job, items: Sequence[Item]) -> None:
        """Let inputs wait for a worker; those beyond the room for waiting ones are refused."""
        if len(self.waiting) + len(items) > self.queue:
            seconds = self.patience()
            raise ServeError(
                429, "overloaded", f"{self.queue:,} inputs wait already; try again in {seconds} s", retry_after=seconds
            )
        budget = self.budgets.setdefault(job.entry.name, Budget())
        self.waiting.add(job.key, lambda: Group(job.entry, job.message, budget, alone=job.verb != "run"), items)
        self.dispatch()

    def forget(self, items: Sequence[Item]) -> None:
        """Clients have left: their inputs are not answered, unless they are being answered."""
        for item in items:
            item.left = True
        self.waiting.forget(items)
        self.metrics.queue_length.set(len(self.waiting))

    def patience(self) -> int:
        """In how many seconds there should be room for more inputs."""
        inputs, seconds = (sum(each) for each in zip(*self.speeds, strict=True)) if self.speeds else (0, 0.0)
        rate = inputs / seconds * max(len(self.processes), 1) if seconds else 0.0
        return max(1, min(60, math.ceil(len(self.waiting) / rate))) if rate else 1

    def dispatch(self) -> None:
        """Give waiting inputs to idle workers, as far as they have waited long enough."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while any(each.idle for each in self.processes) and (group := self.waiting.first()) is not None:
            due, now = group.due(), time.monotonic()
            if due > now:
                self._timer = asyncio.get_running_loop().call_later(due - now, self.dispatch)
                break
            process = self._choose(group.entry)
            if process is None:
                break
            idle = sum(each.idle for each in self.processes)
            self._give(process, group, self.waiting.take(group, max(idle, 1)))
        self._give_ahead()
        self.metrics.queue_length.set(len(self.waiting))

    def _give_ahead(self) -> None:
        """Give whole batches to workers that answer one; first to those that have done so longest."""
        for process in sorted((each for each in self.processes if each.takes_next), key=lambda each: each.given):
            group = self.waiting.first()
            if group is None or group.alone or not group.whole or not process.holds(group.entry):
                return
            self._give(process, group, self.waiting.take(group, 1))

    def _choose(self, entry: Entry) -> Process | None:
        """An idle worker, if possible one that holds the model."""
        able = [
            each for each in self.processes if each.idle and self.unable.get(each, {}).get(entry.name) != entry.version
        ]
        holders = [each for each in able if each.holds(entry)]
        return holders[0] if holders else able[0] if able else None

    def _give(self, process: Process, group: Group, items: list[Item]) -> None:
        entry, now = group.entry, time.monotonic()
        if entry.name not in process.held:
            self._make_room(entry)
        process.used[entry.name] = process.given = now
        model = {"name": entry.name, "path": str(entry.path), "version": entry.version, "mark": entry.mark}
        for item in items:
            self.metrics.queue_duration.observe(now - item.born)
        if not group.alone:
            self.metrics.batch_size.observe(len(items))
            self.metrics.batch_tokens.observe(sum(map(group.tokens_of, items)))
        message = {**group.message, "model": model, "inputs": [item.given for item in items]}
        process.start(message, partial(self._replied, process, group, items), batch=not group.alone)

    def _make_room(self, entry: Entry) -> None:
        """Unload what was asked least recently, until the weights of one more model fit."""
        if self.memory is None:
            return
        sizes = {each.name: each.bytes for each in self.registry}
        held = [(each.used.get(name, 0.0), each, name) for each in self.processes for name in each.held]
        room = self.memory - sum(sizes.get(name, 0) for _, _, name in held)
        for _, process, name in sorted(held, key=lambda row: row[0]):
            if room >= sizes[entry.name]:
                return
            process.tell({"verb": "unload", "name": name})
            del process.held[name]
            room += sizes.get(name, 0)

    def _replied(self, process: Process, group: Group, items: list[Item], message: Message | None) -> None:
        if message is not None and "piece" in message:
            if items[0].left:
                process.tell({"verb": "cancel"})
            items[0].reply(message)
            return
        entry = group.entry
        if message is not None and "unreadable" in message and self._held_elsewhere(entry, process):
            self.unable.setdefault(process, {})[entry.name] = entry.version
            self.waiting.put_back(group, [item for item in items if not item.left])
        else:
            if message is not None and not group.alone:
                self.speeds.append((len(items), message["seconds"]))
            self._hand_out(group, items, message)
        self.dispatch()

    def _held_elsewhere(self, entry: Entry, process: Process) -> bool:
        return any(each is not process and each.holds(entry) for each in self.processes)

    def _hand_out(self, group: Group, items: list[Item], message: Message | None) -> None:
        """Give each input what came of it."""
        if message is None or "results" not in message:
            for item in items:
                item.reply(message)
            return
        results = message["results"]
        read = sum(result.get("read", 0) for result in results)
        group.budget.learn(sum(item.size for item in items), read)
        self.metrics.tokens.labels("read").inc(read)
        self.metrics.tokens.labels("said").inc(sum(result.get("said", 0) for result in results))
        for item, result in zip(items, results, strict=True):
            item.reply(result)


def failure_of(message: Message | None, entry: Entry) -> ServeError | None:
    """The error that a reply holds; clients read the name of the model where its path would be."""
    if message is None:
        return ServeError(503, "unavailable", ENDED, retry_after=1)
    if message.get("refused") is not None:
        return refused(str(message["refused"]).replace(str(entry.path), entry.name))
    if "unreadable" in message:
        return UnreadableError(str(message["unreadable"]))
    if "broken" in message:
        return ServeError(500, "failed", str(message["broken"]))
    return None
